import { expect } from 'chai';
import {
  lastVerification,
  type LastVerification,
} from '../../src/audit/chain/daily-verification.ts';
import { connect, openConsent } from '../support/connection.ts';
import { useConsole } from '../support/console.ts';
import { createConnector, requestManagement } from '../support/management-api.ts';
import { call, callTool } from '../support/mcp.ts';
import { openSystemStore } from '../support/system-store.ts';
import { until } from '../support/until.ts';

/** The rows of the tables of a page: their cells, without markup. */
function rowsOf(html: string): string[] {
  return [...html.matchAll(/<tr>([\s\S]*?)<\/tr>/g)].map(([, row = '']) =>
    row
      .replaceAll(/<[^>]*>/g, ' ')
      .replaceAll(/\s+/g, ' ')
      .trim(),
  );
}

describe('the overview of the console', () => {
  const { system, signIn } = useConsole();

  it('shows connections, calls by access and outcome, and refusals by reason', async () => {
    const connector = await createConnector(system(), { level: 'operations' });
    const { link, accessToken } = await connect(system(), connector, { level: 'analytics' });
    expect((await callTool(link, accessToken, 'club_overview', {})).status).to.equal(200);
    expect((await callTool(link, accessToken, 'club_overview', {})).status).to.equal(200);
    expect((await callTool(link, accessToken, 'find_members', { name: 'a' })).status).to.equal(403);
    await call(link, 'wrong', { jsonrpc: '2.0', id: 1, method: 'ping' });
    const html = await until('the counts are written', async () => {
      const { page } = await signIn('');
      return rowsOf(page.html).includes('invalid_token 1') ? page.html : undefined;
    });
    const rows = rowsOf(html);
    expect(rows).to.include.members([
      'Totals and names 0 0 0',
      'Totals only 2 1 0',
      'insufficient_scope 1',
      'invalid_token 1',
    ]);
    // Today's approval, and this hour's calls.
    expect(rows.some((row) => /^today.* 1 0$/.test(row))).to.equal(true);
    expect(rows.some((row) => /^\d\d:00 UTC 2 1 0$/.test(row))).to.equal(true);
    expect(html).to.match(/<rect class="series-0" x="[\d.]+" y="[\d.]+" width="\d+/);
  });
});

describe('the overview of the console, after a person got no access', () => {
  const { system, signIn } = useConsole();

  it('the overview counts the refusal, and leads to the refused attempt', async () => {
    await openConsent(system(), await createConnector(system()), { person: 'alan' });
    const html = await until('the count is written', async () => {
      const { page } = await signIn('');
      return page.html.includes('1 refusal of a person without access') ? page.html : undefined;
    });
    const [, path = ''] = /href="\/console([^"]+)">See refused attempts/.exec(html) ?? [];
    expect((await signIn(path)).page.html).to.include('No entitlement in the settings file');
  });
});

describe('the overview of the console, before something ends', () => {
  const { system, signIn } = useConsole();

  it('names what ends within 14 days, and what to do', async () => {
    const expiresAt = new Date(Date.now() + 13 * 86_400_000).toISOString();
    await createConnector(system(), { expiresAt });
    const body = { name: 'Report', level: 'analytics', expiresIn: '13d' };
    await requestManagement(system(), 'POST', '/tokens', body);
    const { html } = (await signIn('')).page;
    expect(html).to.include('1 connector expires within 14 days. Change it to prolong it.');
    expect(html).to.include('1 token expires within 14 days. Create another for the programs');
    expect(html).not.to.match(/machine expires|client secret/);
  });
});

describe('the console after the daily verification of the audit log found problems', () => {
  const { system, signIn, open } = useConsole();

  it('the overview names them, and so does the audit log above its entries', async () => {
    const { browser, page } = await signIn('');
    expect(page.html).to.not.include('tampering');
    const { store } = await openSystemStore(system());
    await until('the first verification', async () => {
      return (await lastVerification(store)) !== undefined;
    });
    const problem = { kind: 'changed', id: 'item', time: new Date().toISOString() } as const;
    const last: LastVerification = {
      at: Date.now() / 1000,
      ok: false,
      checkpoints: 2,
      problems: [problem, { ...problem, kind: 'removed' }],
    };
    try {
      await store.set('audit-verification:last', last, Infinity);
    } finally {
      await store.close();
    }
    expect((await open(browser, '/overview')).html).to.match(
      /href="\/console\/audit#integrity">The last daily check found 2 signs of tampering in the audit log</,
    );
    const { html } = await open(browser, '/audit');
    const [above = '', below = ''] = html.split('<ul class="history">');
    expect(above).to.include('The last daily check found 2 signs of tampering in this log.');
    expect(below)
      .to.include('<bdi class="code">gatehouse audit verify</bdi>')
      .and.include('don’t count as tampering');
  });
});

describe('the console while the resource server is down', () => {
  const { system, signIn } = useConsole({
    store: 'redis',
    settings: { GATEHOUSE_ROLES: 'authorization-server,management' },
  });

  it('the overview links to the health page, which says what follows', async () => {
    const { page: overview } = await signIn('');
    expect(overview.html)
      .to.include('1 part of this service is unavailable')
      .and.include('href="/console/health"');
    const { page: health } = await signIn('/health');
    expect(health.html.match(/>Available</g)).to.have.length(2);
    expect(health.html.match(/>Unavailable</g)).to.have.length(1);
    expect(health.html)
      .to.include('Connected apps can’t get data right now.')
      .and.include(`${system().resource}/readyz`)
      .and.not.include('People may be unable to sign in');
  });
});
