import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { type AuditItem, recordAudit } from '../../src/audit/audit.ts';
import { auditServices } from '../support/audit-services.ts';
import { connect } from '../support/connection.ts';
import { useConsole } from '../support/console.ts';
import { unescapeHtml } from '../support/html-forms.ts';
import { createConnector, requestManagement } from '../support/management-api.ts';
import { openSystemStore } from '../support/system-store.ts';

describe('the audit page of the console', () => {
  const ADMINISTRATORS = [
    { subject: 'ada', role: 'auditor' },
    { subject: 'alan', role: 'viewer' },
  ];
  const { system, signIn, open } = useConsole({
    file: { management: { administrators: ADMINISTRATORS } },
  });
  const DAY = 86_400;

  async function record(item: Partial<AuditItem>, at = Date.now() / 1000): Promise<void> {
    const { store } = await openSystemStore(system());
    try {
      const call = { event: 'call', outcome: 'answered', ...item };
      await recordAudit(auditServices(store, at), call);
    } finally {
      await store.close();
    }
  }

  function hrefs(html: string): string[] {
    return [...html.matchAll(/href="([^"]+)"/g)].map(([, href = '']) => unescapeHtml(href));
  }

  it('the pages of the app, the person and the connector lead to what the app did for the person yesterday', async () => {
    const connector = await createConnector(system(), { name: 'Numbers' });
    const { accessToken, client } = await connect(system(), connector, { person: 'grace' });
    const account = String(decodeJwt(accessToken).sub);
    const about = { account, clientId: client.id, connector: connector.id };
    const noonYesterday = (Math.floor(Date.now() / 1000 / DAY) - 0.5) * DAY;
    await record({ ...about, tool: 'read_yesterday' }, noonYesterday);
    await record({ ...about, tool: 'read_before' }, noonYesterday - DAY);
    await record({ ...about, tool: 'read_today' });
    await record({ ...about, account: 'machine:other', tool: 'read_by_other' }, noonYesterday);
    const { browser } = await signIn('', 'alan');
    for (const path of [
      `/clients/${client.id}`,
      `/accounts/${account}`,
      `/connectors/${connector.id}`,
    ]) {
      const { html } = await open(browser, path);
      const link = hrefs(html).find((href) => href.includes('since=yesterday')) ?? '';
      const page = await open(browser, link.replace('/console', ''));
      expect(page.html.match(/read_\w+/g), path).to.deep.equal([
        'read_yesterday',
        'read_yesterday',
      ]);
      expect(page.html).to.match(/Person: <bdi[^>]*>Grace Hopper</);
    }
    const { html } = await open(browser, `/connectors/${connector.id}`);
    const today = hrefs(html).find((href) => href.includes('since=today')) ?? '';
    expect((await open(browser, today.replace('/console', ''))).html)
      .to.include('read_today')
      .and.not.include('read_yesterday');
    expect(hrefs(html)).to.include(`/console/audit?connector=${connector.id}`);
  });

  it('days and times in the address narrow the page, the form keeps them, and a wrong one is named', async () => {
    const noon = Date.UTC(2026, 0, 15, 12) / 1000;
    for (const [tool, at] of [
      ['dated_14', noon - DAY],
      ['dated_15', noon],
      ['dated_16', noon + DAY],
    ] as const)
      await record({ tool }, at);
    const { browser } = await signIn('', 'alan');
    const toolsOn = async (query: string) => {
      const { html } = await open(browser, `/audit?${query}`);
      return [...new Set(html.match(/dated_\d+/g))];
    };
    expect(await toolsOn('from=2026-01-15&to=2026-01-15')).to.deep.equal(['dated_15']);
    expect(await toolsOn('since=2026-01-15&until=2026-01-16')).to.deep.equal(['dated_15']);
    expect(await toolsOn('since=2026-01-15T12:00:00Z&until=2026-01-20')).to.deep.equal([
      'dated_16',
      'dated_15',
    ]);
    for (const period of ['hour', 'yesterday'])
      expect(await toolsOn(`since=${period}&to=2026-01-15`), period).to.include('dated_14');
    const { html } = await open(
      browser,
      '/audit?since=hour&from=2026-01-15&tool=dated_15&outcome=answered',
    );
    expect(html)
      .to.match(/name="from" type="date" value="2026-01-15"/)
      .and.match(/name="tool" type="text" value="dated_15"/)
      .and.include('<option value="answered" selected>')
      .and.not.include('<option value="hour" selected>');
    const wrong = await open(browser, '/audit?from=yesterday');
    expect(wrong.status).to.equal(400);
    expect(wrong.html).to.include('Enter dates such as');
  });

  it('words find names, and the page says how many entries were searched', async () => {
    const { id } = await createConnector(system(), { name: 'Zanzibar' });
    await record({ connector: id, tool: 'of_zanzibar' });
    const { browser } = await signIn('', 'alan');
    const { html } = await open(browser, '/audit?q=zanzibar&event=call');
    expect(html)
      .to.include('of_zanzibar')
      .and.match(/\d+ entries were searched for these words/);
  });

  it('ROL-08 ROL-09 an auditor sees arguments and exports, a viewer neither', async () => {
    const seen = { argumentsJson: '{"member":"m-17"}', address: '203.0.113.7', userAgent: 'curl' };
    await record({ tool: 'with_arguments', ...seen });
    const viewer = await signIn('', 'alan');
    expect((await open(viewer.browser, '/audit?tool=with_arguments')).html)
      .to.include('with_arguments')
      .and.not.include('m-17')
      .and.not.include('203.0.113.7')
      .and.not.include('/audit/export');
    expect((await open(viewer.browser, '/audit/export?format=csv')).status).to.equal(403);
    const { browser } = await signIn('', 'ada');
    const page = await open(browser, '/audit?tool=with_arguments');
    expect(page.html).to.include('m-17').and.include('203.0.113.7');
    const form = page.forms.find(({ action }) => action.pathname === '/console/audit/export');
    const kept = form?.controls.map(({ name, value }) => [name, value]);
    expect(kept).to.deep.include(['tool', 'with_arguments']);
    const searched = await open(browser, '/audit?tool=with_arguments&q=with');
    expect(searched.html).to.include('A download uses the filters and ignores the Search box.');
    expect(page.html).not.to.include('ignores the Search box');
    const csv = await open(browser, '/audit/export?tool=with_arguments&format=csv');
    expect(csv.headers.get('content-disposition')).to.match(
      /^attachment; filename="gatehouse-audit-[\d-]+\.csv"$/,
    );
    expect(csv.html.split('\r\n')).to.have.lengthOf(3);
    expect(csv.html).to.include('m-17');
    const { items } = (await requestManagement(system(), 'GET', '/audit?event=audit_read')) as {
      items: AuditItem[];
    };
    expect(items.map(({ arguments: details }) => details)).to.deep.include.members([
      { read: 'arguments', tool: 'with_arguments' },
      { read: 'export', format: 'csv', tool: 'with_arguments' },
    ]);
  });
});
