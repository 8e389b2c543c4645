// A load balancer: each request goes to the next process, or to another one if the connection is refused. Responses are inspected.
import { once } from 'node:events';
import { Agent, createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { pipeline } from 'node:stream/promises';

export type BalancedResponse = {
  /** The port of the process that responded. */
  by: number;
  method: string;
  path: string;
  status: number;
  /** A Redis error that leaked into the response. */
  leak?: string;
};

export type Balancer = { close(): Promise<void> };

const agent = new Agent({ keepAlive: true });
// Longer than test clients keep idle connections.
const KEEP_ALIVE_MS = 120_000;
const BAD_GATEWAY = 502;
const REDIS_ERROR =
  /\b(CROSSSLOT|(MOVED|ASK) \d+|TRYAGAIN|CLUSTERDOWN|MASTERDOWN|READONLY|LOADING|NOSCRIPT|ECONN\w+)\b.*/;

/** Listens on the loopback `port` until it is closed. `ports` returns those of the processes, which may change. */
export async function startBalancer(
  port: number,
  ports: () => readonly number[],
  onAnswer: (answered: BalancedResponse) => void,
): Promise<Balancer> {
  let turn = 0;
  const server = createServer({ keepAliveTimeout: KEEP_ALIVE_MS }, (req, res) => {
    const targets = ports();
    const first = turn++ % Math.max(targets.length, 1);
    const inOrder = [...targets.slice(first), ...targets.slice(0, first)];
    void pass(req, res, inOrder, onAnswer);
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  return {
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

/** Whether a connection to the process at `port` is open. */
export function hasConnections(port: number): boolean {
  const names = Object.keys({ ...agent.sockets, ...agent.freeSockets });
  return names.some((name) => name.startsWith(`127.0.0.1:${port}:`));
}

async function pass(
  req: IncomingMessage,
  res: ServerResponse,
  targets: readonly number[],
  onAnswer: (answered: BalancedResponse) => void,
): Promise<void> {
  const { method = 'GET', url: path = '/' } = req;
  try {
    const sent = await bodyOf(req);
    const { by, answer } = await requestFirstReachable(req, sent, targets);
    const status = answer.statusCode ?? BAD_GATEWAY;
    if (answer.headers['content-type']?.startsWith('text/event-stream')) {
      onAnswer({ by, method, path, status });
      return await passStream(answer, res);
    }
    const body = await bodyOf(answer);
    const [leak] = REDIS_ERROR.exec(body.toString('latin1')) ?? [];
    onAnswer({ by, method, path, status, ...(leak === undefined ? {} : { leak }) });
    const { connection: _hop, 'transfer-encoding': _coding, ...headers } = answer.headers;
    res.writeHead(status, { ...headers, 'content-length': body.length }).end(body);
  } catch (error) {
    onAnswer({ by: 0, method, path, status: BAD_GATEWAY });
    res.writeHead(BAD_GATEWAY, { 'content-type': 'application/json' });
    res.end(JSON.stringify({ error: 'bad_gateway', error_description: String(error) }));
  }
}

/** Pipes the stream; an error on one side ends the other. */
async function passStream(answer: IncomingMessage, res: ServerResponse): Promise<void> {
  const { connection: _hop, 'transfer-encoding': _coding, ...headers } = answer.headers;
  res.writeHead(answer.statusCode ?? BAD_GATEWAY, headers).flushHeaders();
  await pipeline(answer, res).catch(() => undefined);
}

async function bodyOf(message: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of message) chunks.push(chunk);
  return Buffer.concat(chunks);
}

type Asked = { by: number; answer: IncomingMessage };

/** Only after a refused connection is it certain that the request was not processed. */
async function requestFirstReachable(
  req: IncomingMessage,
  body: Buffer,
  [by, ...others]: readonly number[],
): Promise<Asked> {
  if (by === undefined) throw new Error('no process takes the connection');
  try {
    return { by, answer: await ask(req, body, by) };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ECONNREFUSED') throw error;
    return requestFirstReachable(req, body, others);
  }
}

/** Keeps the `Host` header, because processes accept only their public address. */
async function ask(req: IncomingMessage, body: Buffer, port: number): Promise<IncomingMessage> {
  const { connection: _hop, 'transfer-encoding': _coding, ...headers } = req.headers;
  const sent = request({
    host: '127.0.0.1',
    port,
    method: req.method,
    path: req.url,
    headers: { ...headers, 'content-length': body.length },
    agent,
  });
  sent.end(body);
  const [answer] = await once(sent, 'response');
  return answer;
}
