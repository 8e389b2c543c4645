// Processes that were given one address for the development identity provider: the first to listen serves it for all.
import { expect } from 'chai';
import { createConnector } from '../support/management-api.ts';
import { connect } from '../support/connection.ts';
import { isAccepted } from '../support/mcp.ts';
import { useProcesses } from '../support/scale-out/processes.ts';

describe('Two processes with one development identity provider', () => {
  // Where its public address says.
  const settings = { GATEHOUSE_DEVELOPMENT_IDP_LISTEN: '' };
  const processes = useProcesses(() => ({ store: 'redis', count: 2, settings }));

  it('start at once, and people sign in at either', async () => {
    expect(processes().running()).to.have.length(2);
    const connector = await createConnector(processes());
    for (const person of ['ada', 'grace', 'ada'] as const) {
      const { link, accessToken } = await connect(processes(), connector, { person });
      expect(await isAccepted(link, accessToken)).to.equal(true);
    }
  });
});
