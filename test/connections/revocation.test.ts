// RFC 7009.
import { expect } from 'chai';
import type { GrantRecord } from '../../src/connections/grant-record.ts';
import { findGrant } from '../../src/connections/grants.ts';
import { createOpaqueToken } from '../../src/connections/opaque-token.ts';
import { registerClient } from '../support/connection.ts';
import { isAccepted } from '../support/mcp.ts';
import type { AuthMethod } from '../support/oauth.ts';
import { openSystemStore } from '../support/system-store.ts';
import { onEachStore, type StoreKind, useSystem } from '../support/system.ts';
import {
  postToken,
  type Credentials,
  type TokenEndpointResponse,
} from '../support/token-endpoints.ts';
import { advanceClock } from '../support/clock.ts';
import {
  auditOf,
  expectAlive,
  expectEnded,
  type TokenFamily,
  present,
  connectWithRefreshToken,
  times,
  tokensOf,
  rotate,
  untilNoticed,
} from './token-family.ts';

const HINTS = [undefined, 'access_token', 'refresh_token', 'unknown'];
/** The store cannot matter for the hint. */
const hintsOn = (store: StoreKind) => (store === 'sqlite' ? HINTS : [undefined]);
const METHODS: AuthMethod[] = ['none', 'client_secret_basic', 'client_secret_post'];
/** The store cannot matter for the method either. */
const methodsOn = (store: StoreKind) => (store === 'sqlite' ? METHODS : METHODS.slice(0, 1));

function revoke(
  { server, client }: Pick<TokenFamily, 'server' | 'client'>,
  token: string | undefined,
  { hint, as = client }: { hint?: string | undefined; as?: Credentials } = {},
): Promise<TokenEndpointResponse> {
  return postToken(server.revocation_endpoint, as, token, hint);
}

