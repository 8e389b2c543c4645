// What is stored about a person.
import { createServer } from 'node:http';
import { PassThrough } from 'node:stream';
import { expect } from 'chai';
import { runCommandLine } from '../../src/command-line.ts';
import { accessTo, gatehouse } from '../management/command-line.ts';
import { KEY } from '../management/management-host.ts';
import { claimOf, grantIdOf } from '../support/account-page.ts';
import { openBrowser } from '../support/browser.ts';
import { connect } from '../support/connection.ts';
import { listenOnLoopback } from '../support/loopback-server.ts';
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

  it('the command writes lines as they arrive', async () => {
    const account = 'A'.repeat(27);
    const output = new PassThrough();
    const server = createServer((req, res) => {
      res.setHeader('content-type', 'application/x-ndjson; charset=utf-8');
      if (!req.url?.endsWith('/export')) return res.end(JSON.stringify({ id: account }));
      res.write('{"account":{"name":"Ada \u202E"}}\n');
      return output.once('data', () => res.end('{"grant":{}}\n'));
    });
    const { origin, stop } = await listenOnLoopback(server);
    let written = '';
    output.on('data', (chunk: Buffer) => (written += chunk.toString()));
    const code = await runCommandLine(['account', 'export', account], {
      environment: accessTo({ url: origin }, KEY),
      stdout: output,
      stderr: new PassThrough(),
    });
    await stop();
    expect(code).to.equal(0);
    expect(written).to.equal('{"account":{"name":"Ada \\u202e"}}\n{"grant":{}}\n');
  });
});
