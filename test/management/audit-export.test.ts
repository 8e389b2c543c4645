import { get } from 'node:http';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect } from 'chai';
import { type AuditItem, auditItem, recordAudit, storeAudit } from '../../src/audit/audit.ts';
import { makeCheckpoint } from '../../src/audit/chain/make-checkpoint.ts';
import { auditServices } from '../support/audit-services.ts';
import { accessTo, gatehouse, spawnGatehouse, useCommandLine } from './command-line.ts';
import { KEYS, request } from './management-host.ts';

describe('the export of the audit log', () => {
  const { host, run, done, json } = useCommandLine();
  const services = () => auditServices(host().store, host().now());
  const record = (item: Partial<AuditItem> = {}) =>
    recordAudit(services(), { event: 'call', outcome: 'answered', ...item });
  const recordMany = (count: number, item: Partial<AuditItem>) =>
    storeAudit(
      services(),
      Array.from({ length: count }, () => {
        const call = { event: 'call', outcome: 'answered', ...item };
        return { item: auditItem(services(), call), part: 'bulk' as const };
      }),
    );
  const ended = async () => {
    const started = await record({ tool: 'export_cards', outcome: 'started' });
    const end = { id: 'end', time: started.time, event: 'call_ended', outcome: 'failed', ms: 7 };
    const item = { ...end, call: started.id };
    await storeAudit(services(), [{ item, part: 'lasting', completes: started }]);
  };
  const linesOf = (lines: string) =>
    lines
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
  const reads = async () => (await json('audit', '--event', 'audit_read')).items as AuditItem[];

  it('an unfiltered export has items as they are stored, and can be verified without the store', async () => {
    await ended();
    await record({ argumentsJson: '{"to":"\u202E\u0085"}' });
    await makeCheckpoint(services());
    await record();
    const exported = await done('audit', 'export');
    expect(exported).to.not.match(/[\u202E\u0085]/);
    const [{ export: about }, ...lines] = linesOf(exported);
    expect(about).to.deep.include({ issuer: 'https://auth.example.com', filters: {} });
    const events = lines.flatMap(({ event }) => event ?? []);
    expect(events).to.include.members(['call', 'call_ended', 'checkpoint', 'audit_read']);
    expect(lines.some(({ argumentsJson }) => argumentsJson === '{"to":"\u202E\u0085"}')).to.equal(
      true,
    );
    const [file, keys] = ['export.jsonl', 'keys.json'].map((name) => join(host().directory, name));
    await writeFile(String(file), exported);
    await writeFile(String(keys), await done('audit', 'keys'));
    const verified = await json('audit', 'verify', '--file', String(file), '--keys', String(keys));
    expect(verified).to.deep.include({ ok: true, checkpoints: 1, problems: [] });
  });

  it('a filtered export has what lists show, with present names, and is refused by the verification', async () => {
    const body = { name: 'Quarterly', level: 'analytics' };
    const { id } = (await request(host(), 'POST', '/api/v1/connectors', { body })).body;
    await ended();
    await recordMany(1200, { tool: 'other', connector: String(id) });
    const exported = await done('audit', 'export', '--connector', 'Quarterly', '--event', 'call');
    const [{ export: about }, ...lines] = linesOf(exported);
    expect(about.filters).to.deep.equal({ connector: id, event: 'call' });
    expect(lines).to.have.lengthOf(1200);
    expect(lines[0]).to.deep.include({ tool: 'other', names: { connector: 'Quarterly' } });
    const failed = linesOf(await done('audit', 'export', '--tool', 'export_cards'));
    expect(failed.slice(1)).to.have.lengthOf(1);
    expect(failed[1]).to.include({ event: 'call', outcome: 'failed', ms: 7 });
    const file = join(host().directory, 'export.jsonl');
    await writeFile(file, exported);
    const keys = join(host().directory, 'keys.json');
    await makeCheckpoint(services());
    await writeFile(keys, await done('audit', 'keys'));
    expect((await run('audit', 'verify', '--file', file, '--keys', keys)).code).to.equal(2);
  });

  it('LOG-17 no cell of CSV is a formula, ends its line or moves a cursor, and long texts are whole', async () => {
    const long = 'x'.repeat(1_000_000);
    const dangerous = [
      '=1+1',
      '+1',
      '-1',
      '@SUM(A1)',
      '\tx',
      '\rx',
      '\nx',
      '＝1',
      '＋1',
      '－1',
      '＠x',
      ' =1',
    ];
    for (const clientName of dangerous) await record({ clientName });
    await record({ clientName: 'a "quoted", text\r\nof two lines' });
    await record({ clientName: '\u001B[2J\u202Ex', argumentsJson: JSON.stringify({ long }) });
    const rows = cellsOf(await done('audit', 'export', '--format', 'csv', '--event', 'call'));
    const [headings = [], ...items] = rows;
    const column = (name: string) => items.map((cells) => cells[headings.indexOf(name)]);
    expect(column('clientName')).to.deep.equal([
      ...dangerous.map((text) => `'${text}`),
      'a "quoted", text\r\nof two lines',
      '\uFFFD[2J\uFFFDx',
    ]);
    expect(column('arguments').at(-1)).to.equal(JSON.stringify({ long }));
    for (const time of column('time')) expect(time).to.match(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
  });

  it('an export and a verification say on a terminal how far they are', async () => {
    await record();
    await makeCheckpoint(services());
    const onTerminal = (...args: string[]) =>
      gatehouse(['audit', ...args], accessTo(host()), { isTerminal: true });
    const exported = await onTerminal('export');
    const count = exported.stdout.trimEnd().split('\n').length;
    expect(exported.stderr).to.match(new RegExp(`\\r${count} lines\n$`));
    const [file, keys] = ['export.jsonl', 'keys.json'].map((name) => join(host().directory, name));
    await writeFile(String(file), exported.stdout);
    await writeFile(String(keys), await done('audit', 'keys'));
    const verified = await onTerminal('verify', '--file', String(file), '--keys', String(keys));
    expect(verified).to.deep.include({ code: 0, stderr: '\r1 checkpoints' });
  });

  it('ROL-09 a viewer exports nothing', async () => {
    const headers = { Authorization: `Bearer ${KEYS.viewer}` };
    const { status } = await request(host(), 'GET', '/api/v1/audit/export', { headers });
    expect(status).to.equal(403);
    expect(await reads()).to.deep.equal([]);
  });

  it('ROL-09 an export, a verification and a view of arguments are recorded, once an hour for the same', async () => {
    await record({ tool: 'find', account: 'a'.repeat(27), argumentsJson: '{}' });
    await record({ tool: 'other' });
    await done('audit', '--tool', 'other');
    expect(await reads()).to.deep.equal([]);
    for (let twice = 0; twice < 2; twice += 1) {
      await done('audit', '--tool', 'find');
      await done('audit', '--tool', 'find', '--account', 'machine:none');
      await done('audit', 'export', '--format', 'csv');
      await done('audit', 'export');
      // There is no checkpoint yet.
      expect((await gatehouse(['audit', 'verify'], accessTo(host()))).code).to.equal(3);
    }
    const given = (await reads()).map(({ by, arguments: details }) => ({ by, details }));
    const by = 'key:default';
    expect(given).to.deep.equal([
      { by, details: { read: 'verification' } },
      { by, details: { read: 'export', format: 'jsonl' } },
      { by, details: { read: 'export', format: 'csv' } },
      { by, details: { read: 'arguments', tool: 'find' } },
    ]);
    host().clock.ahead += 3601;
    await done('audit', '--tool', 'find');
    expect(await reads()).to.have.lengthOf(5);
  });

  it('LOG-18 the server stops reading when the reader leaves, and serves others while a reader waits', async () => {
    await recordMany(40, { argumentsJson: JSON.stringify('x'.repeat(500_000)) });
    const headers = { Authorization: `Bearer ${KEYS.auditor}` };
    const waiting = get(`${host().url}/api/v1/audit/export`, { headers });
    const [response] = await once(waiting, 'response');
    response.pause();
    const { status } = await request(host(), 'GET', '/api/v1/audit?limit=1', { headers });
    expect(status).to.equal(200);
    waiting.destroy();
    expect(linesOf(await done('audit', 'export', '--event', 'call'))).to.have.lengthOf(41);
  });

  it('LOG-18 the command ends without an error when nobody reads what it writes', async () => {
    await recordMany(40, { argumentsJson: JSON.stringify('x'.repeat(500_000)) });
    const { PATH = '' } = process.env;
    const child = spawnGatehouse(['audit', 'export'], { PATH, ...accessTo(host()) });
    const errors = text(child.stderr);
    const exited = once(child, 'exit');
    await once(child.stdout, 'data');
    child.stdout.destroy();
    expect(await exited).to.deep.equal([0, null]);
    expect(await errors).to.equal('');
  });

  /** Reads CSV as RFC 4180 says. */
  function cellsOf(text: string): string[][] {
    const rows: string[][] = [[]];
    for (const [, quoted, plain = '', end] of text.matchAll(
      /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n)/g,
    )) {
      rows.at(-1)?.push(quoted === undefined ? plain : quoted.replaceAll('""', '"'));
      if (end === '\r\n') rows.push([]);
    }
    return rows.slice(0, -1);
  }
});
