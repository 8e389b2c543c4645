// RFC 6749 section 6, RFC 8707.
import { expect } from 'chai';
import { createConnector } from '../support/management-api.ts';
import { advanceClock } from '../support/clock.ts';
import { connect, registerClient } from '../support/connection.ts';
import { type Client, refresh, type TokenResponse } from '../support/oauth.ts';
import { readStoredBytes } from '../support/stored-bytes.ts';
import { useSystem } from '../support/system.ts';
import {
  auditOf,
  expectAlive,
  type TokenFamily,
  present,
  connectWithRefreshToken,
  tokensOf,
  rotate,
} from './token-family.ts';

/** Forged tokens from valid ones of the form `<grant>~<generation>~<MAC>`. */
function forgeries(old: string, current: string, foreign: string): Record<string, string> {
  const [grant = '', generation = '', mac = ''] = current.split('~');
  const [, oldGeneration, oldMac] = old.split('~');
  const [foreignGrant, , foreignMac] = foreign.split('~');
  const flipped = `${mac.startsWith('A') ? 'B' : 'A'}${mac.slice(1)}`;
  return {
    'a wrong MAC': `${grant}~${generation}~${flipped}`,
    'a wrong MAC and an old generation': `${grant}~${oldGeneration}~${flipped}`,
    'the MAC of an older generation': `${grant}~${generation}~${oldMac}`,
    'the MAC of a newer generation': `${grant}~${oldGeneration}~${mac}`,
    'the MAC of another grant': `${grant}~${generation}~${foreignMac}`,
    'the id of another grant': `${foreignGrant}~${generation}~${mac}`,
    'a generation with leading zeros': `${grant}~00${generation}~${mac}`,
    'an old generation with leading zeros': `${grant}~00${oldGeneration}~${oldMac}`,
    'the next generation': `${grant}~${Number(generation) + 1}~${mac}`,
    'a generation far ahead': `${grant}~999999999~${mac}`,
    'a generation beyond safe integers': `${grant}~9007199254740993~${mac}`,
    'a negative generation': `${grant}~-1~${mac}`,
    'no generation': `${grant}~${mac}`,
    'another encoding of the MAC': `${grant}~${generation}~${mac.slice(0, -1)}${otherEncoding(mac)}`,
    'a padded MAC': `${current}=`,
    'a newline at the end': `${current}\n`,
    'a newline before': `\n${current}`,
    'a space at the end': `${current} `,
    'a NUL at the end': `${current}\0`,
    '5 kB more': current + 'x'.repeat(5 * 1024),
    '5 kB of generation': `${grant}~${'1'.repeat(5 * 1024)}~${mac}`,
  };
}

/** 43 base64url letters hold two bits more than 32 bytes, so four last letters decode to the same bytes. */
function otherEncoding(mac: string): string {
  const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
  return letters[letters.indexOf(mac.slice(-1)) ^ 1] ?? '';
}

type Attempt = { what: string; send: () => Promise<TokenResponse> };

