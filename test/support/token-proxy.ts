// A proxy that adds an access token to every request, for programs without OAuth.
import { once } from 'node:events';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';

export type TokenProxy = { url: string; close(): Promise<void> };

/** Replaces only its own name in `Host` by that of the link; any other `Host` and every other header is forwarded unchanged. */
export async function openTokenProxy(link: string, token: string): Promise<TokenProxy> {
  const target = new URL(link);
  const server = createServer((req, res) => {
    const { port } = server.address() as AddressInfo;
    const isOwn = req.headers.host === `localhost:${port}`;
    const host = isOwn ? target.host : req.headers.host;
    const headers = { ...req.headers, host, authorization: `Bearer ${token}` };
    const onward = request(target, { method: req.method, headers }, (answer) => {
      res.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(res);
    });
    onward.on('error', () => res.destroy());
    res.on('close', () => onward.destroy());
    req.pipe(onward);
  });
  await once(server.listen(0, 'localhost'), 'listening');
  return {
    url: `http://localhost:${(server.address() as AddressInfo).port}/mcp`,
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}
