// `npm run story`: what an operator lives through, from the installation to the bad days, on this machine: Redis, an OpenID provider in a process of
// its own, TLS of a private authority, and Gatehouse as npm packs it. Each step prints what came out, and the first wrong one ends the story.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { randomBytes } from 'node:crypto';
import { expect } from 'chai';
import { Command, Option } from 'commander';
import type { Finding } from '../../src/doctor/report.ts';
import { installPackage, packCheckout, run } from '../support/package.ts';
import { until } from '../support/until.ts';
import { CLIENT_ID, type Machine, openMachine, type Place, type Program } from './machine.ts';
import {
  connectApp,
  type Connected,
  connectMachine,
  expectAlive,
  expectEnded,
  referenceOn,
  tryToConnect,
} from './people.ts';

const ROOT = join(import.meta.dirname, '../..');
/** The release 0.1.0. */
const FIRST_RELEASE = '10b05f54';
/** The exit code of `gatehouse audit verify` without a checkpoint. */
const NOTHING_VERIFIED = 3;
const GROUPS = {
  ada: ['engineering', 'gatehouse-administrators'],
  grace: ['engineering'],
  edsger: ['engineering'],
  alan: ['sales'],
};

const { previous, part } = new Command('npm run story --')
  .description('Lives through an operator’s day. Needs redis-server, openssl, git and a network.')
  .option('--previous <folder>', `a checkout of ${FIRST_RELEASE} with its dependencies`)
  .addOption(new Option('--part <name>', 'only one part').choices(['day', 'upgrade']))
  .parse()
  .opts<{ previous?: string; part?: 'day' | 'upgrade' }>();

const started = performance.now();
let steps = 0;
/** Prints the result of a step. */
async function step<T extends string>(title: string, act: () => Promise<T>): Promise<void> {
  const begun = performance.now();
  try {
    const result = await act();
    steps += 1;
    console.log(
      `ok     ${title}: ${result} (${((performance.now() - begun) / 1000).toFixed(1)} s)`,
    );
  } catch (error) {
    console.log(`WRONG  ${title}`);
    throw error;
  }
}

const machine = await openMachine(GROUPS);
let isRight = false;
try {
  const gatehouse = await install(machine);
  if (part !== 'upgrade') await aDay(machine, gatehouse);
  if (part !== 'day') await anUpgrade(machine, gatehouse);
  const minutes = ((performance.now() - started) / 60_000).toFixed(1);
  console.log(`All ${steps} steps are right, in ${minutes} minutes.`);
  isRight = true;
} catch (error) {
  console.error(error);
  console.error(`The settings and logs are in ${machine.folder}.`);
  process.exitCode = 1;
} finally {
  await machine.close(!isRight);
}

/** Runs commands: words without spaces in one text, and others after it. */
function commandLine(place: Place, program: Program) {
  const run = (text: string, ...more: string[]) =>
    place.command(program, ...text.split(' '), ...more);
  /** Returns what a command that ends with 0 prints. */
  async function done(text: string, ...more: string[]): Promise<string> {
    const { code, stdout, stderr } = await run(text, ...more);
    expect(code, stdout + stderr).to.equal(0);
    return stdout;
  }
  const json = async (text: string, ...more: string[]) =>
    JSON.parse(await done(text, ...more, '--json'));
  return { run, done, json };
}

async function install({ folder }: Machine): Promise<Program> {
  let command = '';
  await step('install the package that npm packs', async () => {
    const tarball = await packCheckout(folder);
    command = await installPackage(tarball, join(folder, 'opt'));
    return (await run(command, ['--version'], folder)).trim();
  });
  return [command];
}

/** Writes settings with `gatehouse init`. The operator changes the two rules and names the tool. */
async function initialize(place: Place, program: Program, more = ''): Promise<void> {
  const { urls, store, home } = place;
  await commandLine(place, program).done(
    `init --yes --dir ${home} --store ${store} --idp oidc --issuer ${urls.provider} --client-id ${CLIENT_ID} --client-secret-file client.secret --auth-url ${urls.auth} --resource-url ${urls.resource} --upstream ${urls.tools}${more}`,
  );
  changeSettings(place, (text) =>
    text
      .replace('group: gatehouse-users', 'group: engineering')
      .replace('group: gatehouse-users', 'group: gatehouse-administrators')
      .replace(/^ *defaultLevel: full$/m, '$&\n    tools: [{ name: whoami, level: read }]'),
  );
}

