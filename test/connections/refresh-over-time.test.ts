// RFC 9700 section 4.14.2.
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { advanceClock, freezeClock, freezeClockAt } from '../support/clock.ts';
import type { AuthMethod } from '../support/oauth.ts';
import { type StoreKind, useSystem } from '../support/system.ts';
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
} from './token-family.ts';

const HOUR = 3600;
/** Every method and every store, but not every pair. */
const METHODS: { store: StoreKind; method: AuthMethod }[] = [
  { store: 'sqlite', method: 'client_secret_basic' },
  { store: 'redis', method: 'none' },
];

for (const { store, method } of METHODS) {
  describe(`Refresh token rotation (${method}, on ${store})`, () => {
    const system = useSystem({ store });
    const start = () => connectWithRefreshToken(system(), { method });

    it('each refresh returns a new refresh token and a new access token', async () => {
      const family = await start();
      const first = await rotate(family, family.refreshToken);
      const second = await rotate(family, first.refreshToken);
      const all = [family, first, second];
      expect(new Set(all.map(({ refreshToken }) => refreshToken)).size).to.equal(3);
      expect(new Set(all.map(({ accessToken }) => accessToken)).size).to.equal(3);
      await expectAlive(family, second);
    });

    it('REF-03 for a minute, a token one or two generations old returns the current token', async () => {
      const now = freezeClock();
      const family = await start();
      const first = await rotate(family, family.refreshToken);
      const second = await rotate(family, first.refreshToken);
      for (const seconds of [0, 1, 30, 59]) {
        freezeClockAt(now + seconds);
        for (const token of [family.refreshToken, first.refreshToken]) {
          const given = tokensOf(await present(family, token));
          expect(given.refreshToken).to.equal(second.refreshToken);
          expect(given.accessToken).to.not.equal(second.accessToken);
        }
      }
      await expectAlive(family, second);
      expect(await auditOf(system(), family.accessToken)).to.deep.equal([]);
    });

    it('REF-02 a token presented a minute after its successor was used ends the family with one audit event', async () => {
      const now = freezeClock();
      const family = await start();
      const first = await rotate(family, family.refreshToken);
      const second = await rotate(family, first.refreshToken);
      freezeClockAt(now + 66);
      const refused = await present(family, family.refreshToken);
      expect([refused.status, refused.body.error]).to.deep.equal([400, 'invalid_grant']);
      await expectEnded(family, {
        accessTokens: [family.accessToken, first.accessToken, second.accessToken],
        refreshTokens: [second.refreshToken, first.refreshToken, family.refreshToken],
      });
      await expectOneReplay(family);
    });

    it('LOG-04 eight concurrent replays of a token end the family with one audit event', async () => {
      const family = await start();
      const first = await rotate(family, family.refreshToken);
      advanceClock(61);
      const second = await rotate(family, first.refreshToken);
      const answers = await times(8, () => present(family, family.refreshToken));
      for (const { status, body } of answers)
        expect([status, body.error]).to.deep.equal([400, 'invalid_grant']);
      await expectEnded(family, {
        accessTokens: [family.accessToken, first.accessToken, second.accessToken],
        refreshTokens: [second.refreshToken],
      });
      await expectOneReplay(family);
    });

    async function replaysOf({ accessToken }: TokenFamily) {
      const items = await auditOf(system(), accessToken);
      return items.filter(({ event }) => event === 'refresh_replay');
    }

    async function expectOneReplay(family: TokenFamily): Promise<void> {
      const { sub } = decodeJwt(family.accessToken);
      const [replay, ...more] = await replaysOf(family);
      expect(more).to.deep.equal([]);
      expect(replay).to.include({ clientId: family.client.id, account: sub });
      expect(family.link).to.include(`/${replay?.connector}/`);
    }

    for (const [seconds, time] of [
      [1, 'a second'],
      [8 * HOUR, 'eight hours'],
    ] as const) {
      it(`a token whose response was lost works again after ${time}`, async () => {
        const family = await start();
        await rotate(family, family.refreshToken);
        advanceClock(seconds);
        await expectAlive(family, await rotate(family, family.refreshToken));
        expect(await auditOf(system(), family.accessToken)).to.deep.equal([]);
      });
    }

    it('a token whose response is lost repeatedly works again each time', async () => {
      const family = await start();
      for (let loss = 0; loss < 5; loss += 1) {
        await rotate(family, family.refreshToken);
        advanceClock(61);
      }
      await expectAlive(family, await rotate(family, family.refreshToken));
    });

    it('a token whose successor is unused after a minute is rotated again, and the first successor counts as replay', async () => {
      const now = freezeClock();
      const family = await start();
      const lost = await rotate(family, family.refreshToken);
      freezeClockAt(now + 60);
      const late = await rotate(family, family.refreshToken);
      expect(late.refreshToken).to.not.equal(lost.refreshToken);
      await expectAlive(family, late);
      const refused = await present(family, lost.refreshToken);
      expect([refused.status, refused.body.error]).to.deep.equal([400, 'invalid_grant']);
      await expectEnded(family, {
        accessTokens: [family.accessToken, lost.accessToken, late.accessToken],
        refreshTokens: [late.refreshToken, family.refreshToken],
      });
      expect(await replaysOf(family)).to.have.length(1);
    });
  });
}
