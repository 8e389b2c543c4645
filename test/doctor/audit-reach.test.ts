import { expect } from 'chai';
import { Redis } from 'ioredis';
import { managementClient } from '../../src/management/api/client.ts';
import { loadSettings } from '../../src/settings/load.ts';
import { useSystem } from '../support/system.ts';
import { examineSettings } from './fault.ts';

const SETTINGS = loadSettings({ GATEHOUSE_SECRET: 'a root secret of more than 32 characters' });

describe("doctor's check of how far back the audit log has calls", () => {
  const long = useSystem();
  const short = useSystem({
    store: 'redis',
    file: { audit: { keepCalls: { time: '2d', items: 5000 } } },
  });

  async function check({ management, managementKey }: ReturnType<typeof long>) {
    const openClient = () => managementClient({ url: management, key: managementKey });
    const [finding, ...others] = await examineSettings(SETTINGS, ['audit-reach'], { openClient });
    expect(others).to.deep.equal([]);
    return finding;
  }

  it('more than a week passes, with how many are kept and how many the store has room for', async () => {
    const finding = await check(long());
    expect(finding?.outcome).to.equal('ok');
    expect(finding?.what).to.match(
      /all calls of the last 90 days; up to 1000000 are kept, and the store has room for \d+ more/,
    );
  });

  it('less than a week is a warning, which says whether the store has room for more', async () => {
    const finding = await check(short());
    expect(finding?.outcome).to.equal('warning');
    expect(finding?.what).to.match(
      /all calls of the last 2 days; up to 5000 are kept, and the store has room for [1-9]\d* more/,
    );
    expect(finding?.remedy).to.include('audit.keepCalls');
    const redis = new Redis(short().storeAddress);
    await redis.config('SET', 'maxmemory', '1mb');
    const full = await check(short());
    await redis.config('SET', 'maxmemory', 0);
    redis.disconnect();
    expect(full?.what).to.include('room for 0 more');
    expect(full?.remedy).to.equal('give the store more memory or disk');
  });

  it('the check has no finding if calls of levels that are not recorded are not in the log', async () => {
    const settings = { ...SETTINGS, audit: { ...SETTINGS.audit, calls: 'recorded' as const } };
    expect(await examineSettings(settings, ['audit-reach'])).to.deep.equal([]);
  });

  it('doctor says so if it cannot ask', async () => {
    const [finding] = await examineSettings(SETTINGS, ['audit-reach']);
    expect(finding?.outcome).to.equal('unknown');
  });
});
