// The root secret and the management key: where they come from, and how they are made and kept.
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

const LOAD = join(import.meta.dirname, '../../src/settings/load.ts');
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

/** Loads the settings in a process of its own and resolves to the two secrets. */
async function secretsOfProcess(environment: Record<string, string>): Promise<unknown> {
  const script = `const { loadSettings } = await import(${JSON.stringify(LOAD)});
    const { secret, managementKey } = loadSettings();
    console.log(JSON.stringify({ secret, managementKey }));`;
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ['--input-type=module', '-e', script],
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

  it('the root secret is read from a file, without the line end', () => {
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

  it('is made in development, kept for this user only, and the same the next time', () => {
    const dataDir = newDataDir();
    const { secret } = load(DEVELOPMENT, { GATEHOUSE_DATA_DIR: dataDir });
    expect(secret).to.match(/^[\w-]{43}$/);
    expect(readFileSync(join(dataDir, 'secret'), 'utf8').trim()).to.equal(secret);
    expect(modeOf(join(dataDir, 'secret'))).to.equal(0o600);
    expect(modeOf(dataDir)).to.equal(0o700);
    expect(load(DEVELOPMENT, { GATEHOUSE_DATA_DIR: dataDir }).secret).to.equal(secret);
    expect(readdirSync(dataDir).sort()).to.deep.equal(['management.key', 'secret']);
  });

  it('is another one in another data directory', () => {
    expect(load(DEVELOPMENT).secret).not.to.equal(load(DEVELOPMENT).secret);
  });

  it('is the same in processes that start together', async () => {
    const environment = {
      GATEHOUSE_CONFIG: settingsFile(DEVELOPMENT),
      GATEHOUSE_DATA_DIR: newDataDir(),
    };
    const all = await Promise.all(Array.from({ length: 8 }, () => secretsOfProcess(environment)));
    expect(new Set(all.map((secrets) => JSON.stringify(secrets)))).to.have.property('size', 1);
    expect(readdirSync(environment.GATEHOUSE_DATA_DIR).sort()).to.deep.equal([
      'management.key',
      'secret',
    ]);
  });

  it('is the one of a process that was faster, even by an instant', () => {
    const dataDir = newDataDir();
    const path = join(dataDir, 'secret');
    const random = (size: number) => {
      if (!existsSync(path)) writeFileSync(path, SECRET);
      return Buffer.alloc(size);
    };
    // Randomness is asked for after the file was looked for and before it is made.
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

  it('is not replaced when its file is damaged', () => {
    const dataDir = newDataDir();
    mkdirSync(dataDir, { recursive: true });
    const path = join(dataDir, 'secret');
    writeFileSync(path, 'half');
    expect(issuesIn(DEVELOPMENT, { GATEHOUSE_DATA_DIR: dataDir })).to.deep.equal([
      {
        setting: path,
        given: 'a value of 4 characters',
        expected: 'at least 32 characters: restore the file, or remove it to have a new one made',
      },
    ]);
    expect(readFileSync(path, 'utf8')).to.equal('half');
  });

  it('cannot be made where the data directory is a file', () => {
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
  it('comes from the environment or a file, in 32 characters at least', () => {
    expect(load(DEVELOPMENT, { GATEHOUSE_MANAGEMENT_KEY: KEY }).managementKey).to.equal(KEY);
    expect(
      load(DEVELOPMENT, { GATEHOUSE_MANAGEMENT_KEY_FILE: fileWith(KEY) }).managementKey,
    ).to.equal(KEY);
    expect(
      wrongSettings(DEVELOPMENT, { GATEHOUSE_MANAGEMENT_KEY: KEY.slice(0, 31) }),
    ).to.deep.equal(['GATEHOUSE_MANAGEMENT_KEY']);
  });

  it('is made in production too, and kept for this user only', () => {
    const dataDir = newDataDir();
    const { managementKey } = loadInProduction(PRODUCTION, { GATEHOUSE_DATA_DIR: dataDir });
    expect(managementKey).to.match(/^[\w-]{43}$/);
    expect(readFileSync(join(dataDir, 'management.key'), 'utf8').trim()).to.equal(managementKey);
    expect(modeOf(join(dataDir, 'management.key'))).to.equal(0o600);
    expect(readdirSync(dataDir)).to.deep.equal(['management.key']);
  });

  it('is not made in a process that has nothing to do with management', () => {
    const dataDir = newDataDir();
    const environment = { GATEHOUSE_ROLES: 'resource-server', GATEHOUSE_DATA_DIR: dataDir };
    expect(loadInProduction(PRODUCTION, environment).managementKey).to.equal(undefined);
    expect(existsSync(dataDir)).to.equal(false);
  });
});
