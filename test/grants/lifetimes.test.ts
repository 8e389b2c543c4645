// Codes, access tokens and refresh tokens end to the second: a minute, an hour, 30 days without use, 90 days in all.
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { createConnector } from '../support/management-api.ts';
import { obtainCode, redeem } from '../support/connection.ts';
import { isAccepted } from '../support/mcp.ts';
import type { TokenResponse } from '../support/oauth.ts';
import { freezeClockAt, freezeClock } from '../support/clock.ts';
import { readStoredBytes } from '../support/stored-bytes.ts';
import { onEachStore, useSystem } from '../support/system.ts';
import { expectEnded, present, startFamily, tokensOf, rotate } from './family.ts';

const HOUR = 3600;
const DAY = 24 * HOUR;
const IDLE = 30 * DAY;
const ABSOLUTE = 90 * DAY;
const MOST_BYTES = 2048;
const BUSY_MACHINE_MS = 60_000;

function expectExpired({ status, body }: TokenResponse): void {
  expect([status, body.error]).to.deep.equal([400, 'invalid_grant']);
}

onEachStore('To the second', (system) => {
  it('a code lives for a minute', async () => {
    const connector = await createConnector(system());
    const now = freezeClock();
    const [early, late] = [
      await obtainCode(system(), connector),
      await obtainCode(system(), connector),
    ];
    freezeClockAt(now + 59);
    expect((await redeem(early)).status).to.equal(200);
    freezeClockAt(now + 60);
    expectExpired(await redeem(late));
  });

  it('an access token lives for an hour, and says so', async () => {
    const now = freezeClock();
    const family = await startFamily(system());
    const { body } = await present(family, family.refreshToken);
    expect(body.expires_in).to.equal(HOUR);
    freezeClockAt(now + HOUR - 1);
    expect(await isAccepted(family.link, body.access_token)).to.equal(true);
    freezeClockAt(now + HOUR);
    expect(await isAccepted(family.link, body.access_token)).to.equal(false);
  });

  it('a refresh token that nobody uses lives for 30 days, and each use begins them again', async () => {
    const now = freezeClock();
    const [used, unused] = [await startFamily(system()), await startFamily(system())];
    freezeClockAt(now + IDLE - 1);
    const once = await rotate(used, used.refreshToken);
    freezeClockAt(now + IDLE);
    expectExpired(await present(unused, unused.refreshToken));
    freezeClockAt(now + 2 * IDLE - 2);
    const { refreshToken } = await rotate(used, once.refreshToken);
    freezeClockAt(now + 3 * IDLE - 2);
    expectExpired(await present(used, refreshToken));
  });

  it('repeats do not make a refresh token live longer', async () => {
    const now = freezeClock();
    const family = await startFamily(system());
    const { refreshToken } = await rotate(family, family.refreshToken);
    freezeClockAt(now + 59);
    expect((await present(family, family.refreshToken)).body.refresh_token).to.equal(refreshToken);
    freezeClockAt(now + IDLE);
    expectExpired(await present(family, refreshToken));
    expectExpired(await present(family, family.refreshToken));
  });

  it('a connection lives for 90 days however often it is used, and no access token outlives it', async () => {
    const now = freezeClock();
    const end = now + ABSOLUTE;
    const family = await startFamily(system());
    let token = family.refreshToken;
    for (const at of [...daysAfter(now, 10), end - HOUR - 1, end - HOUR + 1, end - 60, end - 1]) {
      freezeClockAt(at);
      const answer = await present(family, token);
      const { body } = answer;
      const left = Math.min(HOUR, end - at);
      expect(body.expires_in).to.equal(left);
      expect(decodeJwt(body.access_token ?? '').exp).to.equal(at + left);
      expect(await isAccepted(family.link, body.access_token)).to.equal(true);
      token = tokensOf(answer).refreshToken;
    }
    const last = await rotate(family, token);
    freezeClockAt(end);
    await expectEnded(family, {
      accessTokens: [last.accessToken],
      refreshTokens: [last.refreshToken, token, family.refreshToken],
    });
  });
});

/** Seconds: every so many days, short of the 90th. */
function daysAfter(start: number, step: number): number[] {
  return Array.from({ length: 90 / step - 1 }, (_, number) => start + (number + 1) * step * DAY);
}

describe('The record of a grant', () => {
  const system = useSystem({ store: 'redis' });

  it('stays under 2 kB through a thousand refreshes', async () => {
    const now = freezeClock();
    const family = await startFamily(system());
    const [stored, ...others] = (await readStoredBytes(system().storeAddress, 'grant:')).slice(-1);
    expect(others).to.deep.equal([]);
    expect(stored?.bytes.length).to.be.within(100, MOST_BYTES);
    let token = family.refreshToken;
    for (let refreshes = 1; refreshes <= 1000; refreshes += 1) {
      freezeClockAt(now + refreshes / 10);
      token = (await rotate(family, token)).refreshToken;
      if (refreshes % 100 > 0) continue;
      for (const { bytes } of await readStoredBytes(system().storeAddress, 'grant:'))
        expect(bytes.length, `after ${refreshes}`).to.be.below(MOST_BYTES);
    }
  }).timeout(BUSY_MACHINE_MS);
});