/** RFC 7009 section 2.2: the response is the same whether or not a token was revoked. */
function expectAccepted({ status, headers, text }: TokenEndpointResponse): void {
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

function untilRefused({ link }: TokenFamily, token: string): Promise<void> {
  return untilNoticed('the token to be refused', async () => !(await isAccepted(link, token)));
}

onEachStore('Revocation of a refresh token', (system, store) => {
  for (const method of methodsOn(store))
    for (const hint of method === 'none' ? hintsOn(store) : [undefined])
      it(`REF-06 revoking a refresh token ends the grant (${method}, hint ${hint ?? 'absent'})`, async () => {
        const family = await connectWithRefreshToken(system(), { method });
        const next = await rotate(family, family.refreshToken);
        for (const { accessToken } of [family, next])
          expect(await isAccepted(family.link, accessToken)).to.equal(true);
        expectAccepted(await revoke(family, next.refreshToken, { hint }));
        for (const { accessToken } of [family, next]) await untilRefused(family, accessToken);
        await expectEnded(family, {
          accessTokens: [],
          refreshTokens: [next.refreshToken, family.refreshToken],
        });
        expectAccepted(await revoke(family, next.refreshToken, { hint }));
        const [ended, ...more] = await auditOf(system(), family.accessToken);
        expect(ended).to.include({ event: 'grant_ended', clientId: family.client.id });
        expect(more).to.deep.equal([]);
      });

  it('revoking a refresh token of an older generation ends the grant', async () => {
    for (const seconds of [0, 61]) {
      const family = await connectWithRefreshToken(system());
      const next = await rotate(family, family.refreshToken);
      advanceClock(seconds);
      expectAccepted(await revoke(family, family.refreshToken));
      await untilRefused(family, next.accessToken);
      await expectEnded(family, { accessTokens: [], refreshTokens: [next.refreshToken] });
    }
  });

  it('revoking a refresh token that begins like a JWT ends the grant', async () => {
    const family = await connectWithRefreshToken(system());
    const refreshToken = await renameGrant(family.refreshToken, (id) => `ey${id.slice(2)}`);
    const next = await rotate(family, refreshToken);
    expectAccepted(await revoke(family, next.refreshToken));
    await expectEnded(family, { accessTokens: [next.accessToken], refreshTokens: [refreshToken] });
  });

  /** Stores a copy of the grant under another id. Returns the refresh token for the copy. */
  async function renameGrant(refreshToken: string, rename: (id: string) => string) {
    const { store } = await openSystemStore(system());
    const [id = ''] = refreshToken.split('~');
    const found = await findGrant(store, id);
    if (!found) throw new Error('the grant was not found');
    const copy: GrantRecord = JSON.parse(JSON.stringify(found.value).replaceAll(id, rename(id)));
    await store.add(`grant:${rename(id)}`, copy, 3600);
    await store.close();
    return createOpaqueToken(store.keyRing('codes and refresh tokens'), rename(id), 0, copy.seed);
  }

  it('eight concurrent revocations of a refresh token are recorded once', async () => {
    const family = await connectWithRefreshToken(system());
    (await times(8, () => revoke(family, family.refreshToken))).forEach(expectAccepted);
    expect(await auditOf(system(), family.accessToken)).to.have.length(1);
  });
});

onEachStore('Revocation of an access token', (system, store) => {
  for (const hint of hintsOn(store))
    it(`SUP-04 REF-06 revoking an access token ends that token only (hint ${hint ?? 'absent'})`, async () => {
      const family = await connectWithRefreshToken(system());
      const next = await rotate(family, family.refreshToken);
      expect(await isAccepted(family.link, next.accessToken)).to.equal(true);
      expectAccepted(await revoke(family, next.accessToken, { hint }));
      await untilRefused(family, next.accessToken);
      expect(await isAccepted(family.link, family.accessToken)).to.equal(true);
      await expectAlive(family, tokensOf(await present(family, next.refreshToken)));
      expect(await isAccepted(family.link, next.accessToken)).to.equal(false);
      expect(await auditOf(system(), family.accessToken)).to.deep.equal([]);
    });

  /** A limit of the grant record, for which the store cannot matter. */
  if (store !== 'sqlite') return;

  it('revoking fifty access tokens keeps the grant, and revoking one more ends it', async () => {
    const family = await connectWithRefreshToken(system());
    const { refreshToken } = await rotate(family, family.refreshToken);
    const revokeAnother = async () => {
      const { accessToken } = tokensOf(await present(family, family.refreshToken));
      expectAccepted(await revoke(family, accessToken));
    };
    for (let count = 0; count < 50; count += 1) await revokeAnother();
    expect(await isAccepted(family.link, family.accessToken)).to.equal(true);
    await revokeAnother();
    await untilRefused(family, family.accessToken);
    await expectEnded(family, { accessTokens: [], refreshTokens: [refreshToken] });
    const [ended, ...more] = await auditOf(system(), family.accessToken);
    expect(ended).to.include({ event: 'grant_ended', clientId: family.client.id });
    expect(more).to.deep.equal([]);
  });
});

describe('The revocation endpoint', () => {
  const system = useSystem();
  it('REF-06 a token of another client gets 200 and is not revoked', async () => {
    const family = await connectWithRefreshToken(system());
    const otherClients = [
      await registerClient(family.server),
      await registerClient(family.server, 'client_secret_basic'),
    ];
    const next = await rotate(family, family.refreshToken);
    for (const as of otherClients)
      for (const hint of HINTS)
        for (const token of [next.accessToken, next.refreshToken, family.refreshToken])
          expectAccepted(await revoke(family, token, { as, hint }));
    await expectAlive(family, next);
  });

  it('an invalid token gets 200 and ends no grant', async () => {
    const family = await connectWithRefreshToken(system());
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
      for (const hint of HINTS) expectAccepted(await revoke(family, token, { hint }));
    await expectAlive(family, family);
  });

  it('a request without a token or with two gets invalid_request', async () => {
    const { server, client } = await connectWithRefreshToken(system());
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
    it(`a confidential client (${method}) must authenticate to revoke a token`, async () => {
      const family = await connectWithRefreshToken(system(), { method });
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
