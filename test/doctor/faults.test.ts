// The doctor says nothing about a good deployment, and finds each fault of a bad one with the check that is made for it, and no other.
import { expect } from 'chai';
import type { DeploymentOptions } from '../../src/doctor/opened-deployment.ts';
import { type GoodDeployment, startGoodDeployment } from './good-deployment.ts';
import { OWN_FAULTS } from './own-faults.ts';
import { PROXY_FAULTS } from './proxy-faults.ts';

const FAULTS = [...PROXY_FAULTS, ...OWN_FAULTS];

describe('the doctor', () => {
  let good: GoodDeployment;
  before(async function start() {
    this.timeout(40_000);
    good = await startGoodDeployment();
  });
  afterEach(async () => {
    for (const proxy of Object.values(good.proxies)) {
      proxy.misbehave({});
      proxy.present(good.certificate);
    }
    good.provider.behave({});
    await good.admin.config('SET', 'maxmemory-policy', 'noeviction');
    await good.admin.config('SET', 'maxmemory', '0');
    await good.admin.config('SET', 'appendfsync', 'everysec');
    await good.admin.config('SET', 'appendonly', 'yes');
  });
  after(() => good?.stop());

  it('finds nothing to say about a good deployment, and looks at all of it', async () => {
    const findings = await good.look();
    expect(findings.filter(({ outcome }) => outcome !== 'ok')).to.deep.equal([]);
    const looked = new Set(findings.map(({ check }) => check));
    const named = new Set(FAULTS.flatMap(({ found }) => found));
    // Only said when there is something to say.
    for (const silent of ['headers', 'ready']) named.delete(silent);
    expect([...looked]).to.include.members([...named]);
  });

  it('finds nothing from outside either, without the settings', async () => {
    const { look, authUrl, resourceUrl } = good;
    const findings = await look({
      authUrl,
      resourceUrl,
      settings: undefined,
    } as Partial<DeploymentOptions>);
    expect(findings.filter(({ outcome }) => outcome !== 'ok')).to.deep.equal([]);
    expect(findings.map(({ check }) => check)).not.to.include('store');
  });

  it('finds nothing about proxies that put their own X-Forwarded-For in place of what came', async () => {
    for (const proxy of Object.values(good.proxies))
      proxy.misbehave({ inward: (headers) => void (headers['x-forwarded-for'] = '127.0.0.1') });
    const findings = await good.look();
    expect(findings.filter(({ outcome }) => outcome !== 'ok')).to.deep.equal([]);
  });

  for (const { fault, plant, found, says, changed } of FAULTS) {
    it(`finds ${fault}, by ${found.join(' and ')}`, async () => {
      await plant(good);
      const findings = await good.look(changed?.(good));
      const wrong = findings.filter(({ outcome }) => /problem|warning/.test(outcome));
      expect([...new Set(wrong.map(({ check }) => check))].sort()).to.deep.equal(found);
      expect(wrong.map(({ what }) => what).join('\n')).to.match(says);
      for (const finding of wrong) expect(finding).to.include.keys('why', 'remedy');
    });
  }
});
