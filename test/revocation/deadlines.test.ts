import { mint, revoke as revokeMinted } from '../links/minted-tokens/minting.ts';
import { prepareAccessPaths } from '../support/access-paths.ts';
import { meetsDeadline } from '../support/deadlines.ts';
import { createConnector, revokeConnector } from '../support/management-api.ts';
import { useSystem } from '../support/system.ts';
import { until } from '../support/until.ts';

describe('The time until a revocation takes effect', () => {
  const system = useSystem({ store: 'redis' });

  async function connect() {
    const connector = await createConnector(system());
    const minted = await mint(system());
    const paths = await prepareAccessPaths(system(), connector, minted.token, 0);
    // So that the records are cached.
    for (const path of [paths.call, paths.minted]) await path();
    return { connector, minted, paths };
  }

  it('CNX-01 calls and minted tokens are refused within a second of a revocation', async () => {
    await meetsDeadline(
      'revocation',
      async ({ connector, minted, paths }) => {
        await revokeConnector(system(), connector.id);
        await revokeMinted(system(), minted.id);
        await until('a call to be refused', async () => (await paths.call()).status === 410);
        await until('the token to be refused', async () => (await paths.minted()).status === 401);
      },
      connect,
    );
  });
});
