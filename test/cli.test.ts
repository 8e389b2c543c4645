// The commands of `gatehouse`, against a management host that really runs.
import { spawnSync } from 'node:child_process';
import { assert, expect } from 'chai';
import { decodeJwt } from 'jose';
import { recordAudit } from '../src/audit/audit.ts';
import { createConnector, findConnector } from '../src/connectors/connectors.ts';
import { rotateSigningKeys } from '../src/keys/signing-keys.ts';
import { findMintedToken, noteUse } from '../src/minted-tokens/minted-tokens.ts';
import { accessTo, gatehouse } from './management/command-line.ts';
import {
  ACCESS_TOKEN_LIFETIME,
  type ManagementHost,
  openManagementHost,
  RESOURCE_URL,
} from './management/management-host.ts';

const CREATE = ['connector', 'create', '--name', 'Ops', '--level', 'operations'];
const MINT = ['token', 'mint', '--name', 'Report', '--level', 'analytics'];
const NOW = Math.floor(Date.now() / 1000);

describe('the command line', () => {
  let host: ManagementHost;
  beforeEach(async () => {
    host = await openManagementHost();
  });
  afterEach(() => host.close());

  const run = (...args: string[]) => gatehouse(args, accessTo(host));

  async function done(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await run(...args);
    expect(stderr).to.equal('');
    expect(code).to.equal(0);
    return stdout;
  }

  async function json(...args: string[]) {
    return JSON.parse(await done(...args, '--json'));
  }

  describe('connector create', () => {
    it('prints the link, and how to add it to a client', async () => {
      const stdout = await done(...CREATE);
      const link = /https:\/\/\S+/.exec(stdout)?.[0] ?? '';
      const id = link.split('/')[4] ?? '';
      expect(link).to.equal(`${RESOURCE_URL}/connect/${id}/mcp`);
      expect(stdout).to.include(`claude mcp add --transport http ops ${link}\n`);
      expect(await findConnector(host.store, id)).to.include({ name: 'Ops', level: 'operations' });
    });

    it('prints exactly the connector with --json, wherever --json stands', async () => {
      const created = await json(...CREATE, '--max-uses', '5', '--expires', '30d');
      const members = 'id name level link state createdAt expiresAt maxUses uses';
      expect(created).to.have.keys(members.split(' '));
      expect(created).to.include({ name: 'Ops', state: 'active', maxUses: 5, uses: 0 });
      const lifetime = Date.parse(created.expiresAt) - Date.parse(created.createdAt);
      expect(lifetime).to.equal(30 * 86_400_000);
      expect(JSON.parse(await done('--json', ...CREATE))).to.include({ name: 'Ops' });
    });

    it('takes a time or a day to expire at', async () => {
      for (const [given, expiresAt] of [
        ['2999-01-31T12:00:00+02:00', '2999-01-31T10:00:00.000Z'],
        ['2999-01-31', '2999-01-31T00:00:00.000Z'],
      ] as const) {
        expect(await json(...CREATE, '--expires', given)).to.include({ expiresAt });
      }
    });

    for (const [name, slug] of [
      ['Büro Zürich & Söhne', 'buro-zurich-sohne'],
      [`'; touch "$HOME"; \`id\` #`, 'touch-home-id'],
      ['事務所', 'gatehouse'],
      ['--scope', 'scope'],
      ['x'.repeat(80), 'x'.repeat(40)],
    ] as const) {
      it(`prints a command that a shell takes as meant, for the name ${name}`, async () => {
        const stdout = await done('connector', 'create', `--name=${name}`, '--level', 'full');
        const link = /https:\/\/\S+/.exec(stdout)?.[0];
        const words = wordsOf(/claude mcp add .*/.exec(stdout)?.[0] ?? '');
        expect(words).to.deep.equal(['mcp', 'add', '--transport', 'http', slug, link]);
      });
    }

    it('quotes a link with brackets, so that a shell takes it as meant', async () => {
      const resourceUrl = 'http://[::1]:4001';
      const other = await openManagementHost(resourceUrl);
      const { stdout } = await gatehouse(CREATE, accessTo(other));
      await other.close();
      const words = wordsOf(/claude mcp add .*/.exec(stdout)?.[0] ?? '');
      expect(words[5]?.startsWith(`${resourceUrl}/connect/`)).to.equal(true);
    });

    function wordsOf(command: string): string[] {
      const script = `claude() { printf '%s\\n' "$@"; }\n${command}`;
      return spawnSync('sh', ['-c', script], { encoding: 'utf8' }).stdout.trimEnd().split('\n');
    }

    it('passes on why it was refused', async () => {
      const { code, stderr } = await run(
        ...CREATE,
        '--expires',
        '2020-01-01',
        '--max-uses',
        '99999',
      );
      expect(code).to.equal(1);
      expect(stderr).to.match(/^gatehouse: .*maxUses: .*expiresAt: /);
      const refused = await run(...CREATE, '--expires', '2020-01-01', '--json');
      expect(refused).to.include({ code: 1, stdout: '' });
      const error = JSON.parse(refused.stderr);
      expect(error).to.have.keys('error', 'error_description');
      expect(error.error).to.equal('invalid_request');
    });
  });

  describe('connector list, show and revoke', () => {
    it('a list without connectors says how to make one', async () => {
      expect(await done('connector', 'list')).to.include('gatehouse connector create');
      expect(await json('connector', 'list')).to.deep.equal({ items: [] });
    });

    it('a list has every connector, also when there are more than fit on a page', async () => {
      for (let index = 0; index < 501; index++) {
        await createConnector(host.store, { name: `C${index}`, level: 'analytics' }, NOW + index);
      }
      const { items } = await json('connector', 'list');
      expect(items.map(({ name }: { name: string }) => name)).to.deep.equal(
        Array.from({ length: 501 }, (_, index) => `C${index}`),
      );
    });

    it('a list is a table with a line for each connector', async () => {
      const ops = {
        name: 'Ops',
        level: 'operations',
        maxUses: 5,
        expiresAt: 4_102_444_800,
      } as const;
      const { id } = await createConnector(host.store, ops, NOW);
      const longer = { name: 'A longer name', level: 'full' } as const;
      const { id: other } = await createConnector(host.store, longer, NOW + 1);
      expect((await done('connector', 'list')).trimEnd().split('\n')).to.deep.equal([
        'ID                      NAME           LEVEL       STATE   USES    EXPIRES',
        `${id}  Ops            operations  active  0 of 5  2100-01-01 00:00 UTC`,
        `${other}  A longer name  full        active  0       never`,
      ]);
    });

    it('shows one connector', async () => {
      const { id } = await createConnector(host.store, { name: 'Ops', level: 'admin' }, NOW);
      const stdout = await done('connector', 'show', id);
      for (const fact of ['Ops', 'admin', 'active', 'never', `/connect/${id}/mcp`]) {
        expect(stdout).to.include(fact);
      }
      expect(await json('connector', 'show', id)).to.include({ id, name: 'Ops' });
    });

    it('revokes a connector, and again without complaint', async () => {
      const { id } = await createConnector(host.store, { name: 'Ops', level: 'admin' }, NOW);
      expect(await done('connector', 'revoke', id))
        .to.include('Revoked "Ops"')
        .and.include(id);
      expect((await findConnector(host.store, id))?.revokedAt).to.be.a('number');
      expect(await json('connector', 'revoke', id)).to.include({ id, state: 'revoked' });
    });

    it('fails for an unknown connector', async () => {
      for (const verb of ['show', 'revoke']) {
        for (const id of ['AAAAAAAAAAAAAAAAAAAAAA', 'nonsense', '../audit', '..', '']) {
          const { code, stdout, stderr } = await run('connector', verb, id, '--json');
          expect({ code, stdout }, `${verb} ${id}`).to.deep.equal({ code: 1, stdout: '' });
          expect(JSON.parse(stderr).error).to.equal('not_found');
        }
      }
    });

    it('nothing that others named moves the cursor of a terminal', async () => {
      await createConnector(host.store, { name: 'a\u001b[2Jb\u202Ec', level: 'admin' }, NOW);
      expect(await done('connector', 'list')).to.include('a\uFFFD[2Jb\uFFFDc');
    });
  });

  describe('token mint', () => {
    it('prints the token, and how to use it', async () => {
      const stdout = await done(...MINT);
      const token = /Authorization: Bearer (\S+)$/m.exec(stdout)?.[1] ?? '';
      expect(decodeJwt(token).aud).to.equal(`${RESOURCE_URL}/mcp`);
      expect(stdout).to.match(/^Minted a token\. It is shown this once\./);
      expect(stdout).to.include('Report').and.include('analytics');
      const id = /gatehouse token revoke (\S+)$/m.exec(stdout)?.[1] ?? '';
      expect(await findMintedToken(host.store, id)).to.include({
        name: 'Report',
        level: 'analytics',
        lastFour: token.slice(-4),
      });
    });

    it('prints an mcp.json that is ready to use', async () => {
      const stdout = await done(...MINT);
      const [token] = /\beyJ\S+$/m.exec(stdout) ?? [];
      const [settings = ''] = /^\{.*^\}$/ms.exec(stdout) ?? [];
      expect(JSON.parse(settings)).to.deep.equal({
        mcpServers: {
          gatehouse: {
            type: 'http',
            url: `${RESOURCE_URL}/mcp`,
            headers: { Authorization: `Bearer ${token}` },
          },
        },
      });
    });

    it('prints exactly the minted token with --json', async () => {
      const minted = await json(...MINT, '--expires', '30d');
      expect(minted).to.have.all.keys('id', 'name', 'level', 'token', 'expiresAt');
      expect(minted).to.include({ name: 'Report', level: 'analytics' });
      const { iat = 0, exp = 0 } = decodeJwt(minted.token);
      expect(exp - iat).to.equal(30 * 86_400);
    });

    it('takes a time or a day to expire at, and 90 days unless told', async () => {
      const moment = new Date((NOW + 40 * 86_400) * 1000).toISOString();
      expect(await json(...MINT, '--expires', moment)).to.include({ expiresAt: moment });
      const day = moment.slice(0, 10);
      const expiresAt = `${day}T00:00:00.000Z`;
      expect(await json(...MINT, '--expires', day)).to.include({ expiresAt });
      const usual = Date.parse((await json(...MINT)).expiresAt) / 1000;
      expect(usual - NOW).to.be.closeTo(90 * 86_400, 600);
    });

    it('passes on why it was refused', async () => {
      const { code, stdout, stderr } = await run(...MINT, '--expires', '367d');
      expect({ code, stdout }).to.deep.equal({ code: 1, stdout: '' });
      expect(stderr).to.match(/^gatehouse: expiresIn: at most 366d/);
    });
  });

  describe('token list and revoke', () => {
    it('a list without tokens says how to mint one', async () => {
      expect(await done('token', 'list')).to.include('gatehouse token mint');
      expect(await json('token', 'list')).to.deep.equal({ items: [] });
    });

    it('a list is a table with a line for each token, and says which died with their key', async () => {
      const moment = '2100-01-01T00:00:00Z';
      host.clock.ahead = Date.parse('2099-12-01T00:00:00Z') / 1000 - NOW;
      const dead = await json(...MINT, '--expires', moment);
      const rotation = { accessTokenLifetime: ACCESS_TOKEN_LIFETIME, atOnce: true };
      await rotateSigningKeys(host.store, rotation, NOW + host.clock.ahead);
      host.clock.ahead += 1;
      const alive = await json(...MINT, '--expires', moment);
      const record = await findMintedToken(host.store, alive.id);
      assert(record);
      await noteUse(host.store, record, Date.parse('2099-12-24T18:00:00Z') / 1000);
      const stdout = await done('token', 'list');
      expect(stdout.trimEnd().split('\n')).to.deep.equal([
        'ID                                NAME    LEVEL      ENDS IN  LAST USED             EXPIRES',
        `${dead.id}  Report  analytics  …${dead.token.slice(-4)}    never                 key replaced: mint again`,
        `${alive.id}  Report  analytics  …${alive.token.slice(-4)}    2099-12-24 18:00 UTC  2100-01-01 00:00 UTC`,
      ]);
      for (const { token } of [dead, alive]) expect(stdout).to.not.include(token);
    });

    it('a list has exactly the tokens with --json, without the tokens themselves', async () => {
      const { token, ...minted } = await json(...MINT);
      const { items } = await json('token', 'list');
      const [{ createdAt }] = items;
      expect(items).to.deep.equal([{ ...minted, createdAt, lastFour: token.slice(-4) }]);
    });

    it('revokes a token, once', async () => {
      const { id } = await json(...MINT);
      expect(await done('token', 'revoke', id))
        .to.include('Revoked "Report"')
        .and.include(id);
      expect(await findMintedToken(host.store, id)).to.equal(undefined);
      const { id: other } = await json(...MINT);
      expect(await json('token', 'revoke', other)).to.include({ id: other, name: 'Report' });
    });

    it('fails for an unknown token', async () => {
      for (const id of ['0'.repeat(32), 'nonsense', '../audit', '..', '']) {
        const { code, stdout, stderr } = await run('token', 'revoke', id, '--json');
        expect({ code, stdout }, id).to.deep.equal({ code: 1, stdout: '' });
        expect(JSON.parse(stderr).error).to.equal('not_found');
      }
    });
  });

  describe('keys list and rotate', () => {
    const MOMENT = /\d{4}-\d\d-\d\d \d\d:\d\d UTC/;
    const inKeys = async (...args: string[]) => (await json('keys', ...args)).items;

    it('a list is a table with a line for each key', async () => {
      const [{ id }] = await inKeys('list');
      const [headings, key, ...others] = (await done('keys', 'list')).trimEnd().split('\n');
      expect(headings).to.match(/^ID +STATE +SIGNS FROM +PUBLISHED UNTIL$/);
      expect(key).to.match(new RegExp(`^${id}  signing  ${MOMENT.source} +-$`));
      expect(others).to.deep.equal([]);
    });

    it('a rotation shows the new key, which waits, and until when the old one is published', async () => {
      const stdout = await done('keys', 'rotate');
      const [next, signing] = await inKeys('list');
      expect(stdout).to.match(/^Published a new key/);
      expect(stdout).to.match(new RegExp(`^${next.id} +next +${MOMENT.source} +-$`, 'm'));
      const times = `${MOMENT.source}  ${MOMENT.source}`;
      expect(stdout).to.match(new RegExp(`^${signing.id} +signing +${times}$`, 'm'));
    });

    it('a rotation is refused while a key waits, and says when it signs', async () => {
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

    it('--at-once leaves one new key and says what that means', async () => {
      const before = await inKeys('rotate');
      const [key, ...others] = await inKeys('rotate', '--at-once');
      expect(others).to.deep.equal([]);
      expect(key).to.include({ state: 'signing' });
      expect(before.map(({ id }: { id: string }) => id)).to.not.include(key.id);
      expect(await done('keys', 'rotate', '--at-once'))
        .to.match(/^Replaced the key\. Access tokens from before no longer work/)
        .and.include('Minted tokens from before no longer work either');
    });

    it('help says what a rotation does, and what --at-once does', async () => {
      const { code, stdout } = await gatehouse(['keys', 'rotate', '--help'], {});
      expect(code).to.equal(0);
      expect(stdout).to.include('signs in 10 minutes').and.include('for a key that leaked');
      expect(stdout)
        .to.match(/minted tokens included/i)
        .and.match(/minted tokens\s+die too/i);
      expect(stdout).to.include('$ gatehouse keys rotate --at-once');
    });
  });

  describe('audit', () => {
    const record = (event: string, secondsAgo: number) =>
      recordAudit(host.store, { event, outcome: 'done' }, NOW - secondsAgo);
    const eventsOf = ({ items }: { items: { event: string }[] }) => items.map(({ event }) => event);

    it('is empty before anything happened', async () => {
      expect(await done('audit')).to.equal('Nothing was recorded.\n');
      expect(await json('audit')).to.deep.equal({ items: [] });
    });

    it('shows what was recorded, with what it was about', async () => {
      const { id } = await json(...CREATE);
      const stdout = await done('audit');
      expect(stdout).to.match(/^TIME .*EVENT .*OUTCOME/);
      expect(stdout).to.match(new RegExp(`^20\\S+ +connector_created +done +- +- +${id}$`, 'm'));
    });

    it('starts a while ago or at a time', async () => {
      await record('old', 90_000);
      await record('recent', 60);
      expect(eventsOf(await json('audit'))).to.deep.equal(['old', 'recent']);
      expect(eventsOf(await json('audit', '--since', '24h'))).to.deep.equal(['recent']);
      const time = new Date((NOW - 3600) * 1000).toISOString();
      expect(eventsOf(await json('audit', '--since', time))).to.deep.equal(['recent']);
    });

    it('takes every way to say since when', async () => {
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

    it('reads on to the end, however many pages there are', async () => {
      await Promise.all(Array.from({ length: 1005 }, () => record('many', 0)));
      const events = eventsOf(await json('audit', '--limit', '5000'));
      expect(events).to.have.length(1005);
    });

    it('is cut to the newest, the newest last', async () => {
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
      it(`is explained with exit code 2: gatehouse ${args.join(' ')}`, async () => {
        const { code, stdout, stderr } = await gatehouse(args, {});
        expect({ code, stdout }).to.deep.equal({ code: 2, stdout: '' });
        expect(stderr).to.match(/^(gatehouse: |Usage: gatehouse)/);
      });
    }

    it('is explained as JSON with --json', async () => {
      const { code, stderr } = await gatehouse(['--json', 'connector', 'create'], {});
      expect(code).to.equal(2);
      expect(JSON.parse(stderr)).to.deep.equal({
        error: 'wrong_usage',
        error_description: "required option '--name <name>' not specified",
      });
    });

    it('help needs no settings, and shows examples', async () => {
      for (const args of [['--help'], ['connector', '--help'], ['connector', 'create', '--help']]) {
        const { code, stdout } = await gatehouse(args, { GATEHOUSE_CONFIG: '/nothing/here.yaml' });
        expect(code).to.equal(0);
        expect(stdout).to.include('gatehouse connector create --name "Ops" --level operations');
        expect(stdout).to.include('--json');
      }
    });
  });
});
