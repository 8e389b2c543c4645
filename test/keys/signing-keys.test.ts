import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { assert, expect } from 'chai';
import { Redis } from 'ioredis';
import { SignJWT, importJWK, jwtVerify } from 'jose';
import {
  loadSigningKeys,
  openSigningKeyRing,
  publicJwks,
  publishedKeys,
  RotationPending,
  rotateSigningKeys,
  type SigningKey,
  signingKey,
} from '../../src/keys/signing-keys.ts';
import { createLogger } from '../../src/observability/logger.ts';
import { openStore } from '../../src/store/open.ts';
import type { Store } from '../../src/store/store.ts';
import { until } from '../support/until.ts';
import { dumpAll } from '../store/redis-dump.ts';
import { startRedis } from '../support/redis-server.ts';
import { STORES, type StoreKind } from '../support/system.ts';
import { PATIENT_TIMEOUTS } from '../support/scale-out/patient-timeouts.ts';

const SECRET = 'a root secret of more than 32 characters';
const NOW = 1_900_000_000;
const LIFETIME = 3600;
const WAIT_SECONDS = 600;
const NEXT_SIGNS_AT = NOW + WAIT_SECONDS;
const OLD_REMOVED_AT = NEXT_SIGNS_AT + LIFETIME + WAIT_SECONDS;
const ROTATION = { accessTokenLifetime: LIFETIME };

type TestStore = {
  open: () => Promise<Store>;
  /** Returns all bytes in the database. */
  dump: () => Promise<Buffer>;
  remove: () => Promise<void>;
};

async function createTestStore(kind: StoreKind): Promise<TestStore> {
  const dataDir = await mkdtemp(join(tmpdir(), 'gatehouse-keys-'));
  const removeDir = () => rm(dataDir, { recursive: true });
  if (kind === 'sqlite') {
    const parts = ['keys.sqlite', 'keys.sqlite-wal'].map((name) => join(dataDir, name));
    return {
      open: () =>
        openStore(
          { kind, file: 'keys.sqlite' },
          { secret: SECRET, dataDir, timeouts: PATIENT_TIMEOUTS },
        ),
      dump: async () => Buffer.concat(await Promise.all(parts.map((part) => readFile(part)))),
      remove: removeDir,
    };
  }
  const redis = await startRedis();
  return {
    open: () =>
      openStore({ kind, url: redis.url }, { secret: SECRET, dataDir, timeouts: PATIENT_TIMEOUTS }),
    async dump() {
      const raw = new Redis(redis.url);
      const bytes = await dumpAll(raw);
      raw.disconnect();
      return bytes;
    },
    async remove() {
      await redis.stop();
      await removeDir();
    },
  };
}

const idsOf = (keys: readonly SigningKey[]) => keys.map(({ jwk }) => jwk.kid);
const statesAt = (keys: readonly SigningKey[], now: number) =>
  publishedKeys(keys, now).map(({ state }) => state);

async function tokenBy({ jwk }: SigningKey): Promise<string> {
  const header = { alg: 'ES256', kid: jwk.kid };
  return new SignJWT({ sub: 'ada' }).setProtectedHeader(header).sign(await importJWK(jwk));
}

