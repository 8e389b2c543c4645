import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { connect } from '../support/connection.ts';
import { useConsole } from '../support/console.ts';
import { createConnector } from '../support/management-api.ts';
import { callTool } from '../support/mcp.ts';

describe('Limits on calls in the console', () => {
  const { system, signIn, open, send } = useConsole({
    file: { limits: { calls: { perPerson: '1000/1d', perConnection: '3/10m' } } },
  });

  it('the pages of a connection and a person show what was used of which limit, and a button resets it', async () => {
    const connector = await createConnector(system(), { name: 'Reports', calls: '500/1d' });
    const { accessToken } = await connect(system(), connector, { person: 'grace' });
    const { sub, grant_id: grant } = decodeJwt(accessToken);
    for (let n = 0; n < 4; n += 1) await callTool(connector.link, accessToken, 'club_overview');
    const path = `/grants/${String(grant)}`;
    const { browser, page } = await signIn(path);
    const shown = (html: string) => {
      const [, section = ''] = /<h2 id="limits">([^]*?)<\/section>/.exec(html) ?? [];
      const rows = section.matchAll(/<dt>([^<]*)<\/dt>\s*<dd>([^<]*)<span[^>]*>([^<]*)/g);
      return Array.from(rows, ([, limit, used, rate]) => `${limit}: ${used?.trim()} (${rate})`);
    };
    expect(shown(page.html)).to.deep.equal([
      'All apps of the person: 3 of 1,000 used (1000/1d)',
      'This connection: 3 of 3 used (3/10m)',
      'All connections of the connector: 3 of 500 used (500/1d)',
    ]);
    const person = await open(browser, `/accounts/${String(sub)}`);
    expect(shown(person.html)).to.deep.equal(['All apps of the person: 3 of 1,000 used (1000/1d)']);
    const form = page.forms.find(
      ({ action }) => action.pathname === '/console/grants/reset-limits',
    );
    const fields = (form?.controls ?? []).map(({ name, value }) => [name, value]);
    const after = await send(browser, page, '/grants/reset-limits', Object.fromEntries(fields));
    expect(after.html).to.include('begin anew with its next call');
    expect(shown(after.html)[1]).to.equal('This connection: 0 of 3 used (3/10m)');
    expect(after.html)
      .to.include('began the limits on calls of a connection anew')
      .and.include('reached a limit on calls');
  });

  it('the page of a connector shows its limit, and its form changes it', async () => {
    const connector = await createConnector(system(), { name: 'Form', calls: '5/1m' });
    const { browser, page } = await signIn(`/connectors/${connector.id}`);
    expect(page.html).to.include('Limit on calls').and.include('5/1m');
    const form = await open(browser, `/connectors/${connector.id}/edit`);
    const controls = form.forms.flatMap((each) => each.controls);
    const named = controls.find(({ name }) => name === 'calls');
    expect(named?.value).to.equal('5/1m');
  });
});
