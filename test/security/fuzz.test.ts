// Sends 40 random malformed requests of each kind, or as many as fit into FUZZ_SECONDS (`npm run fuzz` sets 270).
import { expect } from 'chai';
import * as fc from 'fast-check';
import type { Arbitrary } from 'fast-check';
import { createConnector } from '../support/management-api.ts';
import { connect, obtainCode, type Connection, REDIRECT_URI } from '../support/connection.ts';
import { authorizeUrl, refresh } from '../support/oauth.ts';
import { rawRequest, type RawRequest } from '../support/raw-request.ts';
import { countStoredKeys } from '../support/stored-keys.ts';
import { useSystem } from '../support/system.ts';
import { headers, MARKUP, mcpBody, parameters, path, registrationBody } from './malformed-input.ts';

const SECONDS = Number(process.env.FUZZ_SECONDS ?? 0);
const REQUESTS = 40;
const TESTS = 6;
/** A response that takes longer is one that never comes. */
const MAX_RESPONSE_MS = 30_000;
const UNLIMITED = { perAddress: '99999999/1m', inAll: '99999999/1m' };
const LIMITS = [
  'registrations',
  'authorizations',
  'signIns',
  'wrongSecrets',
  'wrongTokens',
  'documents',
];

const FORM = { 'content-type': 'application/x-www-form-urlencoded' };
const JSON_BODY = { 'content-type': 'application/json' };
const COMMON = ['accept', 'content-type', 'cookie', 'origin', 'x-forwarded-for', 'forwarded'];

