// An upstream MCP server that verifies the caller header and records its requests.
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createRemoteJWKSet, type JWTPayload, jwtVerify } from 'jose';

export type Received = {
  method: string;
  url: string;
  headers: IncomingMessage['headers'];
  body: unknown;
  caller: JWTPayload;
  /** Resolves when the connection or the response has ended. */
  closed: Promise<void>;
};

export type Upstream = {
  url: string;
  /** Everything received, as text. */
  wire: () => string;
  received: readonly Received[];
  /** Gatehouse's own requests, which are not in `received`. */
  discoveries: readonly Received[];
  /** The number of calls of `wait` that are pending. */
  waiting: () => number;
  /** Completes the pending calls of `wait`. */
  release(): void;
  /** Accepts caller headers of this authorization server. */
  trustIssuer(issuer: string): void;
  close(): Promise<void>;
};

export type UpstreamHandler = (
  req: IncomingMessage,
  res: ServerResponse,
  body: unknown,
  caller: JWTPayload,
) => unknown;

/** Verifies the caller header as the README tells operators to. */
async function verifyCaller(
  header: unknown,
  keys: ReturnType<typeof createRemoteJWKSet>,
  expected: { issuer: string; audience: string },
): Promise<JWTPayload> {
  const { payload } = await jwtVerify(String(header), keys, {
    ...expected,
    typ: 'gatehouse-caller+jwt',
    algorithms: ['ES256'],
  });
  return payload;
}

export type Gate = { wait(signal: AbortSignal): Promise<void> };

export type UpstreamOptions = {
  /** Records nothing, for load tests. */
  recordsNothing?: boolean;
};

/** `open` receives the gate at which calls of the tool `wait` block. */
export async function startUpstream(
  open: (gate: Gate) => UpstreamHandler,
  { recordsNothing = false }: UpstreamOptions = {},
): Promise<Upstream> {
  const received: Received[] = [];
  const discoveries: Received[] = [];
  const wire: string[] = [];
  const gate = openGate();
  const handle = open(gate);
  let issuer = '';
  let keys: ReturnType<typeof createRemoteJWKSet> | undefined;
  const server = createServer(async (req, res) => {
    const text = await textOf(req);
    if (!recordsNothing) wire.push(JSON.stringify([req.method, req.url, req.rawHeaders]), text);
    try {
      if (!keys) throw new Error('nobody is trusted yet');
      const caller = await verifyCaller(req.headers['gatehouse-caller'], keys, {
        issuer,
        audience: url,
      });
      const body: unknown = text === '' ? undefined : JSON.parse(text);
      const kept = caller.sub === 'gatehouse' ? discoveries : received;
      if (!recordsNothing) kept.push(receivedIn(req, res, body, caller));
      await handle(req, res, body, caller);
    } catch (error) {
      if (!res.headersSent) res.writeHead(401).end(String(error));
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
  return {
    url,
    received,
    discoveries,
    wire: () => wire.join('\n'),
    waiting: gate.waiting,
    release: gate.release,
    trustIssuer(trusted) {
      issuer = trusted;
      keys = createRemoteJWKSet(new URL(`${trusted}/oauth/jwks`));
    },
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

function receivedIn(
  { method = '', url = '', headers }: IncomingMessage,
  res: ServerResponse,
  body: unknown,
  caller: JWTPayload,
): Received {
  const closed = once(res, 'close').then(() => undefined);
  return { method, url, headers, body, caller, closed };
}

function openGate() {
  const waiting = new Set<() => void>();
  return {
    waiting: () => waiting.size,
    release: () => waiting.forEach((leave) => leave()),
    wait: (signal: AbortSignal) =>
      new Promise<void>((resolve) => {
        const leave = () => {
          waiting.delete(leave);
          resolve();
        };
        waiting.add(leave);
        signal.addEventListener('abort', leave, { once: true });
      }),
  };
}

async function textOf(req: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of req.setEncoding('utf8')) text += chunk;
  return text;
}
