// RFC 7523 section 2.2: clients that authenticate with private_key_jwt.
import { createSecretKey, generateKeyPairSync } from 'node:crypto';
import type { RequestListener } from 'node:http';
import { expect } from 'chai';
import { exportJWK, SignJWT, UnsecuredJWT } from 'jose';
import { requirePage } from '../support/browser.ts';
import {
  type AssertionKey,
  assertionParameters,
  createAssertion,
  generateAssertionKey,
} from '../support/client-assertion.ts';
import { advanceClock } from '../support/clock.ts';
import { type IssuedCode, obtainCode } from '../support/connection.ts';
import { createProof, generateProofKey, statusAndError } from '../support/dpop.ts';
import { isAccepted } from '../support/mcp.ts';
import {
  authenticated,
  type Client,
  exchange,
  type Parameters,
  refresh,
  requestToken,
  type Server,
  type TokenResponse,
} from '../support/oauth.ts';
import {
  ALLOWED_ADDRESS,
  answerWith,
  hangUp,
  publish,
} from './metadata-documents/document-host.ts';
import { usePublishing } from './metadata-documents/publishing.ts';

const REFUSED = [401, 'invalid_client'];
const CALLBACK = 'https://reports.example.com/callback';
const KEYS = 'https://keys.documents.example/keys';

const key = await generateAssertionKey('ES256', 'first');
const successor = await generateAssertionKey('ES256', 'second');
const stranger = await generateAssertionKey('ES256', 'first');
const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 });
const rsaJwk = await exportJWK(rsa.publicKey);
const rsaKey = (alg: string): AssertionKey => ({ alg, jwk: rsaJwk, privateKey: rsa.privateKey });
const inline: AssertionKey[] = [
  await generateAssertionKey('ES256'),
  await generateAssertionKey('ES256'),
  await generateAssertionKey('EdDSA'),
  rsaKey('RS256'),
  rsaKey('PS256'),
];

const keySet = (...keys: { jwk: unknown }[]) =>
  answerWith(200, {}, JSON.stringify({ keys: keys.map(({ jwk }) => jwk) }));

/** Answers nothing, so that the fetch times out. */
const silence: RequestListener = () => undefined;

/** Documents of clients that have only a key. The keys of each have an address of their own. */
function withKeys(
  answerKeys: RequestListener,
  document: Record<string, unknown> = { token_endpoint_auth_method: 'private_key_jwt' },
): RequestListener {
  return (request, response) =>
    request.url?.startsWith('/keys')
      ? answerKeys(request, response)
      : publish({ jwks_uri: KEYS + request.url, ...document })(request, response);
}