describe('A refused refresh', () => {
  const system = useSystem();

  const storedGrants = () => readStoredBytes(system().storeAddress, 'grant:');

  /** Expects refusals with `error` that change nothing in the store. */
  async function expectRefusedUnchanged(error: string, attempts: Attempt[]): Promise<void> {
    const before = await storedGrants();
    expect(before).to.not.deep.equal([]);
    for (const { what, send } of attempts) {
      const { status, body } = await send();
      expect([status, body.error], what).to.deep.equal([
        error === 'invalid_client' ? 401 : 400,
        error,
      ]);
      expect(body).to.not.have.any.keys('access_token', 'refresh_token');
    }
    expect(await storedGrants()).to.deep.equal(before);
  }

  async function expectStillActive(family: TokenFamily, current: string): Promise<void> {
    await expectAlive(family, tokensOf(await present(family, current)));
    expect(await auditOf(system(), family.accessToken)).to.deep.equal([]);
  }

  it('REF-01 forged tokens are refused and change no grant, also with the id of a real grant', async () => {
    const family = await connectWithRefreshToken(system());
    const foreign = await connectWithRefreshToken(system());
    const { refreshToken: current } = await rotate(family, family.refreshToken);
    const forged = Object.entries(forgeries(family.refreshToken, current, foreign.refreshToken));
    for (const minutesLater of [0, 2]) {
      advanceClock(minutesLater * 60);
      await expectRefusedUnchanged(
        'invalid_grant',
        forged.map(([what, token]) => ({ what, send: () => present(family, token) })),
      );
    }
    await expectStillActive(family, current);
    await expectStillActive(foreign, foreign.refreshToken);
  });

  it("REF-01 another client's refresh is refused and changes nothing, with a current and with an old token", async () => {
    const family = await connectWithRefreshToken(system());
    const { refreshToken: parent } = await rotate(family, family.refreshToken);
    const { refreshToken: current } = await rotate(family, parent);
    const otherClients = [
      await registerClient(family.server),
      await registerClient(family.server, 'client_secret_basic'),
    ];
    for (const minutesLater of [0, 2]) {
      advanceClock(minutesLater * 60);
      const attempts = otherClients.flatMap((client) =>
        [current, parent, family.refreshToken].flatMap((token) =>
          [undefined, 'x'].map((resource) => ({
            what: `${client.method}, ${minutesLater} min`,
            send: () => refresh(family.server, client, token, { resource }),
          })),
        ),
      );
      await expectRefusedUnchanged('invalid_grant', attempts);
    }
    await expectStillActive(family, current);
  });

  it('a refresh with failed client authentication changes nothing', async () => {
    const family = await connectWithRefreshToken(system(), { method: 'client_secret_basic' });
    const { refreshToken: parent } = await rotate(family, family.refreshToken);
    const { refreshToken: current } = await rotate(family, parent);
    const { client, server } = family;
    const impostors: Client[] = [
      { ...client, method: 'none' },
      { ...client, secret: 'wrong' },
      { ...client, secret: `${client.secret}x` },
    ];
    advanceClock(61);
    const attempts = impostors.flatMap((impostor) =>
      [current, family.refreshToken].map((token) => ({
        what: `${impostor.method}, ${impostor.secret}`,
        send: () => refresh(server, impostor, token),
      })),
    );
    await expectRefusedUnchanged('invalid_client', attempts);
    await expectStillActive(family, current);
  });

  it('REF-05 a refresh that names another resource changes nothing', async () => {
    const family = await connectWithRefreshToken(system());
    const { link: other } = await createConnector(system());
    const { refreshToken: current } = await rotate(family, family.refreshToken);
    const { resource } = system();
    const wrong = [
      other,
      resource,
      `${resource}/mcp`,
      `${family.link}/x`,
      `${family.link}?x`,
      'x',
      [family.link, other],
    ];
    for (const minutesLater of [0, 2]) {
      advanceClock(minutesLater * 60);
      const attempts = wrong.flatMap((value) =>
        [current, family.refreshToken].map((token) => ({
          what: String(value),
          send: () => present(family, token, { resource: value }),
        })),
      );
      await expectRefusedUnchanged('invalid_target', attempts);
    }
    await expectStillActive(family, current);
  });
});

describe('The scope parameter of a refresh', () => {
  const system = useSystem();

  it('REF-05 a narrower scope applies to one access token, and the next has the full scope', async () => {
    const family = await connect(system(), await createConnector(system()));
    const wishes = [
      ['analytics', 'analytics offline_access'],
      [undefined, 'operations offline_access'],
      ['analytics offline_access', 'analytics offline_access'],
      ['operations', 'operations offline_access'],
      ['analytics unknown', 'analytics offline_access'],
      ['offline_access', 'operations offline_access'],
      ['unknown', 'operations offline_access'],
    ];
    let token = family.refreshToken;
    for (const [scope, given] of wishes) {
      const { status, body } = await present(family, token, { scope });
      expect([status, body.scope], scope).to.deep.equal([200, given]);
      token = body.refresh_token;
    }
  });

  it('a scope beyond the grant gets the scope of the grant', async () => {
    const connector = await createConnector(system(), { level: 'full' });
    const family = await connect(system(), connector, { level: 'operations' });
    let token = family.refreshToken;
    for (const scope of ['full', 'analytics operations admin full offline_access', 'admin']) {
      const { status, body } = await present(family, token, { scope });
      expect([status, body.scope], scope).to.deep.equal([200, 'operations offline_access']);
      token = body.refresh_token;
    }
  });
});
