// The steps of "Docker" in config/README.md, and of "Docker Compose" and "Kubernetes" in config/operating.md, run as they stand in a copy of the
// folder config. In place of docker and kubectl, container-engine.ts runs what would be in the containers. Only answers and placeholders are
// filled in: the public addresses are those of proxies with TLS on this machine.
import { execFile } from 'node:child_process';
import {
  appendFileSync,
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { startStrictProvider } from '../doctor/strict-provider.ts';
import { startTlsProxy } from '../doctor/tls-proxy.ts';
import { makeCertificate } from '../oauth/metadata-documents/certificate.ts';
import { temporaryDirectory } from '../settings/settings-file.ts';
import { freePorts } from '../support/free-ports.ts';
import { rawRequest } from '../support/raw-request.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { until } from '../support/until.ts';
import { type Engine, isAlive } from './container-engine.ts';

const ROOT = join(import.meta.dirname, '../..');
const [DOCUMENT, README] = ['operating.md', 'README.md'].map((name) =>
  readFileSync(join(ROOT, 'config', name), 'utf8'),
) as [string, string];
const ENGINE = join(import.meta.dirname, 'container-engine.ts');
const CLIENT_SECRET = 'the-secret-of-gatehouse-at-the-provider';
const run = promisify(execFile);
/** The commands of a section. */
function blocksOf(heading: string, document = DOCUMENT): string[] {
  const [, section = ''] = new RegExp(`^##+ ${heading}\n([\\s\\S]*?)^##`, 'm').exec(document) ?? [];
  return [...section.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, block = '']) => block);
}

/** A copy of the example files in an empty place, with `docker` and `kubectl`. */
async function openPlace() {
  const root = temporaryDirectory();
  cpSync(join(ROOT, 'config'), join(root, 'config'), { recursive: true });
  const programs = join(root, 'programs');
  mkdirSync(programs);
  for (const name of ['docker', 'kubectl']) {
    const path = join(programs, name);
    writeFileSync(path, `#!/bin/sh\nexec '${process.execPath}' '${ENGINE}' ${name} "$@"\n`);
    chmodSync(path, 0o755);
  }
  const inside = [4000, 4001, 4002, 6379];
  const free = await freePorts(inside.length + 3);
  const engine: Engine = {
    folder: join(root, 'engine'),
    ports: Object.fromEntries(inside.map((port, n) => [port, free[n] ?? 0])),
  };
  mkdirSync(engine.folder);
  const [auth = 0, resource = 0, idp = 0] = free.slice(inside.length);
  const certificate = makeCertificate('localhost', { from: -1, until: 60 });
  const authority = join(root, 'authority.pem');
  writeFileSync(authority, certificate.cert);
  const urls = { auth: `https://localhost:${auth}`, resource: `https://localhost:${resource}` };
  const registered = {
    callback: `${urls.auth}/interaction/callback`,
    consoleCallback: 'https://admin.your-domain.org/console/callback',
    secret: CLIENT_SECRET,
  };
  const outside = await Promise.all([
    startTlsProxy(auth, engine.ports[4000] ?? 0, certificate),
    startTlsProxy(resource, engine.ports[4001] ?? 0, certificate),
    startStrictProvider(idp, certificate, registered),
  ]);
  const env = {
    PATH: [programs, process.env.PATH].join(':'),
    ENGINE: JSON.stringify(engine),
    NODE_EXTRA_CA_CERTS: authority,
  };
  const shell = async (text: string) => {
    const { stdout } = await run('sh', ['-euc', text], { cwd: root, encoding: 'utf8', env });
    return stdout;
  };
  const issuer = `https://localhost:${idp}`;
  return {
    root,
    shell,
    ports: engine.ports,
    urls,
    issuer,
    /** To the questions of `gatehouse init`. */
    answers: `--yes --offline --apps none --idp oidc --issuer ${issuer} --client-id gatehouse --auth-url ${urls.auth} --resource-url ${urls.resource} --upstream http://127.0.0.1:9/mcp`,
    async stop() {
      await stopAll(join(engine.folder, 'pids'));
      for (const each of outside) await each.stop();
    },
  };
}

async function stopAll(file: string): Promise<void> {
  if (!existsSync(file)) return;
  const lines = readFileSync(file, 'utf8').trim().split('\n');
  const pids = lines.map((line) => Number(line.split(' ')[0]));
  for (const pid of pids.filter(isAlive)) process.kill(pid, 'SIGKILL');
  await until('the processes to end', () => !pids.some(isAlive));
}

type Place = Awaited<ReturnType<typeof openPlace>>;

/** Sent to the identity provider, or told that it cannot be reached, because there is none. */
const SIGN_IN = [303, 503];

const splitAtReload = (block: string) => block.split(/^(?=.* gatehouse reload)/m);

/** Goes on after what doctor found. */
const withDoctor = (block: string) => block.replace(/^.* gatehouse doctor$/m, '$& || test $? = 1');

/** The checks of doctor with a problem, but for how fast Redis answers on a busy machine. */
function problemsIn(output: string): string[] {
  expect(output).to.match(/^\d+ of \d+ checks passed/m);
  const problems = [...output.matchAll(/^PROBLEM {2}([\w-]+)/gm)].map(([, check = '']) => check);
  return problems.filter((check) => check !== 'redis-latency');
}

async function statusOf(place: Place, port: number, path: string, host: string): Promise<number> {
  const headers = { 'x-forwarded-proto': 'https', 'x-forwarded-for': '192.0.2.1', host };
  const url = `http://127.0.0.1:${place.ports[port]}`;
  return (await rawRequest(url, { path, headers })).status;
}

function changeFile(path: string, from: string, to: string): void {
  const text = readFileSync(path, 'utf8');
  expect(text).to.include(from);
  writeFileSync(path, text.replace(from, to));
}

