import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { errors } from 'oidc-provider';
import { storeAdapter } from '../../../src/development/identity-provider/adapter.ts';
import { openStore } from '../../../src/store/open.ts';
import type { Store } from '../../../src/store/store.ts';

const NOW = 1_800_000_000;

describe('the store adapter of the development identity provider', () => {
  let dataDir: string;
  let store: Store;

  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'development-idp-'));
    store = await openStore(
      { kind: 'sqlite', file: 'store.sqlite' },
      { secret: 'the root secret of these tests', dataDir, now: () => NOW },
    );
  });

  afterEach(async () => {
    await store.close();
    await rm(dataDir, { recursive: true });
  });

  it('exactly one of fifty concurrent attempts to consume a code succeeds (RFC 6749 section 4.1.2)', async () => {
    const codes = storeAdapter(store, 'AuthorizationCode', () => NOW);
    await codes.upsert('code', { kind: 'AuthorizationCode', exp: NOW + 60 }, 60);
    const attempts = Array.from({ length: 50 }, () => codes.consume('code'));
    const results = await Promise.allSettled(attempts);
    const refused = results.filter((result) => result.status === 'rejected');
    expect(refused).to.have.length(49);
    for (const { reason } of refused) expect(reason).to.be.instanceOf(errors.InvalidGrant);
    expect(await codes.find('code')).to.include({ consumed: NOW, kind: 'AuthorizationCode' });
  });

  it('a missing code cannot be consumed', async () => {
    const codes = storeAdapter(store, 'AuthorizationCode', () => NOW);
    const refusal = await Promise.resolve(codes.consume('never')).catch((error: unknown) => error);
    expect(refusal).to.be.instanceOf(errors.InvalidGrant);
    expect(await codes.find('never')).to.equal(undefined);
  });

  it('records of different models, and those of the authorization server, have different keys', async () => {
    const sessions = storeAdapter(store, 'Session', () => NOW);
    await sessions.upsert('one', { kind: 'Session', uid: 'its-uid' }, 60);
    expect(await storeAdapter(store, 'Grant', () => NOW).find('one')).to.equal(undefined);
    expect(await store.get('session:one')).to.equal(undefined);
    expect(await sessions.findByUid('its-uid')).to.include({ uid: 'its-uid' });
  });
});
