// The Worker around workers-oauth-provider: both roles, with the consent page of its documentation; every visitor is a new person.
import { env as bindings } from 'cloudflare:workers';
import {
  AuthorizationError,
  OAuthAuthorizationServer,
  OAuthResourceServer,
} from '@cloudflare/workers-oauth-provider';
import { ANSWER } from './answer.js';

const issuer = bindings.ORIGIN;
const links = [`${issuer}/one/mcp`, `${issuer}/two/mcp`];
const authorizationServer = new OAuthAuthorizationServer({
  issuer,
  resources: links,
  scopesSupported: ['operations', 'offline_access'],
  clientRegistrationEndpoint: '/oauth/register',
});
const answer = async (request) => {
  await request.json();
  return new Response(ANSWER, { headers: { 'content-type': 'application/json' } });
};
const resourceServers = links.map(
  (resource) =>
    new OAuthResourceServer({
      resourceMetadata: { resource, authorization_servers: [issuer] },
      requiredScopes: ['operations'],
      validateToken: (env) => (asked, token) =>
        authorizationServer.validateToken(asked, token, env),
      handler: { fetch: answer },
    }),
);

export default {
  async fetch(request, env, ctx) {
    const { pathname } = new URL(request.url);
    if (pathname === '/open') return answer(request);
    if (pathname === '/authorize') return authorize(request, env);
    const link = links.findIndex((each) => new URL(each).pathname === pathname);
    return (resourceServers[link] ?? authorizationServer).fetch(request, env, ctx);
  },
};

async function authorize(request, env) {
  const oauth = authorizationServer.getOAuthApi(env);
  try {
    return request.method === 'POST' ? await decide(request, oauth) : await ask(request, oauth);
  } catch (error) {
    if (!(error instanceof AuthorizationError)) throw error;
    if (error.redirectTo) return Response.redirect(error.redirectTo, 302);
    return new Response('refused', { status: 400 });
  }
}

async function ask(request, oauth) {
  const asked = await oauth.parseAuthRequest(request);
  const { scope } = await oauth.describeConsent(asked);
  const { handle, headers } = await oauth.beginConsent(asked);
  headers.set('content-type', 'text/html; charset=utf-8');
  const boxes = scope.map(
    (each) => `<input type="checkbox" name="scope" value="${escaped(each)}" checked>`,
  );
  const page = `<form method="post"><input type="hidden" name="handle" value="${escaped(handle)}">${boxes.join('')}<button name="decision" value="approve">Allow</button></form>`;
  return new Response(page, { headers });
}

async function decide(request, oauth) {
  const form = await request.formData();
  const scope = form.getAll('scope').map(String);
  const approved = await oauth.approveConsent(request, String(form.get('handle')), { scope });
  // The provider reads all grants of a person, so a single person with all grants would be slow.
  const userId = crypto.randomUUID();
  const { redirectTo } = await oauth.completeAuthorization({
    request: approved.request,
    userId,
    metadata: {},
    scope: approved.request.scope,
    props: { userId },
  });
  approved.headers.set('location', redirectTo);
  return new Response(null, { status: 302, headers: approved.headers });
}

function escaped(text) {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
