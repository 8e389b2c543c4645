import { expect } from 'chai';
import type { Finding } from '../../src/doctor/report.ts';
import { managementClient } from '../../src/management/api/client.ts';
import { loadSettings } from '../../src/settings/load.ts';
import {
  KEY,
  type ManagementHost,
  openManagementHost,
  request,
} from '../management/management-host.ts';
import { examineSettings } from './fault.ts';

describe('doctor on audiences of connectors', () => {
  let host: ManagementHost;
  before(async () => {
    host = await openManagementHost();
  });
  after(() => host.close());

  /** Checks with the development identity provider under this id. */
  async function check(id: string, openClient = openApi): Promise<Finding[]> {
    const settings = loadSettings({ GATEHOUSE_SECRET: 'a root secret of more than 32 characters' });
    const identityProviders = settings.identityProviders.map((provider) => ({ ...provider, id }));
    return examineSettings({ ...settings, identityProviders }, ['audiences'], { openClient });
  }

  const openApi = () => managementClient({ url: host.url, key: KEY });

  it('RCN-04 rules that match nobody since the providers changed are a warning without addresses', async () => {
    const provider = 'development';
    const rules = [
      { email: 'ada@example.com', provider },
      { group: 'analysts' },
      { emailDomain: 'example.com' },
    ];
    for (const [name, audience] of [
      ['Some', rules],
      ['Domain', rules.slice(2)],
    ]) {
      const body = { name, level: 'analytics', audience };
      expect((await request(host, 'POST', '/api/v1/connectors', { body })).status).to.equal(201);
    }
    expect((await check(provider)).map(({ outcome }) => outcome)).to.deep.equal(['ok']);
    const [finding, ...others] = await check('renamed');
    expect([finding?.outcome, others]).to.deep.equal(['warning', []]);
    expect(finding?.what).to.match(
      /: "Some" \(email:…@example\.com@development, group:analysts@development\)$/,
    );
    expect(finding?.remedy).to.include('one of renamed');
  });

  it('audiences are not checked without the management API', async () => {
    const openClient = () => managementClient({ url: 'http://127.0.0.1:9', key: KEY });
    const [finding] = await check('development', openClient);
    expect(finding?.outcome).to.equal('unknown');
  });
});