describe('A client that authenticates with a key', () => {
  const publishing = usePublishing(
    'sqlite',
    ({ network }) => ({
      network: {
        ...network,
        resolve: async (host) => {
          if (host.startsWith('unknown.'))
            throw Object.assign(new Error('no such name'), { code: 'ENOTFOUND' });
          return [host.startsWith('private.') ? '10.0.0.7' : ALLOWED_ADDRESS];
        },
      },
      limits: { minFailureSeconds: 0, maxPerMinutePerHost: Infinity, failureCacheSeconds: 0 },
    }),
    {
      clients: {
        preRegistered: [
          {
            id: 'batch',
            name: 'Reports',
            redirectUris: [CALLBACK],
            jwks: { keys: inline.map(({ jwk }) => jwk) },
          },
          { id: 'batch.remote', name: 'Reports', redirectUris: [CALLBACK], jwksUri: KEYS },
          {
            id: 'batch.shared',
            name: 'Reports',
            redirectUris: [CALLBACK],
            jwksUri: `${KEYS}/shared`,
          },
        ],
      },
    },
  );
  const BATCH: Client = { id: 'batch', method: 'none', redirectUri: CALLBACK };
  const REMOTE: Client = { ...BATCH, id: 'batch.remote' };
  const SHARED: Client = { ...BATCH, id: 'batch.shared' };

  beforeEach(() => {
    publishing().host.answer = withKeys(keySet(key));
  });

  async function codeOf(client = publishing().newClient()): Promise<IssuedCode> {
    const { system, connector } = publishing();
    return obtainCode(system, connector, { as: { client } });
  }

  type Party = { server: Server; client: Client };
  type Claims = Record<string, unknown>;

  async function signed(party: Party, by = key, claims: Claims = {}): Promise<Parameters> {
    return assertionParameters(await createAssertion(by, party, { claims }));
  }

  const redeemWith = (code: IssuedCode, parameters: Parameters) =>
    exchange(code.server, code.client, code, parameters);

  async function redeemed(code: IssuedCode, by = key, claims?: Claims): Promise<TokenResponse> {
    return redeemWith(code, await signed(code, by, claims));
  }

  async function refreshed(party: Party, token: string | undefined, by = key) {
    return refresh(party.server, party.client, token, await signed(party, by));
  }

  it('CIM-16 a metadata-document client connects, calls tools, refreshes and revokes', async () => {
    const code = await codeOf();
    const { status, body } = await redeemed(code);
    expect([status, body.error]).to.deep.equal([200, undefined]);
    expect(await isAccepted(code.link, body.access_token)).to.equal(true);
    const { server, client } = code;
    const without = await refresh(server, client, body.refresh_token);
    expect(statusAndError(without)).to.deep.equal(REFUSED);
    const next = await refreshed(code, body.refresh_token);
    expect(next.status).to.equal(200);

    const token = { token: next.body.refresh_token };
    for (const [parameters, expected] of [
      [token, 401],
      [{ ...token, ...(await signed(code)) }, 200],
    ] as const) {
      const request = authenticated(client, parameters);
      const response = await fetch(`${server.issuer}/oauth/revoke`, { method: 'POST', ...request });
      await response.text();
      expect(response.status).to.equal(expected);
    }
    expect((await refreshed(code, next.body.refresh_token)).body.error).to.equal('invalid_grant');
  });

  it('KEY-06 a pre-registered client signs with any of its algorithms, and two keys need no kid', async () => {
    const code = await codeOf(BATCH);
    let { body } = await redeemed(code, inline[0]);
    for (const each of inline) {
      const next = await refreshed(code, body.refresh_token, each);
      expect(next.status, each.alg).to.equal(200);
      ({ body } = next);
    }
  });

  it('KEY-06 requests of one client at the same time authenticate with different keys', async () => {
    publishing().host.answer = withKeys(keySet(key, successor));
    const signers = [key, successor, key, successor];
    const codes = [];
    for (const by of signers) codes.push({ by, code: await codeOf(SHARED) });
    const answers = await Promise.all(codes.map(({ by, code }) => redeemed(code, by)));
    expect(answers.map(statusAndError)).to.deep.equal(signers.map(() => [200, undefined]));
  });

  it('KEY-02 aud may be the token endpoint, the issuer as a parsed address, or a list of these', async () => {
    const code = await codeOf(BATCH);
    const { issuer, token_endpoint: endpoint } = code.server;
    let { body } = await redeemed(code, inline[0], { aud: [issuer] });
    for (const aud of [endpoint, [endpoint], [issuer, endpoint], `${issuer}/`]) {
      const parameters = await signed(code, inline[0], { aud });
      const next = await refresh(code.server, BATCH, body.refresh_token, parameters);
      expect(next.status, String(aud)).to.equal(200);
      ({ body } = next);
    }
  });

  it('KEY-01 an assertion is accepted once, also if it is sent several times at once', async () => {
    const code = await codeOf();
    const { body } = await redeemed(code);
    const parameters = await signed(code);
    const again = () => refresh(code.server, code.client, body.refresh_token, parameters);
    const answers = await Promise.all([again(), again(), again(), again()]);
    const statuses = answers.map(({ status }) => status).toSorted();
    expect(statuses).to.deep.equal([200, 401, 401, 401]);
    advanceClock(50);
    expect(statusAndError(await again())).to.deep.equal(REFUSED);
    advanceClock(50);
    expect(statusAndError(await again())).to.deep.equal(REFUSED);
  });

  it('KEY-01 a refused assertion uses up no jti, and clients do not share them', async () => {
    const [code, another] = [await codeOf(), await codeOf(BATCH)];
    const jti = { jti: 'one' };
    const wrong = await redeemed(code, key, { ...jti, aud: 'https://elsewhere.example' });
    expect(statusAndError(wrong)).to.deep.equal(REFUSED);
    expect((await redeemed(code, key, jti)).status).to.equal(200);
    expect((await redeemed(another, inline[0], jti)).status).to.equal(200);
  });

  it('KEY-02 wrong assertions are refused, and the code is not consumed', async () => {
    const code = await codeOf();
    const { issuer } = code.server;
    const now = Math.floor(Date.now() / 1000);
    const claims: Record<string, Claims> = {
      'for another server': { aud: 'https://elsewhere.example' },
      'for two servers': { aud: [issuer, 'https://elsewhere.example'] },
      'for the revocation endpoint': { aud: `${issuer}/oauth/revoke` },
      'for an address below the issuer': { aud: `${issuer}/oauth` },
      'for nobody': { aud: undefined },
      'that never expires': { exp: undefined },
      'valid for six minutes': { exp: now + 360 },
      'valid forever': { exp: 1e300 },
      'that has expired': { exp: now - 60 },
      'with a text as exp': { exp: String(now + 60) },
      'that is not valid yet': { nbf: now + 60 },
      'without jti': { jti: undefined },
      'with a number as jti': { jti: 7 },
      'by another issuer': { iss: 'batch' },
      'without iss': { iss: undefined },
      'without sub': { sub: undefined },
    };
    const body = { iss: code.client.id, sub: code.client.id, aud: issuer, jti: 'x', exp: now + 60 };
    const publicText = createSecretKey(Buffer.from(JSON.stringify(key.jwk)));
    const forged: Record<string, string> = {
      unsigned: new UnsecuredJWT(body).encode(),
      'signed with the public key as secret': await new SignJWT(body)
        .setProtectedHeader({ alg: 'HS256', kid: 'first' })
        .sign(publicText),
      'signed by a stranger': await createAssertion(stranger, code),
      'with an unknown kid': await createAssertion(key, code, { header: { kid: 'third' } }),
      'with another algorithm': await createAssertion(await generateAssertionKey('ES384'), code),
      'with its own key': await createAssertion(stranger, code, {
        header: { jwk: stranger.jwk, kid: undefined },
      }),
      'with an extension that must be understood': await createAssertion(key, code, {
        header: { crit: ['b64'], b64: true },
      }),
    };
    for (const [what, changes] of Object.entries(claims))
      forged[what] = await createAssertion(key, code, { claims: changes });
    for (const [what, assertion] of Object.entries(forged)) {
      const answer = await redeemWith(code, assertionParameters(assertion));
      expect(statusAndError(answer), what).to.deep.equal(REFUSED);
      expect(answer.body.error_description, what).to.match(/\w/);
    }
    const described = async (assertion: string) =>
      (await redeemWith(code, assertionParameters(assertion))).body.error_description;
    const unknown = await createAssertion(key, code, { header: { kid: 'third' } });
    expect(await described(unknown)).to.include('kid and alg in its header');
    expect(await described(await createAssertion(stranger, code))).to.include('fits no key');
    expect(statusAndError(await redeemWith(code, {}))).to.deep.equal(REFUSED);
    const asBatch = await signed({ ...code, client: BATCH }, inline[0]);
    expect((await redeemWith(code, asBatch)).status).to.equal(400);
    expect((await redeemed(code)).status).to.equal(200);
  });

  it('a key without kid fits an assertion that names one (RFC 7515 section 4.1.4)', async () => {
    const [unnamed = key] = inline;
    const named = { ...unnamed, jwk: { ...unnamed.jwk, kid: 'thumbprint' } };
    const { status } = await redeemed(await codeOf(BATCH), named);
    expect(status).to.equal(200);

    publishing().host.answer = withKeys(keySet(unnamed));
    const code = await codeOf();
    const { status: fetched, body } = await redeemed(code, named);
    expect(fetched).to.equal(200);

    const rotated = await generateAssertionKey('ES256');
    publishing().host.answer = withKeys(keySet(rotated));
    const renamed = { ...rotated, jwk: { ...rotated.jwk, kid: 'thumbprint' } };
    advanceClock(61);
    expect((await refreshed(code, body.refresh_token, renamed)).status).to.equal(200);
  });

  it('a document can fix the algorithm', async () => {
    publishing().host.answer = withKeys(keySet({ jwk: rsaJwk }), {
      token_endpoint_auth_method: 'private_key_jwt',
      token_endpoint_auth_signing_alg: 'PS256',
    });
    const code = await codeOf();
    expect(statusAndError(await redeemed(code, rsaKey('RS256')))).to.deep.equal(REFUSED);
    expect((await redeemed(code, rsaKey('PS256'))).status).to.equal(200);
  });

  it('a document that supports none and keys may use either, and a wrong assertion is refused', async () => {
    publishing().host.answer = withKeys(keySet(key), {
      token_endpoint_auth_method: 'private_key_jwt',
      token_endpoint_auth_methods_supported: ['none', 'private_key_jwt'],
    });
    const code = await codeOf();
    expect(statusAndError(await redeemed(code, stranger))).to.deep.equal(REFUSED);
    const { status, body } = await redeemed(code);
    expect(status).to.equal(200);
    expect((await refresh(code.server, code.client, body.refresh_token)).status).to.equal(200);
  });

  it('a DPoP proof and an assertion work in one request, and each is single-use', async () => {
    const code = await codeOf();
    const proofKey = await generateProofKey();
    const { server, client, callback, verifier } = code;
    const proof = () => createProof(proofKey, { url: server.token_endpoint });
    const parameters = async () => ({
      grant_type: 'authorization_code',
      code: callback.searchParams.get('code') ?? undefined,
      redirect_uri: client.redirectUri,
      code_verifier: verifier,
      ...(await signed(code)),
    });
    const dpop = await proof();
    const first = await requestToken(server, client, await parameters(), { dpop });
    expect([first.status, first.body.token_type]).to.deep.equal([200, 'DPoP']);
    const token = { grant_type: 'refresh_token', refresh_token: first.body.refresh_token };
    const used = await requestToken(
      server,
      client,
      { ...token, ...(await signed(code)) },
      { dpop },
    );
    expect(used.body.error).to.equal('invalid_dpop_proof');
    const more = { ...token, ...(await signed(code)) };
    const next = await requestToken(server, client, more, { dpop: await proof() });
    expect(next.status).to.equal(200);
    const replayed = await requestToken(server, client, more, { dpop: await proof() });
    expect(statusAndError(replayed)).to.deep.equal(REFUSED);
  });

  it('MAC-02 a machine signs with a listed key, or with one that is fetched', async () => {
    const { system, connector, server, host } = publishing();
    host.answer = withKeys(keySet(key));
    for (const keys of [{ jwks: { keys: [key.jwk] } }, { jwksUri: `${KEYS}/machine` }]) {
      const given = { name: 'CI', connector: connector.id, level: connector.level, ...keys };
      const created = await fetch(`${system.management}/api/v1/clients`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${system.managementKey}`,
          'content-type': 'application/json',
        },
        body: JSON.stringify(given),
      });
      const { id } = (await created.json()) as { id: string };
      const client: Client = { ...BATCH, id };
      const grant = { grant_type: 'client_credentials', resource: connector.link };
      const parameters = { ...grant, ...(await signed({ server, client })) };
      const token = await requestToken(server, client, parameters);
      expect(token.status).to.equal(200);
      expect(await isAccepted(connector.link, token.body.access_token)).to.equal(true);
      const wrong = [
        parameters,
        grant,
        { ...grant, ...(await signed({ server, client }, stranger)) },
      ];
      for (const each of wrong)
        expect(statusAndError(await requestToken(server, client, each))).to.deep.equal(REFUSED);
    }
  });

  const secret = { jwk: { ...key.jwk, d: 'AQ' } };
  const symmetric = { jwk: { kty: 'oct', k: 'AQ', kid: 'other' } };
  const unusable: Record<string, [RequestListener, RegExp]> = {
    'with a private key': [keySet(key, secret), /private or symmetric/],
    'with a symmetric key': [keySet(key, symmetric), /private or symmetric/],
    'without keys': [keySet(), /no signature key/],
    'without usable keys': [keySet({ jwk: { ...key.jwk, use: 'enc' } }), /no signature key/],
    'that is too large': [answerWith(200, {}, `{"keys":[],"x":"${'x'.repeat(33_000)}"}`), /32 kB/],
    'that is not a set': [answerWith(200, {}, '[]'), /array of keys/],
    'that is not JSON': [answerWith(200, {}, '{'), /not JSON/],
    'that is HTML': [answerWith(200, { 'content-type': 'text/html' }), /not JSON/],
    'that does not exist': [answerWith(404), /404/],
    'behind a redirect': [answerWith(302, { location: KEYS }), /302/],
  };
  it('KEY-03 a key set that cannot be used is refused, and the code is not consumed', async () => {
    const code = await codeOf();
    for (const [what, [answer, description]] of Object.entries(unusable)) {
      publishing().host.answer = withKeys(answer);
      const refused = await redeemed(code);
      expect(statusAndError(refused), what).to.deep.equal(REFUSED);
      expect(refused.body.error_description, what).to.match(description);
    }
    publishing().host.answer = withKeys(keySet(key));
    expect((await redeemed(code)).status).to.equal(200);
  });

  it('KEY-03 keys of a private address are not fetched, and look like those of an unknown name', async () => {
    const { host } = publishing();
    const refusalOf = async (name: string) => {
      host.answer = withKeys(keySet(key), {
        token_endpoint_auth_method: 'private_key_jwt',
        jwks_uri: `https://${name}.documents.example/keys`,
      });
      const code = await codeOf();
      const connections = host.connections();
      const { status, body } = await redeemed(code);
      expect([status, body.error]).to.deep.equal(REFUSED);
      expect(host.connections()).to.equal(connections);
      return body;
    };
    const refusal = await refusalOf('private');
    expect(refusal.error_description).to.match(/no public address/);
    expect(await refusalOf('unknown')).to.deep.equal(refusal);
  });

  it('KEY-04 while the host of the keys is down or silent, new keys get 503, and the code stays valid', async () => {
    const code = await codeOf();
    for (const answer of [hangUp, answerWith(500), answerWith(429), silence]) {
      publishing().host.answer = withKeys(answer);
      const { status, headers, body } = await redeemed(code);
      expect([status, body.error]).to.deep.equal([503, 'temporarily_unavailable']);
      expect(headers.get('retry-after')).to.match(/^\d+$/);
    }
    publishing().host.answer = withKeys(keySet(key));
    expect((await redeemed(code)).status).to.equal(200);
  });

  it('KEY-04 a new key is fetched at most once a minute, and known keys outlive their host', async () => {
    const { host } = publishing();
    const code = await codeOf(REMOTE);
    let { body } = await redeemed(code);
    const fetches = () => host.requests.filter((path) => path === '/keys').length;
    const before = fetches();
    const refusedAs = statusAndError(await refreshed(code, body.refresh_token, successor));
    expect(refusedAs).to.deep.equal(REFUSED);
    expect(fetches()).to.equal(before);

    host.answer = withKeys(keySet(key, successor));
    advanceClock(61);
    ({ body } = await refreshed(code, body.refresh_token, successor));
    expect(fetches()).to.equal(before + 1);
    ({ body } = await refreshed(code, body.refresh_token));
    expect(fetches()).to.equal(before + 1);

    host.answer = withKeys(hangUp);
    advanceClock(7200);
    ({ body } = await refreshed(code, body.refresh_token));
    expect(body.error).to.equal(undefined);
    const unknown = await refreshed(code, body.refresh_token, await generateAssertionKey());
    expect(unknown.status).to.be.oneOf([401, 503]);
    host.answer = withKeys(answerWith(404));
    const without = await refreshed(code, body.refresh_token);
    expect(statusAndError(without)).to.deep.equal(REFUSED);
    host.answer = withKeys(hangUp);
    advanceClock(86_400);
    expect((await refreshed(code, body.refresh_token)).status).to.equal(503);

    host.answer = withKeys(keySet(successor));
    const removed = await refreshed(code, body.refresh_token);
    expect(statusAndError(removed)).to.deep.equal(REFUSED);
    expect((await refreshed(code, body.refresh_token, successor)).status).to.equal(200);
  });

  it('KEY-05 documents with unusable keys or another algorithm are refused', async () => {
    const { host, newClient, visit } = publishing();
    const jwks = { keys: [key.jwk] };
    for (const wrong of [
      { jwks_uri: undefined },
      { jwks },
      { jwks_uri: 'http://keys.documents.example/keys' },
      { jwks_uri: 'https://127.0.0.1/keys' },
      { jwks_uri: 'https://localhost/keys' },
      { jwks_uri: 'https://keys.documents.example:8443/keys' },
      { jwks_uri: 'https://user@keys.documents.example/keys' },
      { jwks_uri: undefined, jwks: { keys: [secret.jwk] } },
      { jwks_uri: undefined, jwks: { keys: [key.jwk, symmetric.jwk] } },
      { jwks_uri: undefined, jwks: { keys: [] } },
      { token_endpoint_auth_signing_alg: 'HS256' },
      { token_endpoint_auth_signing_alg: 'none' },
    ]) {
      host.answer = withKeys(keySet(key), {
        token_endpoint_auth_method: 'private_key_jwt',
        ...wrong,
      });
      const page = requirePage(await visit(newClient()));
      expect(page.status, JSON.stringify(wrong)).to.equal(400);
    }
    host.answer = withKeys(keySet(), {
      token_endpoint_auth_method: 'private_key_jwt',
      jwks_uri: undefined,
      jwks,
    });
    expect((await redeemed(await codeOf())).status).to.equal(200);
  });
});
