// Better Auth, set up as its MCP documentation says. Arguments: the port and a database file.
import { createServer } from 'node:http';
import { DatabaseSync } from 'node:sqlite';
import { mcp, requireMcpAuth } from '@better-auth/mcp';
import { betterAuth } from 'better-auth';
import { getMigrations } from 'better-auth/db/migration';
import { toNodeHandler } from 'better-auth/node';
import { jwt } from 'better-auth/plugins';
import { ANSWER } from './answer.js';

const [, , port, file] = process.argv;
const origin = `http://localhost:${port}`;
const links = [`${origin}/one/mcp`, `${origin}/two/mcp`];

const database = new DatabaseSync(file);
// As Gatehouse does; the default, a rollback journal, is slower.
database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;');

const auth = betterAuth({
  baseURL: origin,
  secret: 'a secret of the benchmark that is long enough',
  database,
  emailAndPassword: { enabled: true },
  rateLimit: { enabled: false },
  plugins: [
    jwt(),
    mcp({
      loginPage: '/sign-in',
      consentPage: '/consent',
      resource: links[0],
      resources: links,
      clientRegistrationDefaultResources: links,
      scopes: ['operations', 'offline_access'],
      allowDynamicClientRegistration: true,
      allowUnauthenticatedClientRegistration: true,
    }),
  ],
});
await (await getMigrations(auth.options)).runMigrations();
await auth.api.signUpEmail({
  body: { name: 'Ada', email: 'ada@example.com', password: 'a password' },
});

const answer = async (request) => {
  await request.json();
  return new Response(ANSWER, { headers: { 'content-type': 'application/json' } });
};
const routes = new Map([
  ['/open', answer],
  ...links.map((resource) => [
    new URL(resource).pathname,
    requireMcpAuth(auth, answer, { resource }),
  ]),
  ['/sign-in', () => new Response('sign in')],
  ['/consent', () => new Response('consent')],
]);
const handlers = new Map([...routes].map(([path, handler]) => [path, toNodeHandler(handler)]));
const handleAuth = toNodeHandler(auth);
createServer((request, response) => {
  const handle = handlers.get(request.url?.split('?')[0]) ?? handleAuth;
  return handle(request, response);
}).listen(Number(port), 'localhost');
process.once('SIGTERM', () => process.exit());
