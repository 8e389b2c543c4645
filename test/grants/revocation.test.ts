// Revocation (RFC 7009): a refresh token takes the whole connection with it, an access token only itself, and nobody ends what is not theirs.
import { expect } from 'chai';
import type { GrantRecord } from '../../src/grants/grant-record.ts';
import { findGrant } from '../../src/grants/grants.ts';
import { createOpaqueToken } from '../../src/grants/opaque-token.ts';
import { keyRing } from '../../src/keys/key-ring.ts';
import { registerClient } from '../support/connection.ts';
import { isAccepted } from '../support/mcp.ts';
import type { AuthMethod } from '../support/oauth.ts';
import { openSystemStore } from '../support/system-store.ts';
import { onEachStore } from '../support/system.ts';
import {
  postToken,
  type Credentials,
  type TokenEndpointResponse,
} from '../support/token-endpoints.ts';
import { until } from '../store/condition.ts';
import { advanceClock } from '../support/clock.ts';
import {
  auditOf,
  expectAlive,
  expectEnded,
  type Family,
  present,
  startFamily,
  times,
  tokensOf,
  rotate,
} from './family.ts';

const HINTS = [undefined, 'access_token', 'refresh_token', 'unheard-of'];
const METHODS: AuthMethod[] = ['none', 'client_secret_basic', 'client_secret_post'];

function revoke(
  { server, client }: Pick<Family, 'server' | 'client'>,
  token: string | undefined,
  { hint, as = client }: { hint?: string | undefined; as?: Credentials } = {},
): Promise<TokenEndpointResponse> {
  return postToken(server.revocation_endpoint, as, token, hint);
}

/** RFC 7009 section 2.2: whether it did anything is nobody's business. */
function expectDone({ status, headers, text }: TokenEndpointResponse): void {
  expect([status, text]).to.deep.equal([200, '']);
  expect(headers.get('cache-control')).to.equal('no-store');
}

function expectError(
  { status, headers, text }: TokenEndpointResponse,
  expected: [number, string],
): void {
  expect([status, JSON.parse(text).error]).to.deep.equal(expected);
  expect(headers.get('cache-control')).to.equal('no-store');
}

/** Well before a resource server would read the grant again by itself, which it does every ten seconds. */
function untilShutOut({ link }: Family, token: string): Promise<true> {
  return until(
    'the token is no longer let in',
    async () => !(await isAccepted(link, token)),
    3,
  ) as Promise<true>;
}

onEachStore('Revoking a refresh token', (system) => {
  for (const method of METHODS)
    for (const hint of method === 'none' ? HINTS : [undefined])
      it(`ends the connection (${method}, hint ${hint ?? 'absent'})`, async () => {
        const family = await startFamily(system(), { method });
        const next = await rotate(family, family.refreshToken);
        for (const { accessToken } of [family, next])
          expect(await isAccepted(family.link, accessToken)).to.equal(true);
        expectDone(await revoke(family, next.refreshToken, { hint }));
        for (const { accessToken } of [family, next]) await untilShutOut(family, accessToken);
        await expectEnded(family, {
          accessTokens: [],
          refreshTokens: [next.refreshToken, family.refreshToken],
        });
        expectDone(await revoke(family, next.refreshToken, { hint }));
        const [ended, ...more] = await auditOf(system(), family.accessToken);
        expect(ended).to.include({ event: 'grant_ended', clientId: family.client.id });
        expect(more).to.deep.equal([]);
      });

  it('of an older generation ends the connection too, repeated or late', async () => {
    for (const seconds of [0, 61]) {
      const family = await startFamily(system());
      const next = await rotate(family, family.refreshToken);
      advanceClock(seconds);
      expectDone(await revoke(family, family.refreshToken));
      await untilShutOut(family, next.accessToken);
      await expectEnded(family, { accessTokens: [], refreshTokens: [next.refreshToken] });
    }
  });

  it('ends the connection also when the token begins like a JWT', async () => {
    const family = await startFamily(system());
    const refreshToken = await renameGrant(family.refreshToken, (id) => `ey${id.slice(2)}`);
    const next = await rotate(family, refreshToken);
    expectDone(await revoke(family, next.refreshToken));
    await expectEnded(family, { accessTokens: [next.accessToken], refreshTokens: [refreshToken] });
  });

  /** A copy of the grant under another id, as if that one had been drawn, and the refresh token for it. */
  async function renameGrant(refreshToken: string, rename: (id: string) => string) {
    const { store, secret } = await openSystemStore(system());
    const [id = ''] = refreshToken.split('~');
    const found = await findGrant(store, id);
    if (!found) throw new Error('the grant is not in the store');
    const copy: GrantRecord = JSON.parse(JSON.stringify(found.value).replaceAll(id, rename(id)));
    await store.add(`grant:${rename(id)}`, copy, 3600);
    await store.close();
    return createOpaqueToken(
      keyRing({ secret }, 'codes and refresh tokens'),
      rename(id),
      0,
      copy.seed,
    );
  }

  it('eight times at once is recorded once', async () => {
    const family = await startFamily(system());
    (await times(8, () => revoke(family, family.refreshToken))).forEach(expectDone);
    expect(await auditOf(system(), family.accessToken)).to.have.length(1);
  });
});

