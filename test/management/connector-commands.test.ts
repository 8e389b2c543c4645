import { spawnSync } from 'node:child_process';
import { expect } from 'chai';
import { createConnector, findConnector } from '../../src/links/connectors.ts';
import { accessTo, gatehouse, CREATE, useCommandLine } from './command-line.ts';
import { type ManagementHost, openManagementHost, RESOURCE_URL } from './management-host.ts';

const NOW = Math.floor(Date.now() / 1000);

describe('the command line', () => {
  const { host, run, done, json } = useCommandLine();

  describe('connector create', () => {
    it('connector create prints the link and how to add it to a client', async () => {
      const stdout = await done(...CREATE);
      const link = /https:\/\/\S+/.exec(stdout)?.[0] ?? '';
      const id = link.split('/')[4] ?? '';
      expect(link).to.equal(`${RESOURCE_URL}/connect/${id}/mcp`);
      expect(stdout).to.include(`claude mcp add --transport http ops ${link}\n`);
      expect(await findConnector(host().store, id)).to.include({
        name: 'Ops',
        level: 'operations',
      });
    });

    it('connector create prints exactly the connector with --json, in any position', async () => {
      const created = await json(...CREATE, '--max-uses', '5', '--expires', '30d');
      const members = 'id name level link state createdAt expiresAt maxUses uses';
      expect(created).to.have.keys(members.split(' '));
      expect(created).to.include({ name: 'Ops', state: 'active', maxUses: 5, uses: 0 });
      const lifetime = Date.parse(created.expiresAt) - Date.parse(created.createdAt);
      expect(lifetime).to.equal(30 * 86_400_000);
      expect(JSON.parse(await done('--json', ...CREATE))).to.include({ name: 'Ops' });
    });

    it('connector create takes a suggested level, and connector show prints it', async () => {
      const create = ['connector', 'create', '--name', 'Ops', '--level', 'admin'];
      const created = await json(...create, '--suggest', 'analytics');
      expect(created).to.include({ level: 'admin', suggestedLevel: 'analytics' });
      const shown = await done('connector', 'show', created.id);
      expect(shown).to.match(/^ +suggested level +analytics$/m);
      const { stderr } = await run(...create, '--suggest', 'full');
      expect(stderr).to.include('suggestedLevel: at most the level of the connector');
    });

    it('connector create limits the people with --for, and connector show and list print it', async () => {
      const people =
        'email:Ada@example.com domain:example.org group:analysts group:analysts@development';
      const limits = people.split(' ').flatMap((rule) => ['--for', rule]);
      const created = await json(...CREATE, ...limits);
      expect(created.audience).to.deep.equal([
        { email: 'ada@example.com' },
        { emailDomain: 'example.org' },
        { group: 'analysts', provider: 'development' },
      ]);
      const texts = ['email:ada@example.com', 'domain:example.org', 'group:analysts@development'];
      const shown = await done('connector', 'show', created.id);
      expect(shown).to.match(new RegExp(`^ +for +${texts.join(' ')}$`, 'm'));
      expect(await done('connector', 'list')).to.include(' email:ada@example.com +2 ');
    });

    it('--for prints the forms of a rule, and which providers exist', async () => {
      const { code, stderr } = await run(...CREATE, '--for', 'ada@example.com');
      expect(code).to.equal(2);
      for (const form of ['email:ada@example.com', 'domain:example.com', 'group:analysts'])
        expect(stderr).to.include(form);
      const refused = await run(...CREATE, '--for', 'group:analysts@okta', '--for', 'email:ada');
      expect(refused.code).to.equal(1);
      expect(refused.stderr).to.include('audience.1.email: an email address');
      expect((await run(...CREATE, '--for', 'group:analysts@okta')).stderr).to.equal(
        'gatehouse: audience.0.provider: development\n',
      );
      expect(await json('connector', 'list')).to.deep.equal({ items: [] });
    });

    it('--expires accepts a time or a day', async () => {
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
      it(`the printed command is safe in a shell for the name ${name}`, async () => {
        const stdout = await done('connector', 'create', `--name=${name}`, '--level', 'full');
        const link = /https:\/\/\S+/.exec(stdout)?.[0];
        const words = wordsOf(/claude mcp add .*/.exec(stdout)?.[0] ?? '');
        expect(words).to.deep.equal(['mcp', 'add', '--transport', 'http', slug, link]);
      });
    }

    it('a link with brackets is quoted for the shell', async () => {
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

    it('connector create prints why the API refused it', async () => {
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
    it('the list contains every connector across pages', async () => {
      await Promise.all(
        Array.from({ length: 501 }, (_, index) =>
          createConnector(host().store, { name: `C${index}`, level: 'analytics' }, NOW + index),
        ),
      );
      const { items } = await json('connector', 'list');
      expect(items.map(({ name }: { name: string }) => name)).to.deep.equal(
        Array.from({ length: 501 }, (_, index) => `C${index}`),
      );
    });

    it('the list is a table with one line for each connector', async () => {
      const ops = {
        name: 'Ops',
        level: 'operations',
        maxUses: 5,
        expiresAt: 4_102_444_800,
      } as const;
      const { id } = await createConnector(host().store, ops, NOW);
      const longer = { name: 'A longer name', level: 'full' } as const;
      const { id: other } = await createConnector(host().store, longer, NOW + 1);
      expect((await done('connector', 'list')).trimEnd().split('\n')).to.deep.equal([
        'ID                      NAME           LEVEL       STATE   USES    EXPIRES               LINK',
        `${id}  Ops            operations  active  0 of 5  2100-01-01 00:00 UTC  https://mcp.example.com/connect/${id}/mcp`,
        `${other}  A longer name  full        active  0       never                 https://mcp.example.com/connect/${other}/mcp`,
      ]);
    });

    it('connector show prints one connector', async () => {
      const { id } = await createConnector(host().store, { name: 'Ops', level: 'admin' }, NOW);
      const stdout = await done('connector', 'show', id);
      for (const fact of ['Ops', 'admin', 'active', 'never', `/connect/${id}/mcp`]) {
        expect(stdout).to.include(fact);
      }
      expect(await json('connector', 'show', id)).to.include({ id, name: 'Ops' });
    });

    it('connector revoke is idempotent', async () => {
      const { id } = await createConnector(host().store, { name: 'Ops', level: 'admin' }, NOW);
      expect(await done('connector', 'revoke', id))
        .to.include('Revoked "Ops"')
        .and.include(id);
      expect((await findConnector(host().store, id))?.revokedAt).to.be.a('number');
      expect(await json('connector', 'revoke', id)).to.include({ id, state: 'revoked' });
    });

    it('the name of a connector cannot move the cursor of the terminal', async () => {
      await createConnector(host().store, { name: 'a\u001b[2Jb\u202Ec', level: 'admin' }, NOW);
      expect(await done('connector', 'list')).to.include('a\uFFFD[2Jb\uFFFDc');
    });
  });
});

describe('connector delete', () => {
  let host: ManagementHost;
  before(async () => {
    host = await openManagementHost();
  });
  after(() => host.close());

  const run = (...args: string[]) => gatehouse(args, accessTo(host));
  const create = () => createConnector(host.store, { name: 'Ops', level: 'admin' }, 1);

  it('connector delete deletes a revoked connector once', async () => {
    const { id } = await create();
    await run('connector', 'revoke', id);
    const { code, stdout } = await run('connector', 'delete', id);
    expect(code).to.equal(0);
    expect(stdout).to.include(`Deleted "Ops" (${id})`);
    expect(await findConnector(host.store, id)).to.equal(undefined);
    const again = await run('connector', 'delete', id);
    expect(again).to.include({
      code: 1,
      stderr: 'gatehouse: there is no connector with this id\n',
    });
  });

  it('connector delete refuses a working connector and says what to do; --yes revokes and deletes it', async () => {
    const { id } = await create();
    const { code, stderr } = await run('connector', 'delete', id);
    expect(code).to.equal(1);
    expect(stderr).to.include('this connector still works: revoke it before you delete it');
    expect(await findConnector(host.store, id)).to.not.have.key('revokedAt');
    const deleted = JSON.parse((await run('connector', 'delete', id, '--yes', '--json')).stdout);
    expect(deleted).to.include({ id, state: 'revoked' });
    expect(await findConnector(host.store, id)).to.equal(undefined);
  });
});
