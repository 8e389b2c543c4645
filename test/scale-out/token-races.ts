// Tests of concurrent token requests (RFC 6749 section 4.1.2, RFC 9700 section 4.14), for every kind of Redis.
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'chai';
import { createConnector } from '../support/management-api.ts';
import { openBrowser } from '../support/browser.ts';
import { connect, type Connection, redeem, type IssuedCode } from '../support/connection.ts';
import { isAccepted } from '../support/mcp.ts';
import { authorizeUrl, refresh } from '../support/oauth.ts';
import type { Processes } from '../support/scale-out/processes.ts';

const REDEMPTIONS = 50;
const REFRESH_COUNTS = [2, 8, 50];
const MAX_STAGGER_MS = 200;
const BROWSERS = 4;
/** With more codes at a time, some would expire before their exchange. */
const CODES_AT_A_TIME = 10;
/** Families are refreshed concurrently, because staggered requests leave the processes idle. */
const FAMILIES = 8;
const ROUND_MS = 1500;
/** A code presented again after a second counts as a replay, also if the request was sent earlier and queued. */
const CODE_GRACE_MS = 1000;

export function testTokenRaces(processes: () => Processes, rounds: number): void {
  it(`of ${REDEMPTIONS} concurrent exchanges of a code exactly one succeeds, in ${rounds} rounds`, async () => {
    const connection = await connect(processes(), await createConnector(processes()));
    const winners = [];
    for (let remaining = rounds; remaining > 0; remaining -= CODES_AT_A_TIME)
      for (const code of await obtainCodes(processes(), connection, CODES_AT_A_TIME))
        winners.push(...(await raceToRedeem(code)));
    const { server, client, link } = connection;
    for (const winner of winners) {
      expect(await isAccepted(link, winner.access_token)).to.equal(true);
      expect((await refresh(server, client, winner.refresh_token)).status).to.equal(200);
    }
  }).timeout(20_000 + rounds * ROUND_MS);

  for (const count of REFRESH_COUNTS) {
    it(`${count} refreshes with one token within ${MAX_STAGGER_MS} ms get one successor that works, in ${rounds} rounds`, async () => {
      const { link } = await createConnector(processes());
      const families: Connection[] = [];
      for (let n = 0; n < FAMILIES; n += 1) families.push(await connect(processes(), { link }));
      let remaining = rounds;
      const work = async (family: Connection) => {
        let { refreshToken } = family;
        while (remaining-- > 0) refreshToken = await raceToRefresh(family, refreshToken, count);
        expect((await rotate(family, refreshToken)).status).to.equal(200);
      };
      await Promise.all(families.map(work));
    }).timeout(20_000 + rounds * ROUND_MS);
  }
}

/** Resolves with the tokens of the successful exchange, or with nothing if a slow exchange may have counted as a replay. */
async function raceToRedeem(code: IssuedCode) {
  const startedMs = performance.now();
  const answers = await times(REDEMPTIONS, () => redeem(code));
  const isInTime = performance.now() - startedMs < CODE_GRACE_MS;
  const [winner, ...others] = answers.filter(({ status }) => status === 200);
  expect(others).to.have.length(0);
  for (const { status, body } of answers.filter((answer) => answer !== winner))
    expect({ status, error: body.error }).to.deep.equal({ status: 400, error: 'invalid_grant' });
  expect(winner).to.not.equal(undefined);
  return isInTime && winner ? [winner.body] : [];
}

/** Resolves with the successor. */
async function raceToRefresh(family: Connection, token: string | undefined, count: number) {
  const answers = await times(count, async () => {
    await delay(Math.random() * MAX_STAGGER_MS);
    return rotate(family, token);
  });
  for (const { status, body } of answers)
    expect({ status, error: body.error }).to.deep.equal({ status: 200, error: undefined });
  const [successor, ...others] = new Set(answers.map(({ body }) => body.refresh_token));
  expect(others).to.have.length(0);
  expect(successor).to.not.equal(token);
  const any = answers[Math.floor(Math.random() * count)];
  expect(await isAccepted(family.link, any?.body.access_token)).to.equal(true);
  return successor;
}

function rotate({ server, client }: Connection, token: string | undefined) {
  return refresh(server, client, token);
}

/** A person approves the same client repeatedly, in several browsers. */
async function obtainCodes(
  { origins }: Processes,
  { server, client, link }: Connection,
  count: number,
): Promise<IssuedCode[]> {
  const codes: IssuedCode[] = [];
  const work = async () => {
    const browser = openBrowser(origins);
    while (codes.length < count) {
      const { url, verifier } = authorizeUrl(server, client, { resource: link });
      codes.push({ link, server, client, verifier, callback: await browser.authorize(url) });
    }
  };
  await times(BROWSERS, work);
  return codes.slice(0, count);
}

function times<T>(count: number, run: () => Promise<T>): Promise<T[]> {
  return Promise.all(Array.from({ length: count }, run));
}
