import { expect } from 'chai';
import type { DeploymentOptions } from '../../src/doctor/deployment.ts';
import type { Finding } from '../../src/doctor/report.ts';
import { type ExaminedOptions, groupFaults } from './fault.ts';
import { type GoodDeployment, startGoodDeployment } from './good-deployment.ts';
import { SERVER_FAULTS } from './server-faults.ts';
import { PROXY_FAULTS } from './proxy-faults.ts';

const FAULTS = [...PROXY_FAULTS, ...SERVER_FAULTS];

describe('an examination by doctor', () => {
  let good: GoodDeployment;
  before(async function start() {
    good = await startGoodDeployment();
  });
  async function repair(): Promise<void> {
    for (const proxy of Object.values(good.proxies)) {
      proxy.behave();
      proxy.present(good.certificate);
    }
    good.provider.behave();
    await good.admin.config('SET', 'maxmemory-policy', 'noeviction');
    await good.admin.config('SET', 'maxmemory', '0');
    await good.admin.config('SET', 'appendfsync', 'everysec');
    await good.admin.config('SET', 'appendonly', 'yes');
  }
  after(() => good?.stop());

  it('every check runs and passes for a good deployment', async () => {
    const findings = await good.examine();
    expect(findings.filter(({ outcome }) => outcome !== 'ok')).to.deep.equal([]);
    const run = new Set(findings.map(({ check }) => check));
    const named = new Set(FAULTS.flatMap(({ found }) => found));
    // These have no finding for a passed check.
    for (const silent of ['client-keys', 'headers', 'ready']) named.delete(silent);
    expect([...run]).to.include.members([...named]);
  });

  it('every check from outside passes for a good deployment without its settings', async () => {
    const { examine, authUrl, resourceUrl } = good;
    const findings = await examine({
      authUrl,
      resourceUrl,
      settings: undefined,
    } as Partial<DeploymentOptions>);
    expect(findings.filter(({ outcome }) => outcome !== 'ok')).to.deep.equal([]);
    expect(findings.map(({ check }) => check)).not.to.include('store');
  });

  it('every check passes for proxies that replace X-Forwarded-For', async () => {
    for (const proxy of Object.values(good.proxies))
      proxy.misbehave({ inward: (headers) => void (headers['x-forwarded-for'] = '127.0.0.1') });
    const findings = await good.examine();
    await repair();
    expect(findings.filter(({ outcome }) => outcome !== 'ok')).to.deep.equal([]);
  });

  it('a stream that arrives as a whole once is read again, because the machine may be busy', async () => {
    const { resource } = good.proxies;
    let kept = 0;
    resource.misbehave({
      buffers: true,
      outward({ headers }) {
        if (!headers['content-type']?.startsWith('text/event-stream')) return;
        kept += 1;
        resource.behave();
      },
    });
    const findings = await good.examine();
    await repair();
    expect(kept).to.equal(1);
    expect(findings.filter(({ outcome }) => outcome !== 'ok')).to.deep.equal([]);
  });

  for (const [n, faults] of groupFaults(FAULTS).entries())
    describe(`of a deployment with several faults (${n + 1})`, () => {
      let reported: Finding[];
      before(async () => {
        let options: ExaminedOptions = { settings: good.settings };
        for (const { inject, changed } of faults) {
          await inject(good);
          options = changed?.(options) ?? options;
        }
        const findings = await good.examine(options);
        reported = findings.filter(({ outcome }) => /problem|warning/.test(outcome));
      });
      after(repair);

      for (const { fault, found, says } of faults) {
        it(`${fault} is reported by ${found.length > 1 ? 'the checks' : 'the check'} ${found.join(' and ')} and by no other`, () => {
          const own = reported.filter(({ check }) => found.includes(check));
          expect([...new Set(own.map(({ check }) => check))].sort()).to.deep.equal(found);
          const texts = [says].flat();
          for (const finding of own) {
            expect(
              texts.some((text) => text.test(finding.what)),
              finding.what,
            ).to.equal(true);
            expect(finding).to.include.keys('why', 'remedy');
          }
          for (const text of texts) expect(own.map(({ what }) => what).join('\n')).to.match(text);
          // Every other finding is about another fault.
          const expected = faults.flatMap((each) => each.found);
          expect(expected).to.include.members(reported.map(({ check }) => check));
        });
      }
    });
});
