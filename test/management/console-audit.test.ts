import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { type AuditItem, recordAudit } from '../../src/audit/audit.ts';
import { auditServices } from '../support/audit-services.ts';
import { connect, REDIRECT_URI, registerClient } from '../support/connection.ts';
import { useConsole } from '../support/console.ts';
import { unescapeHtml } from '../support/html-forms.ts';
import { createConnector, listGrants, requestManagement } from '../support/management-api.ts';
import { discover } from '../support/oauth.ts';
import { openSystemStore } from '../support/system-store.ts';

describe('the sentences of the audit log in the console', () => {
  const ADMINISTRATORS = [{ subject: 'ada' }];
  const { system, signIn, open } = useConsole({
    file: { management: { administrators: ADMINISTRATORS } },
  });

  async function connected(names: { app: string; connector: string }) {
    const connector = await createConnector(system(), { name: names.connector });
    const { server } = await discover(connector.link);
    const client = await registerClient(server, 'none', REDIRECT_URI, names.app);
    const { accessToken } = await connect(system(), connector, { person: 'grace', as: { client } });
    return { connector, app: client.id, person: String(decodeJwt(accessToken).sub) };
  }

  async function openAs(path: string) {
    const { browser } = await signIn();
    return { browser, page: await open(browser, path) };
  }

  /** The sentences of a page without markup, the newest first. */
  function sentencesIn(html: string): string[] {
    return [...html.matchAll(/<p id="event-\d+">([^]*?)<\/p>/g)].map(([, text = '']) =>
      unescapeHtml(text.replaceAll(/<[^>]+>/g, '')),
    );
  }

  async function record(...items: Omit<AuditItem, 'time'>[]): Promise<void> {
    const { store } = await openSystemStore(system());
    try {
      for (const item of items) await recordAudit(auditServices(store, Date.now() / 1000), item);
    } finally {
      await store.close();
    }
  }

  it('an approval links the person, the app and the connector, and names the access', async () => {
    const { connector, app, person } = await connected({ app: 'Claude', connector: 'Numbers' });
    const { browser, page } = await openAs(`/audit?event=consent_approved&client=${app}`);
    expect(sentencesIn(page.html)).to.deep.equal([
      'Grace Hopper approved Claude for Numbers with access “Totals and names”',
    ]);
    for (const path of [`accounts/${person}`, `clients/${app}`, `connectors/${connector.id}`])
      expect(page.html).to.include(`<a href="/console/${path}"><bdi class="`);
    expect(page.html).to.match(/>[A-Z][a-z]{2} \d+, \d{4}, \d+:\d\d:\d\d\s[AP]M UTC<\/time>/);
    const list = await open(browser, '/connectors');
    const [, title = '', read] =
      /<time [^>]*title="([^"]+)">now<span class="unseen">([^<]+)</.exec(list.html) ?? [];
    expect(read).to.equal(` (${title})`);
  });

  it('the history of a connection says in one sentence each who ended it and why', async () => {
    const { app } = await connected({ app: 'Cursor', connector: 'Reports' });
    const { app: other, connector } = await connected({ app: 'Codex', connector: 'Revoked' });
    const [grant] = (await listGrants(system(), { client: app })).items;
    await requestManagement(system(), 'DELETE', `/grants/${String(grant?.id)}`);
    await requestManagement(system(), 'DELETE', `/connectors/${connector.id}`);
    await requestManagement(system(), 'POST', '/clients/revoke', { id: other });
    const { page, browser } = await signIn(`/clients/${app}`);
    expect(sentencesIn(page.html)[0]).to.equal(
      'Management API key “default” ended Grace Hopper’s connection from Cursor to Reports',
    );
    expect(sentencesIn((await open(browser, '/audit')).html))
      .to.include('Management API key “default” revoked the connector Revoked')
      .and.include('Management API key “default” revoked Codex');
  });

  it('names with markup and bidirectional controls are shown as text', async () => {
    const hostile = '<img src=x onerror=alert(1)>';
    const { person } = await connected({ app: `"${hostile}\u202E`, connector: `${hostile}'` });
    const { page } = await openAs(`/audit?account=${person}`);
    expect(page.html)
      .to.include('<bdi class="claim">&#34;&lt;img src=x')
      .and.not.include('<img src=x')
      .and.not.include('\u202E');
    await record({
      event: 'token_minted',
      arguments: { name: hostile },
      by: hostile,
      outcome: 'done',
    });
    await record({ event: hostile, reason: hostile, outcome: hostile, tool: hostile });
    const { page: all } = await openAs('/audit?since=hour');
    expect(all.html).to.include('&lt;img').and.not.include('<img src=x');
    expect(sentencesIn(all.html)).to.include(`Other event: ${hostile}`);
  });

  it('what a server changed names the server, the tool and whether it is new', async () => {
    const change = { event: 'tools_changed', upstream: 'orders', outcome: 'done' };
    await record({ ...change, tool: 'refund_order', arguments: { change: 'new' } });
    for (const kind of ['changed', 'new']) await record({ ...change, arguments: { change: kind } });
    const { page } = await openAs('/audit?event=tools_changed');
    expect(sentencesIn(page.html)).to.deep.equal([
      'orders changed its instructions or more tools',
      'orders changed its instructions or more tools',
      'orders added refund_order',
    ]);
  });

  it('deleted people, apps and connectors are said to be deleted', async () => {
    const gone = { account: 'A'.repeat(27), clientId: 'gone'.repeat(8), connector: 'gone' };
    await record({
      event: 'refresh_replay',
      ...gone,
      outcome: 'grant_ended',
      reason: 'refresh_replay',
    });
    const { page } = await openAs('/audit?event=refresh_replay');
    expect(sentencesIn(page.html)).to.deep.equal([
      'A deleted person’s connection from a deleted app to a deleted connector ended: an old refresh token was used again',
    ]);
  });

  it('items of earlier versions, with the id alone or nothing in `by`, are readable', async () => {
    const { person } = await connected({ app: 'Old', connector: 'Older' });
    const item = { event: 'token_revoked', arguments: { name: 'Nightly' }, outcome: 'done' };
    await record(item, { ...item, by: person }, { ...item, by: `account:${person}` });
    await record({ ...item, by: 'key:ops' });
    const { page } = await openAs('/audit?event=token_revoked');
    expect(sentencesIn(page.html)).to.deep.equal([
      'Management API key “ops” revoked the token Nightly',
      'Grace Hopper revoked the token Nightly',
      'Grace Hopper revoked the token Nightly',
      'An administrator (older entry without a name) revoked the token Nightly',
    ]);
  });

  it('a refused call says, in English whatever the browser asks for, that it was refused, and its arguments are among the details', async () => {
    const call = { event: 'call', tool: 'export_members', arguments: { month: 'May' } };
    const program = { account: 'minted:0', clientId: 'minted:0' };
    await record({ ...call, ...program, outcome: 'refused' });
    const { page } = await openAs('/audit?event=call&ui_locales=de');
    expect(sentencesIn(page.html)).to.deep.equal([
      'A deleted token tried to call export_members Refused',
    ]);
    const [, details = ''] = page.html.split('<details class="more">');
    expect(page.html).to.include('<span class="badge doubt">Refused</span>');
    expect(details).to.include('{&#34;month&#34;:&#34;May&#34;}').and.include('>minted:0<');
    const { arguments: _, ...allowed } = { ...call, argumentsJson: '{"month":"June"}' };
    await record({ ...allowed, ...program, outcome: 'allowed' });
    expect((await openAs('/audit?event=call')).page.html).to.include(
      '{&#34;month&#34;:&#34;June&#34;}',
    );
  });

  it('the log of one person says whose it is, and keeps the person when it is filtered', async () => {
    const { person } = await connected({ app: 'Kept', connector: 'Kept' });
    const { page } = await openAs(`/audit?account=${person}&event=consent_approved`);
    expect(page.html)
      .to.include(`<input type="hidden" name="account" value="${person}">`)
      .and.match(/Person: <bdi class="claim">Grace Hopper</);
  });
});
