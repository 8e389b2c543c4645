// The first process to listen at the address serves the development identity provider for all.
import { expect } from 'chai';
import { createConnector } from '../support/management-api.ts';
import { connect } from '../support/connection.ts';
import { isAccepted } from '../support/mcp.ts';
import { useProcesses } from '../support/scale-out/processes.ts';

describe('The development identity provider of two processes', () => {
  // Both listen at the public address.
  const settings = { GATEHOUSE_DEVELOPMENT_IDP_LISTEN: '' };
  const processes = useProcesses(() => ({ store: 'redis', count: 2, settings }));

  it('two processes with one address for the development identity provider start and sign people in', async () => {
    expect(processes().running()).to.have.length(2);
    const connector = await createConnector(processes());
    for (const person of ['ada', 'grace', 'ada'] as const) {
      const { link, accessToken } = await connect(processes(), connector, { person });
      expect(await isAccepted(link, accessToken)).to.equal(true);
    }
  });
});
