// RFC 9700 section 4.14.2.
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'chai';
import { isAccepted } from '../support/mcp.ts';
import type { AuthMethod } from '../support/oauth.ts';
import { recordSoak, SOAK } from '../support/soak.ts';
import { onEachStore, type StoreKind } from '../support/system.ts';
import {
  type TokenFamily,
  present,
  connectWithRefreshToken,
  times,
  type Tokens,
  tokensOf,
} from './token-family.ts';

const SIZES = SOAK
  ? [
      { clients: 2, rounds: 200 },
      { clients: 8, rounds: 200 },
      { clients: 50, rounds: 20 },
    ]
  : [
      { clients: 2, rounds: 4 },
      { clients: 30, rounds: 1 },
    ];
/** Every method and every store, but not every pair. */
const METHODS: Record<StoreKind, AuthMethod> = {
  sqlite: 'client_secret_basic',
  redis: 'client_secret_post',
};
const STAGGER_MS = 200;
const TIMEOUT_MS = SOAK ? 600_000 : 60_000;

/** All clients present the same token at the same time. */
async function raceAtOnce(family: TokenFamily, token: string, clients: number): Promise<Tokens> {
  const answers = await times(clients, () => present(family, token));
  const tokens = answers.map(tokensOf);
  const successors = new Set(tokens.map(({ refreshToken }) => refreshToken));
  expect(successors.size).to.equal(1);
  expect(successors.has(token)).to.equal(false);
  const [first] = tokens;
  if (!first) throw new Error('no client refreshed');
  return first;
}

/** The clients start one after another. Each refreshes again before the last has started. */
async function raceStaggered(
  family: TokenFamily,
  token: string,
  clients: number,
): Promise<Tokens[]> {
  return times(clients, async (number) => {
    await delay((STAGGER_MS * number) / clients);
    const given = tokensOf(await present(family, token));
    return tokensOf(await present(family, given.refreshToken));
  });
}

onEachStore('Concurrent refreshes with one token', (system, store) => {
  for (const { clients, rounds } of SIZES) {
    it(`${clients} concurrent refreshes get one successor that works, in ${rounds} rounds`, async () => {
      const family = await connectWithRefreshToken(system());
      let tokens: Tokens = family;
      for (let round = 0; round < rounds; round += 1)
        tokens = await raceAtOnce(family, tokens.refreshToken, clients);
      expect(await isAccepted(family.link, tokens.accessToken)).to.equal(true);
      expect((await present(family, tokens.refreshToken)).status).to.equal(200);
      recordSoak({
        what: `${clients} concurrent refreshes with one token, on ${store}`,
        held: `${rounds} rounds, one successor each, 0 refused`,
      });
    }).timeout(TIMEOUT_MS);

    it(`${clients} clients that refresh twice within 200 ms are never refused in ${rounds} rounds`, async () => {
      const family = await connectWithRefreshToken(system());
      let token = family.refreshToken;
      for (let round = 0; round < rounds; round += 1) {
        const all = await raceStaggered(family, token, clients);
        const [first, last] = [all[0], all.at(-1)];
        if (!first || !last) throw new Error('no client refreshed');
        for (const { accessToken } of [first, last])
          expect(await isAccepted(family.link, accessToken)).to.equal(true);
        token = first.refreshToken;
      }
      recordSoak({
        what: `${clients} clients that refresh one token twice within ${STAGGER_MS} ms, on ${store}`,
        held: `${rounds} rounds, 0 refused`,
      });
    }).timeout(TIMEOUT_MS);
  }

  const method = METHODS[store];
  it(`eight concurrent or staggered refreshes of a confidential client (${method}) succeed`, async () => {
    const family = await connectWithRefreshToken(system(), { method });
    const { refreshToken } = await raceAtOnce(family, family.refreshToken, 8);
    const all = await raceStaggered(family, refreshToken, 8);
    for (const { accessToken } of all)
      expect(await isAccepted(family.link, accessToken)).to.equal(true);
  });
});
