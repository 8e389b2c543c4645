// RFC 9449.
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { createConnector, readAudit } from '../support/management-api.ts';
import { advanceClock, freezeClock } from '../support/clock.ts';
import { obtainCode, redeem } from '../support/connection.ts';
import {
  type BoundConnection,
  callBound,
  confirmationOf,
  connectBound,
  createProof,
  generateProofKey,
  redeemBound,
  refreshBound,
  statusAndError,
} from '../support/dpop.ts';
import { isAccepted } from '../support/mcp.ts';
import { refresh } from '../support/oauth.ts';
import { onEachStore, type System, useSystem } from '../support/system.ts';

async function boundConnection(system: System): Promise<BoundConnection> {
  return connectBound(system, await createConnector(system));
}

async function endings(system: System): Promise<string[]> {
  return (await readAudit(system)).map(({ event }) => event).filter((e) => /replay|ended/.test(e));
}

describe('A client without DPoP', () => {
  const system = useSystem();

  it('AUD-11 a client without a proof gets bearer tokens and no nonce, and the metadata lists the DPoP algorithms', async () => {
    const connector = await createConnector(system());
    const code = await obtainCode(system(), connector);
    expect(code.server.dpop_signing_alg_values_supported).to.deep.equal([
      'ES256',
      'Ed25519',
      'EdDSA',
    ]);
    const first = await redeem(code);
    const second = await refresh(code.server, code.client, first.body.refresh_token);
    for (const { status, headers, body } of [first, second]) {
      expect([status, body.token_type]).to.deep.equal([200, 'Bearer']);
      expect(decodeJwt(body.access_token ?? '')).to.not.have.property('cnf');
      expect(headers.has('dpop-nonce')).to.equal(false);
      expect(await isAccepted(connector.link, body.access_token)).to.equal(true);
    }
  });
});

describe('A client with DPoP', () => {
  const system = useSystem();

  it("AUD-11 the access token and the refresh token are bound to the client's key, and refreshing works", async () => {
    const connection = await boundConnection(system());
    const { key, accessToken } = connection;
    expect(decodeJwt(accessToken).cnf).to.deep.equal({ jkt: key.thumbprint });
    expect((await callBound(connection)).status).to.equal(200);
    const refreshed = await refreshBound(connection);
    expect([refreshed.status, refreshed.body.token_type]).to.deep.equal([200, 'DPoP']);
    expect(confirmationOf(refreshed)).to.deep.equal({ jkt: key.thumbprint });
    const later = { ...connection, accessToken: refreshed.body.access_token ?? '' };
    expect((await callBound(later)).status).to.equal(200);
  });

  it('AUD-11 a refresh token with another key or none is rejected and does not affect the grant', async () => {
    const connection = await boundConnection(system());
    const thief = { ...connection, key: await generateProofKey() };
    const { server, client, refreshToken } = connection;
    const attempt = async (token: string | undefined) => {
      for (const answer of [
        await refreshBound(thief, { token }),
        await refresh(server, client, token),
        await refresh(server, client, token, { resource: 'https://elsewhere.example/' }),
      ]) {
        expect(statusAndError(answer)).to.deep.equal([400, 'invalid_grant']);
        expect(answer.body.error_description).to.match(/bound to a (different )?key/);
      }
    };
    await attempt(refreshToken);
    const second = (await refreshBound(connection)).body.refresh_token;
    await attempt(refreshToken);
    const third = (await refreshBound(connection, { token: second })).body.refresh_token;
    advanceClock(61);
    // From here on the first token is a replay, which ends the grant if it comes with the key.
    await attempt(refreshToken);
    expect(await endings(system())).to.deep.equal([]);
    expect((await refreshBound(connection, { token: third })).status).to.equal(200);
  });

  it('REF-02 a replay of a bound refresh token ends the grant', async () => {
    const connection = await boundConnection(system());
    const before = await endings(system());
    const second = (await refreshBound(connection)).body.refresh_token;
    const third = (await refreshBound(connection, { token: second })).body.refresh_token;
    advanceClock(61);
    expect(statusAndError(await refreshBound(connection))).to.deep.equal([400, 'invalid_grant']);
    expect(await endings(system())).to.deep.equal([...before, 'refresh_replay']);
    const after = await refreshBound(connection, { token: third });
    expect(statusAndError(after)).to.deep.equal([400, 'invalid_grant']);
  });

  it('COD-03 a code that is bound by dpop_jkt can be redeemed only with that key', async () => {
    const { link } = await createConnector(system());
    for (const offline of [true, false]) {
      const key = await generateProofKey();
      const parameters = { dpop_jkt: key.thumbprint };
      const options = { parameters, ...(offline ? {} : { stay: false }) };
      const code = await obtainCode(system(), { link }, options);
      const other = await generateProofKey();
      for (const answer of [await redeem(code), await redeemBound(other, code)]) {
        expect(statusAndError(answer)).to.deep.equal([400, 'invalid_grant']);
        expect(answer.body.error_description).to.match(/code is bound to a (different )?key/);
      }
      const answer = await redeemBound(key, code);
      expect([answer.status, answer.body.token_type]).to.deep.equal([200, 'DPoP']);
      expect(answer.body.refresh_token !== undefined).to.equal(offline);
      advanceClock(2);
      // A second use with the key ends the grant; without the key it does not.
      await redeem(code);
      await redeemBound(other, code);
      const bound = { key, link, accessToken: answer.body.access_token ?? '' };
      expect((await callBound(bound)).status).to.equal(200);
      await redeemBound(key, code);
      expect((await callBound(bound)).status).to.equal(401);
    }
  });
});

