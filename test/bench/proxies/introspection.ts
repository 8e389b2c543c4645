// An introspection endpoint that knows one token, and answers at once. Proxies ask it about each request. Arguments: its port and the token.
import { createServer } from 'node:http';

const [, , port, token = ''] = process.argv;
const ACTIVE = Buffer.from(JSON.stringify({ active: true, scope: 'analytics' }));
const JSON_TYPE = { 'content-type': 'application/json' };

const server = createServer((req, res) => {
  req.resume();
  if (req.headers.authorization !== `Bearer ${token}`) return void res.writeHead(401).end();
  res.writeHead(200, { ...JSON_TYPE, 'content-length': ACTIVE.length }).end(ACTIVE);
});
server.keepAliveTimeout = 60_000;
server.listen(Number(port), '127.0.0.1', () => console.log('listening'));
