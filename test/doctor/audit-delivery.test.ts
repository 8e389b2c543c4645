import { expect } from 'chai';
import { Webhook } from 'standardwebhooks';
import type { DeploymentOptions } from '../../src/doctor/deployment.ts';
import type { Finding } from '../../src/doctor/report.ts';
import { managementClient } from '../../src/management/api/client.ts';
import { loadSettings } from '../../src/settings/load.ts';
import { type AuditReceiver, itemsIn, startAuditReceiver } from '../support/audit-receiver.ts';
import { logRecordsIn } from '../support/otlp-logs.ts';
import { createConnector } from '../support/management-api.ts';
import { startSystem } from '../support/system.ts';
import { until } from '../support/until.ts';
import { type GoodDeployment, startGoodDeployment } from './good-deployment.ts';
import { settingsFile } from '../settings/settings-file.ts';
import { readFileSync } from 'node:fs';
import { parse } from 'yaml';

const SECRET = `whsec_${Buffer.alloc(32, 'd').toString('base64')}`;
const TOKEN = 'the-token-of-the-receiver';

describe("doctor's check of the receivers of the audit log", () => {
  let good: GoodDeployment;
  let receiver: AuditReceiver;
  before(async () => {
    good = await startGoodDeployment();
    receiver = await startAuditReceiver();
  });
  afterEach(() => receiver.answerWith(undefined));
  after(async () => {
    await good.stop();
    await receiver.stop();
  });

  async function check(
    delivery: object[],
    options: Partial<DeploymentOptions> = {},
  ): Promise<Finding[]> {
    const file = parse(readFileSync(good.environment['GATEHOUSE_CONFIG'] ?? '', 'utf8'));
    const settings = loadSettings({
      ...good.environment,
      GATEHOUSE_CONFIG: settingsFile({ ...file, audit: { delivery } }),
      SIEM_SECRET: SECRET,
      SIEM_TOKEN: `Bearer ${TOKEN}`,
    });
    return good.examine({ settings, ...options }, ['audit-delivery']);
  }
  const siem = () => ({
    id: 'siem',
    kind: 'webhook',
    url: receiver.url,
    privateNetwork: true,
    secretEnv: 'SIEM_SECRET',
    headers: { Authorization: { env: 'SIEM_TOKEN' } },
  });

  it('the check has no finding without receivers', async () => {
    expect(await check([])).to.deep.equal([]);
  });

  it('a receiver that accepts a signed test item passes', async () => {
    const [finding] = await check([siem()]);
    expect(finding).to.include({
      outcome: 'ok',
      about: 'siem',
      what: 'the receiver accepts a test item, and its signature is valid',
    });
    const sent = receiver.deliveries.at(-1);
    if (!sent) throw new Error('nothing was sent');
    new Webhook(SECRET).verify(sent.body, sent.headers as Record<string, string>);
    expect(itemsIn(sent).map(({ event }) => event)).to.deep.equal(['delivery_test']);
  });

  it('a collector that accepts a test record passes', async () => {
    const { id: _id, secretEnv: _secret, ...otel } = siem();
    const [finding] = await check([{ ...otel, id: 'otel', kind: 'otlp' }]);
    expect(finding).to.include({ outcome: 'ok', about: 'otel' });
    const [record] = logRecordsIn(receiver.deliveries.at(-1)?.body ?? Buffer.alloc(0));
    expect(record).to.include({ eventName: 'delivery_test' });
  });

  it('a receiver that refuses the test item is a problem, in its own words and without secrets', async () => {
    receiver.answerWith(({ headers }) => ({
      status: 401,
      body: `wrong key ${headers['authorization']}`,
    }));
    const [finding] = await check([siem()]);
    expect(finding).to.include({
      outcome: 'problem',
      what: 'the receiver does not accept a test item: HTTP 401: wrong key [hidden]',
    });
    expect(JSON.stringify(finding)).to.not.include(TOKEN);
  });

  it('what the running system says of a target is a finding of its own', async () => {
    receiver.answerWith(() => ({ status: 403, body: 'no quota' }));
    const system = await startSystem({
      file: { audit: { delivery: [{ ...siem(), headers: {} }] } },
      settings: { SIEM_SECRET: SECRET },
    });
    await createConnector(system);
    const client = managementClient({ url: system.management, key: system.managementKey });
    await until('the state', async () => {
      const { items } = await client.listAuditDelivery();
      return items[0]?.state === 'refused';
    });
    receiver.answerWith(undefined);
    const found = await check([siem()], { openClient: () => client });
    expect(found.map(({ outcome, what }) => [outcome, what])).to.deep.equal([
      ['problem', 'the receiver refuses everything: HTTP 403: no quota'],
      ['ok', 'the receiver accepts a test item, and its signature is valid'],
    ]);
    await system.stop();
  });

  it('a backlog without any item that can be decrypted is a warning', async () => {
    receiver.answerWith(() => ({ status: 500 }));
    const system = await startSystem({
      file: { audit: { delivery: [{ ...siem(), headers: {} }] } },
      settings: { SIEM_SECRET: SECRET },
    });
    await createConnector(system);
    const client = managementClient({ url: system.management, key: system.managementKey });
    const { items } = await until('the failure', async () => {
      const page = await client.listAuditDelivery();
      return page.items[0]?.state === 'retrying' ? page : undefined;
    });
    receiver.answerWith(undefined);
    // As of a process without the root secret.
    const undated = items.map(({ oldestAt: _oldestAt, ...item }) => item);
    const listAuditDelivery = async () => ({ items: undated });
    const found = await check([siem()], { openClient: () => ({ ...client, listAuditDelivery }) });
    expect(found[0]?.outcome).to.equal('warning');
    expect(found[0]?.what).to.match(/^\d+ audit items? wait, and cannot be decrypted$/);
    await system.stop();
  });

  it('an unreachable receiver is a problem', async () => {
    const [finding] = await check([{ ...siem(), url: 'http://127.0.0.1:1/x' }]);
    expect(finding).to.include({ outcome: 'problem' });
    expect(finding?.what).to.include('ECONNREFUSED');
  });
});