describe('The containers of the documents', function () {
  this.timeout(180_000);
  let place: Place;
  let redis: RedisServer | undefined;
  beforeEach(async () => {
    place = await openPlace();
  });
  afterEach(async () => {
    await place.stop();
    await redis?.stop();
  });

  /** What an operator does with the files of `gatehouse init`. The test does not wait for the default of `drain`. */
  const completeSettings = (folder: string) => {
    const path = (name: string) => join(place.root, folder, name);
    const secret = `\nGATEHOUSE_IDENTITY_PROVIDER_SECRET=${CLIENT_SECRET}\n`;
    appendFileSync(path('gatehouse.secret'), secret);
    appendFileSync(path('gatehouse.yaml'), 'drain: 1s\n');
  };

  it('the steps of Docker lead to a running container, which doctor finds right, and a reload of changed files', async () => {
    const [first = '', second = ''] = blocksOf('Docker', README);
    await place.shell(
      first
        .replace('-o 1000 -g 1000 ', '')
        .replace(/( init --dir \S+)$/m, `$1 ${place.answers}`)
        .replace(' --interactive --tty', ''),
    );
    completeSettings('settings');
    const [start = '', reload = ''] = splitAtReload(second);
    const output = await place.shell(withDoctor(start));
    expect(output).to.match(/https:\/\/localhost:\d+\/connect\/\w+\/mcp/);
    expect(problemsIn(output)).to.deep.equal(['upstream']);
    changeFile(join(place.root, 'settings/gatehouse.yaml'), '    level: read', '    level: write');
    expect(await place.shell(reload)).to.include('entitlements');
  });

  it('the steps of Docker Compose lead to running containers with the console, which doctor finds right, a reload of changed files and a restore', async () => {
    const [first = '', second = ''] = blocksOf('Docker Compose');
    await place.shell(
      first
        .replace('-o 1000 -g 1000 ', '')
        .replace(/(--dir \/settings .*)$/m, `$1 ${place.answers}`),
    );
    completeSettings('config/settings');
    const [start = '', reload = ''] = splitAtReload(second);
    const output = await place.shell(`cd config\n${withDoctor(start)}`);
    expect(output)
      .to.include('The settings are valid for production.')
      .and.match(/https:\/\/localhost:\d+\/connect\/\w+\/mcp/);
    expect(problemsIn(output)).to.deep.equal([]);
    expect(await statusOf(place, 4000, '/readyz', 'auth.your-domain.org')).to.equal(200);
    expect(await statusOf(place, 4002, '/console', 'admin.your-domain.org')).to.be.oneOf(SIGN_IN);
    const settings = join(place.root, 'config/settings/gatehouse.yaml');
    changeFile(settings, '    level: read', '    level: write');
    expect(await place.shell(`cd config\n${reload}`)).to.include('entitlements');
    await exportAudit('docker');
    const [, , restore = ''] = blocksOf('Restoring');
    const restored = await place.shell(`cd config\n${inPlace(restore)}`);
    expect(restored).to.match(/^Taken away again: 0\./m);
    expect(await statusOf(place, 4000, '/readyz', 'auth.your-domain.org')).to.equal(200);
  });

  it('the steps of Kubernetes lead to running pods with the console, which doctor finds right, which read changed files at a reload, and a restore', async () => {
    redis = await startRedis();
    const [block = ''] = blocksOf('Kubernetes');
    const filled = block
      .replace('rediss://gatehouse:…@redis.example.com:6379', redis.url)
      .replace("'…'", `'${CLIENT_SECRET}'`);
    expect(filled).not.to.include('…');
    const settings = join(place.root, 'config/kubernetes/settings.yaml');
    changeFile(settings, 'https://auth.example.com', place.urls.auth);
    changeFile(settings, 'https://mcp.example.com', place.urls.resource);
    changeFile(settings, 'https://login.example.com', place.issuer);
    changeFile(settings, 'https://admin.example.com', 'https://admin.your-domain.org');
    changeFile(settings, 'drain: 10s', 'drain: 1s\n    clients: { apps: [] }');
    const output = await place.shell(withDoctor(filled));
    expect(problemsIn(output)).to.deep.equal([]);
    expect(await statusOf(place, 4000, '/readyz', 'auth.example.com')).to.equal(200);
    expect(await statusOf(place, 4002, '/console', 'admin.your-domain.org')).to.be.oneOf(SIGN_IN);
    const inPod = 'kubectl -n gatehouse exec deploy/authorization-server -- gatehouse';
    expect(DOCUMENT).to.include(`${inPod} reload`);
    expect(await place.shell(`${inPod} settings check`)).to.include('valid for production');
    changeFile(settings, 'level: operations', 'level: analytics');
    await place.shell('kubectl -n gatehouse apply -f config/kubernetes/');
    expect(await place.shell(`${inPod} reload`)).to.include('entitlements');
    await exportAudit('kubectl');
    const restored = await place.shell(inPlace(blocksOf('Restoring').at(-1) ?? ''));
    expect(restored).to.match(/^Taken away again: 0\./m);
    expect(await statusOf(place, 4000, '/readyz', 'auth.example.com')).to.equal(200);
  });

  /** The export of the audit log, as the document makes it in containers. */
  async function exportAudit(program: string): Promise<void> {
    const [, line = ''] =
      new RegExp(`\`(${program} [^\`]* audit export[^\`]*)\``).exec(DOCUMENT) ?? [];
    mkdirSync(join(place.root, 'backup'));
    await place.shell(`cd config; ${line} > ${place.root}/backup/audit.jsonl`);
  }

  /** With the folder of backups that the test has. */
  const inPlace = (block: string) => block.replaceAll(' /backup', ` ${place.root}/backup`);
});
