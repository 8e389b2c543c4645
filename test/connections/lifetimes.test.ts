import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { createConnector } from '../support/management-api.ts';
import { obtainCode, redeem } from '../support/connection.ts';
import { isAccepted } from '../support/mcp.ts';
import type { TokenResponse } from '../support/oauth.ts';
import { freezeClockAt, freezeClock } from '../support/clock.ts';
import { recordSoak, SOAK } from '../support/soak.ts';
import { readStoredBytes } from '../support/stored-bytes.ts';
import { onEachStore, useSystem } from '../support/system.ts';
import { expectEnded, present, connectWithRefreshToken, tokensOf, rotate } from './token-family.ts';

const HOUR = 3600;
const DAY = 24 * HOUR;
const IDLE = 30 * DAY;
const ABSOLUTE = 90 * DAY;
const MAX_BYTES = 2048;
/** Each leaves a rotation in the record for a minute; the short run fills the record as the long one does. */
const REFRESHES = SOAK ? 1000 : 40;
const SECONDS_BETWEEN = SOAK ? 0.1 : 2;
const TIMEOUT_MS = SOAK ? 300_000 : 60_000;

function expectExpired({ status, body }: TokenResponse): void {
  expect([status, body.error]).to.deep.equal([400, 'invalid_grant']);
}

onEachStore('Token lifetimes', (system) => {
  it('COD-03 a code expires after a minute', async () => {
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

  it('REF-04 a refresh token expires 30 days after its last use', async () => {
    const now = freezeClock();
    const [used, unused] = [
      await connectWithRefreshToken(system()),
      await connectWithRefreshToken(system()),
    ];
    freezeClockAt(now + IDLE - 1);
    const once = await rotate(used, used.refreshToken);
    freezeClockAt(now + IDLE);
    expectExpired(await present(unused, unused.refreshToken));
    freezeClockAt(now + 2 * IDLE - 2);
    const { refreshToken } = await rotate(used, once.refreshToken);
    freezeClockAt(now + 3 * IDLE - 2);
    expectExpired(await present(used, refreshToken));
  });

  it('a grant expires after 90 days, and no access token expires later', async () => {
    const now = freezeClock();
    const end = now + ABSOLUTE;
    const family = await connectWithRefreshToken(system());
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

  it('REF-08 an access token expires after an hour, as expires_in says', async () => {
    const now = freezeClock();
    const family = await connectWithRefreshToken(system());
    const { body } = await present(family, family.refreshToken);
    expect(body.expires_in).to.equal(HOUR);
    freezeClockAt(now + HOUR - 1);
    expect(await isAccepted(family.link, body.access_token)).to.equal(true);
    freezeClockAt(now + HOUR);
    expect(await isAccepted(family.link, body.access_token)).to.equal(false);
  });

  it('a repeated refresh does not extend the lifetime of a refresh token', async () => {
    const now = freezeClock();
    const family = await connectWithRefreshToken(system());
    const { refreshToken } = await rotate(family, family.refreshToken);
    freezeClockAt(now + 59);
    expect((await present(family, family.refreshToken)).body.refresh_token).to.equal(refreshToken);
    freezeClockAt(now + IDLE);
    expectExpired(await present(family, refreshToken));
    expectExpired(await present(family, family.refreshToken));
  });
});

/** Seconds since the epoch, every `step` days until before day 90. */
function daysAfter(start: number, step: number): number[] {
  return Array.from({ length: 90 / step - 1 }, (_, number) => start + (number + 1) * step * DAY);
}

describe('The grant record', () => {
  const system = useSystem({ store: 'redis' });

  it(`the grant record stays under 2 kB through ${REFRESHES} refreshes`, async () => {
    const now = freezeClock();
    const family = await connectWithRefreshToken(system());
    const [stored, ...others] = (await readStoredBytes(system().storeAddress, 'grant:')).slice(-1);
    expect(others).to.deep.equal([]);
    expect(stored?.bytes.length).to.be.within(100, MAX_BYTES);
    let token = family.refreshToken;
    for (let refreshes = 1; refreshes <= REFRESHES; refreshes += 1) {
      freezeClockAt(now + refreshes * SECONDS_BETWEEN);
      token = (await rotate(family, token)).refreshToken;
      if (refreshes % 10 > 0) continue;
      for (const { bytes } of await readStoredBytes(system().storeAddress, 'grant:'))
        expect(bytes.length, `after ${refreshes}`).to.be.below(MAX_BYTES);
    }
    recordSoak({
      what: `${REFRESHES} refreshes of one grant, ten a second`,
      held: `its record stays under ${MAX_BYTES} bytes`,
    });
  }).timeout(TIMEOUT_MS);
});
