// An MCP server that does nothing: it answers every tool call with the same bytes. Its argument is the port.
import { createServer, type ServerResponse } from 'node:http';

const ROWS = 4000;
const HUGE_ROWS = 60_000;
const ROW =
  'a text of a result, as long as a short sentence usually is in answers of a tool '.repeat(3);

function answer(texts: string[]): string {
  const content = texts.map((text) => ({ type: 'text', text }));
  return JSON.stringify({ jsonrpc: '2.0', id: 1, result: { content } });
}

const small = answer(['three visits']);
const rows = (length: number) => answer(Array.from({ length }, (_, n) => `${n} ${ROW}`));
/** About a megabyte, and sixteen. */
const [large, huge] = [rows(ROWS), rows(HUGE_ROWS)];
const asEvent = (message: string) => Buffer.from(`event: message\ndata: ${message}\n\n`);
const BODIES: Record<string, [type: string, body: Buffer]> = {
  small: ['application/json', Buffer.from(small)],
  large: ['application/json', Buffer.from(large)],
  huge: ['application/json', Buffer.from(huge)],
  event: ['text/event-stream', asEvent(small)],
};
const tools = [{ name: 'fixed', inputSchema: { type: 'object' } }];
const streams = new Set<ServerResponse>();

const server = createServer((req, res) => {
  if (req.method === 'GET') {
    res.writeHead(200, { 'content-type': 'text/event-stream' }).write(': open\n\n');
    streams.add(res);
    res.once('close', () => streams.delete(res));
    return;
  }
  const chunks: Buffer[] = [];
  req.on('data', (chunk) => chunks.push(chunk));
  req.on('end', () => {
    const { id, method, params } = JSON.parse(Buffer.concat(chunks).toString() || '{}');
    if (method === 'tools/list') {
      const body = JSON.stringify({ jsonrpc: '2.0', id, result: { tools } });
      return res.writeHead(200, { 'content-type': 'application/json' }).end(body);
    }
    const [type, body] = BODIES[String(params?.arguments?.body)] ?? [];
    if (!type || !body) return res.writeHead(404, { 'content-type': 'application/json' }).end('{}');
    res.writeHead(200, { 'content-type': type, 'content-length': body.length }).end(body);
  });
});
server.keepAliveTimeout = 60_000;
server.listen(Number(process.argv[2]), '127.0.0.1', () => console.log('listening'));

/** An event on every stream, with the time at which it was sent, on the clock that all processes share. */
process.on('SIGUSR2', () => {
  const data = String(process.hrtime.bigint());
  const params = { level: 'info', data };
  const event = asEvent(
    JSON.stringify({ jsonrpc: '2.0', method: 'notifications/message', params }),
  );
  for (const stream of streams) stream.write(event);
});
