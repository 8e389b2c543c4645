// A reverse proxy that ends TLS, and can be made to do what badly set up ones do, to requests on the way in and to answers on the way out.
import { once } from 'node:events';
import { type IncomingHttpHeaders, request } from 'node:http';
import { createServer } from 'node:https';
import { buffer } from 'node:stream/consumers';
import type { Certificate } from '../authorization-server/metadata-documents/certificate.ts';

export type Passed = {
  path: string;
  method: string;
  status: number;
  headers: IncomingHttpHeaders;
  body: string;
};

/** Each changes what it is given. `target` is the port to pass a path on to. */
export type Misbehaviour = {
  inward?: (headers: IncomingHttpHeaders, path: string) => void;
  outward?: (answer: Passed) => void;
  target?: (path: string) => number | undefined;
};

export type TlsProxy = {
  misbehave: (how: Misbehaviour) => void;
  present: (certificate: Certificate) => void;
  stop: () => Promise<void>;
};

/** Listens on `port` and passes everything on to `target`, with the Host kept and one address added to X-Forwarded-For. */
export async function startTlsProxy(
  port: number,
  target: number,
  certificate: Certificate,
): Promise<TlsProxy> {
  let how: Misbehaviour = {};
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
    how.inward?.(headers, path);
    const to = { host: '127.0.0.1', port: how.target?.(path) ?? target, path };
    const passing = request({ ...to, method: req.method, headers });
    passing.end(await buffer(req));
    try {
      const [answer] = await once(passing, 'response');
      const passed: Passed = {
        path,
        method: req.method ?? '',
        status: answer.statusCode,
        headers: { ...answer.headers },
        body: (await buffer(answer)).toString(),
      };
      how.outward?.(passed);
      delete passed.headers['content-length'];
      delete passed.headers['transfer-encoding'];
      res.writeHead(passed.status, passed.headers).end(passed.body);
    } catch {
      res.writeHead(502, { 'content-type': 'text/html' }).end('<h1>Bad gateway</h1>');
    }
  });
  await once(server.listen(port, '127.0.0.1'), 'listening');
  return {
    misbehave: (next) => {
      how = next;
    },
    present: (next) => server.setSecureContext(next),
    async stop() {
      server.closeAllConnections();
      await once(server.close(), 'close');
    },
  };
}
