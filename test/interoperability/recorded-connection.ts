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
  type ClientRun,
  requestTokens,
  requireClient,
  requireTokens,
  resourceParameter,
  scopeFrom,
  type Tokens,
  tokenStep,
} from './recorded-steps.ts';
import { challengeOf, type Reply } from './wire.ts';

/** A call that succeeds, and a part of its result. */
export type ServedCall = { tool: { name: string; arguments: object }; result: string };

const SAMPLE_CALL: ServedCall = { tool: OVERVIEW, result: 'members' };

export async function callStep(run: ClientRun, served = SAMPLE_CALL): Promise<void> {
  const { protocolVersion } = run.recorded;
  const clientInfo = { name: run.recorded.name, version: '1.0.0' };
  const hello = await say(run, 'initialize', { protocolVersion, capabilities: {}, clientInfo });
  expect(hello.status, hello.text).to.equal(200);
  expect(hello.text).to.include(`"protocolVersion":"${protocolVersion}"`);
  expect((await say(run, 'tools/list', {})).text).to.include(served.tool.name);
  await expectServed(run, served);
}

/** Refreshes after the access token has expired. */
export async function refreshStep(run: ClientRun): Promise<void> {
  const refused = await say(run, 'tools/call', OVERVIEW);
  expect(refused.status).to.equal(401);
  expect(challengeOf(refused, 'error')).to.equal('invalid_token');
  const { atOnce } = run.recorded.refresh;
  const turned = await Promise.all(Array.from({ length: atOnce }, () => refreshAs(run)));
  for (const tokens of turned) {
    run.tokens = tokens;
    await expectServed(run);
  }
  run.tokens = await refreshAs(run);
  await expectServed(run);
}

function refreshParameters(run: ClientRun) {
  const { resource, scope } = run.recorded.refresh;
  return {
    grant_type: 'refresh_token',
    refresh_token: requireTokens(run).refreshToken,
    scope: scopeFrom(run, scope),
    ...resourceParameter(run, resource ? 'once' : 'no'),
  };
}

async function refreshAs(run: ClientRun): Promise<Tokens> {
  return requestTokens(run, refreshParameters(run));
}

/** Calls a tool above the token's level; the person approves the page unchanged. */
export async function stepUpStep(run: ClientRun): Promise<void> {
  const { stepUp } = run.recorded;
  if ('notOffered' in stepUp) throw new Error(stepUp.notOffered);
  const refused = await say(run, 'tools/call', CONTACT);
  expect(refused.status).to.equal(403);
  expect(challengeOf(refused, 'error')).to.equal('insufficient_scope');
  const challenge = challengeOf(refused, 'scope')?.split(' ') ?? [];
  const scope = scopeFrom(run, stepUp.scope, challenge);
  if (stepUp.registersAnew) await identifyStep(run);
  await authorizeStep(run, { ...authorizationParameters(run), scope }, {});
  await tokenStep(run);
  const { status, text } = await say(run, 'tools/call', CONTACT);
  expect(status, text).to.equal(200);
  expect(text).to.include('email');
}

/** Calls after its connection ended, is challenged, and signs in again. */
export async function revokeStep(run: ClientRun): Promise<void> {
  const { revokes } = run.recorded;
  await (revokes.length > 0 ? revokeItself(run) : endByAdministrator(run));
  const refused = await say(run, 'tools/call', OVERVIEW);
  expect(refused.status).to.equal(401);
  expect(challengeOf(refused, 'resource_metadata')).to.be.a('string');
  const { status, json } = await askForTokens(run, refreshParameters(run));
  expect([status, (json() as { error?: string }).error]).to.deep.equal([400, 'invalid_grant']);
  const { scope, laterScope = scope } = run.recorded.authorization;
  await authorizeStep(run, authorizationParameters(run, laterScope));
  await tokenStep(run);
  await expectServed(run);
}

async function revokeItself(run: ClientRun): Promise<void> {
  const { refreshToken, accessToken } = requireTokens(run);
  for (const hint of run.recorded.revokes) {
    const token = hint === 'refresh_token' ? refreshToken : accessToken;
    const request = authenticated(requireClient(run), { token, token_type_hint: hint });
    const at = run.found.server.revocation_endpoint;
    expect((await run.send(at, { method: 'POST', ...request })).status).to.equal(200);
  }
}

async function endByAdministrator(run: ClientRun): Promise<void> {
  const { grant_id: grant } = decodeJwt(requireTokens(run).accessToken);
  await requestManagement(run.system, 'DELETE', `/grants/${String(grant)}`);
}

async function expectServed(run: ClientRun, { tool, result } = SAMPLE_CALL): Promise<void> {
  const { status, text } = await say(run, 'tools/call', tool);
  expect(status, text).to.equal(200);
  expect(text).to.include(result).and.not.include('"isError":true');
}

function say(run: ClientRun, method: string, params: object): Promise<Reply> {
  const { send, link } = run;
  return send(link, {
    method: 'POST',
    headers: {
      ...HEADERS,
      authorization: `Bearer ${requireTokens(run).accessToken}`,
    },
    body: message(method, params),
  });
}