onEachStore('Concurrent requests with DPoP', (system) => {
  it('REF-03 a concurrent, repeated or late refresh returns the same successor', async () => {
    const connection = await boundConnection(system());
    const racing = await Promise.all(Array.from({ length: 10 }, () => refreshBound(connection)));
    racing.push(await refreshBound(connection));
    expect(new Set(racing.map(({ status }) => status))).to.deep.equal(new Set([200]));
    expect(new Set(racing.map(({ body }) => body.refresh_token)).size).to.equal(1);
    advanceClock(61);
    const late = await refreshBound(connection);
    expect(late.status).to.equal(200);
    expect(late.body.refresh_token).to.not.equal(racing[0]?.body.refresh_token);
    expect(await endings(system())).to.deep.equal([]);
  });

  it('AUD-13 a reused proof is rejected and does not consume the refresh token', async () => {
    const connection = await boundConnection(system());
    const proof = await createProof(connection.key, { url: connection.server.token_endpoint });
    const answers = await Promise.all(
      Array.from({ length: 5 }, () => refreshBound(connection, { proof })),
    );
    expect(answers.filter(({ status }) => status === 200)).to.have.length(1);
    for (const answer of answers.filter(({ status }) => status !== 200)) {
      expect(statusAndError(answer)).to.deep.equal([400, 'invalid_dpop_proof']);
      expect(answer.body.error_description).to.match(/already used/);
    }
    expect((await refreshBound(connection)).status).to.equal(200);
  });

  it('a reused proof is rejected without consuming the code, and a new proof redeems the code once', async () => {
    const earlier = await boundConnection(system());
    const { key, client, server, link } = earlier;
    for (const stay of [true, false]) {
      const proof = await createProof(key, { url: server.token_endpoint });
      expect((await refreshBound(earlier, { proof })).status).to.equal(200);
      const code = await obtainCode(system(), { link }, { as: { client }, stay });
      const again = await redeemBound(key, code, proof);
      expect(statusAndError(again)).to.deep.equal([400, 'invalid_dpop_proof']);
      freezeClock();
      const racing = await Promise.all([1, 2, 3].map(() => redeemBound(key, code)));
      const [redeemed, ...others] = racing.filter(({ status }) => status === 200);
      expect(others).to.deep.equal([]);
      expect(redeemed?.body.refresh_token !== undefined).to.equal(stay);
      const accessToken = redeemed?.body.access_token ?? '';
      expect((await callBound({ key, link, accessToken })).status).to.equal(200);
    }
  });
});
