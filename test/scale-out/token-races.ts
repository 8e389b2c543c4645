// Tests of concurrent token requests (RFC 6749 section 4.1.2, RFC 9700 section 4.14), for every kind of Redis.
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'chai';
import { createConnector } from '../support/management-api.ts';
import { openBrowser } from '../support/browser.ts';
import { connect, type Connection, redeem, type IssuedCode } from '../support/connection.ts';
import { isAccepted } from '../support/mcp.ts';
import { authorizeUrl, refresh } from '../support/oauth.ts';
import type { Processes } from '../support/scale-out/processes.ts';
import { recordSoak, SOAK } from '../support/soak.ts';

export type Races = {
  /** The name of the database in the table of the long run. */
  database: string;
  exchanges: { rounds: number; requests: number };
  refreshes: readonly { rounds: number; requests: number }[];
};

const SOAK_ROUNDS = 200;
const MAX_STAGGER_MS = 200;
/** With more codes at a time, some would expire before their exchange. */
const CODES_AT_A_TIME = 10;
/** Families are refreshed concurrently, because staggered requests leave the processes idle. */
const FAMILIES = SOAK ? 8 : 2;
const ROUND_MS = 1500;

export function testTokenRaces(processes: () => Processes, races: Races): void {
  const { database } = races;

  describe('while their clocks stand still', () => {
    // A code that is presented again after a second counts as a replay.
    before(() => processes().setClocks({ freezeAt: Date.now() / 1000 }));
    after(() => processes().setClocks('restore'));

    const { requests } = races.exchanges;
    const rounds = SOAK ? SOAK_ROUNDS : races.exchanges.rounds;
    it(`of ${requests} concurrent exchanges of a code exactly one succeeds, in ${counted(rounds)}`, async () => {
      const connection = await connect(processes(), await createConnector(processes()));
      const { server, client, link } = connection;
      for (let done = 0; done < rounds; done += CODES_AT_A_TIME) {
        const count = Math.min(CODES_AT_A_TIME, rounds - done);
        for (const code of await obtainCodes(processes(), connection, count)) {
          const winner = await raceToRedeem(code, requests);
          expect(await isAccepted(link, winner?.access_token)).to.equal(true);
          expect((await refresh(server, client, winner?.refresh_token)).status).to.equal(200);
        }
      }
      const what = `${rounds} rounds of ${requests} concurrent exchanges of a code on ${database}`;
      recordSoak({ what, held: `${rounds} codes, each redeemed once` });
    }).timeout(60_000 + rounds * ROUND_MS);
  });

  for (const { requests, rounds: some } of races.refreshes) {
    const rounds = SOAK ? SOAK_ROUNDS : some;
    it(`${requests} refreshes with one token within ${MAX_STAGGER_MS} ms get one successor that works, in ${counted(rounds)}`, async () => {
      const { link } = await createConnector(processes());
      const families: Connection[] = [];
      for (let n = 0; n < Math.min(FAMILIES, rounds); n += 1)
        families.push(await connect(processes(), { link }));
      let remaining = rounds;
      const work = async (family: Connection) => {
        let { refreshToken } = family;
        while (remaining-- > 0) refreshToken = await raceToRefresh(family, refreshToken, requests);
        expect((await rotate(family, refreshToken)).status).to.equal(200);
      };
      await Promise.all(families.map(work));
      const what = `${rounds} rounds of ${requests} concurrent refreshes on ${database}`;
      recordSoak({ what, held: `${rounds * requests} refreshes, one successor each round` });
    }).timeout(60_000 + rounds * ROUND_MS);
  }
}

function counted(rounds: number): string {
  return rounds === 1 ? 'one round' : `${rounds} rounds`;
}

/** Resolves with the tokens of the successful exchange. */
async function raceToRedeem(code: IssuedCode, requests: number) {
  const answers = await times(requests, () => redeem(code));
  const [winner, ...others] = answers.filter(({ status }) => status === 200);
  expect(others).to.have.length(0);
  for (const { status, body } of answers.filter((answer) => answer !== winner))
    expect({ status, error: body.error }).to.deep.equal({ status: 400, error: 'invalid_grant' });
  return winner?.body;
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

/** A person approves the same client repeatedly. */
async function obtainCodes(
  { origins }: Processes,
  { server, client, link }: Connection,
  count: number,
): Promise<IssuedCode[]> {
  const codes: IssuedCode[] = [];
  const browser = openBrowser(origins);
  while (codes.length < count) {
    const { url, verifier } = authorizeUrl(server, client, { resource: link });
    codes.push({ link, server, client, verifier, callback: await browser.authorize(url) });
  }
  return codes;
}

function times<T>(count: number, run: () => Promise<T>): Promise<T[]> {
  return Promise.all(Array.from({ length: count }, run));
}
