// The steps of "Docker Compose" and "Kubernetes" in config/operating.md, run as they stand in a copy of the folder config. In place of docker
// and kubectl, container-engine.ts runs what would be in the containers. Only answers and placeholders are filled in.
import { execFileSync } from 'node:child_process';
import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { temporaryDirectory } from '../settings/settings-file.ts';
import { freePorts } from '../support/free-ports.ts';
import { rawRequest } from '../support/raw-request.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { until } from '../support/until.ts';
import { type Engine, isAlive } from './container-engine.ts';

const ROOT = join(import.meta.dirname, '../..');
const DOCUMENT = readFileSync(join(ROOT, 'config/operating.md'), 'utf8');
const ENGINE = join(import.meta.dirname, 'container-engine.ts');
/** The answers to the questions of `gatehouse init`. */
const ANSWERS =
  '--yes --offline --idp oidc --issuer https://login.example.com --client-id gatehouse --auth-url https://auth.your-domain.org --resource-url https://mcp.your-domain.org --upstream http://127.0.0.1:9/mcp';

function blocksOf(heading: string): string[] {
  const [, section = ''] = new RegExp(`^## ${heading}\n([\\s\\S]*?)^## `, 'm').exec(DOCUMENT) ?? [];
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
  const free = await freePorts(inside.length);
  const engine: Engine = {
    folder: join(root, 'engine'),
    ports: Object.fromEntries(inside.map((port, n) => [port, free[n] ?? 0])),
  };
  mkdirSync(engine.folder);
  const shell = (text: string) =>
    execFileSync('sh', ['-euc', text], {
      cwd: root,
      encoding: 'utf8',
      env: {
        PATH: [programs, process.env.PATH].join(':'),
        ENGINE: JSON.stringify(engine),
      },
    });
  return { root, shell, ports: engine.ports, stop: () => stopAll(join(engine.folder, 'pids')) };
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

/** Without doctor: it asks the public addresses. */
const withoutDoctor = (block: string) => block.replace(/^.* gatehouse doctor\n/m, '');

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
  this.timeout(90_000);
  let place: Place;
  let redis: RedisServer | undefined;
  beforeEach(async () => {
    place = await openPlace();
  });
  afterEach(async () => {
    await place.stop();
    await redis?.stop();
  });

  it('the steps of Docker Compose lead to running containers with the console, a reload of changed files and a restore', async () => {
    const [first = '', second = ''] = blocksOf('Docker Compose');
    const prepared = first
      .replace('-o 1000 -g 1000 ', '')
      .replace(/(--dir \/settings .*)$/m, `$1 ${ANSWERS}`);
    place.shell(prepared);
    const output = place.shell(`cd config\n${withoutDoctor(second)}`);
    expect(output)
      .to.include('The settings are valid for production.')
      .and.match(/https:\/\/mcp\.your-domain\.org\/connect\/\w+\/mcp/)
      .and.include('No setting changed.');
    expect(await statusOf(place, 4000, '/readyz', 'auth.your-domain.org')).to.equal(200);
    expect(await statusOf(place, 4002, '/console', 'admin.your-domain.org')).to.be.oneOf(SIGN_IN);
    const settings = join(place.root, 'config/settings/gatehouse.yaml');
    changeFile(settings, '    level: read', '    level: write');
    const [reload = ''] = /^docker .* gatehouse reload/m.exec(second) ?? [];
    expect(place.shell(`cd config\n${reload}`)).to.include('entitlements');
    const [restore = ''] = blocksOf('Restoring').slice(-1);
    const exported = place.shell(
      'cd config; docker compose exec authorization-server gatehouse audit export --since 48h',
    );
    mkdirSync(join(place.root, 'backup'));
    writeFileSync(join(place.root, 'backup/audit.jsonl'), exported);
    const restored = place.shell(
      `cd config\n${restore.replace(' /backup:/', ` ${place.root}/backup:/`)}`,
    );
    expect(restored).to.match(/^Taken away again: 0\./m);
    expect(await statusOf(place, 4000, '/readyz', 'auth.your-domain.org')).to.equal(200);
  });

  it('the steps of Kubernetes lead to running pods with the console, which read changed files at a reload', async () => {
    redis = await startRedis();
    const [block = ''] = blocksOf('Kubernetes');
    const filled = block
      .replace('rediss://gatehouse:…@redis.example.com:6379', redis.url)
      .replace("'…'", "'the-client-secret-at-the-identity-provider'");
    expect(filled).not.to.include('…');
    place.shell(withoutDoctor(filled));
    expect(await statusOf(place, 4000, '/readyz', 'auth.example.com')).to.equal(200);
    expect(await statusOf(place, 4002, '/console', 'admin.example.com')).to.be.oneOf(SIGN_IN);
    const inPod = 'kubectl -n gatehouse exec deploy/authorization-server -- gatehouse';
    expect(DOCUMENT).to.include(`${inPod} reload`);
    expect(place.shell(`${inPod} settings check`)).to.include('valid for production');
    const settings = join(place.root, 'config/kubernetes/settings.yaml');
    changeFile(settings, 'level: operations', 'level: analytics');
    place.shell('kubectl -n gatehouse apply -f config/kubernetes/');
    expect(place.shell(`${inPod} reload`)).to.include('entitlements');
  });
});
