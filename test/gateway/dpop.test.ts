// RFC 9449 sections 4.3 and 7.1.
import { createHash } from 'node:crypto';
import { expect } from 'chai';
import { SignJWT } from 'jose';
import { type Connector, createConnector } from '../support/management-api.ts';
import { advanceClock, freezeClock } from '../support/clock.ts';
import { connect } from '../support/connection.ts';
import {
  type BoundConnection,
  callBound,
  connectBound,
  type ProofOverrides,
  generateProofKey,
  createProof,
} from '../support/dpop.ts';
import { call, isAccepted, type RpcResponse } from '../support/mcp.ts';
import { resignToken } from '../support/resign-token.ts';
import { rawRequest } from '../support/raw-request.ts';
import { useSystem } from '../support/system.ts';

const ALGS = 'algs="ES256 Ed25519 EdDSA"';
const now = () => Math.floor(Date.now() / 1000);

describe('DPoP at the resource server', () => {
  const system = useSystem();
  let connector: Connector;
  let connection: BoundConnection;
  before(async () => {
    connector = await createConnector(system());
    connection = await connectBound(system(), connector);
  });

  function expectRefused({ status, headers, rpc }: RpcResponse, error: string, says: RegExp): void {
    const challenge = headers.get('www-authenticate') ?? '';
    expect([status, rpc?.error?.message], challenge).to.satisfy(
      ([code, message]: [number, string]) => code === 401 && says.test(message),
    );
    expect(challenge)
      .to.match(/^DPoP /)
      .and.include(`error="${error}"`)
      .and.include(ALGS);
    expect(challenge).to.include('resource_metadata=').and.include('scope="operations"');
  }

  it('the server accepts a bound token with a new proof for each request', async () => {
    for (let calls = 0; calls < 3; calls += 1)
      expect((await callBound(connection)).status).to.equal(200);
    const dpop = await createProof(connection.key, {
      url: connection.link,
      token: connection.accessToken,
    });
    expect((await callBound(connection, { more: { dpop } })).status).to.equal(200);
    const again = await callBound(connection, { more: { dpop } });
    expectRefused(again, 'invalid_dpop_proof', /already used/);
  });

  it('AUD-13 the server accepts a proof once among concurrent requests', async () => {
    const { key, link: url, accessToken: token } = connection;
    const dpop = await createProof(key, { url, token });
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => callBound(connection, { more: { dpop } })),
    );
    expect(answers.filter(({ status }) => status === 200)).to.have.length(1);
    expect(answers.filter(({ status }) => status === 401)).to.have.length(19);
  });

  it('the server accepts every signature algorithm in its metadata', async () => {
    for (const alg of ['ES256', 'Ed25519', 'EdDSA']) {
      const bound = await connectBound(system(), connector, { key: await generateProofKey(alg) });
      expect((await callBound(bound)).status, alg).to.equal(200);
    }
  });

  it('AUD-16 the server accepts a proof whose htu is an equivalent URL or has a query', async () => {
    const { pathname, port } = new URL(connector.link);
    for (const htu of [
      `HTTP://LOCALHOST:${port}${pathname}`,
      `${connector.link}?a=b#c`,
      `http://localhost:${port}/connect/../${pathname.slice(1)}`,
    ])
      expect(
        (await callBound(connection, { overrides: { claims: { htu } } })).status,
        htu,
      ).to.equal(200);
  });

  const about = (claims: Record<string, unknown>): ProofOverrides => ({ claims });
  const wrong: [string, () => ProofOverrides | Promise<ProofOverrides>, RegExp][] = [
    ['another method', () => about({ htm: 'GET' }), /htm/],
    ['a lowercase method', () => about({ htm: 'post' }), /htm/],
    ['no method', () => about({ htm: undefined }), /htm/],
    ['another htu', () => about({ htu: `${system().resource}/mcp` }), /htu/],
    ['another connect link', () => about({ htu: `${connector.link}/` }), /htu/],
    ['another host', () => about({ htu: connector.link.replace('//', '//evil.') }), /htu/],
    ['a user name in htu', () => about({ htu: connector.link.replace('//', '//a@') }), /htu/],
    ['no htu', () => about({ htu: undefined }), /htu/],
    ['an htu that is not a URL', () => about({ htu: 'here' }), /htu/],
    [
      'the hash of another token',
      () => about({ ath: createHash('sha256').digest('base64url') }),
      /ath/,
    ],
    ['no ath', () => about({ ath: undefined }), /ath/],
    ['no jti', () => about({ jti: undefined }), /jti/],
    ['an empty jti', () => about({ jti: '' }), /jti/],
    ['a jti that is a number', () => about({ jti: 7 }), /jti/],
    ['no iat', () => about({ iat: undefined }), /iat/],
    ['a nonce that is a number', () => about({ nonce: 7 }), /nonce/],
    ['an exp in the past', () => about({ exp: now() - 60 }), /type dpop\+jwt/],
    ['another type', () => ({ header: { typ: 'JWT' } }), /type dpop\+jwt/],
    ['no type', () => ({ header: { typ: undefined } }), /type dpop\+jwt/],
    ['no key', () => ({ header: { jwk: undefined } }), /header/],
    [
      'another key than that of the signature',
      async () => ({ header: await otherKey() }),
      /signed/,
    ],
    ['a private key', () => privateKey(), /public/],
    ['an unknown critical header', () => ({ header: { crit: ['x'], x: 1 } }), /type dpop\+jwt/],
  ];

  async function otherKey() {
    return { jwk: (await generateProofKey()).jwk };
  }

  async function privateKey(): Promise<ProofOverrides> {
    const d = Buffer.alloc(32, 1).toString('base64url');
    return { header: { jwk: { ...connection.key.jwk, d } } };
  }

  for (const [what, overrides, says] of wrong)
    it(`the server refuses a proof with ${what}`, async () => {
      const answer = await callBound(connection, { overrides: await overrides() });
      expectRefused(answer, 'invalid_dpop_proof', says);
    });

  it('the server refuses symmetric and missing signatures, and unlisted algorithms', async () => {
    const secret = new TextEncoder().encode('x'.repeat(32));
    const claims = { jti: 'a', htm: 'POST', htu: connector.link, iat: now() };
    const oct = { kty: 'oct', k: Buffer.from(secret).toString('base64url') };
    const symmetric = await new SignJWT(claims)
      .setProtectedHeader({ alg: 'HS256', typ: 'dpop+jwt', jwk: oct })
      .sign(secret);
    const encoded = (part: object) => Buffer.from(JSON.stringify(part)).toString('base64url');
    const { jwk } = connection.key;
    const unsigned = `${encoded({ alg: 'none', typ: 'dpop+jwt', jwk })}.${encoded(claims)}.`;
    const key = await generateProofKey('RS256');
    const rsa = await createProof(key, { url: connector.link, token: connection.accessToken });
    for (const dpop of [symmetric, unsigned, rsa, 'x', 'e30.e30.c2ln', 'x'.repeat(9000)]) {
      const answer = await callBound(connection, { more: { dpop } });
      expectRefused(answer, 'invalid_dpop_proof', /DPoP/);
    }
  });

  it('the server refuses a missing proof, an empty proof, and two proofs', async () => {
    const { key, link: url, accessToken: token } = connection;
    const proofs = await Promise.all([1, 2].map(() => createProof(key, { url, token })));
    for (const sent of [[], [''], proofs, [proofs.join(', ')]]) {
      const { status, headers } = await rawRequest(system().resource, {
        method: 'POST',
        path: new URL(url).pathname,
        headers: { host: new URL(url).host, authorization: `DPoP ${token}`, dpop: sent },
        chunks: ['{}'],
      });
      expect(status).to.equal(401);
      expect(headers['www-authenticate']).to.include('error="invalid_dpop_proof"');
    }
    expect((await callBound(connection, { more: { dpop: proofs[0] ?? '' } })).status).to.equal(200);
  });

  it('AUD-11 the server refuses the proof of another key', async () => {
    const thief = { ...connection, key: await generateProofKey() };
    expectRefused(await callBound(thief), 'invalid_token', /another key/);
  });

  it('AUD-11 the server refuses a bound token as a bearer token, with or without a proof', async () => {
    const { key, link: url, accessToken: token } = connection;
    const dpop = await createProof(key, { url, token });
    for (const headers of [{}, { dpop }] as Record<string, string>[]) {
      const answer = await call(url, token, { jsonrpc: '2.0', id: 1, method: 'ping' }, { headers });
      const challenge = answer.headers.get('www-authenticate') ?? '';
      expect([answer.status, answer.rpc?.error?.message]).to.deep.equal([
        401,
        'this access token is bound to a key: send it as DPoP, with a proof signed with that key',
      ]);
      expect(challenge).to.match(/^Bearer error="invalid_token", resource_metadata="/);
      expect(challenge).to.match(new RegExp(`, DPoP ${ALGS}$`));
    }
  });

  it('AUD-11 the server refuses tokens with an unknown confirmation method, with any scheme or proof', async () => {
    const jkt = connection.key.thumbprint;
    for (const cnf of [
      {},
      { 'x5t#S256': jkt },
      { jkt, 'x5t#S256': jkt },
      { jkt: 1 },
      'x',
      null,
      [],
    ]) {
      const accessToken = await resignToken(system(), connection.accessToken, { cnf });
      expect((await callBound({ ...connection, accessToken })).status).to.equal(401);
      expect(await isAccepted(connector.link, accessToken), JSON.stringify(cnf)).to.equal(false);
    }
    const accessToken = await resignToken(system(), connection.accessToken, { cnf: { jkt } });
    expect((await callBound({ ...connection, accessToken })).status).to.equal(200);
  });

  it('the server refuses an unbound token sent as DPoP, and accepts it as Bearer', async () => {
    const { accessToken } = await connect(system(), connector);
    const answer = await callBound({ ...connection, accessToken });
    expectRefused(answer, 'invalid_token', /not bound to a key: send it as Bearer/);
    expect(await isAccepted(connector.link, accessToken)).to.equal(true);
  });

  it('the server sends a nonce to a client whose clock is wrong, and then accepts its proofs', async () => {
    const checkedAt = freezeClock();
    for (const off of [-301, -86_400, 301, 86_400]) {
      const iat = checkedAt + off;
      const asked = await callBound(connection, { overrides: about({ iat }) });
      expectRefused(asked, 'use_dpop_nonce', /nonce/);
      const nonce = asked.headers.get('dpop-nonce');
      expect(asked.headers.get('access-control-expose-headers')).to.include('DPoP-Nonce');
      const { status } = await callBound(connection, { overrides: about({ iat, nonce }) });
      expect(status, String(off)).to.equal(200);
      const strange = await callBound(connection, { overrides: about({ iat, nonce: 'made up' }) });
      expectRefused(strange, 'use_dpop_nonce', /nonce/);
    }
    for (const off of [-300, 300]) {
      const { status, headers } = await callBound(connection, {
        overrides: about({ iat: checkedAt + off }),
      });
      expect([status, headers.has('dpop-nonce')]).to.deep.equal([200, false]);
    }
  });

  it('AUD-15 the server accepts a nonce for minutes only', async () => {
    const asked = await callBound(connection, { overrides: about({ iat: 1 }) });
    const nonce = asked.headers.get('dpop-nonce');
    advanceClock(120);
    const { status } = await callBound(connection, { overrides: about({ iat: 1, nonce }) });
    expect(status).to.equal(200);
    advanceClock(180);
    const late = await callBound(connection, { overrides: about({ iat: 1, nonce }) });
    expectRefused(late, 'use_dpop_nonce', /nonce/);
  });

  it('the server refuses a replayed proof for as long as its iat is valid', async () => {
    freezeClock();
    const dpop = await createProof(
      connection.key,
      { url: connector.link, token: connection.accessToken },
      about({ iat: now() + 290 }),
    );
    expect((await callBound(connection, { more: { dpop } })).status).to.equal(200);
    advanceClock(585);
    const again = await callBound(connection, { more: { dpop } });
    expectRefused(again, 'invalid_dpop_proof', /already used/);
  });

  it('AUD-15 the server refuses a replay of a proof accepted by nonce when its future iat becomes valid', async () => {
    const asked = await callBound(connection, { overrides: about({ iat: 1 }) });
    const nonce = asked.headers.get('dpop-nonce');
    const dpop = await createProof(
      connection.key,
      { url: connector.link, token: connection.accessToken },
      about({ iat: now() + 900, nonce }),
    );
    expect((await callBound(connection, { more: { dpop } })).status).to.equal(200);
    advanceClock(900);
    const again = await callBound(connection, { more: { dpop } });
    expectRefused(again, 'use_dpop_nonce', /nonce/);
  });

  it('the server requires a proof for each method, and answers the preflight of a browser that sends one', async () => {
    const { key, link, accessToken: token } = connection;
    for (const method of ['GET', 'DELETE']) {
      const send = async (proven: string) => {
        const dpop = await createProof(key, { method: proven, url: link, token });
        const headers = { authorization: `DPoP ${token}`, dpop, accept: 'text/event-stream' };
        const { status, body } = await fetch(link, { method, headers });
        await body?.cancel();
        return status;
      };
      expect(await send('POST'), method).to.equal(401);
      expect(await send(method), method).to.not.equal(401);
    }
    const preflight = await fetch(link, {
      method: 'OPTIONS',
      headers: {
        origin: 'http://localhost:3000',
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'authorization, dpop',
      },
    });
    expect(preflight.headers.get('access-control-allow-headers')).to.match(/\bDPoP\b/);
  });

  it('the metadata lists the DPoP algorithms and does not require DPoP', async () => {
    const { pathname } = new URL(connector.link);
    for (const path of ['', pathname]) {
      const at = `${system().resource}/.well-known/oauth-protected-resource${path}`;
      const document = (await (await fetch(at)).json()) as Record<string, unknown>;
      expect(document.dpop_signing_alg_values_supported).to.deep.equal([
        'ES256',
        'Ed25519',
        'EdDSA',
      ]);
      expect(document).to.not.have.property('dpop_bound_access_tokens_required');
    }
  });
});
