import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { exportJWK, generateKeyPair } from 'jose';
import { parse, stringify } from 'yaml';
import { addRule } from '../../src/clients/rules.ts';
import { createConnector } from '../../src/links/connectors.ts';
import { parseFile } from '../../src/management/apply/parse-file.ts';
import { collectIssues } from '../../src/management/apply/plan.ts';
import { type Applied, appliedText } from '../../src/management/resources/apply.ts';
import { StoreUnavailable } from '../../src/store/store.ts';
import { accessTo, gatehouse, useCommandLine } from './command-line.ts';
import { KEYS, request } from './management-host.ts';

const inDays = (days: number) =>
  new Date((Math.floor(Date.now() / 1000) + days * 86_400) * 1000).toISOString();
const IN_A_DAY = inDays(1);
const IN_A_MONTH = inDays(30);

async function publicKeys(): Promise<{ keys: object[] }> {
  const { publicKey } = await generateKeyPair('ES256', { extractable: true });
  return { keys: [await exportJWK(publicKey)] };
}

describe('gatehouse apply', () => {
  const { host, run, json } = useCommandLine();
  let file: Record<string, Record<string, unknown>[]>;
  beforeEach(async () => {
    file = {
      connectors: [
        { key: 'ops', name: 'Ops', level: 'operations', maxUses: 5, expiresAt: IN_A_MONTH },
        {
          key: 'analysts',
          name: 'Analysts',
          level: 'analytics',
          audience: [{ emailDomain: 'example.com' }],
          paused: true,
        },
      ],
      machines: [
        {
          key: 'ci',
          name: 'CI',
          connector: 'ops',
          level: 'analytics',
          jwks: await publicKeys(),
          expiresAt: IN_A_MONTH,
        },
      ],
      clientRules: [
        { key: 'evil', effect: 'block', host: 'evil.example' },
        { key: 'desk', effect: 'allow', name: 'Desk', destinations: ['desk.example'] },
      ],
    };
  });

  const write = (content: unknown) => {
    const path = join(host().directory, 'access.yaml');
    writeFileSync(path, typeof content === 'string' ? content : stringify(content));
    return path;
  };
  const applied = async (content: unknown, ...options: string[]): Promise<Applied> =>
    json('apply', '-f', write(content), ...options);
  const actions = ({ connectors, machines, clientRules }: Applied) =>
    [connectors, machines, clientRules].map((results) =>
      Object.fromEntries(
        results.map(({ key = '', action, changed }) => [
          key,
          changed ? `${action} ${changed.join()}` : action,
        ]),
      ),
    );

  it('makes what is in the file, and changes nothing the second time', async () => {
    expect(actions(await applied(file))).to.deep.equal([
      { ops: 'created', analysts: 'created' },
      { ci: 'created' },
      { evil: 'created', desk: 'created' },
    ]);
    expect(actions(await applied(file))).to.deep.equal([
      { ops: 'unchanged', analysts: 'unchanged' },
      { ci: 'unchanged' },
      { evil: 'unchanged', desk: 'unchanged' },
    ]);
  });

  it('exports a file that has the same records and changes nothing', async () => {
    await applied(file);
    const { code, stdout } = await run('export');
    expect(code).to.equal(0);
    const byKey = (records: Record<string, unknown>[] = []) =>
      records.toSorted((one, other) => (String(one['key']) < String(other['key']) ? -1 : 1));
    expect(parse(stdout)).to.deep.equal({
      connectors: byKey(file['connectors']),
      machines: byKey(file['machines']),
      clientRules: byKey(file['clientRules']),
    });
    const again = await run('apply', '-f', write(stdout), '--prune');
    expect(again).to.deep.equal({ code: 0, stderr: '', stdout: 'Nothing changed: 5 unchanged.\n' });
    expect((await run('export')).stdout).to.equal(stdout);
  });

  it('adopts what it names, without a change', async () => {
    const made = await json('connector', 'create', '--name', 'Ops', '--level', 'operations');
    await run('client', 'block', '--host', 'evil.example');
    const { stdout } = await run('export');
    expect(parse(stdout)['connectors']).to.deep.equal([
      { key: made.id, name: 'Ops', level: 'operations' },
    ]);
    const dryRun = ['--dry-run', '--exit-code'];
    expect((await run('apply', '-f', write(stdout), ...dryRun)).code).to.equal(0);
    expect(actions(await applied(stdout))[0]).to.deep.equal({ [made.id]: 'adopted' });
    expect(actions(await applied(stdout))[0]).to.deep.equal({ [made.id]: 'unchanged' });
    const { body } = await request(host(), 'GET', `/api/v1/connectors/${made.id}`);
    expect(body).to.deep.equal({ ...made, key: made.id });
  });

  it('adopts a record under a key of its own, by its id or by what the rule says', async () => {
    const made = await json('connector', 'create', '--name', 'Ops', '--level', 'operations');
    await run('client', 'block', '--host', 'evil.example');
    const named = {
      connectors: [{ key: 'ops', id: made.id, name: 'Ops', level: 'operations' }],
      clientRules: file['clientRules']?.slice(0, 1),
    };
    const [connectors, , rules] = actions(await applied(named));
    expect([connectors, rules]).to.deep.equal([{ ops: 'adopted' }, { evil: 'adopted' }]);
    const other = { connectors: [{ key: 'other', id: made.id, name: 'Ops', level: 'operations' }] };
    expect((await run('apply', '-f', write(other))).stderr).to.include(
      'connectors.0.key: the record with this id has the key ops',
    );
  });

  it('makes members equal to the file, and removes those that are absent', async () => {
    await applied(file);
    const { id } = await json('connector', 'show', 'Ops');
    const changed = {
      connectors: [
        { key: 'ops', name: 'Operations', level: 'analytics' },
        { key: 'analysts', name: 'Analysts', level: 'analytics', suggestedLevel: 'analytics' },
      ],
    };
    const before = await json('export');
    expect(actions(await applied(changed, '--dry-run'))).to.deep.equal([
      {
        ops: 'updated name,level,expiresAt,maxUses',
        analysts: 'updated suggestedLevel,audience,paused',
      },
      {},
      {},
    ]);
    expect(await json('export')).to.deep.equal(before);
    await applied(changed);
    expect((await json('export')).connectors.toReversed()).to.deep.equal(changed.connectors);
    const shown = await json('connector', 'show', 'Operations');
    expect([shown.id, shown.uses]).to.deep.equal([id, 1]);
    const { items } = await json('audit', '--event', 'connector_changed');
    expect(items[1].arguments).to.deep.include({ name: 'Operations' });
  });

  it('replaces the public key of a machine, changes its name and expiry, and keeps its id', async () => {
    await applied(file);
    const [ci = {}] = file['machines'] ?? [];
    const expiresAt = new Date(Date.parse(IN_A_MONTH) - 1000).toISOString();
    const changed = {
      machines: [{ ...ci, name: 'Pipeline', jwks: await publicKeys(), expiresAt }],
    };
    const { machines, affected } = await applied(changed);
    expect(machines[0]).to.deep.include({
      action: 'updated',
      changed: ['name', 'jwks', 'expiresAt'],
    });
    expect(affected.map(({ account, after }) => [account.name, after.reason])).to.deep.equal([
      ['CI', 'key_replaced'],
    ]);
    expect((await json('export')).machines).to.deep.equal(changed.machines);
    expect(actions(await applied(changed))[1]).to.deep.equal({ ci: 'unchanged' });
  });

  it('keeps the secret of a machine that has one, and exports nothing of it', async () => {
    const connector = await json('connector', 'create', '--name', 'Ops', '--level', 'operations');
    const options = ['--connector', connector.id, '--level', 'analytics', '--expires', '30d'];
    const machine = await json('client', 'create', '--name', 'CI', ...options);
    const { stdout } = await run('export');
    expect(stdout).not.to.include(machine.secret);
    expect(parse(stdout).machines[0]).to.have.keys(
      'key',
      'name',
      'connector',
      'level',
      'expiresAt',
    );
    expect(actions(await applied(stdout))[1]).to.deep.equal({ [machine.id]: 'adopted' });
    expect((await json('client', 'show', machine.id)).machine.key).to.equal(machine.id);
  });

  it('a machine or connector that expired as the file says is unchanged', async () => {
    await applied(file);
    host().clock.ahead += 31 * 86_400;
    const [connectors, machines] = actions(await applied(file));
    expect([connectors, machines]).to.deep.equal([
      { ops: 'unchanged', analysts: 'unchanged' },
      { ci: 'unchanged' },
    ]);
  });

  it('refuses a machine that should go on after its connector expired', async () => {
    const [ops, ...connectors] = file['connectors'] ?? [];
    const ending = { ...ops, expiresAt: IN_A_DAY };
    await applied({ ...file, connectors: [ending, ...connectors], machines: [] });
    host().clock.ahead += 2 * 86_400;
    const late = { ...file, connectors: [ending, ...connectors] };
    const refused = await run('apply', '-f', write(late), '--dry-run');
    expect(refused.code).to.equal(1);
    expect(refused.stderr).to.match(
      /line \d+: machines\.0\.connector: the key of a connector that has not ended/,
    );
  });

  it('exports and applies what the settings no longer have, and times with parts of a second', async () => {
    const { store, now } = host();
    await createConnector(
      store,
      {
        name: 'Left over',
        level: 'gone',
        suggestedLevel: 'older',
        upstream: 'gone',
        audience: [{ group: 'staff', provider: 'gone' }],
        expiresAt: now() + 1000.5,
      },
      now() + 0.25,
    );
    const { stdout } = await run('export');
    expect(parse(stdout).connectors[0]).to.include({ level: 'gone', upstream: 'gone' });
    expect(Object.values(actions(await applied(stdout))[0] ?? {})).to.deep.equal(['adopted']);
    expect((await run('export')).stdout).to.equal(stdout);
    expect(Object.values(actions(await applied(stdout))[0] ?? {})).to.deep.equal(['unchanged']);
    const moved = await run(
      'apply',
      '-f',
      write(stdout.replace('upstream: gone', 'upstream: other')),
    );
    expect(moved.stderr).to.include('connectors.0.upstream: cannot be changed');
    const renamed = stdout.replace('Left over', 'Renamed');
    expect(Object.values(actions(await applied(renamed))[0] ?? {})).to.deep.equal(['updated name']);
  });

  it('finds machines of earlier versions, which are in no list', async () => {
    await applied(file);
    await host().store.delete('machines:all');
    await host().store.delete('machines-collected:last');
    expect((await json('export')).machines).to.deep.equal(file['machines']);
  });

  it('a revoked record frees its key, and a new one is made', async () => {
    await applied(file);
    await run('connector', 'revoke', 'Ops');
    const [connectors, machines] = actions(await applied(file));
    expect(connectors).to.deep.equal({ ops: 'created', analysts: 'unchanged' });
    expect(machines).to.deep.equal({ ci: 'created' });
  });

  it('replaces what a rule says under the same key', async () => {
    await applied(file);
    const rules = [
      { key: 'evil', effect: 'block', name: 'Evil App' },
      ...(file['clientRules']?.slice(1) ?? []),
    ];
    expect(actions(await applied({ clientRules: rules }))[2]).to.deep.equal({
      evil: 'updated host,name',
      desk: 'unchanged',
    });
    expect((await json('export')).clientRules).to.deep.equal(rules.toReversed());
  });

  describe('with --prune', () => {
    const EMPTY = { connectors: [], machines: [], clientRules: [] };
    const endedBy = async (content: unknown, ...options: string[]) => {
      const { connectors, machines, clientRules } = await applied(content, ...options);
      return [...connectors, ...machines, ...clientRules]
        .filter(({ action }) => action === 'ended')
        .map(({ key }) => key);
    };
    beforeEach(async () => {
      await json('connector', 'create', '--name', 'By hand', '--level', 'operations');
      await applied(file);
    });

    it('ends what is absent of the lists of the file, only what a file made, and nothing without the option', async () => {
      const others = {
        connectors: file['connectors']?.slice(0, 1),
        clientRules: file['clientRules'],
      };
      expect(await endedBy(others)).to.deep.equal([]);
      expect(await endedBy({}, '--prune')).to.deep.equal([]);
      expect(await endedBy(others, '--prune', '--dry-run')).to.deep.equal(['analysts']);
      expect(await endedBy(others, '--prune')).to.deep.equal(['analysts']);
      const { items } = await json('connector', 'list');
      const revoked = items.filter(({ state }: { state: string }) => state === 'revoked');
      expect(revoked.map(({ key }: { key: string }) => key)).to.deep.equal(['analysts']);
      expect(await endedBy({ machines: [], clientRules: [] }, '--prune')).to.deep.equal([
        'ci',
        'evil',
        'desk',
      ]);
    });

    it('with =all, ends also what no file made', async () => {
      const { items } = await json('connector', 'list');
      const byHand = items.find(({ name }: { name: string }) => name === 'By hand').id;
      expect(await endedBy(file, '--prune=all')).to.deep.equal([byHand]);
    });

    it('refuses to end more than half of a kind of more than two, without the limit that allows it', async () => {
      const path = write(EMPTY);
      const refused = await run('apply', '-f', path, '--prune');
      expect([refused.code, refused.stderr]).to.deep.equal([
        1,
        'gatehouse: 2 of 3 connectors would end: to allow it, give the limit 5\n',
      ]);
      const limited = await run('apply', '-f', path, '--prune', '--prune-limit', '4');
      expect(limited.stderr).to.equal('gatehouse: 5 records would end, and the limit is 4\n');
      expect(await endedBy(EMPTY, '--prune', '--prune-limit', '5')).to.have.lengthOf(5);
      expect((await run('apply', '-f', path, '--prune-limit', '1')).stderr).to.include(
        'only with prune',
      );
    });

    it('names a machine that ends with its connector once, with the reason of its end', async () => {
      const nothing = { connectors: [], machines: [] };
      const { affected } = await applied(nothing, '--prune', '--prune-limit', '3');
      expect(affected.map(({ client }) => client.name)).to.deep.equal(['CI']);
      const grant = await json('grant', 'show', affected[0]?.grantId ?? '');
      expect(grant.reason).to.equal(affected[0]?.after.reason);
    });

    it('names the machine that loses access, and refuses one whose connector would end', async () => {
      const machines = file['machines'];
      const refused = await run(
        'apply',
        '-f',
        write({ connectors: file['connectors']?.slice(1), machines }),
        '--prune',
      );
      expect(refused.stderr).to.include('machines.0.connector: the key of a connector');
      const { affected } = await applied(
        { connectors: file['connectors']?.slice(1) },
        '--prune',
        '--dry-run',
      );
      expect(affected.map(({ client, after }) => [client.name, after.reason])).to.deep.equal([
        ['CI', 'connector_revoked'],
      ]);
    });
  });

  it('APL-07 no name or mistake in a file or a plan moves the cursor', async () => {
    const [escape, reversed] = ['\u001b[2J', '\u202e'];
    const evil = `${escape}${reversed}`;
    const connection = { state: 'active' as const, level: 'full' };
    const text = appliedText(
      {
        connectors: [{ key: 'a', name: evil, action: 'failed', error_description: evil }],
        machines: [],
        clientRules: [],
        affected: [
          {
            grantId: 'g',
            account: { id: 'a', name: evil },
            client: { id: 'c', name: evil },
            before: connection,
            after: connection,
          },
        ],
      },
      true,
    );
    const record = { key: evil, name: evil, level: evil, [evil]: 1 };
    const files = [
      JSON.stringify({ connectors: [record] }),
      `connectors:\n  - "${evil}`,
      `"${evil}": ["${evil}"]`,
    ];
    const printed = [];
    for (const content of files) printed.push((await run('apply', '-f', write(content))).stderr);
    for (const shown of [text, ...printed])
      expect(shown)
        .to.have.length.above(20)
        .and.not.match(/(?!\n)[\p{Cc}\p{Bidi_Control}]/u);
  });

  it('APL-06 a dry run names the connections that a block of a stopped run has left, and exits with 3', async () => {
    await applied(file);
    const { store, now } = host();
    const block = { effect: 'block', name: 'CI' } as const;
    await addRule(store, { ...block, key: 'ci-block', isUnfinished: true, createdAt: now() });
    const path = write({
      clientRules: [...(file['clientRules'] ?? []), { key: 'ci-block', ...block }],
    });
    const { code, stdout } = await run('apply', '-f', path, '--dry-run', '--exit-code');
    expect(code).to.equal(3);
    expect(stdout)
      .to.match(/Connections that would stop or have a lower level: 1\n.*CI/)
      .and.include('This would be: 1 adopted, 2 unchanged.');
    expect((await run('apply', '-f', path)).stdout).to.include('Done: 1 adopted, 2 unchanged.');
    const again = await run('apply', '-f', path, '--dry-run', '--exit-code');
    expect([again.code, again.stdout]).to.deep.equal([0, 'Nothing would change: 3 unchanged.\n']);
  });

  it('exits with 3 only for a dry run with changes', async () => {
    const path = write(file);
    const codes = [];
    for (const options of [
      ['--dry-run'],
      ['--dry-run', '--exit-code'],
      ['--exit-code'],
      ['--dry-run', '--exit-code'],
    ])
      codes.push((await run('apply', '-f', path, ...options)).code);
    expect(codes).to.deep.equal([0, 3, 0, 0]);
  });

  describe('beside other requests', () => {
    /** Runs `interrupt` once, before the first write to a record of the file. */
    function beforeFirstWrite(interrupt: () => Promise<unknown>): void {
      const { store } = host();
      const { update } = store;
      let isFirst = true;
      store.update = (async (...given: Parameters<typeof update>) => {
        if (isFirst && given[0].startsWith('connector:')) {
          isFirst = false;
          await interrupt();
        }
        return update.apply(store, given);
      }) as typeof update;
    }
    const changed = () => ({
      connectors: [
        { key: 'ops', name: 'Operations', level: 'operations' },
        { key: 'analysts', name: 'Everybody', level: 'analytics' },
      ],
    });
    const shown = async (key: string) => {
      const { items } = await json('connector', 'list');
      return items.find((each: { key: string }) => each.key === key);
    };
    beforeEach(() => applied(file));

    it('APL-03 two files are not applied at once, and a dry run beside one is answered', async () => {
      const path = write(changed());
      let [other, dry] = [{ code: null as number | null, stderr: '' }, { stdout: '' }];
      beforeFirstWrite(async () => {
        other = await run('apply', '-f', path);
        dry = await run('apply', '-f', path, '--dry-run');
      });
      await applied(changed());
      expect(other).to.deep.include({
        code: 1,
        stderr: 'gatehouse: another file is being applied: try again when it is done\n',
      });
      expect(dry.stdout).to.include('This would be: 2 updated.');
      expect((await run('apply', '-f', path)).stdout).to.equal('Nothing changed: 2 unchanged.\n');
    });

    it('APL-03 what somebody changes meanwhile is not overwritten, and the next run does it', async () => {
      const { id } = await shown('ops');
      beforeFirstWrite(() =>
        request(host(), 'PATCH', `/api/v1/connectors/${id}`, { body: { level: 'analytics' } }),
      );
      const first = await run('apply', '-f', write(changed()));
      expect(first.code).to.equal(1);
      expect(first.stdout)
        .to.match(/ops +Operations +failed +somebody changed this meanwhile: see in a dry run/)
        .and.include('Done: 1 updated, 1 failed.');
      expect(await shown('ops')).to.include({ name: 'Ops', level: 'analytics' });
      expect(actions(await applied(changed()))[0]).to.deep.equal({
        ops: 'updated name,level,expiresAt,maxUses',
        analysts: 'unchanged',
      });
    });

    it('APL-03 nothing ends while another record failed, because it may have been replaced by that', async () => {
      const { id } = await shown('ops');
      beforeFirstWrite(() =>
        request(host(), 'PATCH', `/api/v1/connectors/${id}`, { body: { level: 'analytics' } }),
      );
      const [ops] = changed().connectors;
      const only = { connectors: [ops] };
      const first = await run('apply', '-f', write(only), '--prune', '--prune-limit', '5');
      expect(first.code).to.equal(1);
      expect(first.stdout).to.match(/analysts .*failed +not ended, because other records failed/);
      expect(await shown('analysts')).to.include({ state: 'paused' });
      const again = await run('apply', '-f', write(only), '--prune', '--prune-limit', '5');
      expect(again.code).to.equal(0);
      expect(await shown('analysts')).to.include({ state: 'revoked' });
    });

    it('APL-05 names nobody whose connector could not be changed', async () => {
      const paused = { connectors: file['connectors']?.map((each) => ({ ...each, paused: true })) };
      const { affected } = await applied(paused, '--dry-run');
      expect(affected.map(({ after: { reason } }) => reason)).to.deep.equal(['connector_paused']);
      const { id } = await shown('ops');
      beforeFirstWrite(() =>
        request(host(), 'PATCH', `/api/v1/connectors/${id}`, { body: { name: 'Other' } }),
      );
      const first = await run('apply', '-f', write(paused), '--json');
      expect([first.code, JSON.parse(first.stdout).affected]).to.deep.equal([1, []]);
      expect((await applied(paused)).affected).to.deep.equal(affected);
    });

    for (const [effect, rule] of [
      ['block', { host: 'late.example' }],
      ['allow', { name: 'Late', destinations: ['late.example'] }],
    ] as const)
      it(`APL-06 a rule with the effect ${effect}, left by a run that stopped, is finished or ended by the next`, async () => {
        const late = { key: 'late', effect, ...rule };
        const clientRules = [...(file['clientRules'] ?? []), late];
        const { store } = host();
        const { update } = store;
        let writes = 0;
        store.update = (async (...given: Parameters<typeof update>) => {
          if (given[0] === 'client-rules:all' && ++writes === 2)
            throw new StoreUnavailable(new Error('no answer'));
          return update.apply(store, given);
        }) as typeof update;
        const stopped = await run('apply', '-f', write({ clientRules }), '--json');
        expect(JSON.parse(stopped.stdout).clientRules[2].action).to.equal('failed');
        const pruned = await applied({ clientRules: file['clientRules'] }, '--prune', '--dry-run');
        expect(actions(pruned)[2]).to.include({ late: 'ended' });
        await applied({ clientRules });
        expect(actions(await applied({ clientRules }))[2]).to.include({ late: 'unchanged' });
      });

    it('APL-03 more rules than there may be are refused before anything changes', async () => {
      const clientRules = Array.from({ length: 1001 }, (_, n) => ({
        key: `rule-${n}`,
        effect: 'block',
        host: `host-${n}.example`,
      }));
      const refused = await run('apply', '-f', write({ clientRules }), '--dry-run');
      expect(refused.code).to.equal(1);
      expect(refused.stderr).to.include('1001 new ones, at most 1000 together');
    });

    it('APL-03 a connector that is revoked meanwhile stays revoked', async () => {
      const { id } = await shown('ops');
      beforeFirstWrite(() => request(host(), 'DELETE', `/api/v1/connectors/${id}`));
      const { stdout, code } = await run('apply', '-f', write(changed()));
      expect([code, stdout.includes('this connector has ended (revoked)')]).to.deep.equal([
        1,
        true,
      ]);
      expect(await json('connector', 'show', id)).to.include({ state: 'revoked', name: 'Ops' });
    });

    it('APL-04 needs the role operator, and an export the role viewer', async () => {
      const as = (role: keyof typeof KEYS, ...args: string[]) =>
        gatehouse(args, accessTo(host(), KEYS[role]));
      const path = write(changed());
      for (const options of [[], ['--dry-run']]) {
        const refused = await as('viewer', 'apply', '-f', path, ...options);
        expect(refused.stderr).to.include('this requires the role operator');
      }
      expect((await as('viewer', 'export')).code).to.equal(0);
      expect((await as('operator', 'apply', '-f', path)).code).to.equal(0);
      const { items } = await json('audit', '--event', 'connector_changed');
      expect(items[0].by).to.equal('key:operator');
      const beyond = { ...changed(), accounts: [], signingKeys: [], settings: [] };
      expect((await as('operator', 'apply', '-f', write(beyond))).stderr).to.include(
        'unknown: accounts, signingKeys, settings',
      );
    });
  });

  describe('refuses the whole file', () => {
    /** The problems, without the lines. */
    async function problems(content: unknown): Promise<string[]> {
      const before = await json('export');
      const { code, stderr, stdout } = await run('apply', '-f', write(content));
      expect({ code, stdout }, stderr).to.deep.equal({ code: 1, stdout: '' });
      expect(await json('export')).to.deep.equal(before);
      return stderr
        .trimEnd()
        .split('\n')
        .map((line) =>
          line.replace(/^(gatehouse: )?\S*access.yaml(, line \d+)?(, column \d+)?: /, ''),
        );
    }
    const valid = { key: 'valid', name: 'Valid', level: 'operations' };
    const LEVELS = 'one of analytics, operations, admin, full';
    const FUTURE = 'a time in the future';

    it('APL-01 with all its problems at once, and their lines', async () => {
      const text = `connectors:
  - key: a
    name: A
    level: nothing
    suggestedLevel: nowhere
    upstream: other
    link: https://example.com
    expiresAt: 2020-01-01T00:00:00Z
    audience: [{ group: staff, provider: unknown }]
  - { key: a, name: B, level: full }
  - { key: b, name: B, level: analytics, suggestedLevel: full, expiresIn: 30d }
  - { key: "bad key", name: "", level: 5, maxUses: 0, paused: maybe }
  - a text
machines:
  - { key: m, name: M, connector: none, level: analytics, expiresAt: 2020-01-01T00:00:00Z }
  - { key: n, name: N, connector: c, level: full, expiresAt: 2020-01-01T00:00:00Z }
  - { key: o, name: O, connector: a, level: full, jwks: { keys: [] } }
clientRules:
  - { key: x, effect: block }
  - { key: y, effect: allow, name: Desk }
  - { key: z, effect: block, host: localhost }
  - { key: v, effect: block, host: evil.example }
  - { key: w, effect: block, host: EVIL.example }
`;
      expect(await problems(text)).to.have.members([
        'connectors.0: unknown: link',
        'connectors.0.upstream: no value, because the settings have no upstream',
        `connectors.0.level: ${LEVELS}`,
        `connectors.0.suggestedLevel: ${LEVELS}`,
        `connectors.0.expiresAt: ${FUTURE}`,
        'connectors.0.audience.0.provider: development',
        'connectors.1.key: another record of this list has it',
        'connectors.2: unknown: expiresIn',
        'connectors.2.suggestedLevel: at most the level of the connector',
        'connectors.3.key: 1 to 64 letters, digits, points, hyphens and underscores, the first no point',
        'connectors.3.name: 1 to 80 visible characters',
        'connectors.3.level: the id of a level',
        'connectors.3.maxUses: a whole number from 1 to 10000',
        'connectors.3.paused: true or false',
        'connectors.4: an object with a key',
        'machines.0.connector: the key of a connector that has not ended',
        'machines.1.connector: the key of a connector that has not ended',
        'machines.2.jwks.keys: a JSON Web Key Set with 1 to 10 public keys',
        'machines.2.jwks: a JSON Web Key Set with 1 to 10 public keys',
        'machines.2.expiresAt: a time such as 2030-01-31T12:00:00Z',
        'clientRules.0: either host or name',
        'clientRules.1.destinations: where the redirect URIs of the app may lead',
        'clientRules.2.host: a host name such as evil.example, without scheme, port, path and *; not a loopback host',
        'clientRules.4: another rule of this list is the same',
      ]);
      const { stderr } = await run('apply', '-f', write(text));
      for (const line of [
        'line 4: connectors.0.level',
        'line 15: machines.0.connector',
        'line 19: clientRules.0:',
      ])
        expect(stderr).to.include(`access.yaml, ${line}`);
    });

    it('APL-01 of a machine without a key, above its connector, or that outlives it', async () => {
      const later = new Date(Date.parse(IN_A_MONTH) + 1000).toISOString();
      const machine = { key: 'm', name: 'M', connector: 'valid', level: 'full', expiresAt: later };
      const inAYear = new Date((host().now() + 367 * 86_400) * 1000).toISOString();
      expect(
        await problems({
          connectors: [
            { ...valid, expiresAt: IN_A_MONTH },
            { ...valid, key: 'other' },
          ],
          machines: [machine, { ...machine, key: 'n', connector: 'other', expiresAt: inAYear }],
        }),
      ).to.have.members([
        'machines.0.jwks: no machine with this key works, and a new one needs a public key here or in jwksUri',
        'machines.0.level: at most operations, as its connector',
        'machines.0.expiresAt: at most that of its connector',
        'machines.1.jwks: no machine with this key works, and a new one needs a public key here or in jwksUri',
        'machines.1.level: at most operations, as its connector',
        'machines.1.expiresAt: at most 366 days after the machine was created or got its key',
      ]);
    });

    it('APL-01 of a machine with a name that a rule blocks, which could never connect', async () => {
      const [ci] = file['machines'] ?? [];
      const blocked = { key: 'ci-apps', effect: 'block', name: 'ci' };
      expect(
        await problems({
          connectors: file['connectors'],
          machines: [ci],
          clientRules: [blocked],
        }),
      ).to.deep.equal(['machines.0.name: a rule blocks clients with this name']);
    });

    it('APL-01 of a machine with another connector or level, or without its key', async () => {
      await applied(file);
      const { jwks: _jwks, ...ci } = { jwks: undefined, ...file['machines']?.[0] };
      const machines = [{ ...ci, connector: 'analysts', level: 'operations' }];
      expect(await problems({ machines })).to.have.members([
        'machines.0.connector: cannot be changed; use another key for a new machine',
        'machines.0.level: cannot be changed; use another key for a new machine',
        'machines.0.jwks: a machine with a public key needs one here or in jwksUri',
      ]);
      const privateKey = { kty: 'oct', k: 'c2VjcmV0' };
      expect(
        await problems({ machines: [{ ...ci, jwks: { keys: [privateKey] } }] }),
      ).not.to.include('c2VjcmV0');
    });

    it('APL-01 of a key that is the id of a record with another key, and of a rule that has one', async () => {
      await applied(file);
      const { items } = await json('connector', 'list');
      const { id } = items.find(({ key }: { key: string }) => key === 'ops');
      expect(await problems({ connectors: [{ ...valid, key: id }] })).to.deep.equal([
        'connectors.0.key: the record with this id has the key ops',
      ]);
      expect(
        await problems({
          connectors: [
            { ...valid, key: 'ops', id: 'A'.repeat(22) },
            { ...valid, id },
          ],
        }),
      ).to.deep.equal([
        'connectors.0.id: the record with this key has another id',
        'connectors.1.key: the record with this id has the key ops',
      ]);
      const [first, second] = await Promise.all(
        ['First', 'Second'].map((name) =>
          json('connector', 'create', '--name', name, '--level', 'analytics'),
        ),
      );
      expect(
        await problems({ connectors: [{ ...valid, key: first.id, id: second.id }] }),
      ).to.deep.equal(['connectors.0.key: it is the id of another record']);
      const clientRules = [{ key: 'mine', effect: 'block', host: 'evil.example' }];
      expect(await problems({ clientRules })).to.deep.equal([
        'clientRules.0.key: the same rule has the key evil',
      ]);
    });

    it('APL-01 that is no file, has unknown lists, or a mistake of YAML with its line', async () => {
      const cases: [text: string, problem: string][] = [
        ['', 'an object with connectors, machines and clientRules'],
        ['[]', 'an object with connectors, machines and clientRules'],
        ['tools: []', 'unknown: tools'],
        ['connectors: {}', 'connectors: a list of at most 10000 records'],
        ['connectors:\n  - key: a\n    key: b\n', 'Map keys must be unique'],
        ['a: b: c', 'Nested mappings are not allowed in compact mappings'],
        ['connectors: !!js/function "x"', 'Unresolved tag: tag:yaml.org,2002:js/function'],
        ['--- a\n--- b', 'Source contains multiple documents; please use YAML.parseAllDocuments()'],
      ];
      for (const [text, problem] of cases) {
        const { code, stderr } = await run('apply', '-f', write(text));
        expect([code, stderr], text).to.satisfy(
          ([found, error]: [number, string]) => found === 1 && error.includes(problem),
        );
      }
      expect((await run('apply', '-f', write('a: b: c'))).stderr).to.match(
        /access.yaml, line 1, column 4: /,
      );
      expect((await run('apply', '-f', '/nothing/here')).stderr).to.include(
        'cannot be read (ENOENT)',
      );
    });

    it('APL-02 with thousands of unknown members in a short answer, while other requests are served', async () => {
      const unknown = Object.fromEntries(Array.from({ length: 200 }, (_, n) => [`member${n}`, n]));
      const connectors = Array.from({ length: 400 }, (_, n) => ({
        key: `k${n}`,
        name: 'Large',
        level: 'operations',
        ...unknown,
      }));
      let turns = 0;
      let isDone = false;
      const count = () => {
        turns += 1;
        if (!isDone) setImmediate(count);
      };
      setImmediate(count);
      const issues = collectIssues();
      await parseFile({ connectors }, issues);
      isDone = true;
      expect(turns).to.be.above(1);
      expect(issues.found).to.have.length(400);
      const refused = async (body: object) => {
        const answer = await request(host(), 'POST', '/api/v1/apply', { body });
        expect(answer.status).to.equal(400);
        return answer.body as { error_description: string; issues: string[] };
      };
      const { issues: shown } = await refused({ connectors });
      expect(shown.slice(-1)).to.deep.equal(['and 300 more']);
      expect(shown[0]).to.match(/^connectors.0: unknown: member0, .*, member19, and 180 more$/);
      expect((await refused(unknown)).error_description).to.equal(
        'an object with connectors, machines and clientRules',
      );
    });

    it('APL-02 of a record above 64 kB', async () => {
      const jwks = { keys: [{ ...(await publicKeys()).keys[0], note: 'x'.repeat(64 * 1024) }] };
      const machines = [{ ...file['machines']?.[0], jwks }];
      expect(await problems({ ...file, machines })).to.deep.equal([
        'machines.0: larger than 65536 characters',
      ]);
    });

    it('APL-02 that is larger than 8 MB, also by its aliases', async () => {
      const levels = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i'].map(
        (name, n, all) =>
          `${name}: &${name} [${
            n === 0
              ? '"lol"'
              : Array(9)
                  .fill(`*${all[n - 1]}`)
                  .join(',')
          }]`,
      );
      const path = write(levels.join('\n'));
      const refused = { code: 1, stdout: '', stderr: `gatehouse: ${path} is larger than 8 MB\n` };
      expect(await run('apply', '-f', path)).to.deep.equal(refused);
      write(`# ${'x'.repeat(8 * 1024 * 1024)}`);
      expect(await run('apply', '-f', path)).to.deep.equal(refused);
      expect((await run('apply', '-f', write('a: &a [*a]'))).stderr).to.include('part of itself');
    });
  });
});