function changeSettings({ home }: Place, change: (text: string) => string): void {
  const file = join(home, 'gatehouse.yaml');
  const before = readFileSync(file, 'utf8');
  const after = change(before);
  expect(after, 'the settings').to.not.equal(before);
  writeFileSync(file, after);
}

function withScope(text: string): string {
  return text.replace(/^ {2}clientId: .*$/m, '$&\n  scopes: [openid, profile, email, groups]');
}

function linkIn(output: string): string {
  const [link] = /https:\/\/\S+\/connect\/\S+\/mcp/.exec(output) ?? [];
  if (link === undefined) throw new Error(`no link in ${output}`);
  return link;
}

async function aDay({ openPlace }: Machine, program: Program): Promise<void> {
  const place = await openPlace('production');
  const { run, done, json } = commandLine(place, program);
  const alive: Connected[] = [];
  let link = '';

  await step('write settings for production with init, and check them', async () => {
    await initialize(place, program, ` --apps none --management-url ${place.urls.console}`);
    return (await done('settings check')).trim();
  });
  await step('start behind proxies with TLS', async () => {
    await place.start(program);
    const [, id = ''] = /"storeId":"(\w+)"/.exec(place.log()) ?? [];
    changeSettings(place, (text) => `storeId: ${id}\n${text}`);
    await place.restart(program);
    const page = await fetch(`${place.urls.console}/console`, { redirect: 'manual' });
    expect(page.status, 'the console').to.equal(303);
    const api = await fetch(`${place.urls.console}/api/v1/connectors`);
    expect(api.status, 'the management API behind the proxy').to.not.be.oneOf([200, 401]);
    return `ready, the console sends to the sign-in, store ${id}`;
  });
  await step('create a connector, once the tools of the MCP server are known', async () => {
    await untilToolsAreKnown(place, program);
    link = linkIn(await done('connector create --name Engineering --level read'));
    return 'a link';
  });
  await step('doctor, before anybody came', async () => {
    const found = await examined(place, program);
    const [note] = found;
    expect(note, JSON.stringify(found)).to.include({ outcome: 'note', check: 'identity-provider' });
    expect(found, JSON.stringify(found)).to.have.length(1);
    return `one note: ${note?.what}`;
  });

  await step('Ada is in the right group and gets no access', async () => {
    const { page } = await tryToConnect(place, link, 'ada');
    expect(page.status).to.equal(403);
    const text = await done(`why ${referenceOn(page)}`);
    expect(text).to.match(/^ *reason +no_rule$/m);
    return `why says: ${text.split('\n')[0]}`;
  });
  await step('doctor finds the missing scope', async () => {
    const found = await examined(place, program);
    const warning = found.find(({ check }) => check === 'entitlements');
    expect(warning, JSON.stringify(found)).to.include({ outcome: 'warning' });
    expect(warning?.remedy).to.include('scopes');
    return `${warning?.what}: ${warning?.remedy}`;
  });
  await step('add the scope and reload', async () => {
    changeSettings(place, withScope);
    expect(await done('reload')).to.include('identityProviders.default.scopes');
    for (const person of ['ada', 'grace', 'edsger'])
      alive.push(await connectApp(place, link, person));
    for (const each of alive) await expectAlive(each);
    await expectNothingFound(place, program);
    return 'Ada, Grace and Edsger are connected, and doctor finds nothing';
  });

  await step('Alan cannot connect, and why', async () => {
    const { page } = await tryToConnect(place, link, 'alan');
    expect(page.status).to.equal(403);
    const reference = referenceOn(page);
    // Attempts are written after the response.
    const found = await until('the attempt', async () => {
      const why = await json(`why ${reference}`);
      return why.groups && why;
    });
    expect(found).to.deep.include({ reason: 'no_rule', groups: ['sales'] });
    const explained = 'access explain --email alan@example.com --groups';
    const [now] = (await json(explained, 'sales')).access;
    const [then] = (await json(explained, 'sales,engineering')).access;
    expect([now.level, then.level]).to.deep.equal([null, 'read']);
    return `no rule for the group ${found.groups}; with engineering it would be ${then.level}`;
  });

  await step('connect a machine, and mint a token', async () => {
    alive.push(...(await connectPrograms(place, program, link)));
    for (const each of alive) await expectAlive(each);
    return `${alive.length} connections are alive`;
  });

  await step('the root secret leaked: replace it', async () => {
    const before = await auditItems(place, program);
    const file = join(place.home, 'gatehouse.secret');
    const [, old = ''] = /^GATEHOUSE_SECRET=(.*)$/m.exec(readFileSync(file, 'utf8')) ?? [];
    const next = randomBytes(32).toString('base64url');
    const change = (from: string | RegExp, to: string) =>
      writeFileSync(file, readFileSync(file, 'utf8').replace(from, to));
    change(old, `${next}\nGATEHOUSE_PREVIOUS_SECRET=${old}`);
    await place.restart(program);
    const progress = await json('keys rewrap');
    expect(progress).to.include({ remaining: 0, failed: 0 });
    change(/^GATEHOUSE_PREVIOUS_SECRET=.*\n/m, '');
    await place.stop();
    change(next, old);
    const refused = await run('start');
    expect(refused.code, 'a start with the old secret').to.not.equal(0);
    expect(refused.stdout + refused.stderr).to.include('was replaced');
    change(old, next);
    await place.start(program);
    await expectItems(place, program, before);
    const said = await verified(place, program);
    for (const each of alive) await expectAlive(each);
    return `${progress.done} of ${progress.total} records, the old secret opens nothing, all ${before.length} audit items are there (${said}), ${alive.length} connections are alive`;
  });

  await step('the disk is lost: restore, and nothing that was revoked comes back', async () => {
    const other = linkIn(await done('connector create --name Visitors --level read'));
    const guest = await connectApp(place, other, 'grace');
    const second = await connectApp(place, link, 'ada');
    const [minted] = (await json('token list')).items;
    const [nightly] = (await json('client list --kind machine')).items;
    const { items: grants } = await json('grant list');
    const ended = grants.find(({ clientId }: { clientId: string }) => clientId === second.client);
    await place.backUp();
    await done('connector revoke', other);
    await done('account disable edsger@example.com');
    await done('grant revoke', ended.id);
    await done('token revoke', minted.id);
    await done('client revoke', nightly.id);
    const isGone = ({ who, client }: Connected) => client === undefined || who.endsWith('edsger');
    const revoked = [guest, second, ...alive.filter(isGone)];
    for (const each of revoked) await expectEnded(each);
    const file = join(place.home, 'audit.jsonl');
    writeFileSync(file, await done('audit export --since 48h'));
    await place.stop();
    await place.loseDisk();
    const [said] = (await done('restore --replay', file)).split('\n');
    const [again] = (await done('restore --replay', file)).split('\n');
    await place.start(program);
    for (const each of revoked) await expectEnded(each);
    const kept = alive.filter((each) => !isGone(each));
    for (const each of kept) await expectAlive(each);
    await verified(place, program);
    await expectNothingFound(place, program);
    return `${said} Repeated: ${again} ${revoked.length} stay ended, ${kept.length} are alive, and doctor finds nothing`;
  });
  await place.stop();
}

