// RFC 9449.
import { expect } from 'chai';
import { createConnector } from '../support/management-api.ts';
import { advanceClock, freezeClock } from '../support/clock.ts';
import { connect, obtainCode, redeem, registerClient } from '../support/connection.ts';
import {
  type BoundConnection,
  confirmationOf,
  connectBound,
  createProof,
  generateProofKey,
  type ProofKey,
  type ProofOverrides,
  redeemBound,
  refreshBound,
  statusAndError,
} from '../support/dpop.ts';
import {
  authenticated,
  discover,
  refresh,
  register,
  type TokenResponse,
} from '../support/oauth.ts';
import { useSystem } from '../support/system.ts';

const now = () => Math.floor(Date.now() / 1000);

describe('DPoP at the token endpoint', () => {
  const system = useSystem();
  let connection: BoundConnection;
  before(async () => {
    connection = await connectBound(system(), await createConnector(system()));
  });

  const about = (claims: Record<string, unknown>): ProofOverrides => ({ claims });
  const wrong: [string, () => ProofOverrides | Promise<ProofOverrides>][] = [
    ['another method', () => about({ htm: 'GET' })],
    ['another address', () => about({ htu: `${system().auth}/oauth/revoke` })],
    ['the address of another host', () => about({ htu: 'https://evil.example/oauth/token' })],
    ['no address', () => about({ htu: undefined })],
    ['no jti', () => about({ jti: undefined })],
    ['no iat', () => about({ iat: undefined })],
    ['another type', () => ({ header: { typ: 'JWT' } })],
    ['no key', () => ({ header: { jwk: undefined } })],
    ['another key than signed', async () => ({ header: { jwk: (await generateProofKey()).jwk } })],
    ['a private key', () => ({ header: { jwk: { ...connection.key.jwk, d: 'AQ' } } })],
  ];

  async function tried(key: ProofKey, overrides: ProofOverrides = {}): Promise<TokenResponse> {
    const proof = await createProof(key, { url: connection.server.token_endpoint }, overrides);
    return refreshBound(connection, { proof });
  }

  for (const [what, overrides] of wrong)
    it(`a proof with ${what} is rejected, and the refresh token is not consumed`, async () => {
      const answer = await tried(connection.key, await overrides());
      expect(statusAndError(answer)).to.deep.equal([400, 'invalid_dpop_proof']);
      expect(answer.body.error_description).to.match(/DPoP/);
      const { refreshToken } = connection;
      const good = await refreshBound(connection);
      expect([good.status, refreshToken]).to.deep.equal([200, connection.refreshToken]);
    });

  it('unsupported algorithms, two proofs and malformed proofs are rejected', async () => {
    const rsa = await generateProofKey('RS256');
    expect(statusAndError(await tried(rsa))).to.deep.equal([400, 'invalid_dpop_proof']);
    const good = await createProof(connection.key, { url: connection.server.token_endpoint });
    for (const proof of [`${good}, ${good}`, 'x', 'e30.e30.c2ln']) {
      const answer = await refreshBound(connection, { proof });
      expect(statusAndError(answer)).to.deep.equal([400, 'invalid_dpop_proof']);
    }
    expect((await refreshBound(connection, { proof: good })).status).to.equal(200);
  });

  it('AUD-16 the expected htu does not depend on request headers', async () => {
    const { server, client, refreshToken, key } = connection;
    const proof = await createProof(key, { url: 'https://evil.example/oauth/token' });
    const { headers, body } = authenticated(client, {
      grant_type: 'refresh_token',
      refresh_token: refreshToken,
    });
    const answer = await fetch(server.token_endpoint, {
      method: 'POST',
      headers: {
        ...headers,
        dpop: proof,
        'x-forwarded-host': 'evil.example',
        'x-forwarded-proto': 'https',
        forwarded: 'host=evil.example;proto=https',
      },
      body,
    });
    const { error } = (await answer.json()) as { error: string };
    expect([answer.status, error]).to.deep.equal([400, 'invalid_dpop_proof']);
  });

  it('a client with a wrong clock is asked for a nonce in a header that browsers may read, and others are not', async () => {
    const right = await tried(connection.key);
    expect([right.status, right.headers.has('dpop-nonce')]).to.deep.equal([200, false]);
    for (const off of [-4000, 4000]) {
      const iat = now() + off;
      const asked = await tried(connection.key, about({ iat }));
      expect(statusAndError(asked)).to.deep.equal([400, 'use_dpop_nonce']);
      expect(asked.headers.get('access-control-expose-headers')).to.include('DPoP-Nonce');
      const nonce = asked.headers.get('dpop-nonce');
      const answered = await tried(connection.key, about({ iat, nonce }));
      expect(answered.status).to.equal(200);
    }
    const strange = await tried(connection.key, about({ nonce: 'made up' }));
    expect(statusAndError(strange)).to.deep.equal([400, 'use_dpop_nonce']);
  });

  it('a used proof is remembered until it expires', async () => {
    freezeClock();
    const overrides = about({ iat: now() + 290 });
    const proof = await createProof(
      connection.key,
      { url: connection.server.token_endpoint },
      overrides,
    );
    expect((await refreshBound(connection, { proof })).status).to.equal(200);
    advanceClock(585);
    const again = await refreshBound(connection, { proof });
    expect(statusAndError(again)).to.deep.equal([400, 'invalid_dpop_proof']);
  });

  it('a preflight with a DPoP header is answered', async () => {
    const { headers } = await fetch(connection.server.token_endpoint, {
      method: 'OPTIONS',
      headers: { origin: 'https://app.example', 'access-control-request-headers': 'dpop' },
    });
    expect(headers.get('access-control-allow-headers')).to.match(/\bDPoP\b/);
  });

  it('a confidential client may refresh with any key or none, because its refresh token is bound to the secret', async () => {
    const { link } = await createConnector(system());
    const bound = await connectBound(system(), { link }, { method: 'client_secret_basic' });
    const other = await generateProofKey();
    const answer = await refreshBound({ ...bound, key: other });
    expect(confirmationOf(answer)).to.deep.equal({ jkt: other.thumbprint });
    const plain = await refresh(bound.server, bound.client, answer.body.refresh_token);
    expect([plain.status, plain.body.token_type]).to.deep.equal([200, 'Bearer']);
  });

  it('an existing client gets bound access tokens once it sends a proof', async () => {
    const connector = await createConnector(system());
    const { refreshToken, ...before } = await connect(system(), connector);
    const key = await generateProofKey();
    const answer = await refreshBound({ ...before, key, refreshToken });
    expect(confirmationOf(answer)).to.deep.equal({ jkt: key.thumbprint });
    const plain = await refresh(before.server, before.client, answer.body.refresh_token);
    expect([plain.status, plain.body.token_type]).to.deep.equal([200, 'Bearer']);
  });

  it('AUD-11 a client that registered dpop_bound_access_tokens gets no bearer tokens', async () => {
    const { link } = await createConnector(system());
    const { server } = await discover(link);
    const metadata = { redirect_uris: ['http://127.0.0.1:7070/callback'] };
    const wish = { dpop_bound_access_tokens: true, token_endpoint_auth_method: 'none' };
    const { status, body } = await register(server, { ...metadata, ...wish });
    expect([status, body.dpop_bound_access_tokens]).to.deep.equal([201, true]);
    const client = { ...(await registerClient(server)), id: body.client_id ?? '' };
    const code = await obtainCode(system(), { link }, { as: { client } });
    expect(statusAndError(await redeem(code))).to.deep.equal([400, 'invalid_grant']);
    const answer = await redeemBound(await generateProofKey(), code);
    expect([answer.status, answer.body.token_type]).to.deep.equal([200, 'DPoP']);
    for (const other of [false, 'yes', 1, null]) {
      const registered = await register(server, { ...metadata, dpop_bound_access_tokens: other });
      expect(registered.status).to.equal(201);
      expect(registered.body).to.not.have.property('dpop_bound_access_tokens');
    }
  });

  it('an authorization request with a malformed dpop_jkt is refused', async () => {
    const { link } = await createConnector(system());
    const parameters = { dpop_jkt: 'x' };
    const refused = await obtainCode(system(), { link }, { parameters }).catch(String);
    expect(refused).to.match(/400/);
  });
});
