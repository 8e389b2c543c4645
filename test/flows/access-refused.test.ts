// What is recorded of a person who gets no access.
import { expect } from 'chai';
import { accessTo, gatehouse } from '../management/command-line.ts';
import { advanceClock } from '../support/clock.ts';
import { openConsent, requestAuthorization, type OpenConsent } from '../support/connection.ts';
import { openBrowser } from '../support/browser.ts';
import {
  type AuditItem,
  changeAccount,
  type Connector,
  type ConnectorOptions,
  createConnector,
  readAudit,
  requestManagement,
  revokeConnector,
} from '../support/management-api.ts';
import { readMetrics, sumOf } from '../support/metrics.ts';
import { type LogLine, useSystem } from '../support/system.ts';

const COUNT = 'gatehouse_access_refused_total';

describe('A person who gets no access', () => {
  const log: LogLine[] = [];
  const system = useSystem({ log });

  const refusalsOf = async ({ id }: Connector): Promise<AuditItem[]> =>
    (await readAudit(system())).filter(
      ({ event, connector }) => event === 'access_refused' && connector === id,
    );
  const counted = async (reason: string) => sumOf(await readMetrics(system()), COUNT, { reason });

  /** Checks that the item, the line and the count are there once, with the app and the person. */
  async function expectRefusal(
    reason: string,
    connector: Connector,
    { client }: Pick<OpenConsent, 'client'>,
    countBefore: number,
  ): Promise<AuditItem> {
    const items = await refusalsOf(connector);
    expect(items.map(({ event, reason: why }) => [event, why])).to.deep.equal([
      ['access_refused', reason],
    ]);
    const [item] = items;
    if (!item) throw new Error('no item');
    expect(item).to.include({ clientId: client.id, outcome: 'refused' });
    const lines = log.filter(
      (line) => line.msg === 'a person got no access' && line.connector === connector.id,
    );
    expect(lines.map((line) => [line.reason, line.account])).to.deep.equal([
      [reason, item.account],
    ]);
    expect(lines[0]?.requestId).to.match(/^[\w-]{12}$/);
    expect(await counted(reason)).to.equal(countBefore + 1);
    return item;
  }

  async function openRefused(
    reason: string,
    { person = 'grace', ...wanted }: ConnectorOptions & { person?: 'ada' | 'alan' | 'grace' } = {},
  ) {
    const connector = await createConnector(system(), wanted);
    const before = await counted(reason);
    const refused = await openConsent(system(), connector, {
      person,
      as: { browser: openBrowser(system().origins) },
    });
    expect(refused.page.status).to.equal(403);
    return { connector, refused, before };
  }

  it('a refusal without a matching rule is recorded with the kinds of rules that were tried, once for each authorization', async () => {
    const { connector, refused, before } = await openRefused('no_rule', { person: 'alan' });
    await refused.browser.visit(refused.page.url);
    const item = await expectRefusal('no_rule', connector, refused, before);
    expect(item.arguments).to.deep.include({ tried: ['subject', 'group'] });
    const [, reference = ''] = /<dd class="code">([\w-]{12})<\/dd>/.exec(refused.page.html) ?? [];
    const { management, managementKey } = system();
    const { stdout } = await gatehouse(
      ['why', reference],
      accessTo({ url: management }, managementKey),
    );
    expect(stdout).to.include('No entitlement in the settings file matches this person.');
    const unknown = await gatehouse(
      ['why', `${reference.slice(0, -1)}\u202E`],
      accessTo({ url: management }, managementKey),
    );
    expect(unknown.code).to.equal(1);
    expect(unknown.stderr)
      .to.include(`nothing has the reference ${reference.slice(0, -1)}\uFFFD: compare it`)
      .and.include('gatehouse attempts --account');
    expect(stdout).to.include('subject, group').and.include(`account show ${item.account}`);
    await refused.decide({ decision: 'deny' });
    const events = (await readAudit(system())).filter((other) => other.connector === connector.id);
    expect(events.map(({ event }) => event)).to.deep.equal(['connector_created', 'access_refused']);
  });

  it('a refusal of a connector for other people is recorded', async () => {
    const { connector, refused, before } = await openRefused('not_in_audience', {
      audience: [{ email: 'ada@example.com' }],
    });
    await expectRefusal('not_in_audience', connector, refused, before);
  });

  it('a refusal of a connector without uses is recorded', async () => {
    const connector = await createConnector(system(), { maxUses: 1 });
    const first = await openConsent(system(), connector, { person: 'ada' });
    await first.decide({ decision: 'approve' });
    const before = await counted('used_up');
    const refused = await openConsent(system(), connector, { person: 'grace' });
    await expectRefusal('used_up', connector, refused, before);
  });

  it('a disabled account is a reason of its own', async () => {
    const known = await openConsent(system(), await createConnector(system()), {
      person: 'grace',
      as: { browser: openBrowser(system().origins) },
    });
    expect(known.page.status).to.equal(200);
    const account = String(
      (await readAudit(system())).findLast(({ event }) => event === 'signed_in')?.account,
    );
    await changeAccount(system(), account, 'disable');
    const { connector, refused, before } = await openRefused('account_disabled');
    const item = await expectRefusal('account_disabled', connector, refused, before);
    expect(item.account).to.equal(account);
    await changeAccount(system(), account, 'enable');
    advanceClock(5);
  });

  const meanwhile: [
    reason: string,
    what: string,
    change: (connector: Connector, client: string) => Promise<unknown>,
  ][] = [
    ['connector_revoked', 'revokes the connector', ({ id }) => revokeConnector(system(), id)],
    [
      'connector_paused',
      'pauses the connector',
      ({ id }) => requestManagement(system(), 'PATCH', `/connectors/${id}`, { paused: true }),
    ],
    [
      'level_gone',
      'lowers the level of the connector',
      ({ id }) => requestManagement(system(), 'PATCH', `/connectors/${id}`, { level: 'analytics' }),
    ],
    [
      'not_in_audience',
      'limits the connector to others',
      ({ id }) =>
        requestManagement(system(), 'PATCH', `/connectors/${id}`, {
          audience: [{ email: 'alan@example.com' }],
        }),
    ],
    [
      'client_blocked',
      'blocks the app',
      (_, client) => requestManagement(system(), 'POST', `/clients/revoke`, { id: client }),
    ],
  ];
  for (const [reason, what, change] of meanwhile)
    it(`if an administrator ${what} while the person decides, ${reason} is recorded with the person`, async () => {
      const connector = await createConnector(system());
      const open = await openConsent(system(), connector, { person: 'ada' });
      const before = await counted(reason);
      await change(connector, open.client.id);
      await open.decide({ decision: 'approve', level: 'operations' });
      const item = await expectRefusal(reason, connector, open, before);
      expect(item.account).to.be.a('string');
    });

  it('a connector that has expired is recorded without an account before the sign-in', async () => {
    const expiresAt = new Date(Date.now() + 60_000).toISOString();
    const connector = await createConnector(system(), { expiresAt });
    const request = await requestAuthorization(system(), connector);
    advanceClock(61);
    const before = await counted('connector_expired');
    await openBrowser(system().origins).visit(request.url);
    const item = await expectRefusal('connector_expired', connector, request, before);
    expect(item).to.not.have.property('account');
  });

  it('LOG-10 above a limit, refusals from one address are counted and logged, and one item says that others are not recorded', async () => {
    const connector = await createConnector(system());
    await revokeConnector(system(), connector.id);
    const { url } = await requestAuthorization(system(), connector);
    const before = await counted('connector_revoked');
    for (let n = 0; n < 24; n += 1) await openBrowser(system().origins).visit(url);
    expect(await counted('connector_revoked')).to.equal(before + 24);
    const items = await refusalsOf(connector);
    expect(items.length).to.be.within(2, 21);
    expect(items.filter(({ outcome }) => outcome === 'refused_unrecorded')).to.have.length(1);
  });
});

describe('A person whose app has to be allowed', () => {
  const system = useSystem({ file: { clients: { registration: 'approval' } } });

  it('client_waiting is recorded with the person', async () => {
    const connector = await createConnector(system());
    const { page } = await openConsent(system(), connector, { person: 'ada' });
    expect(page.status).to.equal(403);
    const items = (await readAudit(system())).filter(({ event }) => event === 'access_refused');
    expect(items.map(({ reason }) => reason)).to.deep.equal(['client_waiting']);
    expect(items[0]?.account).to.be.a('string');
  });
});