/** It verifies who calls, and so needs the keys of a Gatehouse that runs. */
async function untilToolsAreKnown(place: Place, program: Program): Promise<void> {
  const { json } = commandLine(place, program);
  await until(
    'the tools to be read',
    async () => (await json('upstream list')).items[0].seenAt !== undefined,
    60,
  );
}

async function connectPrograms(place: Place, program: Program, link: string): Promise<Connected[]> {
  const { json } = commandLine(place, program);
  const machine = await json('client create --name Nightly --level read --connector', link);
  const { token } = await json('token mint --name Report --level read');
  return [
    await connectMachine(link, machine),
    { who: 'the token', link: `${place.urls.resource}/mcp`, accessToken: token },
  ];
}

/** What doctor found. On a busy machine, how fast Redis answers proves nothing, and a check that took too long is made again. */
async function examined(place: Place, program: Program, attempts = 3): Promise<Finding[]> {
  const { stdout } = await commandLine(place, program).run('doctor --json --timeout 2m');
  const { findings }: { findings: Finding[] } = JSON.parse(stdout);
  const isLate = findings.some(({ what }) => /^the check failed: .*timed out/.test(what));
  if (isLate && attempts > 1) return examined(place, program, attempts - 1);
  return findings.filter(({ outcome, check }) => outcome !== 'ok' && check !== 'latency');
}

