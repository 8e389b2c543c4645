// A reverse proxy that terminates TLS, and can be misconfigured.
import { once } from 'node:events';
import { type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http';
import { createServer } from 'node:https';
import { buffer } from 'node:stream/consumers';
import type { Certificate } from '../oauth/metadata-documents/certificate.ts';

export type ProxiedResponse = {
  path: string;
  method: string;
  status: number;
  headers: IncomingHttpHeaders;
  body: string;
};

/** `inward` changes request headers, and `outward` responses. `target` is the port to forward a path to. `buffers`: streams are kept back until they end. */
export type Misbehaviour = {
  inward?: (headers: IncomingHttpHeaders, path: string) => void;
  outward?: (response: ProxiedResponse) => void;
  target?: (path: string) => number | undefined;
  buffers?: true;
};

export type TlsProxy = {
  /** Adds a fault. */
  misbehave: (how: Misbehaviour) => void;
  /** Ends all faults. */
  behave: () => void;
  present: (certificate: Certificate) => void;
  stop: () => Promise<void>;
};

/** Forwards requests to the port `target`, keeps Host and adds the client's address to X-Forwarded-For. */
export async function startTlsProxy(
  port: number,
  target: number,
  certificate: Certificate,
): Promise<TlsProxy> {
  let faults: Misbehaviour[] = [];
  const portFor = (path: string) =>
    faults.map((fault) => fault.target?.(path)).find((port) => port !== undefined) ?? target;
  const server = createServer(certificate, async (req, res) => {
    const path = req.url ?? '/';
    const added = req.socket.remoteAddress ?? '';
    const before = req.headers['x-forwarded-for'];
    const headers: IncomingHttpHeaders = {
      ...req.headers,
      'x-forwarded-for': before === undefined ? added : `${String(before)}, ${added}`,
      'x-forwarded-proto': 'https',
      connection: 'close',
    };
    for (const { inward } of faults) inward?.(headers, path);
    const to = { host: '127.0.0.1', port: portFor(path), path };
    const forwarded = request({ ...to, method: req.method, headers });
    forwarded.end(await buffer(req));
    try {
      const [answer] = (await once(forwarded, 'response')) as [IncomingMessage];
      const isStream = answer.headers['content-type']?.startsWith('text/event-stream');
      if (isStream && !faults.some(({ buffers }) => buffers)) {
        res.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders();
        answer.pipe(res);
        return;
      }
      const response: ProxiedResponse = {
        path,
        method: req.method ?? '',
        status: answer.statusCode ?? 502,
        headers: { ...answer.headers },
        body: (await buffer(answer)).toString(),
      };
      for (const { outward } of faults) outward?.(response);
      delete response.headers['content-length'];
      delete response.headers['transfer-encoding'];
      // Keeps the connection to the client open.
      delete response.headers.connection;
      res.writeHead(response.status, response.headers).end(response.body);
    } catch {
      res.writeHead(502, { 'content-type': 'text/html' }).end('<h1>Bad gateway</h1>');
    }
  });
  await once(server.listen(port, '127.0.0.1'), 'listening');
  return {
    misbehave: (fault) => void faults.push(fault),
    behave: () => {
      faults = [];
    },
    present: (next) => server.setSecureContext(next),
    async stop() {
      server.closeAllConnections();
      await once(server.close(), 'close');
    },
  };
}
