import { expect } from 'chai';
import { DEFAULT_LEVELS } from '../../src/permission-levels.ts';
import { connect } from '../support/connection.ts';
import { createConnector, requestManagement } from '../support/management-api.ts';
import { callTool, type RpcResponse } from '../support/mcp.ts';
import { changeSettings } from '../support/settings-file.ts';
import { useSystem } from '../support/system.ts';

describe('A reload of limits on calls', () => {
  const system = useSystem({ file: { limits: { calls: { perConnection: '2/10m' } } } });
  const [lowest, ...others] = DEFAULT_LEVELS;
  const levels = [{ ...lowest, calls: '5/10m' }, ...others];

  const isLimited = ({ rpc }: RpcResponse) =>
    (rpc?.result?.content?.[0]?.text ?? '').includes('call again in');

  async function reloadWith(changes: Record<string, unknown>): Promise<void> {
    changeSettings(system(), changes);
    await requestManagement(system(), 'POST', '/settings/reload', {});
  }

  it('takes effect at the next call, and calls that were counted stay counted', async () => {
    const { link } = await createConnector(system(), { level: 'analytics' });
    const { accessToken } = await connect(system(), { link }, { level: 'analytics' });
    const areLimited = async (count: number) => {
      const limited = [];
      for (let n = 0; n < count; n += 1)
        limited.push(isLimited(await callTool(link, accessToken, 'club_overview')));
      return limited;
    };
    expect(await areLimited(3)).to.deep.equal([false, false, true]);
    await reloadWith({ limits: { calls: { perConnection: '4/10m' } } });
    expect(await areLimited(3)).to.deep.equal([false, false, true]);
    await reloadWith({ limits: {}, levels });
    expect(await areLimited(6)).to.deep.equal([false, false, false, false, false, true]);
    await reloadWith({ limits: {}, levels: DEFAULT_LEVELS });
    expect(await areLimited(1)).to.deep.equal([false]);
  });
});
