// The packed Gatehouse. The long form installs it with npm, on the oldest version of Node that it supports as well.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect } from 'chai';
import manifest from '../../package.json' with { type: 'json' };
import { startOpenUpstream } from '../init/open-upstream.ts';
import { RECORDED_CLIENTS, registrationOf } from '../interoperability/recorded-clients.ts';
import { callStep } from '../interoperability/recorded-connection.ts';
import {
  authorizeStep,
  discoverLink,
  identifyStep,
  tokenStep,
} from '../interoperability/recorded-steps.ts';
import { freePorts } from '../support/free-ports.ts';
import { installPackage, packCheckout, run } from '../support/package.ts';
import { recordSoak, SOAK } from '../support/soak.ts';
import { until } from '../support/until.ts';

const ROOT = join(import.meta.dirname, '../..');
const OLDEST = manifest.engines.node.replace('>=', '');
const TOO_OLD = '20.19.0';
const TOOL = { name: 'list_orders', annotations: { readOnlyHint: true } };
const ACCEPTED = /code cache for ESM \S+\/dist\/main\.js was accepted/;
const FLAGS = [
  '--max-semi-space-size=4',
  '--max-old-space-size=768',
  '--no-allocation-site-pretenuring',
  '--no-memory-reducer',
  '--heap-growing-percent=50',
];

type Environment = Record<string, string>;
type Program = {
  /** The command of the installed package. */
  command: string;
  /** The folder that it is installed in. */
  folder: string;
  /** Runs the command in the folder until it ends. */
  run: (words: string[], more?: Environment) => Promise<Ended>;
  /** Runs the command in the folder, calls `use` with what it printed up to its last line, and stops it with SIGTERM. */
  start: (words: string[], more: Environment, use: Use) => Promise<Ended>;
};
type Use = (stdout: string) => Promise<void>;
type Ended = { code: number | null; stdout: string; stderr: string };

