// What a recorded client does once connected: call, refresh, step up, and reconnect after its connection ended.
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { requestManagement } from '../support/management-api.ts';
import { authenticated } from '../support/oauth.ts';
import { CONTACT, HEADERS, message, OVERVIEW } from './messages.ts';
import {
  askForTokens,
  authorizationParameters,
  authorizeStep,
  identifyStep,
  type Journey,
  requestTokens,
  requireClient,
  requireTokens,
  resourceParameter,
  scopeFrom,
  type Tokens,
  tokenStep,
} from './recorded-journey.ts';
import { challengeOf, type Reply } from './wire.ts';

export async function callStep(journey: Journey): Promise<void> {
  const { protocolVersion } = journey.recorded;
  const clientInfo = { name: journey.recorded.name, version: '1.0.0' };
  const hello = await say(journey, 'initialize', { protocolVersion, capabilities: {}, clientInfo });
  expect(hello.status, hello.text).to.equal(200);
  expect(hello.text).to.include(`"protocolVersion":"${protocolVersion}"`);
  expect((await say(journey, 'tools/list', {})).text).to.include(OVERVIEW.name);
  await expectServed(journey);
}

/** Refreshes after the access token has expired. */
export async function refreshStep(journey: Journey): Promise<void> {
  const refused = await say(journey, 'tools/call', OVERVIEW);
  expect(refused.status).to.equal(401);
  expect(challengeOf(refused, 'error')).to.equal('invalid_token');
  const { atOnce } = journey.recorded.refresh;
  const turned = await Promise.all(Array.from({ length: atOnce }, () => refreshAs(journey)));
  for (const tokens of turned) {
    journey.tokens = tokens;
    await expectServed(journey);
  }
  journey.tokens = await refreshAs(journey);
  await expectServed(journey);
}

function refreshParameters(journey: Journey) {
  const { resource, scope } = journey.recorded.refresh;
  return {
    grant_type: 'refresh_token',
    refresh_token: requireTokens(journey).refreshToken,
    scope: scopeFrom(journey, scope),
    ...resourceParameter(journey, resource ? 'once' : 'no'),
  };
}

async function refreshAs(journey: Journey): Promise<Tokens> {
  return requestTokens(journey, refreshParameters(journey));
}

/** Calls a tool above the token's level; the person approves the page unchanged. */
export async function stepUpStep(journey: Journey): Promise<void> {
  const { stepUp } = journey.recorded;
  if ('notOffered' in stepUp) throw new Error(stepUp.notOffered);
  const refused = await say(journey, 'tools/call', CONTACT);
  expect(refused.status).to.equal(403);
  expect(challengeOf(refused, 'error')).to.equal('insufficient_scope');
  const challenge = challengeOf(refused, 'scope')?.split(' ') ?? [];
  const scope = scopeFrom(journey, stepUp.scope, challenge);
  if (stepUp.registersAnew) await identifyStep(journey);
  await authorizeStep(journey, { ...authorizationParameters(journey), scope }, {});
  await tokenStep(journey);
  const { status, text } = await say(journey, 'tools/call', CONTACT);
  expect(status, text).to.equal(200);
  expect(text).to.include('email');
}

/** Calls after its connection ended, is challenged, and signs in again. */
export async function revokeStep(journey: Journey): Promise<void> {
  const { revokes } = journey.recorded;
  await (revokes.length > 0 ? revokeItself(journey) : endByAdministrator(journey));
  const refused = await say(journey, 'tools/call', OVERVIEW);
  expect(refused.status).to.equal(401);
  expect(challengeOf(refused, 'resource_metadata')).to.be.a('string');
  const { status, json } = await askForTokens(journey, refreshParameters(journey));
  expect([status, (json() as { error?: string }).error]).to.deep.equal([400, 'invalid_grant']);
  const { scope, laterScope = scope } = journey.recorded.authorization;
  await authorizeStep(journey, authorizationParameters(journey, laterScope));
  await tokenStep(journey);
  await expectServed(journey);
}

async function revokeItself(journey: Journey): Promise<void> {
  const { refreshToken, accessToken } = requireTokens(journey);
  for (const hint of journey.recorded.revokes) {
    const token = hint === 'refresh_token' ? refreshToken : accessToken;
    const request = authenticated(requireClient(journey), { token, token_type_hint: hint });
    const at = journey.found.server.revocation_endpoint;
    expect((await journey.send(at, { method: 'POST', ...request })).status).to.equal(200);
  }
}

async function endByAdministrator(journey: Journey): Promise<void> {
  const { grant_id: grant } = decodeJwt(requireTokens(journey).accessToken);
  await requestManagement(journey.system, 'DELETE', `/grants/${String(grant)}`);
}

async function expectServed(journey: Journey): Promise<void> {
  const { status, text } = await say(journey, 'tools/call', OVERVIEW);
  expect(status, text).to.equal(200);
  expect(text).to.include('members').and.not.include('"isError":true');
}

function say(journey: Journey, method: string, params: object): Promise<Reply> {
  const { send, link } = journey;
  return send(link, {
    method: 'POST',
    headers: {
      ...HEADERS,
      authorization: `Bearer ${requireTokens(journey).accessToken}`,
    },
    body: message(method, params),
  });
}
