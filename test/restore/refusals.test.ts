// Files and stores that `gatehouse restore` refuses, or uses as far as it can.
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { membersOf } from '../../src/json-values.ts';
import {
  createConnector,
  readAudit,
  revokeConnector,
  showConnector,
} from '../support/management-api.ts';
import { connect, type Connection } from '../support/connection.ts';
import { isAccepted } from '../support/mcp.ts';
import { mint } from '../links/minted-tokens/minting.ts';
import { STORES, type System } from '../support/system.ts';
import { openRestorable, reportOf, type Restorable } from './restorable.ts';

describe('gatehouse restore', () => {
  let place: Restorable;
  let system: System;
  let connection: Connection;
  let id: string;
  let token: string;
  /** Made before the backup and after everything. */
  let early: string;
  let whole: string;
  let lines: string[];
  before(async () => {
    place = await openRestorable('sqlite');
    system = await place.start();
    const connector = await createConnector(system);
    id = connector.id;
    connection = await connect(system, connector);
    token = (await mint(system)).token;
    early = await place.exportAudit();
    await createConnector(system);
    await place.backUp();
    await revokeConnector(system, id);
    await createConnector(system);
    whole = await place.exportAudit();
    lines = (await readFile(whole, 'utf8')).trimEnd().split('\n');
  });
  beforeEach(async () => {
    await place.stop();
    await place.putBack();
  });
  after(() => place.release());

  async function fileWith(text: string): Promise<string> {
    const file = join(place.directory, 'changed.jsonl');
    await writeFile(file, text);
    return file;
  }

  async function refused(expected: RegExp, code: number, file: string): Promise<void> {
    const outcome = await place.restore('--replay', file);
    expect(outcome.stderr).to.match(expected);
    expect(outcome).to.include({ code, stdout: '' });
    system = await place.start();
    expect(await showConnector(system, id)).to.include({ state: 'active' });
    const events = (await readAudit(system)).map(({ event }) => event);
    expect(events).to.not.include.members(['rolled_back']).and.not.include.members(['restored']);
  }

  const withHeader = (change: object) => {
    const [header = '', ...items] = lines;
    const { export: about } = membersOf(JSON.parse(header));
    return [JSON.stringify({ export: { ...membersOf(about), ...change } }), ...items, ''].join(
      '\n',
    );
  };

  it('RST-01 an export of another issuer is refused, and nothing is applied', async () => {
    const file = await fileWith(withHeader({ issuer: 'https://other.example' }));
    await refused(/is of https:\/\/other\.example.*nothing was applied/, 1, file);
  });

  it('RST-01 an export with filters is refused, and nothing is applied', async () => {
    await refused(
      /the export has filters/,
      2,
      await fileWith(withHeader({ filters: { tool: 'x' } })),
    );
  });

  it('a file that is no export is refused, and nothing is applied', async () => {
    await refused(/does not begin as an export does/, 2, await fileWith('[]\n'));
    await place.stop();
    await refused(/does not begin as an export does/, 2, await fileWith(''));
    await place.stop();
    await refused(/cannot be read/, 1, join(place.directory, 'absent.jsonl'));
  });

  it('RST-02 an export that begins after the backup is refused, and nothing is applied', async () => {
    const [header = ''] = lines;
    await refused(
      /use an export that begins before the backup/,
      1,
      await fileWith([header, lines.at(-1), ''].join('\n')),
    );
  });

  it('RST-02 an export from before the backup is refused, and nothing is applied', async () => {
    await refused(/nothing in it came after the backup/, 1, early);
  });

  it('of an export that was cut, the whole lines are applied, the incomplete one is named, and the exit code is 1', async () => {
    const text = `${lines.join('\n')}\n`;
    const end = text.indexOf('"connector_revoked"');
    const cutBefore = text.slice(0, end);
    const before = await place.restore('--replay', await fileWith(cutBefore), '--json');
    expect(before.code).to.equal(1);
    const last = cutBefore.split('\n').length;
    expect(JSON.parse(before.stdout).problems).to.deep.equal([
      `line ${last} is not complete: its item is not replayed`,
    ]);
    const after = await place.restore('--replay', await fileWith(text.slice(0, -20)), '--json');
    expect(after.code).to.equal(1);
    expect(JSON.parse(after.stdout)).to.include({ applied: 1 });
    system = await place.start();
    expect(await showConnector(system, id)).to.include({ state: 'revoked' });
  });

  it('lines that are missing in an export are named, and the exit code is 1', async () => {
    const gone = lines.findIndex((line) => line.includes('"connector_revoked"'));
    const file = await fileWith([...lines.toSpliced(gone, 1), ''].join('\n'));
    const { code, stdout } = await place.restore('--replay', file);
    expect(code).to.equal(1);
    expect(stdout).to.match(/^Not complete: the items (\d+) to \1 are missing/);
  });

  it('an export is used by number, whatever its times are', async () => {
    const older = lines.map((line) => line.replaceAll(/"time":"20\d\d/g, '"time":"2001'));
    const file = await fileWith([...older, ''].join('\n'));
    const report = reportOf(await place.restore('--replay', file, '--json'));
    expect(report.applied).to.equal(1);
    expect(report.gapMinutes).to.be.above(1_000_000);
  });

  it('a restore says what it did, and how many minutes the export does not cover', async () => {
    const { code, stdout } = await place.restore('--replay', whole);
    expect(code).to.equal(0);
    expect(stdout).to.match(/^Taken away again: 1\. The store had already: \d+\.$/m);
    expect(stdout).to.match(/^The export ends \d minutes ago: what was taken away since then/m);
  });

  it('RST-03 a store whose restore was interrupted is not served before it is repeated', async () => {
    const { DatabaseSync } = await import('node:sqlite');
    const path = place.deployment.facts.storeAddress.replace('sqlite:', '');
    // The restore ends in the middle, because the disk refuses a write.
    const db = new DatabaseSync(path);
    db.exec(`CREATE TRIGGER fails BEFORE UPDATE ON entry WHEN old.name LIKE 'connector:%'
      BEGIN SELECT RAISE(ABORT, 'refused'); END`);
    db.exec(`CREATE TRIGGER fails_too BEFORE INSERT ON entry WHEN new.name LIKE 'connector:%'
      BEGIN SELECT RAISE(ABORT, 'refused'); END`);
    db.close();
    expect((await place.restore('--replay', whole)).code).to.equal(1);
    const again = new DatabaseSync(path);
    again.exec('DROP TRIGGER fails; DROP TRIGGER fails_too');
    again.close();
    const started = await place.start().catch(String);
    expect(started).to.match(/a restore of the store that began at .* has not ended/);
    expect(reportOf(await place.restore('--replay', whole, '--json')).applied).to.equal(1);
    system = await place.start();
    expect(await showConnector(system, id)).to.include({ state: 'revoked' });
  });

  it('with --end-all, all connections and minted tokens end, and links stay', async () => {
    const report = reportOf(await place.restore('--end-all', '--json'));
    expect(report).to.include({ applied: 2, gapMinutes: null });
    system = await place.start();
    expect(await isAccepted(connection.link, connection.accessToken)).to.equal(false);
    expect(await isAccepted(`${system.resource}/mcp`, token)).to.equal(false);
    expect(await showConnector(system, id)).to.include({ state: 'active' });
    const again = await connect(system, connection);
    expect(await isAccepted(again.link, again.accessToken)).to.equal(true);
    const events = (await readAudit(system)).map(({ event }) => event);
    expect(events).to.include.members(['rolled_back', 'token_revoked', 'grant_ended', 'restored']);
  });

  it('without --replay and --end-all, the usage is wrong', async () => {
    const { code, stderr } = await place.restore();
    expect([code, stderr]).to.deep.equal([
      2,
      'gatehouse: give --replay with an export, or --end-all\n',
    ]);
  });
});

for (const store of STORES)
  describe(`gatehouse restore with a process that uses the store, on ${store}`, () => {
    let place: Restorable;
    before(async () => {
      place = await openRestorable(store);
      await place.start();
    });
    after(() => place.release());

    it('RST-03 the store is refused', async () => {
      const { code, stdout, stderr } = await place.restore('--replay', await place.exportAudit());
      expect([code, stdout]).to.deep.equal([1, '']);
      expect(stderr).to.match(/uses? the store: stop every Gatehouse process first\n$/);
    });
  });
