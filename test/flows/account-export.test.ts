// What is stored about a person.
import { expect } from 'chai';
import { accessTo, gatehouse } from '../management/command-line.ts';
import { claimOf, grantIdOf } from '../support/account-page.ts';
import { openBrowser } from '../support/browser.ts';
import { connect } from '../support/connection.ts';
import { createConnector, requestManagement } from '../support/management-api.ts';
import { until } from '../support/until.ts';
import { useSystem } from '../support/system.ts';

describe('An export of an account', () => {
  const system = useSystem();

  const exported = async (account: string) => {
    const { management, managementKey } = system();
    return gatehouse(['account', 'export', account], accessTo({ url: management }, managementKey));
  };

  it('has the account with what is kept out, its connections, attempts and audit items, of nobody else, without tokens, and is on record', async () => {
    const connectAs = async (person: 'ada' | 'grace') =>
      connect(system(), await createConnector(system()), {
        person,
        as: { browser: openBrowser(system().origins) },
      });
    const [connection, other] = [await connectAs('ada'), await connectAs('grace')];
    const [account, id] = [claimOf(connection, 'sub'), grantIdOf(connection)];
    await requestManagement(system(), 'DELETE', `/grants/${id}?keepOut=true`);
    // Attempts are written later than the responses.
    await until('the attempt to be stored', async () => {
      const listed = await requestManagement(system(), 'GET', `/attempts?account=${account}`);
      return (listed as { items: object[] }).items.length > 0;
    });
    const { code, stdout, stderr } = await exported(account);
    expect(code, stderr).to.equal(0);
    const lines = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, Record<string, unknown>>);
    expect(lines[0]?.['account']).to.include({ id: account });
    expect(JSON.stringify(lines[0]?.['account']?.['keptOut'])).to.include(id);
    expect(lines.find(({ grant }) => grant)?.['grant']).to.include({ id, account });
    expect(lines.some(({ attempt }) => attempt?.['account'] === account)).to.equal(true);
    expect(stdout).to.include('"consent_approved"').and.include('"kept_out"');
    for (const absent of [
      connection.accessToken,
      String(connection.refreshToken),
      claimOf(other, 'sub'),
      grantIdOf(other),
    ])
      expect(stdout).to.not.include(absent);
    const path = `/audit?event=audit_read&account=${account}`;
    const reading = await requestManagement(system(), 'GET', path);
    expect(JSON.stringify(reading)).to.include('"read":"export"');
    expect((await exported('A'.repeat(27))).code).to.not.equal(0);
  });
});
