import { expect } from 'chai';
import { startGatehouse } from '../../../src/server.ts';
import { createLogger } from '../../../src/observability/logger.ts';
import { loadSettings } from '../../../src/settings/load.ts';
import { until } from '../../support/until.ts';
import { readAudit } from '../../support/management-api.ts';
import { callTool, isAccepted } from '../../support/mcp.ts';
import { waitForStore } from '../../support/scale-out/patient-timeouts.ts';
import { readStoredBytes } from '../../support/stored-bytes.ts';
import {
  onEachStore,
  createDeployment,
  startDeployment,
  STORES,
  type System,
} from '../../support/system.ts';
import { addressOf, askRaw, findListed, listMinted, mint, revoke } from './minting.ts';

const AT_ONCE = 20;

onEachStore('Concurrent minting and revocation', (system) => {
  it('twenty tokens minted concurrently all work, are all listed, and are audited once each', async () => {
    const before = (await listMinted(system())).length;
    const names = Array.from({ length: AT_ONCE }, (_, index) => `Program ${index}`);
    const minted = await Promise.all(
      names.map((name, index) => mint(system(), { name, expiresIn: `${index + 1}d` })),
    );
    expect(new Set(minted.map(({ id }) => id)).size).to.equal(AT_ONCE);
    const listed = await listMinted(system());
    expect(listed).to.have.length(before + AT_ONCE);
    for (const { token, ...facts } of minted) {
      const item = listed.find(({ id }) => id === facts.id);
      expect(item).to.include({ ...facts, lastFour: token.slice(-4) });
      expect(await isAccepted(addressOf(system()), token)).to.equal(true);
    }
    const events = (await readAudit(system())).filter(({ event }) => event === 'token_minted');
    for (const { id } of minted)
      expect(events.filter(({ clientId }) => clientId === `minted:${id}`)).to.have.length(1);
  });

  it('concurrent revocations of one token succeed once and are audited once', async () => {
    const { id } = await mint(system());
    const answers = await Promise.all(
      Array.from({ length: AT_ONCE }, () => askRaw(system(), 'DELETE', `/tokens/${id}`)),
    );
    const statuses = answers.map(({ status }) => status).sort();
    expect(statuses).to.deep.equal([200, ...Array(AT_ONCE - 1).fill(404)]);
    const about = (await readAudit(system())).filter(({ clientId }) => clientId === `minted:${id}`);
    expect(about.map(({ event }) => event)).to.deep.equal(['token_minted', 'token_revoked']);
  });
});

/** `fetch` notices only with its next request that connections from before the restart are closed. */
async function answerAgain({ management, resource }: System): Promise<void> {
  for (const origin of [management, resource])
    await until(`${origin} to answer`, async () => {
      const answer = await fetch(`${origin}/livez`).catch(() => undefined);
      await answer?.text();
      return answer?.status === 200;
    });
}

for (const store of STORES)
  describe(`Minted tokens after a restart, on ${store}`, () => {
    let restoreTimeouts: (() => void) | undefined;
    before(() => {
      restoreTimeouts = waitForStore();
    });
    after(() => restoreTimeouts?.());

    it('a minted token works and is listed as before, and a revoked one does not work', async () => {
      const place = await createDeployment({ store });
      try {
        const first = await startDeployment(place);
        const [kept, ended] = [await mint(first), await mint(first)];
        await revoke(first, ended.id);
        const before = await listMinted(first);
        await first.stop();

        const second = await startDeployment(place);
        try {
          await answerAgain(second);
          expect(await listMinted(second)).to.deep.equal(before);
          expect(await isAccepted(addressOf(second), kept.token)).to.equal(true);
          expect(await isAccepted(addressOf(second), ended.token)).to.equal(false);
        } finally {
          await second.stop();
        }
      } finally {
        await place.release();
      }
    });
  });

type Left = { tokens: string[]; log: string; store: string; audit: string; list: string };

/** Every operation on a minted token, at the most verbose log level. */
async function liveOnce(system: System): Promise<string[]> {
  const url = addressOf(system);
  const { id, token } = await mint(system, { level: 'full' });
  const ended = await mint(system);
  for (const each of [token, ended.token]) await callTool(url, each, 'club_overview');
  await until('the use to be recorded', async () => (await findListed(system, id))?.lastUsedAt);
  await revoke(system, ended.id);
  for (const each of [ended.token, `${token}x`]) await callTool(url, each, 'club_overview');
  const headers = { authorization: `Bearer ${token}` };
  for (const wrong of [`${url}?access_token=${token}`, `${system.auth}/oauth/token`])
    await (await fetch(wrong, { headers })).text();
  await askRaw(system, 'DELETE', `/tokens/${token}`);
  await askRaw({ ...system, managementKey: token }, 'GET', '/tokens');
  return [token, ended.token];
}

for (const store of STORES)
  describe(`Occurrences of a minted token, on ${store}`, () => {
    let left: Left;

    before(async () => {
      const place = await createDeployment({ store });
      const lines: string[] = [];
      const logger = createLogger('trace', { write: (line) => void lines.push(line) });
      const gatehouse = await startGatehouse(loadSettings(place.environment), { logger });
      const system = { ...place.facts, signalStore: place.signalStore, stop: gatehouse.stop };
      try {
        const tokens = await liveOnce(system);
        const records = await readStoredBytes(place.facts.storeAddress);
        left = {
          tokens,
          log: lines.join(''),
          store: records.map(({ name, bytes }) => name + bytes.toString('latin1')).join('\n'),
          audit: JSON.stringify(await readAudit(system)),
          list: JSON.stringify(await listMinted(system)),
        };
      } finally {
        await gatehouse.stop();
        await place.release();
      }
    });

    for (const [where, sign] of [
      ['log', '"path":"/mcp"'],
      ['store', 'minted-token:'],
      ['audit', 'token_revoked'],
      ['list', '"lastFour"'],
    ] as const)
      it(`STK-01 the ${where} contains neither the token nor any part of it`, () => {
        expect(left[where]).to.include(sign);
        for (const token of left.tokens)
          for (const part of token.split('.').slice(1)) {
            expect(left[where]).to.not.include(part);
            expect(left[where]).to.not.include(Buffer.from(part, 'base64url').toString('latin1'));
          }
      });
  });