onEachStore('Revoking an access token', (system) => {
  for (const hint of HINTS)
    it(`ends that token and nothing else (hint ${hint ?? 'absent'})`, async () => {
      const family = await startFamily(system());
      const next = await rotate(family, family.refreshToken);
      expect(await isAccepted(family.link, next.accessToken)).to.equal(true);
      expectDone(await revoke(family, next.accessToken, { hint }));
      await untilShutOut(family, next.accessToken);
      expect(await isAccepted(family.link, family.accessToken)).to.equal(true);
      await expectAlive(family, tokensOf(await present(family, next.refreshToken)));
      expect(await isAccepted(family.link, next.accessToken)).to.equal(false);
      expect(await auditOf(system(), family.accessToken)).to.deep.equal([]);
    });

  it('fifty times leaves the connection, and once more ends it', async () => {
    const family = await startFamily(system());
    const { refreshToken } = await rotate(family, family.refreshToken);
    const revokeAnother = async () => {
      const { accessToken } = tokensOf(await present(family, family.refreshToken));
      expectDone(await revoke(family, accessToken));
    };
    for (let count = 0; count < 50; count += 1) await revokeAnother();
    expect(await isAccepted(family.link, family.accessToken)).to.equal(true);
    await revokeAnother();
    await untilShutOut(family, family.accessToken);
    await expectEnded(family, { accessTokens: [], refreshTokens: [refreshToken] });
    const [ended, ...more] = await auditOf(system(), family.accessToken);
    expect(ended).to.include({ event: 'grant_ended', clientId: family.client.id });
    expect(more).to.deep.equal([]);
  });
});

onEachStore('Revoking', (system) => {
  it('what belongs to another client is answered like anything else and ends nothing', async () => {
    const family = await startFamily(system());
    const strangers = [
      await registerClient(family.server),
      await registerClient(family.server, 'client_secret_basic'),
    ];
    const next = await rotate(family, family.refreshToken);
    for (const as of strangers)
      for (const hint of HINTS)
        for (const token of [next.accessToken, next.refreshToken, family.refreshToken])
          expectDone(await revoke(family, token, { as, hint }));
    await expectAlive(family, next);
  });

  it('what is not a token is answered like anything else and ends nothing', async () => {
    const family = await startFamily(system());
    const [grant, , mac] = family.refreshToken.split('~');
    const [header, payload, signature = ''] = family.accessToken.split('.');
    const forged = [
      'x',
      'a.b.c',
      '~~',
      `${btoa('{\n  "alg": "none"\n}')}.${payload}.`,
      `${btoa('{"alg":"none"}')}.${payload}.`,
      `${header}.${payload}.${signature.slice(0, -4)}AAAA`,
      `${header}.${payload}`,
      `jwt~${family.accessToken.replaceAll('.', '~')}x`,
      `${grant}`,
      `${grant}~${mac}`,
      `${grant}~1~${mac}`,
      `${grant}~00~${mac}`,
      `${family.refreshToken}\n`,
      family.refreshToken + 'x'.repeat(5000),
    ];
    for (const token of forged)
      for (const hint of HINTS) expectDone(await revoke(family, token, { hint }));
    await expectAlive(family, family);
  });

  it('without a token, or with two, is an invalid request', async () => {
    const { server, client } = await startFamily(system());
    expectError(await revoke({ server, client }, undefined), [400, 'invalid_request']);
    const response = await fetch(server.revocation_endpoint, {
      method: 'POST',
      body: new URLSearchParams([
        ['client_id', client.id],
        ['token', 'x'],
        ['token', 'y'],
      ]),
    });
    const { status, headers } = response;
    expectError({ status, headers, text: await response.text() }, [400, 'invalid_request']);
  });

  for (const method of METHODS.slice(1))
    it(`takes a confidential client (${method}) that proves who it is`, async () => {
      const family = await startFamily(system(), { method });
      const impostors: Credentials[] = [
        { ...family.client, method: 'none' },
        { ...family.client, secret: 'wrong' },
        { id: 'nobody', method: 'none' },
      ];
      for (const as of impostors)
        for (const token of [family.accessToken, family.refreshToken])
          expectError(await revoke(family, token, { as }), [401, 'invalid_client']);
      const anonymous = await postToken(
        family.server.revocation_endpoint,
        undefined,
        family.refreshToken,
      );
      expect(anonymous.status).to.be.within(400, 401);
      await expectAlive(family, family);
    });
});
