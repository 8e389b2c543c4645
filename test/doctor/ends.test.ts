// What ends within 14 days, as doctor, the metrics and the console say it.
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
import { DEVELOPMENT, load } from '../settings/settings-file.ts';
import { examineSettings } from './fault.ts';

const DAY = 86_400;
const dayAfter = (days: number) =>
  new Date(Date.now() + days * DAY * 1000).toISOString().slice(0, 10);

describe('What ends within 14 days', () => {
  let host: ManagementHost;
  beforeEach(async () => {
    host = await openManagementHost();
  });
  afterEach(() => host.close());

  async function create(path: string, body: object): Promise<{ id: string }> {
    const { status, body: answer } = await request(host, 'POST', `/api/v1/${path}`, { body });
    expect(status, JSON.stringify(answer)).to.equal(201);
    return answer as { id: string };
  }

  const level = 'analytics';
  async function createRecords(): Promise<void> {
    for (const [name, days] of [
      ['soon', 13],
      ['later', 15],
    ] as const) {
      const expiresIn = `${days}d`;
      const { id } = await create('connectors', { name: `${name} link`, level, expiresIn });
      await create('tokens', { name: `${name} token`, level, expiresIn });
      await create('clients', { name: `${name} machine`, level, connector: id, expiresIn });
    }
    await create('connectors', { name: 'forever', level });
    const { id } = await create('connectors', { name: 'revoked', level, expiresIn: '1d' });
    await request(host, 'DELETE', `/api/v1/connectors/${id}`);
  }

  function check(clientSecretExpires: string): Promise<Finding[]> {
    const settings = loadSettings({ GATEHOUSE_SECRET: 'a root secret of more than 32 characters' });
    const identityProviders = settings.identityProviders.map((provider) => ({
      ...provider,
      clientSecretExpires,
    }));
    const openClient = () => managementClient({ url: host.url, key: KEY });
    return examineSettings({ ...settings, identityProviders }, ['ends'], { openClient });
  }

  it('doctor names the client secret of an MCP server, whose settings say when it ends', async () => {
    const upstream = (id: string, clientSecretExpires: string) => ({
      id,
      url: `https://${id}.example.com/mcp`,
      credential: {
        kind: 'oauth',
        clientId: 'gatehouse',
        clientSecret: 'a secret',
        clientSecretExpires,
      },
    });
    const settings = load({
      ...DEVELOPMENT,
      resourceServer: {
        upstreams: [upstream('tools', dayAfter(10)), upstream('later', dayAfter(20))],
      },
    });
    const openClient = () => managementClient({ url: host.url, key: KEY });
    const [found, ...others] = await examineSettings(settings, ['ends'], { openClient });
    expect(others).to.deep.equal([]);
    expect(found?.what).to.equal(`1 client secret ends soon: "upstream tools" (${dayAfter(10)})`);
  });

  it('doctor names connectors, minted tokens, machines and client secrets that end within 14 days', async () => {
    await createRecords();
    const found = await check(dayAfter(10));
    expect(found.map(({ outcome }) => outcome)).to.deep.equal(Array(4).fill('warning'));
    const texts = found.map(({ what }) => what);
    for (const name of ['"soon link"', '"soon token"', '"soon machine"', dayAfter(10)])
      expect(
        texts.filter((text) => text.includes(name)),
        name,
      ).to.have.length(1);
    expect(texts.join()).not.to.match(/later|forever|revoked/);
    const remedies = found.map(({ remedy }) => remedy).join();
    expect(remedies).to.include('mint another').and.include('gatehouse client update --expires');
  });

  it('doctor is content if nothing ends soon', async () => {
    await create('connectors', { name: 'forever', level });
    expect((await check(dayAfter(20))).map(({ outcome }) => outcome)).to.deep.equal(['ok']);
  });

  it('the metrics count what ends, by kind', async () => {
    await createRecords();
    const { body } = await request(host, 'GET', '/metrics');
    const counts = [...String(body).matchAll(/^gatehouse_ending\{kind="(\w+)"\} (\d+)$/gm)];
    expect(
      Object.fromEntries(counts.map(([, kind, count]) => [kind, Number(count)])),
    ).to.deep.equal({
      connector: 1,
      token: 1,
      machine: 1,
      signing_key: 0,
      client_secret: 0,
    });
  });
});