/** `bin` is the folder of the Node that runs the program. */
function programIn(folder: string, command: string, bin = dirname(process.execPath)): Program {
  const open = (words: string[], more: Environment) => {
    const PATH = [bin, process.env.PATH].join(delimiter);
    const options = { cwd: folder, env: { PATH, ...more } };
    const child = spawn(command, words, { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
    const killAtExit = () => child.kill('SIGKILL');
    process.once('exit', killAtExit);
    child.once('exit', () => process.off('exit', killAtExit));
    return child;
  };
  return {
    command,
    folder,
    async run(words, more = {}) {
      const child = open(words, more);
      const closed = once(child, 'close');
      const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
      await closed;
      return { code: child.exitCode, stdout, stderr };
    },
    async start(words, more, use) {
      const child = open(words, more);
      const closed = once(child, 'close');
      let [stdout, stderr] = ['', ''];
      child.stdout.on('data', (chunk) => (stdout += chunk));
      child.stderr.on('data', (chunk) => (stderr += chunk));
      try {
        await until('the server to run', () => {
          if (child.exitCode !== null) throw new Error(`it exited: ${stdout}${stderr}`);
          return /^Press Ctrl-C to stop\.$/m.test(stdout);
        });
        await use(stdout);
      } finally {
        child.kill('SIGTERM');
        await closed;
      }
      return { code: child.exitCode, stdout, stderr };
    },
  };
}

/** Adds the link to Claude Code, signs in, approves the page unchanged, lists the tools and calls one. */
async function callWithClaudeCode(link: string, origins: string[]): Promise<void> {
  const recorded = RECORDED_CLIENTS.find(({ name }) => name === 'Claude Code');
  const registration = recorded && registrationOf(recorded);
  if (!registration) throw new Error('there is no such recording');
  const system = { origins, management: '', managementKey: '' };
  const client = await discoverLink(system, recorded, { registration }, link);
  await identifyStep(client);
  await authorizeStep(client, undefined, { person: 'ada' });
  await tokenStep(client);
  const tool = { name: TOOL.name, arguments: {} };
  await callStep(client, { tool, result: `called ${TOOL.name}` });
}

describe('The package', () => {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-package-'));
  let tarball = '';
  let program: Program;
  before(async () => {
    tarball = await packCheckout(folder);
    const installed = join(folder, 'installed');
    program = programIn(installed, await installPackage(tarball, installed));
  });
  after(() => rmSync(folder, { recursive: true, force: true }));

  /** Starts in front of an MCP server, and gives the printed link to Claude Code. */
  async function servesClaudeCode({ start }: Program): Promise<Ended> {
    const upstream = await startOpenUpstream([TOOL]);
    const [auth, resource, management, idp] = await freePorts(4);
    const environment = {
      GATEHOUSE_AUTH_URL: `http://localhost:${auth}`,
      GATEHOUSE_RESOURCE_URL: `http://localhost:${resource}`,
      GATEHOUSE_MANAGEMENT_URL: `http://127.0.0.1:${management}`,
      GATEHOUSE_DEVELOPMENT_IDP_URL: `http://localhost:${idp}`,
    };
    try {
      const quiet = { ...environment, GATEHOUSE_LOG_LEVEL: 'warn' };
      return await start(['start', '--upstream', upstream.url], quiet, async (stdout) => {
        const [, link = ''] = /: claude mcp add --transport http \S+ (\S+)$/m.exec(stdout) ?? [];
        await callWithClaudeCode(link, Object.values(environment));
      });
    } finally {
      await upstream.stop();
    }
  }

  it('the package contains the compiled program, templates, examples and documents, and nothing else', async () => {
    const listed = await run('tar', ['-tzf', tarball], folder);
    const files = listed.trimEnd().split('\n');
    const parts = files.filter((path) => /^package\/dist\/[\w-]+-[A-Z0-9]{8}\.js$/.test(path));
    expect(parts).to.have.length.above(50);
    const whole = ['views/**/*.*', 'config/**/*.*', 'src/**/*.md'];
    const expected = [
      'package.json',
      'README.md',
      'CHANGELOG.md',
      'LICENSE',
      'src/gatehouse.js',
      'src/compile-cache.js',
      'config/caddy/Caddyfile',
      ...['argument-worker', 'cli', 'command-line', 'main'].map((name) => `dist/${name}.js`),
      'dist/licenses.txt',
      ...whole.flatMap((pattern) => globSync(pattern, { cwd: ROOT })),
    ];
    const sorted = (paths: string[]) => [...new Set(paths)].toSorted();
    const others = files.filter((path) => !parts.includes(path));
    expect(sorted(others)).to.deep.equal(sorted(expected.map((path) => `package/${path}`)));
  });

  it('SUP-12 two packs from two checkouts are identical', async () => {
    const other = join(folder, 'other');
    mkdirSync(other);
    const again = await packCheckout(other);
    const made = statSync(join(folder, 'checkout/package.json')).mtimeMs;
    expect(statSync(join(other, 'checkout/package.json')).mtimeMs).to.be.above(made);
    expect((await readFile(again)).equals(await readFile(tarball))).to.equal(true);
  });

  it('the package runs no script when it is installed, and needs no development dependency', async () => {
    const path = join(program.folder, 'node_modules/gatehouse/package.json');
    const { scripts } = JSON.parse(await readFile(path, 'utf8'));
    expect(scripts).to.include.keys('prepack');
    expect(scripts).not.to.have.any.keys('preinstall', 'install', 'postinstall', 'prepare');
  });

  it('the installed command puts sign-in in front of an MCP server from any folder, Claude Code calls its tool, and compiled code is kept', async () => {
    const { code, stdout, stderr } = await servesClaudeCode(program);
    expect({ code, stderr }).to.deep.equal({ code: 0, stderr: '' });
    expect(stdout)
      .to.match(/^Gatehouse is running\.$/m)
      .and.match(/\/connect\/\w{22}\/mcp$/m);
    expect(existsSync(join(program.folder, '.data/gatehouse.sqlite'))).to.equal(true);
    const cache = join(program.folder, 'node_modules/gatehouse/node_modules/.cache/gatehouse');
    expect(globSync('*/*', { cwd: cache })).to.have.length.above(50);
  });

  it('the installed command limits memory, unless the caller does', async () => {
    // The first process has no flags and goes on.
    const print = 'console.log(process.execArgv.join());if(process.execArgv[0])process.exit()';
    const flagsWith = async (NODE_OPTIONS: string) => {
      const { stdout } = await program.run(['start'], { NODE_OPTIONS });
      return stdout.trim().split(',');
    };
    const imported = `--import=data:text/javascript,${print}`;
    expect(await flagsWith(imported)).to.deep.equal(FLAGS);
    expect(await flagsWith(`${imported} --max_old_space_size=512`)).to.deep.equal(
      FLAGS.filter((flag) => !flag.includes('old-space')),
    );
  });

  it('the installed command limits the fragments of memory, unless the caller does', async () => {
    const print =
      'const{env,execArgv}=process;console.log(env.MALLOC_ARENA_MAX);if(execArgv[0])process.exit()';
    const arenasWith = async (more: Environment) => {
      const NODE_OPTIONS = `--import=data:text/javascript,${print}`;
      const { stdout } = await program.run(['start'], { NODE_OPTIONS, ...more });
      return stdout.trim().split('\n').at(-1);
    };
    expect(await arenasWith({})).to.equal('2');
    expect(await arenasWith({ MALLOC_ARENA_MAX: '8' })).to.equal('8');
  });

  it('the image has the files that it reads, and uses a compile cache made at build time', async () => {
    const own = join(program.folder, 'node_modules/image');
    const image = (await readFile(join(ROOT, 'Dockerfile'), 'utf8')).replaceAll('/app/', `${own}/`);
    const copied =
      image
        .split(/^FROM /m)
        .at(-1)
        ?.matchAll(/^COPY (?!--from)(.+) \S+$/gm) ?? [];
    for (const [, names = ''] of copied)
      for (const name of names.split(' '))
        cpSync(join(ROOT, name), join(own, name), { recursive: true });
    const installed = join(program.folder, 'node_modules/gatehouse');
    cpSync(join(installed, 'dist'), join(own, 'dist'), { recursive: true });
    const settings = join(folder, 'image.yaml');
    writeFileSync(settings, 'clients: {apps: [nobody]}');
    const [compile = [], start = []] = [...image.matchAll(/^(?:RUN|CMD) \["node", (.*)\]$/gm)].map(
      ([, args]): string[] => JSON.parse(`[${args}]`),
    );
    const node = programIn(own, process.execPath);
    const cache = join(folder, 'cache');
    const environment = { NODE_COMPILE_CACHE: cache, GATEHOUSE_CONFIG: settings };
    expect((await node.run(compile, environment)).code).to.equal(0);
    // All but the program itself, which would run, and the worker, which starts without the cache.
    const parts = globSync('*.js', { cwd: join(own, 'dist') }).length - 2;
    expect(globSync('*/*', { cwd: cache })).to.have.length.of.at.least(parts);
    const started = await node.run(start, { ...environment, NODE_DEBUG_NATIVE: 'COMPILE_CACHE' });
    expect(started.stderr + started.stdout)
      .to.match(ACCEPTED)
      .and.match(/one of claude, /);
  });

  it('the installed command prints its version', async () => {
    expect(await program.run(['--version'])).to.deep.equal({
      code: 0,
      stdout: `${manifest.version}\n`,
      stderr: '',
    });
  });

  it('a version of Node that is too old gets an error of one sentence', async () => {
    const copy = join(folder, 'demanding');
    mkdirSync(copy);
    cpSync(join(ROOT, 'src'), join(copy, 'src'), { recursive: true });
    const demanding = { ...manifest, engines: { node: '>=999.1.0' } };
    writeFileSync(join(copy, 'package.json'), JSON.stringify(demanding));
    const { run: runDemanding } = programIn(copy, join(copy, manifest.bin.gatehouse));
    for (const words of [['start'], ['--version']])
      expect(await runDemanding(words)).to.deep.equal({
        code: 1,
        stdout: '',
        stderr: tooOld('999.1.0'),
      });
  });

  if (SOAK)
    for (const version of [OLDEST, process.versions.node])
      it(`three commands lead from an empty folder to a tool call by Claude Code on Node ${version}, without a warning`, async () => {
        const installed = join(folder, `npm-${version}`);
        const bin = await installNode(version);
        const PATH = [bin, process.env.PATH].join(delimiter);
        mkdirSync(installed);
        const started = performance.now();
        await run('npm', ['install', '--no-audit', '--no-fund', tarball], installed, {
          ...process.env,
          PATH,
        });
        const command = join(installed, 'node_modules/.bin/gatehouse');
        const place = programIn(installed, command, bin);
        const { code, stderr } = await servesClaudeCode(place);
        expect({ code, stderr }).to.deep.equal({ code: 0, stderr: '' });
        const seconds = ((performance.now() - started) / 1000).toFixed(0);
        recordSoak({
          what: `npm install, gatehouse start --upstream and claude mcp add, on Node ${version}`,
          held: `from an empty folder to a tool call in ${seconds} s`,
        });
      }).timeout(300_000);

  if (SOAK)
    it(`Node ${TOO_OLD} gets an error of one sentence`, async () => {
      const bin = await installNode(TOO_OLD);
      const { run: runOld } = programIn(folder, program.command, bin);
      const expected = { code: 1, stdout: '', stderr: tooOld(OLDEST, TOO_OLD) };
      expect(await runOld(['start'])).to.deep.equal(expected);
    }).timeout(300_000);

  /** Returns the folder of the program. */
  async function installNode(version: string): Promise<string> {
    const place = join(folder, `node-${version}`);
    mkdirSync(place);
    writeFileSync(
      join(place, 'package.json'),
      '{ "private": true, "allowScripts": { "node": true } }',
    );
    await run('npm', ['install', '--no-audit', '--no-fund', `node@${version}`], place);
    return join(place, 'node_modules/.bin');
  }

  function tooOld(required: string, version = process.versions.node): string {
    return `gatehouse: Node ${required} or later is required, and this is Node ${version}; get a newer one at https://nodejs.org.\n`;
  }
});

describe('The flags of Node', () => {
  it('npm start, the image and the systemd unit set the flags of the program', async () => {
    const read = (path: string) => readFile(join(ROOT, path), 'utf8');
    const image = await read('Dockerfile');
    const commands = {
      program: await read('src/gatehouse.js'),
      'npm start': manifest.scripts.start,
      'image, compiled': /^RUN \["node".*/m.exec(image)?.[0] ?? '',
      'image, started': /^CMD .*/m.exec(image)?.[0] ?? '',
      unit: await read('config/gatehouse.service'),
    };
    for (const [name, command] of Object.entries(commands))
      expect(
        command.match(/--(max|no|heap)-[\w-]+(=\d+)?/g)?.slice(0, FLAGS.length),
        name,
      ).to.deep.equal(FLAGS);
  });
});
