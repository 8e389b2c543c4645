import { expect } from 'chai';
import { textOf } from '../support/account-page.ts';
import { SAMPLE_WORDS } from '../support/consent.ts';
import { createConnector, readAllAudit, requestManagement } from '../support/management-api.ts';
import { connect, openConsent } from '../support/connection.ts';
import { callTool } from '../support/mcp.ts';
import { startSystem, type System } from '../support/system.ts';
import { startFastUpstream } from '../support/upstream/fast-upstream.ts';
import type { Upstream } from '../support/upstream/upstream-server.ts';
import { addressOf, mint } from '../links/minted-tokens/minting.ts';
import { accessTo, gatehouse } from '../management/command-line.ts';
import { until } from '../support/until.ts';

const LEVELS = [
  { id: 'read', title: { en: 'Read tickets', de: 'Tickets lesen' }, sees: 'Tickets & <comments>' },
  { id: 'write', title: "Answer {all} of the customer's tickets", hidden: 'Addresses' },
  { id: 'full', recorded: true },
];
const TOOLS = [
  { name: 'search', level: 'read' },
  { name: 'answer', level: 'write' },
];

describe('Levels of the operator', () => {
  let system: System;
  let upstream: Upstream;
  before(async () => {
    upstream = await startFastUpstream();
    system = await startSystem({
      file: {
        levels: LEVELS,
        entitlements: [
          { match: { subject: 'ada' }, level: 'full' },
          { match: { subject: 'grace' }, level: 'write' },
        ],
        resourceServer: { upstream: { url: upstream.url, tools: TOOLS } },
      },
    });
    upstream.trustIssuer(system.auth);
  });
  after(async () => {
    await system.stop();
    await upstream.close();
  });

  it('the metadata of both servers lists the levels as scopes', async () => {
    const { link, id } = await createConnector(system, { name: 'Desk', level: 'write' });
    const read = async (url: string) =>
      ((await (await fetch(url)).json()) as { scopes_supported: string[] }).scopes_supported;
    expect(await read(`${system.auth}/.well-known/oauth-authorization-server`)).to.deep.equal([
      'read',
      'write',
      'full',
      'offline_access',
    ]);
    const place = `/.well-known/oauth-protected-resource/connect/${id}/mcp`;
    expect(await read(new URL(place, link).href)).to.deep.equal(['read', 'write']);
  });

  it('a token has the approved level, and a tool of a higher level asks for that level', async () => {
    const { link } = await createConnector(system, { name: 'Desk', level: 'full' });
    const { accessToken, scope } = await connect(system, { link }, { level: 'read' });
    expect(scope).to.equal('read offline_access');
    expect((await callTool(link, accessToken, 'search')).rpc?.result).to.not.equal(undefined);
    const refused = await callTool(link, accessToken, 'answer');
    expect(refused.status).to.equal(403);
    expect(refused.headers.get('www-authenticate')).to.match(
      /error="insufficient_scope".* scope="write"/,
    );
    expect(
      (await callTool(link, accessToken, 'undeclared')).headers.get('www-authenticate'),
    ).to.match(/scope="full"/);
  });

  it('a person gets at most the level of the rules, and may choose a lower one', async () => {
    const { link } = await createConnector(system, { name: 'Desk', level: 'full' });
    const { page } = await openConsent(system, { link }, { person: 'grace' });
    expect(
      [...page.html.matchAll(/name="level"[^>]* value="(\w+)"/g)].map(([, id]) => id),
    ).to.deep.equal(['read', 'write']);
  });

  it('a minted token has a level of the settings', async () => {
    const { token } = await mint(system, { level: 'write' });
    const url = addressOf(system);
    expect((await callTool(url, token, 'answer')).rpc?.result?.isError).to.equal(undefined);
    const refused = await callTool(url, token, 'undeclared');
    expect(JSON.stringify(refused.rpc)).to.contain('needs the permission level full');
  });

  it('calls of a recorded level are in the audit log with their arguments, and others without', async () => {
    const { id, link } = await createConnector(system, { name: 'Desk', level: 'full' });
    for (const level of ['write', 'full']) {
      const { accessToken } = await connect(system, { link }, { level });
      await callTool(link, accessToken, 'search', { of: level });
    }
    const found = await until('both calls to be recorded', async () => {
      const items = await readAllAudit(system);
      const calls = items.filter(({ event, connector }) => event === 'call' && connector === id);
      return calls.length === 2 && calls;
    });
    const byLevel = Object.fromEntries(found.map((item) => [item['level'], item.argumentsJson]));
    expect(byLevel).to.deep.equal({ write: undefined, full: '{"of":"full"}' });
  });

  it('an unknown level is refused by API and command line with the levels that exist', async () => {
    const url = system.management;
    const access = accessTo({ url }, system.managementKey);
    for (const command of [
      ['connector', 'create', '--name', 'Desk', '--level', 'analytics'],
      ['token', 'mint', '--name', 'Desk', '--level', 'analytics'],
    ]) {
      const { code, stderr } = await gatehouse(command, access);
      expect(code).to.equal(1);
      expect(stderr).to.contain('level: one of read, write, full');
    }
    const { stdout } = await gatehouse(['completion', 'bash'], access);
    expect(stdout).to.contain("'connector create --level') candidates='read write full' ;;");
  });

  it('the OpenAPI document lists the levels', async () => {
    const document = JSON.stringify(await requestManagement(system, 'GET', '/openapi.json'));
    expect(document).to.contain('"enum":["read","write","full"]');
    expect(document).to.not.contain('analytics');
  });

  for (const language of ['de', 'en', 'es', 'fr', 'ja', 'pt'])
    it(`the consent page shows the texts of the settings and no word about the sample (${language})`, async () => {
      const { link } = await createConnector(system, { name: 'Desk', level: 'full' });
      const { browser, again } = await openConsent(system, { link });
      const url = again();
      url.searchParams.set('ui_locales', language);
      const { html } = await browser.openConsent(url);
      expect(html).to.contain(`<html lang="${language}"`);
      expect(html).to.contain(language === 'de' ? 'Tickets lesen' : 'Read tickets');
      expect(html).to.contain('Tickets &amp; &lt;comments&gt;');
      expect(html).to.contain('Answer {all} of the customer&#39;s tickets');
      expect(html).to.contain('Addresses');
      expect(html.match(/class="condition"/g)).to.have.length(1);
      expect(html).to.match(/(Level|Stufe|Nivel|Niveau|レベル|Nível) full/);
      expect(textOf({ html })).to.not.match(SAMPLE_WORDS);
    });
});
