// mcp-oauth-server, set up as its quick start says. Argument: the port.
import express from 'express';
import {
  authenticateHandler,
  getOAuthProtectedResourceMetadataUrl,
  mcpAuthRouter,
  OAuthServer,
  requireBearerAuth,
} from 'mcp-oauth-server';
import { ANSWER } from './answer.js';

const [, , port] = process.argv;
const origin = `http://localhost:${port}`;
const links = [new URL('/one/mcp', origin), new URL('/two/mcp', origin)];
const unlimited = { rateLimit: false };

const provider = new OAuthServer({
  issuerUrl: new URL(origin),
  authorizationUrl: new URL('/consent', origin),
  scopesSupported: ['operations'],
});
const app = express();
app.use(
  mcpAuthRouter({
    provider,
    resourceServerUrl: links[0],
    authorizationOptions: unlimited,
    tokenOptions: unlimited,
    clientRegistrationOptions: unlimited,
    revocationOptions: unlimited,
  }),
);
// The host writes the consent page; this one approves, as the example does.
app.get('/consent', (request, response) => {
  const inputs = Object.entries(request.query).map(
    ([name, value]) =>
      `<input type="hidden" name="${escaped(name)}" value="${escaped(String(value))}">`,
  );
  response.send(
    `<form method="post" action="/confirm">${inputs.join('')}<button name="decision" value="approve">Allow</button></form>`,
  );
});
app.use('/confirm', authenticateHandler({ provider, getUser: () => 'ada', ...unlimited }));
const answer = (_request, response) => response.type('json').send(ANSWER);
for (const link of links) {
  const resourceMetadataUrl = getOAuthProtectedResourceMetadataUrl(link);
  const requiredScopes = ['operations'];
  app.post(
    link.pathname,
    requireBearerAuth({ verifier: provider, requiredScopes, resourceMetadataUrl, resource: link }),
    express.json(),
    answer,
  );
}
app.post('/open', express.json(), answer);
app.listen(Number(port), 'localhost');
process.once('SIGTERM', () => process.exit());

function escaped(text) {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
