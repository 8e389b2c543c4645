import { expect } from 'chai';
import { MAX_TASKS, taskOwnership } from '../../../src/gateway/upstream/bound-ids.ts';
import { openSystemStore } from '../../support/system-store.ts';
import { useSystem } from '../../support/system.ts';
import { DEFAULT_LEVELS } from '../../support/levels.ts';
import { caller } from '../../support/upstream/filter-options.ts';

const HOUR = 3600;

describe('The limit on remembered tasks', () => {
  const system = useSystem();

  it('UPS-01 the newest task and those that last longest are kept', async () => {
    const { store } = await openSystemStore(system());
    try {
      expect(MAX_TASKS).to.equal(1000);
      const tasks = taskOwnership(
        store,
        DEFAULT_LEVELS,
        'https://mcp.example/',
        () => 1_000_000,
        10,
      );
      await tasks.add(caller, { id: 'long', ttlSeconds: 240 * HOUR });
      for (let n = 0; n < 11; n += 1) await tasks.add(caller, { id: `short-${n}`, ttlSeconds: 60 });
      const kept = await tasks.idsOf(caller);
      expect(kept.size).to.equal(10);
      expect([...kept]).to.include.members(['long', 'short-10', 'short-2']);
    } finally {
      await store.close();
    }
  });
});
