// The limit: a reverse proxy that passes bytes on and does nothing else. Arguments: its port and the origin of the server.
import { createServer, type IncomingHttpHeaders } from 'node:http';
import { Pool } from 'undici';

const [, , port, origin = ''] = process.argv;
const pool = new Pool(origin, { allowH2: false, headersTimeout: 0, bodyTimeout: 0 });

function endToEnd({
  connection: _connection,
  'keep-alive': _timeout,
  ...others
}: IncomingHttpHeaders) {
  return others;
}

createServer((req, res) => {
  const { host: _host, ...headers } = endToEnd(req.headers);
  const { method = 'GET', url: path = '/' } = req;
  const body = method === 'GET' ? null : req;
  pool
    .stream({ method, path, headers, body }, ({ statusCode, headers: answered }) =>
      res.writeHead(statusCode, endToEnd(answered)),
    )
    .catch(() => res.destroy());
}).listen(Number(port), '127.0.0.1', () => console.log('listening'));
