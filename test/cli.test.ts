import { expect } from 'chai';
import { recordAudit } from '../src/audit/audit.ts';
import { gatehouse, CREATE, MINT, useCommandLine } from './management/command-line.ts';
import { auditServices } from './support/audit-services.ts';

const NOW = Math.floor(Date.now() / 1000);

describe('the command line', () => {
  const { host, run, done, json } = useCommandLine();

  describe('keys list and rotate', () => {
    const MOMENT = /\d{4}-\d\d-\d\d \d\d:\d\d UTC/;
    const inKeys = async (...args: string[]) => (await json('keys', ...args)).items;

    it('the list is a table with one line for each key', async () => {
      const [{ id }] = await inKeys('list');
      const [headings, key, ...others] = (await done('keys', 'list')).trimEnd().split('\n');
      expect(headings).to.match(/^ID +STATE +SIGNS FROM +PUBLISHED UNTIL$/);
      expect(key).to.match(new RegExp(`^${id}  signing  ${MOMENT.source} +-$`));
      expect(others).to.deep.equal([]);
    });

    it('a rotation shows the waiting key and until when the old key is published', async () => {
      const stdout = await done('keys', 'rotate');
      const [next, signing] = await inKeys('list');
      expect(stdout).to.match(/^Published a new key/);
      expect(stdout).to.match(new RegExp(`^${next.id} +next +${MOMENT.source} +-$`, 'm'));
      const times = `${MOMENT.source}  ${MOMENT.source}`;
      expect(stdout).to.match(new RegExp(`^${signing.id} +signing +${times}$`, 'm'));
    });

    it('a rotation in progress refuses another one and names the time the new key signs', async () => {
      const [{ signsFrom }] = await inKeys('rotate');
      const { code, stdout, stderr } = await run('keys', 'rotate');
      expect({ code, stdout }).to.deep.equal({ code: 1, stdout: '' });
      expect(stderr)
        .to.match(/^gatehouse: a new key is published/)
        .and.include(signsFrom)
        .and.include('--at-once');
      const refused = await run('keys', 'rotate', '--json');
      expect(refused).to.include({ code: 1, stdout: '' });
      expect(JSON.parse(refused.stderr).error).to.equal('rotation_pending');
    });

    it('keys rotate --at-once leaves one new key and explains the effect', async () => {
      const before = await inKeys('rotate');
      const [key, ...others] = await inKeys('rotate', '--at-once');
      expect(others).to.deep.equal([]);
      expect(key).to.include({ state: 'signing' });
      expect(before.map(({ id }: { id: string }) => id)).to.not.include(key.id);
      expect(await done('keys', 'rotate', '--at-once'))
        .to.match(/^Replaced the key\. Earlier access tokens no longer work/)
        .and.include('Earlier minted tokens no longer work');
    });

    it('the help explains a rotation and --at-once', async () => {
      const { code, stdout } = await gatehouse(['keys', 'rotate', '--help'], {});
      expect(code).to.equal(0);
      expect(stdout).to.include('signs in 10 minutes').and.include('for a key that leaked');
      expect(stdout)
        .to.match(/minted tokens included/i)
        .and.match(/Minted\s+tokens stop working too/);
      expect(stdout).to.include('$ gatehouse keys rotate --at-once');
    });
  });

  describe('audit', () => {
    const record = (event: string, secondsAgo: number) =>
      recordAudit(auditServices(host().store, NOW - secondsAgo), { event, outcome: 'done' });
    const eventsOf = ({ items }: { items: { event: string }[] }) => items.map(({ event }) => event);

    it('audit says that nothing was recorded before the first event', async () => {
      expect(await done('audit')).to.equal('Nothing was recorded.\n');
      expect(await json('audit')).to.deep.equal({ items: [] });
    });

    it('audit shows each item with its connector', async () => {
      const { id } = await json(...CREATE);
      const stdout = await done('audit');
      expect(stdout).to.match(/^TIME .*EVENT .*OUTCOME/);
      expect(stdout).to.match(new RegExp(`^20\\S+ +connector_created +done +- +- +${id}$`, 'm'));
    });

    it('--since accepts a duration or a time', async () => {
      await record('old', 90_000);
      await record('recent', 60);
      expect(eventsOf(await json('audit'))).to.deep.equal(['old', 'recent']);
      expect(eventsOf(await json('audit', '--since', '24h'))).to.deep.equal(['recent']);
      const time = new Date((NOW - 3600) * 1000).toISOString();
      expect(eventsOf(await json('audit', '--since', time))).to.deep.equal(['recent']);
    });

    it('--since accepts every unit and ISO 8601 form', async () => {
      for (const ago of [90_000, 4000, 1000, 60]) await record(`ago_${ago}`, ago);
      const iso = new Date((NOW - 3600) * 1000).toISOString();
      const forms: [string, number][] = [
        ['600s', 1],
        ['30m', 2],
        ['2h', 3],
        ['7d', 4],
        [iso, 2],
        [iso.replace('.000Z', 'Z'), 2],
        [iso.replace('.000Z', '+00:00'), 2],
        [new Date((NOW - 2 * 86_400) * 1000).toISOString().slice(0, 10), 4],
      ];
      for (const [since, count] of forms)
        expect(eventsOf(await json('audit', '--since', since)), since).to.have.length(count);
    });

    it('audit reads all pages', async () => {
      await Promise.all(Array.from({ length: 1005 }, () => record('many', 0)));
      const events = eventsOf(await json('audit', '--limit', '5000'));
      expect(events).to.have.length(1005);
    });

    it('--limit keeps the newest items, newest last', async () => {
      for (const event of ['first', 'second', 'third']) await record(event, 0);
      expect(eventsOf(await json('audit', '--limit', '2'))).to.deep.equal(['second', 'third']);
    });
  });

  describe('usage', () => {
    for (const args of [
      [],
      ['connector'],
      ['connect'],
      ['connector', 'create'],
      ['connector', 'create', '--name', 'Ops'],
      ['connector', 'create', '--level', 'full'],
      ['connector', 'create', '--name', 'Ops', '--level', 'root'],
      [...CREATE, '--max-uses', '0'],
      [...CREATE, '--max-uses', 'many'],
      [...CREATE, '--expires', 'soon'],
      [...CREATE, '--colour', 'red'],
      ['connector', 'show'],
      ['connector', 'revoke', 'a', 'b'],
      ['token'],
      ['token', 'mint', '--name', 'Report'],
      ['token', 'mint', '--level', 'full'],
      ['token', 'mint', '--name', 'Report', '--level', 'root'],
      [...MINT, '--expires', 'never'],
      [...MINT, '--max-uses', '5'],
      ['token', 'show'],
      ['token', 'revoke'],
      ['keys'],
      ['keys', 'rotate', 'now'],
      ['keys', 'rotate', '--at-once=yes'],
      ['audit', '--since', 'yesterday'],
      ['audit', '--limit', '-1'],
    ]) {
      it(`wrong usage exits with code 2: gatehouse ${args.join(' ')}`, async () => {
        const { code, stdout, stderr } = await gatehouse(args, {});
        expect({ code, stdout }).to.deep.equal({ code: 2, stdout: '' });
        expect(stderr).to.match(/^(gatehouse: |Usage: gatehouse)/);
      });
    }

    it('wrong usage is explained as JSON with --json', async () => {
      const { code, stderr } = await gatehouse(['--json', 'connector', 'create'], {});
      expect(code).to.equal(2);
      expect(JSON.parse(stderr)).to.deep.equal({
        error: 'wrong_usage',
        error_description: "required option '--name <name>' not specified",
      });
    });

    it('the help needs no settings and shows examples', async () => {
      for (const args of [['--help'], ['connector', '--help'], ['connector', 'create', '--help']]) {
        const { code, stdout } = await gatehouse(args, { GATEHOUSE_CONFIG: '/nothing/here.yaml' });
        expect(code).to.equal(0);
        expect(stdout).to.include('gatehouse connector create --name "Ops" --level operations');
        expect(stdout).to.include('--json');
      }
    });
  });
});
