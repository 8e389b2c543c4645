import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect } from 'chai';
import { managementClient } from '../../src/management/api/client.ts';
import { loadSettings } from '../../src/settings/load.ts';
import { examineSettings } from '../doctor/fault.ts';
import { createConnector, readAudit, requestManagement } from '../support/management-api.ts';
import { useSystem } from '../support/system.ts';
import { gatehouse } from './command-line.ts';

describe('The command keys rewrap', () => {
  const system = useSystem();
  const run = (...args: string[]) =>
    gatehouse(args, {
      GATEHOUSE_MANAGEMENT_URL: system().management,
      GATEHOUSE_MANAGEMENT_KEY: system().managementKey,
    });
  const change = (sql: string) => {
    const db = new DatabaseSync(join(system().dataDir, 'gatehouse.sqlite'));
    db.exec(sql);
    db.close();
  };

  it('keys rewrap counts all records, says that the previous secret can go, and is recorded', async () => {
    await createConnector(system());
    const { code, stdout, stderr } = await run('keys', 'rewrap', '--json');
    expect({ code, stderr }).to.deep.equal({ code: 0, stderr: '' });
    const { total, done, ...rest } = JSON.parse(stdout);
    expect(rest).to.deep.equal({ remaining: 0, failed: 0, unreadable: [] });
    expect(total).to.equal(done).and.be.above(3);
    const shown = await run('keys', 'rewrap');
    expect(shown.stdout)
      .to.include('remaining 0, failed 0')
      .and.include('GATEHOUSE_PREVIOUS_SECRET');
    expect((await readAudit(system())).at(-1)).to.include({
      event: 'keys_rewrapped',
      by: 'key:default',
    });
  });

  it('RTS-04 a record and an item of the audit log that cannot be read are counted and named, and nothing says that the previous secret can go', async () => {
    await createConnector(system());
    change(`
      INSERT INTO entry (name, value, expires) VALUES ('thing:${'x'.repeat(43)}', x'010203', 9e99);
      UPDATE log_entry SET value = CAST(substr(value, 1, 30) AS BLOB) WHERE number = 2;`);
    for (let time = 0; time < 2; time += 1) {
      const { code, stdout } = await run('keys', 'rewrap');
      expect(code).to.equal(1);
      expect(stdout)
        .to.include('remaining 0, failed 2')
        .and.include(`  thing:${'x'.repeat(43)}\n`)
        .and.match(/^ {2}audit:[\w-]{43} entry 2$/m)
        .and.not.include('GATEHOUSE_PREVIOUS_SECRET');
    }
    expect(await requestManagement(system(), 'GET', '/audit?limit=500')).to.include({
      unreadable: 1,
    });
    expect((await run('audit')).stdout).to.include('Items that cannot be read: 1 (');
    const openClient = () =>
      managementClient({ url: system().management, key: system().managementKey });
    const settings = loadSettings({ GATEHOUSE_SECRET: 'a root secret of more than 32 characters' });
    const findings = await examineSettings(settings, ['audit-integrity'], { openClient });
    expect(findings.map(({ what }) => what)).to.include('1 item of the newest ones cannot be read');
  });
});
