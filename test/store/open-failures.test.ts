import { expect } from 'chai';
import { openStore } from '../../src/store/open.ts';
import { runServer } from '../support/main-process.ts';
import { createDeployment } from '../support/system.ts';

describe('A server that cannot open its store', () => {
  // test/faults/start.test.ts shows a store that is unreachable.
  it('a server whose store was written with another secret prints only the reason and exits with 1', async () => {
    const { environment, facts, release } = await createDeployment();
    try {
      const file = facts.storeAddress.replace('sqlite:', '');
      const address = { kind: 'sqlite', file } as const;
      const before = await openStore(address, { secret: 'a'.repeat(32), dataDir: facts.dataDir });
      await before.close();
      const { code, stdout, stderr } = await runServer({
        ...environment,
        GATEHOUSE_SECRET: 'b'.repeat(32),
      });
      expect({ code, stdout }).to.deep.equal({ code: 1, stdout: '' });
      expect(stderr).to.match(/^the store was created with another root secret: .*\n$/);
    } finally {
      await release();
    }
  });
});
