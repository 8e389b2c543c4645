// Rules about groups, and an identity provider that sends none.
import { expect } from 'chai';
import { managementClient } from '../../src/management/api/client.ts';
import { loadSettings } from '../../src/settings/load.ts';
import { accessTo, gatehouse } from '../management/command-line.ts';
import { openBrowser, requireExternalRedirect, requirePage } from '../support/browser.ts';
import { requestAuthorization } from '../support/connection.ts';
import { createConnector, requestManagement } from '../support/management-api.ts';
import {
  OPENID_CLIENT,
  type OpenIdProvider,
  startOpenIdProvider,
} from '../support/openid-provider.ts';
import {
  createDeployment,
  type Deployment,
  type LogLine,
  startDeployment,
  type System,
} from '../support/system.ts';
import { until } from '../support/until.ts';
import { examineSettings } from './fault.ts';

const SETTINGS = loadSettings({ GATEHOUSE_SECRET: 'a root secret of more than 32 characters' });
const WORDS = 'nobody who signed in through default in the last week had groups';

describe('Groups that do not arrive', () => {
  const log: LogLine[] = [];
  let provider: OpenIdProvider;
  let place: Deployment;
  let system: System;
  const start = () => startDeployment(place, { GATEHOUSE_DEVELOPMENT_IDP_URL: '' }, { log });
  before(async () => {
    provider = await startOpenIdProvider();
    place = await createDeployment({
      file: {
        developmentIdp: undefined,
        management: { administrators: [] },
        identityProvider: { issuer: provider.issuer, ...OPENID_CLIENT },
        entitlements: [{ match: { group: 'analysts' }, level: 'full' }],
      },
    });
    system = await start();
  });
  after(async () => {
    await system?.stop();
    await place?.release();
    await provider?.stop();
  });

  async function signIn(groups?: string[]): Promise<void> {
    const claims = { sub: 'ada', name: 'Ada', email: 'ada@example.com', email_verified: true };
    provider.setBehaviour({ claims: { ...claims, ...(groups ? { groups } : {}) } });
    const { url } = await requestAuthorization(system, await createConnector(system));
    const browser = openBrowser([system.auth]);
    const departure = requireExternalRedirect(await browser.visit(url));
    requirePage(await browser.visit(provider.approve(departure)));
  }

  async function findings() {
    const { management, managementKey } = system;
    const openClient = () => managementClient({ url: management, key: managementKey });
    const found = await examineSettings(SETTINGS, ['entitlements'], { openClient });
    return found.filter(({ outcome }) => outcome === 'warning');
  }

  it('doctor and the start say so once somebody signed in, and name scope and claim, until somebody has groups', async () => {
    expect(await findings()).to.deep.equal([]);
    await signIn();
    const [finding] = await findings();
    expect(finding?.what).to.include(WORDS).and.include('entitlements[0]');
    expect(finding?.remedy).to.include('scopes').and.include('the claim groups (groupsClaim)');
    await system.stop();
    system = await start();
    await until('the start warns', () => log.some(({ msg }) => String(msg).includes(WORDS)));
    await signIn(['staff']);
    expect(await findings()).to.deep.equal([]);
  });

  it('a new connector says how many known people its audience matches, and warn about none', async () => {
    await signIn(['staff']);
    const { management, managementKey } = system;
    const create = async (group: string) => {
      const args = ['connector', 'create', '--name', group, '--level', 'full'];
      const { stdout } = await gatehouse(
        [...args, '--for', `group:${group}`],
        accessTo({ url: management }, managementKey),
      );
      return stdout;
    };
    expect(await create('staff')).to.match(/matches +1 of 1 known people\n/);
    expect(await create('Staff')).to.match(/matches +0 of 1 known people: check the audience/);
    const shown = await requestManagement(system, 'POST', '/connectors', {
      name: 'Analysts',
      level: 'full',
      audience: [{ group: 'analysts' }],
    });
    expect(shown).to.have.property('people').that.deep.equals({ matched: 0, known: 1 });
  });
});
