// Requests that race over several processes (RFC 6749 section 4.1.2, RFC 9700 section 4.14): claims for every kind of Redis.
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'chai';
import { createConnector } from '../support/management-api.ts';
import { openBrowser } from '../support/browser.ts';
import { connect, type Connection, redeem, type IssuedCode } from '../support/connection.ts';
import { isAccepted } from '../support/mcp.ts';
import { authorizeUrl, refresh } from '../support/oauth.ts';
import type { Processes } from '../support/scale-out/processes.ts';

const REDEMPTIONS = 50;
const WAYS = [2, 8, 50];
const LONGEST_STAGGER_MS = 200;
const BROWSERS = 4;
/** Codes live for a minute, which many of them would outlast. */
const CODES_AT_A_TIME = 10;
/** Families that are refreshed side by side, because staggered requests leave the processes idle. */
const FAMILIES = 8;
const ROUND_MS = 1500;
/** A code that is presented again after a second is taken for stolen, also when it was sent before and had to queue. */
const CODE_GRACE_MS = 1000;

export function racesAreFair(processes: () => Processes, rounds: number): void {
  it(`one code redeemed ${REDEMPTIONS} times at once is redeemed exactly once, ${rounds} times over`, async () => {
    const connection = await connect(processes(), await createConnector(processes()));
    const winners = [];
    for (let left = rounds; left > 0; left -= CODES_AT_A_TIME)
      for (const code of await obtainCodes(processes(), connection, CODES_AT_A_TIME))
        winners.push(...(await raceToRedeem(code)));
    const { server, client, link } = connection;
    for (const winner of winners) {
      expect(await isAccepted(link, winner.access_token)).to.equal(true);
      expect((await refresh(server, client, winner.refresh_token)).status).to.equal(200);
    }
  }).timeout(20_000 + rounds * ROUND_MS);

  for (const ways of WAYS) {
    it(`one refresh token used ${ways} times within ${LONGEST_STAGGER_MS} ms has one successor that works, ${rounds} times over`, async () => {
      const { link } = await createConnector(processes());
      const families: Connection[] = [];
      for (let n = 0; n < FAMILIES; n += 1) families.push(await connect(processes(), { link }));
      let left = rounds;
      const work = async (family: Connection) => {
        let { refreshToken } = family;
        while (left-- > 0) refreshToken = await raceToRefresh(family, refreshToken, ways);
        expect((await rotate(family, refreshToken)).status).to.equal(200);
      };
      await Promise.all(families.map(work));
    }).timeout(20_000 + rounds * ROUND_MS);
  }
}

/** Resolves to what the one winner was given, or to nothing when it took so long that what was given may be taken back. */
async function raceToRedeem(code: IssuedCode) {
  const begun = performance.now();
  const answers = await times(REDEMPTIONS, () => redeem(code));
  const isInTime = performance.now() - begun < CODE_GRACE_MS;
  const [winner, ...others] = answers.filter(({ status }) => status === 200);
  expect(others).to.have.length(0);
  for (const { status, body } of answers.filter((answer) => answer !== winner))
    expect({ status, error: body.error }).to.deep.equal({ status: 400, error: 'invalid_grant' });
  expect(winner).to.not.equal(undefined);
  return isInTime && winner ? [winner.body] : [];
}

/** Resolves to the one successor, whose being used is the next race. */
async function raceToRefresh(family: Connection, token: string | undefined, ways: number) {
  const answers = await times(ways, async () => {
    await delay(Math.random() * LONGEST_STAGGER_MS);
    return rotate(family, token);
  });
  for (const { status, body } of answers)
    expect({ status, error: body.error }).to.deep.equal({ status: 200, error: undefined });
  const [successor, ...others] = new Set(answers.map(({ body }) => body.refresh_token));
  expect(others).to.have.length(0);
  expect(successor).to.not.equal(token);
  const any = answers[Math.floor(Math.random() * ways)];
  expect(await isAccepted(family.link, any?.body.access_token)).to.equal(true);
  return successor;
}

function rotate({ server, client }: Connection, token: string | undefined) {
  return refresh(server, client, token);
}

/** A person approves the same client again and again, in a few browsers. */
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
