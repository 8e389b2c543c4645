import { assert, expect } from 'chai';
import {
  loadSigningKeys,
  rotateSigningKeys,
  reserveSigningKey,
} from '../../../src/keys/signing-keys.ts';
import {
  type Key,
  listKeys,
  publishedIds,
  rotateKeys,
  signedBy,
} from '../../keys/published-keys.ts';
import { startBeside } from '../../keys/processes.ts';
import { until } from '../../support/until.ts';
import { advanceClock, restoreClock } from '../../support/clock.ts';
import { isAccepted } from '../../support/mcp.ts';
import { openSystemStore } from '../../support/system-store.ts';
import { startSystem, STORES, type System } from '../../support/system.ts';
import { addressOf, findListed, mint, type Minted } from './minting.ts';

const DAY = 86_400;
const WAITS = 600;
/** The defaults of config/development.yaml. */
const TOKEN_LIFETIME = 3600;
const ROUNDS = 20;

type Arrangement = {
  title: string;
  start: () => Promise<{ system: System; stop: () => Promise<void> }>;
};

const ONE_PROCESS: Arrangement = {
  title: 'with all roles in one process, on sqlite',
  async start() {
    const system = await startSystem();
    return { system, stop: system.stop };
  },
};

const APART: Arrangement = {
  title: 'with every role apart, on redis',
  async start() {
    const settings = { GATEHOUSE_ROLES: 'management' };
    const system = await startSystem({ store: 'redis', settings });
    const others = [
      await startBeside(system, 'authorization-server'),
      await startBeside(system, 'resource-server'),
    ];
    const stop = async () => {
      for (const other of others) await other.stop();
      await system.stop();
    };
    return { system, stop };
  },
};

for (const { title, start } of [ONE_PROCESS, APART]) {
  describe(`Minted tokens and key rotation, ${title}`, () => {
    let started: Awaited<ReturnType<Arrangement['start']>> | undefined;
    beforeEach(async () => {
      started = await start();
    });
    afterEach(async () => {
      restoreClock();
      await started?.stop();
    });

    function system(): System {
      assert(started);
      return started.system;
    }

    /** Also waits until every process that verifies them knows, which takes at most ten minutes. */
    async function rotate(body?: { atOnce: boolean }): Promise<Key[]> {
      const keys = await rotateKeys(system(), body);
      await until('the new key to be published', async () => {
        return (await publishedIds(system())).includes(keys[0]?.id);
      });
      return keys;
    }

    const works = ({ token }: Minted) => isAccepted(addressOf(system()), token);

    it('a token survives a rotation, and its key is removed when the token has expired', async () => {
      const minted = await mint(system(), { expiresIn: '30d' });
      const [next] = await rotate();
      advanceClock(WAITS + TOKEN_LIFETIME + WAITS + 60);
      expect(await publishedIds(system())).to.deep.equal([next?.id, signedBy(minted.token)]);
      expect(await works(minted)).to.equal(true);
      advanceClock(29 * DAY);
      expect(await works(minted)).to.equal(true);
      expect(await findListed(system(), minted.id)).to.not.have.property('keyReplaced');
      advanceClock(DAY);
      expect(await works(minted)).to.equal(false);
      expect(await publishedIds(system())).to.deep.equal([next?.id]);
    });

    it('a token minted during a rotation survives that rotation and the next', async () => {
      await rotate();
      const minted = await mint(system(), { expiresIn: '30d' });
      expect(await works(minted)).to.equal(true);
      advanceClock(WAITS + 1);
      const later = await mint(system(), { expiresIn: '60d' });
      await rotate();
      advanceClock(WAITS + TOKEN_LIFETIME + WAITS + 60);
      await rotate();
      expect(signedBy(minted.token)).to.not.equal(signedBy(later.token));
      for (const each of [minted, later]) expect(await works(each)).to.equal(true);
      advanceClock(29 * DAY);
      for (const each of [minted, later]) expect(await works(each)).to.equal(true);
      advanceClock(30 * DAY);
      expect(await works(later)).to.equal(true);
    });

    it('a token is valid as soon as it is minted, just before and after a rotation', async () => {
      for (const passed of [0, WAITS - 1, 2]) {
        if (passed === 0) await rotate();
        advanceClock(passed);
        expect(await works(await mint(system()))).to.equal(true);
      }
    });

    it('a key that signed no minted token is removed at the usual time', async () => {
      const minted = await mint(system(), { expiresIn: '366d' });
      const [second] = await rotate();
      advanceClock(WAITS + 1);
      const [third] = await rotate();
      advanceClock(WAITS + TOKEN_LIFETIME + WAITS + 60);
      const ids = (await listKeys(system())).map(({ id }) => id);
      expect(ids)
        .to.deep.equal([third?.id, signedBy(minted.token)])
        .and.to.not.include(second?.id);
    });

    it('an immediate rotation invalidates a token, and the list says so', async () => {
      const minted = await mint(system());
      expect(await works(minted)).to.equal(true);
      await rotate({ atOnce: true });
      await until('the token to be refused', async () => !(await works(minted)));
      expect(await findListed(system(), minted.id)).to.include({ keyReplaced: true });
      const again = await mint(system());
      expect(await works(again)).to.equal(true);
      expect(await findListed(system(), again.id)).to.not.have.property('keyReplaced');
    });
  });
}

for (const store of STORES)
  describe(`Concurrent minting and rotation, on ${store}`, () => {
    let system: System;
    before(async () => {
      system = await startSystem({ store });
    });
    after(() => system.stop());

    it("a token's key is never removed before the token expires", async () => {
      const { store: opened } = await openSystemStore(system);
      const now = Math.ceil(Date.now() / 1000);
      const expiresAt = now + 90 * DAY;
      try {
        for (let round = 0; round < ROUNDS; round++) {
          const moment = now + round * WAITS;
          const [keys, ...signing] = await Promise.all([
            rotateSigningKeys(opened, { accessTokenLifetime: TOKEN_LIFETIME }, moment),
            ...Array.from({ length: 4 }, () => reserveSigningKey(opened, expiresAt, moment)),
          ]);
          expect(keys).to.have.length(round + 2);
          const kept = await loadSigningKeys(opened, moment);
          for (const { jwk } of signing) {
            const key = kept.find((each) => each.jwk.kid === jwk.kid);
            expect(key?.publishedUntil).to.be.above(expiresAt);
          }
        }
      } finally {
        await opened.close();
      }
    });
  });