async function expectNothingFound(place: Place, program: Program): Promise<void> {
  const found = await examined(place, program);
  expect(found, JSON.stringify(found)).to.deep.equal([]);
}

/** What `gatehouse audit verify` says. A checkpoint is made within a minute after an item. */
function verified(place: Place, program: Program): Promise<string> {
  return until(
    'the audit log to be verified',
    async () => {
      const { code, stdout, stderr } = await commandLine(place, program).run('audit verify');
      if (code !== 0 && code !== NOTHING_VERIFIED) throw new Error(stdout + stderr);
      return code === 0 && stdout.trim();
    },
    150,
  );
}

/** Of an item of the audit log: 0.1.0 has no ids. */
type Item = { time: string; event: string; clientId?: string; connector?: string };

function identityOf({ time, event, clientId, connector }: Item): string {
  return [time, event, clientId, connector].join(' ');
}

async function auditItems(place: Place, program: Program): Promise<Item[]> {
  const found = await commandLine(place, program).json('audit --limit 10000');
  expect(found.unreadable ?? 0, 'items that cannot be read').to.equal(0);
  return found.items;
}

async function expectItems(place: Place, program: Program, before: Item[]): Promise<void> {
  const after = new Set((await auditItems(place, program)).map(identityOf));
  const lost = before.filter((item) => !after.has(identityOf(item)));
  expect(lost, 'items of the audit log that are lost').to.deep.equal([]);
}

async function anUpgrade({ folder, openPlace }: Machine, program: Program): Promise<void> {
  const checkout = previous ?? join(folder, 'previous');
  const before: Program = [process.execPath, join(checkout, 'src/gatehouse.js')];
  const place = await openPlace('upgraded');
  const { run: runBefore, done } = commandLine(place, before);
  const connected: Connected[] = [];

  await step(`install ${FIRST_RELEASE}, the release 0.1.0`, async () => {
    if (previous === undefined) {
      await run('git', ['clone', '--quiet', '--no-checkout', ROOT, checkout], folder);
      await run('git', ['checkout', '--quiet', FIRST_RELEASE], checkout);
      await run('npm', ['ci', '--no-audit', '--no-fund'], checkout);
    }
    return (await done('--version')).trim();
  });
  await step('connect people and programs with it', async () => {
    await initialize(place, before);
    changeSettings(place, (text) =>
      withScope(text).replace(/^managementUrl: .*$/m, `managementUrl: ${place.urls.management}`),
    );
    await place.start(before);
    await untilToolsAreKnown(place, before);
    const create = async (name: string) =>
      linkIn(await done(`connector create --name ${name} --level read`));
    const links = [await create('Engineering'), await create('Visitors')] as const;
    for (const link of links)
      for (const person of ['ada', 'grace', 'edsger'])
        connected.push(await connectApp(place, link, person));
    connected.push(...(await connectPrograms(place, before, links[0])));
    for (const each of connected) await expectAlive(each);
    return `${connected.length} connections are alive`;
  });
  await step('upgrade: stop it, and start the new version with the same settings', async () => {
    const items = await auditItems(place, before);
    await place.stop();
    await place.start(program);
    for (const each of connected) await expectAlive(each);
    await expectItems(place, program, items);
    const refused = await runBefore('start');
    expect(refused.code, 'a start of 0.1.0').to.not.equal(0);
    return `all ${connected.length} connections are alive, all ${items.length} audit items are there, and 0.1.0 refuses the store`;
  });
  await place.stop();
}
