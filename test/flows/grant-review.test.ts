// Connections as CSV, for a review.
import { expect } from 'chai';
import { accessTo, gatehouse } from '../management/command-line.ts';
import { claimOf, grantIdOf } from '../support/account-page.ts';
import { openBrowser } from '../support/browser.ts';
import { connect } from '../support/connection.ts';
import { useConsole } from '../support/console.ts';
import { createConnector, requestManagement } from '../support/management-api.ts';

const HEADER =
  'person,email,account,app,clientId,redirectHost,connectorName,connector,level,since,lastUsed,rule,state,reason,id';

describe('A review of connections', () => {
  const { system, consoleUrl, signIn } = useConsole();

  const list = async (...args: string[]) => {
    const { management, managementKey } = system();
    const { code, stdout, stderr } = await gatehouse(
      ['grant', 'list', '--format', 'csv', ...args],
      accessTo({ url: management }, managementKey),
    );
    expect(code, stderr).to.equal(0);
    return stdout;
  };
  const connectTo = async (name: string) => {
    const connector = await createConnector(system(), { name });
    const as = { browser: openBrowser(system().origins) };
    return { connector, connection: await connect(system(), connector, { as }) };
  };

  it('names person, app, connector, level, times and rule of each connection that the options find, in CSV', async () => {
    const { connector, connection } = await connectTo('Reviewed');
    await connectTo('Another');
    const [header, line, rest] = (await list('--connector', 'Reviewed')).split('\r\n');
    expect([header, rest]).to.deep.equal([HEADER, '']);
    // An id may begin like a formula.
    const cells = (line?.split(',') ?? []).map((cell) => cell.replace(/^'/, ''));
    const [id, account] = [grantIdOf(connection), claimOf(connection, 'sub')];
    expect(cells).to.include.members([account, connection.client.id, connector.id, id, 'active']);
    expect(cells).to.include.members(['Reviewed', 'Test client', connector.level]);
    expect(cells[11]).to.match(/^entitlements\[\d+\]$/);
    expect(cells[9]).to.match(/^20\d\d-\d\d-\d\dT/);
    expect(cells[10]).to.match(/^20\d\d-\d\d-\d\dT/);
    await requestManagement(system(), 'DELETE', `/grants/${id}`);
    const ended = (await list('--connector', connector.id)).split('\r\n')[1]?.split(',') ?? [];
    expect([ended[11], ended[12], ended[13]]).to.deep.equal([
      '',
      'ended',
      'revoked_by_administrator',
    ]);
    expect(await list('--connector', connector.id, '--state', 'active')).to.equal(`${HEADER}\r\n`);
    expect((await list()).split('\r\n').length).to.be.at.least(4);
  });

  it('has no cell that a spreadsheet runs as a formula', async () => {
    const { connector } = await connectTo('=HYPERLINK("https://example.com")');
    const [, line] = (await list('--connector', connector.id)).split('\r\n');
    expect(line).to.include('"\'=HYPERLINK(""https://example.com"")"');
  });

  it('is downloaded in the console with the filters of the list', async () => {
    await connectTo('Downloaded');
    const { page, browser } = await signIn('/grants?q=Downloaded');
    expect(page.html).to.include('Download CSV').and.include('action="/console/grants/export"');
    const cookie = browser.jar.map(({ name, value }) => `${name}=${value}`).join('; ');
    const download = (query: string) =>
      fetch(consoleUrl(`/grants/export${query}`), {
        headers: { cookie, 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' },
      });
    const response = await download('?q=Downloaded');
    expect(response.headers.get('content-disposition')).to.match(
      /^attachment; filename="gatehouse-grants-20\d\d-\d\d-\d\d\.csv"$/,
    );
    expect(response.headers.get('content-type')).to.equal('text/csv; charset=utf-8');
    const lines = (await response.text()).split('\r\n');
    expect(lines).to.have.length(3);
    expect(lines[1]).to.include('Downloaded');
    expect((await download('?state=unknown')).status).to.equal(400);
  });
});
