// A refresh token used by many at once gives all of them one successor, and signs nobody out (RFC 9700 section 4.14.2).
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'chai';
import { isAccepted } from '../support/mcp.ts';
import type { AuthMethod } from '../support/oauth.ts';
import { onEachStore } from '../support/system.ts';
import { type Family, present, startFamily, times, type Tokens, tokensOf } from './family.ts';

const SIZES = [
  { clients: 2, rounds: 30 },
  { clients: 8, rounds: 15 },
  { clients: 50, rounds: 5 },
];
const METHODS: AuthMethod[] = ['client_secret_basic', 'client_secret_post'];
const STAGGER_MS = 200;
const BUSY_MACHINE_MS = 60_000;

/** All present the same token in the same moment. */
async function raceAtOnce(family: Family, token: string, clients: number): Promise<Tokens> {
  const answers = await times(clients, () => present(family, token));
  const tokens = answers.map(tokensOf);
  const successors = new Set(tokens.map(({ refreshToken }) => refreshToken));
  expect(successors.size).to.equal(1);
  expect(successors.has(token)).to.equal(false);
  const [first] = tokens;
  if (!first) throw new Error('nobody raced');
  return first;
}

/** They come one after another, and each goes on with what it was given before the last has come. */
async function raceStaggered(family: Family, token: string, clients: number): Promise<Tokens[]> {
  return times(clients, async (number) => {
    await delay((STAGGER_MS * number) / clients);
    const given = tokensOf(await present(family, token));
    return tokensOf(await present(family, given.refreshToken));
  });
}

onEachStore('One refresh token presented', (system) => {
  for (const { clients, rounds } of SIZES) {
    it(`${clients} times at once has one successor, which works, in ${rounds} rounds`, async () => {
      const family = await startFamily(system());
      let tokens: Tokens = family;
      for (let round = 0; round < rounds; round += 1)
        tokens = await raceAtOnce(family, tokens.refreshToken, clients);
      expect(await isAccepted(family.link, tokens.accessToken)).to.equal(true);
      expect((await present(family, tokens.refreshToken)).status).to.equal(200);
    }).timeout(BUSY_MACHINE_MS);

    it(`by ${clients} within 200 ms, who each go on at once, signs nobody out in ${rounds} rounds`, async () => {
      await times(5, async () => {
        const family = await startFamily(system());
        let token = family.refreshToken;
        for (let round = 0; round < rounds / 5; round += 1) {
          const all = await raceStaggered(family, token, clients);
          const [first, last] = [all[0], all.at(-1)];
          if (!first || !last) throw new Error('nobody raced');
          for (const { accessToken } of [first, last])
            expect(await isAccepted(family.link, accessToken)).to.equal(true);
          token = first.refreshToken;
        }
      });
    }).timeout(BUSY_MACHINE_MS);
  }

  for (const method of METHODS) {
    it(`8 times by a confidential client (${method}) signs it out neither at once nor staggered`, async () => {
      const family = await startFamily(system(), { method });
      const { refreshToken } = await raceAtOnce(family, family.refreshToken, 8);
      const all = await raceStaggered(family, refreshToken, 8);
      for (const { accessToken } of all)
        expect(await isAccepted(family.link, accessToken)).to.equal(true);
    });
  }
});
