import { execFile } from 'node:child_process';
import type { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { keepSecret } from '../../src/settings/secrets.ts';
import {
  DEVELOPMENT,
  load,
  loadInProduction,
  issuesIn,
  PRODUCTION,
  SECRET,
  settingsFile,
  temporaryDirectory,
  wrongSettings,
} from './settings-file.ts';

const SOURCE = join(import.meta.dirname, '../../src');
const LOAD = join(SOURCE, 'settings/load.ts');
const KEY = 'a-management-key-that-is-long-enough';

function newDataDir(): string {
  return join(temporaryDirectory(), 'state', 'gatehouse');
}

function modeOf(path: string): number {
  return statSync(path).mode & 0o777;
}

function fileWith(text: string): string {
  const path = join(temporaryDirectory(), 'secret');
  writeFileSync(path, text);
  return path;
}

/** Loads the settings in a child process and resolves to the two secrets. */
async function secretsOfProcess(environment: Record<string, string>): Promise<unknown> {
  const script = `const { loadSettings } = await import(${JSON.stringify(LOAD)});
    const { secret, managementKey } = loadSettings();
    console.log(JSON.stringify({ secret, managementKey }));`;
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ['--import', join(SOURCE, 'compile-cache.js'), '--input-type=module', '-e', script],
    {
      env: environment,
    },
  );
  return JSON.parse(stdout);
}

describe('the root secret', () => {
  it('the root secret is read from the environment', () => {
    const dataDir = newDataDir();
    const environment = { GATEHOUSE_SECRET: SECRET, GATEHOUSE_DATA_DIR: dataDir };
    expect(load(DEVELOPMENT, environment).secret).to.equal(SECRET);
    expect(readdirSync(dataDir)).to.deep.equal(['management.key']);
  });

  it('the root secret is read from a file, without the trailing newline', () => {
    expect(load(DEVELOPMENT, { GATEHOUSE_SECRET_FILE: fileWith(`${SECRET}\n`) }).secret).to.equal(
      SECRET,
    );
  });

  it('the root secret cannot be set both directly and as a file', () => {
    const both = { GATEHOUSE_SECRET: SECRET, GATEHOUSE_SECRET_FILE: fileWith(SECRET) };
    expect(issuesIn(DEVELOPMENT, both)).to.deep.equal([
      {
        setting: 'GATEHOUSE_SECRET',
        given: 'a value, and a file in GATEHOUSE_SECRET_FILE',
        expected: 'only one of them',
      },
    ]);
  });

  it('the root secret has at least 32 characters, from every source', () => {
    const short = 's'.repeat(31);
    expect(load(DEVELOPMENT, { GATEHOUSE_SECRET: `${short}s` }).secret).to.have.length(32);
    expect(wrongSettings(DEVELOPMENT, { GATEHOUSE_SECRET: short })).to.deep.equal([
      'GATEHOUSE_SECRET',
    ]);
    expect(wrongSettings(DEVELOPMENT, { GATEHOUSE_SECRET: `${short}\n` })).to.deep.equal([
      'GATEHOUSE_SECRET',
    ]);
    expect(issuesIn(DEVELOPMENT, { GATEHOUSE_SECRET_FILE: fileWith(`${short}\n`) })).to.deep.equal([
      {
        setting: 'GATEHOUSE_SECRET_FILE',
        given: 'a value of 31 characters',
        expected: 'at least 32 characters',
      },
    ]);
  });

  it('a missing secret file is an issue', () => {
    const [issue] = issuesIn(DEVELOPMENT, { GATEHOUSE_SECRET_FILE: '/nowhere/secret' });
    expect(issue).to.deep.equal({
      setting: 'GATEHOUSE_SECRET_FILE',
      given: '"/nowhere/secret"',
      expected: 'a readable file (ENOENT)',
    });
  });

  it('the root secret is generated in development with mode 600, and reused', () => {
    const dataDir = newDataDir();
    const { secret } = load(DEVELOPMENT, { GATEHOUSE_DATA_DIR: dataDir });
    expect(secret).to.match(/^[\w-]{43}$/);
    expect(readFileSync(join(dataDir, 'secret'), 'utf8').trim()).to.equal(secret);
    expect(modeOf(join(dataDir, 'secret'))).to.equal(0o600);
    expect(modeOf(dataDir)).to.equal(0o700);
    expect(load(DEVELOPMENT, { GATEHOUSE_DATA_DIR: dataDir }).secret).to.equal(secret);
    expect(readdirSync(dataDir).sort()).to.deep.equal(['management.key', 'secret']);
  });

  it('another data directory has another root secret', () => {
    expect(load(DEVELOPMENT).secret).not.to.equal(load(DEVELOPMENT).secret);
  });

  it('processes that start at the same time share one generated root secret', async () => {
    const environment = {
      GATEHOUSE_CONFIG: settingsFile(DEVELOPMENT),
      GATEHOUSE_DATA_DIR: newDataDir(),
    };
    const all = await Promise.all(Array.from({ length: 2 }, () => secretsOfProcess(environment)));
    expect(new Set(all.map((secrets) => JSON.stringify(secrets)))).to.have.property('size', 1);
    expect(readdirSync(environment.GATEHOUSE_DATA_DIR).sort()).to.deep.equal([
      'management.key',
      'secret',
    ]);
  });

  it("a process that loses the race to generate the root secret uses the winner's", () => {
    const dataDir = newDataDir();
    const path = join(dataDir, 'secret');
    const random = (size: number) => {
      if (!existsSync(path)) writeFileSync(path, SECRET);
      return Buffer.alloc(size);
    };
    // randomBytes is called after the file was looked for and before it is created.
    expect(keepSecret(dataDir, 'secret', random as typeof randomBytes)).to.equal(SECRET);
    expect(readdirSync(dataDir)).to.deep.equal(['secret']);
  });

  it('no secret is generated while the settings have issues', () => {
    const dataDir = newDataDir();
    expect(
      wrongSettings({ ...DEVELOPMENT, proxies: 9 }, { GATEHOUSE_DATA_DIR: dataDir }),
    ).to.have.length(1);
    expect(existsSync(dataDir)).to.equal(false);
  });

  it('a damaged secret file is an issue and is not replaced', () => {
    const dataDir = newDataDir();
    mkdirSync(dataDir, { recursive: true });
    const path = join(dataDir, 'secret');
    writeFileSync(path, 'half');
    expect(issuesIn(DEVELOPMENT, { GATEHOUSE_DATA_DIR: dataDir })).to.deep.equal([
      {
        setting: path,
        given: 'a value of 4 characters',
        expected:
          'at least 32 characters: restore the file, or remove it so that a new secret is generated',
      },
    ]);
    expect(readFileSync(path, 'utf8')).to.equal('half');
  });

  it('a data directory that is a file is an issue', () => {
    const file = fileWith('');
    expect(issuesIn(DEVELOPMENT, { GATEHOUSE_DATA_DIR: join(file, 'state') })).to.deep.equal([
      {
        setting: 'GATEHOUSE_DATA_DIR',
        given: JSON.stringify(join(file, 'state')),
        expected: 'a directory that this process can write to (ENOTDIR)',
      },
    ]);
  });
});

