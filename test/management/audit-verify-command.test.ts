import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { recordAudit } from '../../src/audit/audit.ts';
import { exportedLog, exportLine } from '../../src/audit/chain/export.ts';
import { makeCheckpoint } from '../../src/audit/chain/make-checkpoint.ts';
import { replaceAuditItems } from '../../src/audit/audit-log.ts';
import { auditServices } from '../support/audit-services.ts';
import { gatehouse, useCommandLine } from './command-line.ts';

describe('the commands that prove the audit log', () => {
  const { host, run, done, json } = useCommandLine();
  const services = () => auditServices(host().store, host().now());
  const record = () =>
    recordAudit(services(), { event: 'signed_in', account: 'a', outcome: 'done' });
  const fileWith = async (name: string, content: unknown) => {
    const file = join(host().directory, name);
    await writeFile(file, typeof content === 'string' ? content : JSON.stringify(content));
    return file;
  };
  const exported = async (filters: Record<string, string> = {}) => {
    const about = { issuer: 'https://auth.example.com', time: '2030-01-01T00:00:00.000Z', filters };
    const lines = [exportLine({ export: about })];
    for await (const line of exportedLog(host().store, {})) lines.push(exportLine(line));
    return lines.join('');
  };

  it('a log as it was written is verified, also from an export and against a kept checkpoint, with the keys that are printed', async () => {
    await record();
    await makeCheckpoint(services());
    await record();
    const verified = { ok: true, checkpoints: 1, problems: [], notes: [] };
    expect(await json('audit', 'verify')).to.deep.equal(verified);
    expect(await json('audit', 'verify', '--since', '1h')).to.deep.equal(verified);
    expect(await done('audit', 'verify')).to.include('is as it was written');
    const kept = await json('audit', '--event', 'checkpoint', '--limit', '1');
    const checkpoint = await fileWith('checkpoint.json', kept);
    expect(await json('audit', 'verify', '--checkpoint', checkpoint)).to.deep.equal(verified);
    const keys = await fileWith('keys.json', await done('audit', 'keys'));
    const file = await fileWith('export.jsonl', await exported());
    const offline = ['audit', 'verify', '--file', file, '--keys', keys, '--json'];
    const { code, stdout } = await gatehouse([...offline, '--checkpoint', checkpoint], {});
    expect({ code, result: JSON.parse(stdout) }).to.deep.equal({ code: 0, result: verified });
  });

  it('a finding has the exit code 1 and names the item', async () => {
    const { id, number, time } = await record();
    await makeCheckpoint(services());
    const changed = { id, number, time, event: 'signed_in', account: 'b', outcome: 'done' };
    await replaceAuditItems(host().store, [changed]);
    const { code, stdout } = await run('audit', 'verify', '--json');
    expect(code).to.equal(1);
    expect(JSON.parse(stdout)).to.deep.include({ problems: [{ kind: 'changed', id, time }] });
  });

  it('filtered exports and wrong options have the exit code 2', async () => {
    await record();
    await makeCheckpoint(services());
    const keys = await fileWith('keys.json', await done('audit', 'keys'));
    const file = await fileWith('export.jsonl', await exported({ account: 'a' }));
    const filtered = await run('audit', 'verify', '--file', file, '--keys', keys);
    expect(filtered.code).to.equal(2);
    expect(filtered.stderr).to.include('filters');
    expect((await run('audit', 'verify', '--file', file)).code).to.equal(2);
    const since = await run('audit', 'verify', '--file', file, '--keys', keys, '--since', '1d');
    expect(since.code).to.equal(2);
  });

  it('what could not be checked has the exit code 3', async () => {
    await record();
    await makeCheckpoint(services());
    const keys = await fileWith('keys.json', await done('audit', 'keys'));
    const file = await fileWith('export.jsonl', await exported());
    const other = JSON.parse(await done('audit', 'keys')) as { keys: { kid: string }[] };
    other.keys.forEach((key) => (key.kid = 'another'));
    const otherKeys = await fileWith('other.json', other);
    const unreachable = {
      GATEHOUSE_MANAGEMENT_URL: 'http://127.0.0.1:9',
      GATEHOUSE_MANAGEMENT_KEY: 'k'.repeat(40),
    };
    const outcomes = [
      await run('audit', 'verify', '--file', file, '--keys', otherKeys),
      await run('audit', 'verify', '--file', `${file}.none`, '--keys', keys),
      await run('audit', 'verify', '--file', keys, '--keys', keys),
      await run('audit', 'verify', '--checkpoint', keys),
      await gatehouse(['audit', 'verify'], unreachable),
    ];
    expect(outcomes.map(({ code }) => code)).to.deep.equal([3, 3, 3, 3, 3]);
    for (const { stderr } of outcomes) expect(stderr).to.match(/^gatehouse: .+/);
  });
});