for (const kind of STORES) {
  describe(`Signing keys (${kind})`, () => {
    let testStore: TestStore;
    let store: Store;
    beforeEach(async () => {
      testStore = await createTestStore(kind);
      store = await testStore.open();
    });
    afterEach(async () => {
      await store.close();
      await testStore.remove();
    });

    it('concurrent first loads and later loads return the same signing keys', async () => {
      const asked = Array.from({ length: 8 }, () => loadSigningKeys(store, NOW));
      const [keys = [], ...others] = await Promise.all(asked);
      expect(keys).to.have.length(1);
      for (const other of others) expect(other).to.deep.equal(keys);
      await store.close();
      store = await testStore.open();
      expect(await loadSigningKeys(store, NOW + 1)).to.deep.equal(keys);
    });

    it('a signing key waits, signs and retires at the exact second', async () => {
      const [old] = await loadSigningKeys(store, NOW - 86_400);
      const keys = await rotateSigningKeys(store, ROTATION, NOW);
      const [next] = keys;
      assert(old && next);
      expect(idsOf(keys)).to.deep.equal([next.jwk.kid, old.jwk.kid]);
      for (const [now, signing, states] of [
        [NOW, old, ['next', 'signing']],
        [NEXT_SIGNS_AT - 1, old, ['next', 'signing']],
        [NEXT_SIGNS_AT, next, ['signing', 'retiring']],
        [OLD_REMOVED_AT - 1, next, ['signing', 'retiring']],
        [OLD_REMOVED_AT, next, ['signing']],
      ] as const) {
        expect(signingKey(keys, now).jwk.kid, `signs at ${now}`).to.equal(signing.jwk.kid);
        expect(statesAt(keys, now), `states at ${now}`).to.deep.equal(states);
        const published = publicJwks(keys, now).keys.map(({ kid }) => kid);
        expect(published).to.deep.equal(idsOf(keys).slice(0, states.length));
      }
    });

    it('signing keys cannot be rotated while a new key waits to sign', async () => {
      const keys = await rotateSigningKeys(store, ROTATION, NOW);
      const refusal = await rotateSigningKeys(store, ROTATION, NEXT_SIGNS_AT - 1).catch(
        (error: unknown) => error,
      );
      assert(refusal instanceof RotationPending);
      expect(refusal.signsFrom).to.equal(NEXT_SIGNS_AT);
      expect(await loadSigningKeys(store, NOW)).to.deep.equal(keys);
      expect(await rotateSigningKeys(store, ROTATION, NEXT_SIGNS_AT)).to.have.length(3);
    });

    it('exactly one of ten concurrent rotations succeeds', async () => {
      const tries = Array.from({ length: 10 }, () => rotateSigningKeys(store, ROTATION, NOW));
      const outcomes = await Promise.allSettled(tries);
      expect(outcomes.filter(({ status }) => status === 'fulfilled')).to.have.length(1);
      expect(await loadSigningKeys(store, NOW)).to.have.length(2);
    });

    it('an immediate rotation leaves one key, which signs, also while another key waits', async () => {
      const before = idsOf(await rotateSigningKeys(store, ROTATION, NOW));
      const atOnce = { ...ROTATION, atOnce: true };
      const [key, ...others] = await rotateSigningKeys(store, atOnce, NOW + 1);
      assert(key);
      expect(others).to.deep.equal([]);
      expect(before).to.not.include(key.jwk.kid);
      expect(await loadSigningKeys(store, NOW + 1)).to.deep.equal([key]);
      for (const now of [NOW - 60, NOW + 1, OLD_REMOVED_AT]) {
        expect(signingKey([key], now)).to.equal(key);
        expect(statesAt([key], now)).to.deep.equal(['signing']);
      }
    });

    it('retired signing keys are deleted', async () => {
      const [first] = await loadSigningKeys(store, NOW - 1);
      await rotateSigningKeys(store, ROTATION, NOW);
      const later = await rotateSigningKeys(store, ROTATION, OLD_REMOVED_AT);
      expect(later).to.have.length(2);
      expect(idsOf(later)).to.not.include(first?.jwk.kid);
    });

    it('signing keys are encrypted in the database', async () => {
      const keys = await rotateSigningKeys(store, ROTATION, NOW);
      const dump = await testStore.dump();
      expect(dump.includes('signing-keys:')).to.equal(true);
      for (const { jwk } of keys) {
        for (const member of [jwk.d, jwk.x, jwk.y, jwk.kid]) {
          assert(member);
          expect(dump.includes(member)).to.equal(false);
          expect(dump.includes(Buffer.from(member, 'base64url'))).to.equal(false);
        }
      }
    });

    it('a key replaced by another process is rejected as soon as the notification arrives', async () => {
      const ring = await openSigningKeyRing(store, () => NOW, createLogger('silent'));
      const elsewhere = await testStore.open();
      try {
        const [old] = ring.all();
        assert(old);
        const token = await tokenBy(old);
        await jwtVerify(token, ring.verificationKeys, { currentDate: new Date(NOW * 1000) });
        let notifications = 0;
        ring.onChange(() => (notifications += 1));
        const [key] = await rotateSigningKeys(elsewhere, { ...ROTATION, atOnce: true }, NOW);
        await until('the notification to arrive', () => notifications > 0);
        expect(ring.all()).to.deep.equal([key]);
        expect(ring.publicJwks().keys.map(({ kid }) => kid)).to.deep.equal([key?.jwk.kid]);
        const refusal = await jwtVerify(token, ring.verificationKeys).catch((error) => error);
        expect(refusal).to.include({ code: 'ERR_JWKS_NO_MATCHING_KEY' });
        assert(key);
        await jwtVerify(await tokenBy(key), ring.verificationKeys);
      } finally {
        ring.close();
        await elsewhere.close();
      }
    });
  });
}