describe('the management key', () => {
  it('the management key comes from the environment or a file and has at least 32 characters', () => {
    expect(load(DEVELOPMENT, { GATEHOUSE_MANAGEMENT_KEY: KEY }).managementKey).to.equal(KEY);
    expect(
      load(DEVELOPMENT, { GATEHOUSE_MANAGEMENT_KEY_FILE: fileWith(KEY) }).managementKey,
    ).to.equal(KEY);
    expect(
      wrongSettings(DEVELOPMENT, { GATEHOUSE_MANAGEMENT_KEY: KEY.slice(0, 31) }),
    ).to.deep.equal(['GATEHOUSE_MANAGEMENT_KEY']);
  });

  it('the management key is generated in production too, with mode 600', () => {
    const dataDir = newDataDir();
    const { managementKey } = loadInProduction(PRODUCTION, { GATEHOUSE_DATA_DIR: dataDir });
    expect(managementKey).to.match(/^[\w-]{43}$/);
    expect(readFileSync(join(dataDir, 'management.key'), 'utf8').trim()).to.equal(managementKey);
    expect(modeOf(join(dataDir, 'management.key'))).to.equal(0o600);
    expect(readdirSync(dataDir)).to.deep.equal(['management.key']);
  });

  it('the management key is not generated in a process without the management role', () => {
    const dataDir = newDataDir();
    const environment = { GATEHOUSE_ROLES: 'resource-server', GATEHOUSE_DATA_DIR: dataDir };
    expect(loadInProduction(PRODUCTION, environment).managementKey).to.equal(undefined);
    expect(existsSync(dataDir)).to.equal(false);
  });
});