describe('Malformed requests', function () {
  this.timeout(SECONDS * 1000 + 60_000);
  const system = useSystem({
    file: { limits: Object.fromEntries(LIMITS.map((limit) => [limit, UNLIMITED])) },
  });
  let connection: Connection;
  let stored: Record<string, number> = {};
  before(async () => {
    connection = await connect(system(), await createConnector(system()));
  });

  /** Expects no 5xx, no injected header, no unescaped markup, and no new record after a refusal. */
  async function expectHarmless(base: string, request: RawRequest): Promise<void> {
    const signal = AbortSignal.timeout(MAX_RESPONSE_MS);
    const all = { host: new URL(base).host, ...request.headers };
    const {
      status,
      headers: responseHeaders,
      body,
    } = await rawRequest(base, { ...request, headers: all, signal });
    expect(status, body).to.be.within(200, 499);
    expect(responseHeaders).to.not.have.property('x-injected');
    expect(responseHeaders['x-content-type-options']).to.equal('nosniff');
    if (/html/.test(responseHeaders['content-type'] ?? ''))
      for (const markup of MARKUP) expect(body).to.not.include(markup);
    const before = stored;
    stored = await countStoredKeys(system());
    // Other records expire meanwhile.
    const grown = Object.keys(stored).filter((kind) => (stored[kind] ?? 0) > (before[kind] ?? 0));
    if (status >= 400) expect(grown, body).to.deep.equal([]);
  }

  /** A failure names the seed that reproduces it. */
  async function fuzz<T>(
    malformed: Arbitrary<T>,
    attempt: (sent: T) => Promise<void>,
  ): Promise<void> {
    stored = await countStoredKeys(system());
    const untilTimeIsUp = {
      numRuns: Infinity,
      interruptAfterTimeLimit: (SECONDS / TESTS) * 1000,
    };
    await fc.assert(fc.asyncProperty(malformed, attempt), {
      includeErrorInReport: true,
      ...(SECONDS > 0 ? untilTimeIsUp : { numRuns: REQUESTS }),
    });
  }

  it('a malformed registration never causes a server error or unescaped output', async () => {
    const valid = {
      client_name: 'Fuzz',
      redirect_uris: [REDIRECT_URI],
      grant_types: ['authorization_code'],
      response_types: ['code'],
      token_endpoint_auth_method: 'none',
    };
    const request = fc.tuple(registrationBody(valid), headers(JSON_BODY, COMMON));
    await fuzz(request, ([body, sent]) =>
      expectHarmless(system().auth, {
        method: 'POST',
        path: '/oauth/register',
        headers: sent,
        chunks: [body],
      }),
    );
  });

  it('a malformed authorization request never causes a server error or unescaped output', async () => {
    const { server, client, link } = connection;
    const { url } = authorizeUrl(server, client, { resource: link, scope: 'operations' });
    const valid = Object.fromEntries(url.searchParams);
    const more = [
      'prompt',
      'response_mode',
      'nonce',
      'max_age',
      'request',
      'request_uri',
      'claims',
      'ui_locales',
      'login_hint',
      'id_token_hint',
      'display',
      'registration',
      'code',
      'iss',
    ];
    const request = fc.tuple(parameters(valid, more), headers({ accept: 'text/html' }, COMMON));
    await fuzz(request, ([query, sent]) =>
      expectHarmless(system().auth, { path: `${url.pathname}?${query}`, headers: sent }),
    );
  });

  it('malformed token requests never cause a server error, and the refresh token stays valid', async () => {
    const { client, link, refreshToken = '', server } = connection;
    const code = await obtainCode(system(), { link }, { as: { client } });
    const exchanging = {
      grant_type: 'authorization_code',
      client_id: client.id,
      code: code.callback.searchParams.get('code') ?? '',
      redirect_uri: client.redirectUri,
      code_verifier: 'not-the-verifier-not-the-verifier-not-the-verifier',
      resource: link,
    };
    const refreshing = {
      grant_type: 'refresh_token',
      client_id: client.id,
      refresh_token: refreshToken.replace(/.$/, (last) => (last === 'A' ? 'B' : 'A')),
      scope: 'operations',
    };
    const more = [
      'client_secret',
      'client_assertion',
      'client_assertion_type',
      'assertion',
      'token',
      'token_type_hint',
      'audience',
      'username',
    ];
    const form = fc.oneof(parameters(exchanging, more), parameters(refreshing, more));
    const request = fc.tuple(
      form,
      headers(FORM, [...COMMON, 'authorization', 'dpop']),
      fc.constantFrom('/oauth/token', '/oauth/token', '/oauth/revoke'),
    );
    await fuzz(request, ([body, sent, at]) =>
      expectHarmless(new URL(server.token_endpoint).origin, {
        method: 'POST',
        path: at,
        headers: sent,
        chunks: [body],
      }),
    );
    expect((await refresh(server, client, refreshToken)).status).to.equal(200);
  });

  it('a malformed MCP request never causes a server error', async () => {
    const { link, accessToken } = connection;
    const valid = {
      ...JSON_BODY,
      accept: 'application/json, text/event-stream',
      authorization: `Bearer ${accessToken}`,
    };
    const more = [
      'mcp-protocol-version',
      'mcp-session-id',
      'mcp-method',
      'mcp-name',
      'last-event-id',
      'origin',
      'cookie',
      'dpop',
    ];
    const request = fc.tuple(
      mcpBody(),
      headers(valid, more),
      fc.constantFrom('POST', 'POST', 'POST', 'GET', 'DELETE', 'PUT', 'OPTIONS'),
      fc.constantFrom(new URL(link).pathname, new URL(link).pathname, '/mcp'),
    );
    await fuzz(request, ([body, sent, method, at]) =>
      expectHarmless(system().resource, { method, path: at, headers: sent, chunks: [body] }),
    );
  });

  it('a malformed request to an interaction stores nothing', async () => {
    const form = parameters({ decision: 'approve', level: 'full', token: 'x.y' }, [
      'stay',
      'state',
      'code',
      'iss',
    ]);
    const request = fc.tuple(
      form,
      headers(FORM, [...COMMON, 'sec-fetch-site']),
      fc.boolean(),
      path,
    );
    await fuzz(request, ([sent, sentHeaders, posted, at]) => {
      const target = `/interaction${at}`;
      return expectHarmless(
        system().auth,
        posted
          ? { method: 'POST', path: target, headers: sentHeaders, chunks: [sent] }
          : { path: `${target}?${sent}`, headers: sentHeaders },
      );
    });
  });

  for (const at of ['//#@!', '//a:b@#', '//a@?b#c', '//[#', '///#', '//', '//[', '//%'])
    it(`the path ${at} causes no server error on any host`, async () => {
      stored = await countStoredKeys(system());
      for (const host of ['auth', 'resource', 'management'] as const)
        await expectHarmless(system()[host], { method: 'GET', path: at });
    });

  it('a malformed path never causes a server error on any host', async () => {
    const request = fc.tuple(
      path,
      fc.constantFrom('GET', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'HEAD', 'PATCH', 'PROPFIND'),
      headers({}, COMMON),
      fc.constantFrom('auth', 'resource', 'management'),
    );
    await fuzz(request, ([at, method, sent, host]) =>
      expectHarmless(system()[host as 'auth'], { method, path: at, headers: sent }),
    );
  });
});
