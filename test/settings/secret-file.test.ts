import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect } from 'chai';
import type { SettingsIssue } from '../../src/settings/issues.ts';
import { loadSettings } from '../../src/settings/load.ts';
import { findManagementAccess } from '../../src/settings/management-access.ts';
import type { Settings } from '../../src/settings/settings.ts';
import { PRODUCTION, refusal, SECRET, settingsFile, temporaryDirectory } from './settings-file.ts';

const KEY = 'a-management-key-of-many-characters';
const CLIENT_SECRET = 'client=secret#1"x\\';
const STORE = 'rediss://:a-password@redis.example.com:6379';
const ALL = `# the secrets of a deployment

GATEHOUSE_SECRET=${SECRET}
GATEHOUSE_PREVIOUS_SECRET=${'previous'.repeat(4)}
GATEHOUSE_MANAGEMENT_KEY=${KEY}
GATEHOUSE_IDENTITY_PROVIDER_SECRET=${CLIENT_SECRET}
GATEHOUSE_STORE=${STORE}
`;
const NAMES =
  'NAME=value, where NAME is one of GATEHOUSE_SECRET, GATEHOUSE_PREVIOUS_SECRET, GATEHOUSE_MANAGEMENT_KEY, GATEHOUSE_IDENTITY_PROVIDER_SECRET, GATEHOUSE_STORE';

/** The path of a settings file for production with `secretFile: gatehouse.secret`. */
function settingsWith(secrets: string | undefined, file: object = {}): string {
  const path = settingsFile({ ...PRODUCTION, secretFile: 'gatehouse.secret', ...file });
  if (secrets !== undefined) writeFileSync(join(dirname(path), 'gatehouse.secret'), secrets);
  return path;
}

function load(path: string, environment: Record<string, string> = {}): Settings {
  const GATEHOUSE_DATA_DIR = temporaryDirectory();
  return loadSettings({ GATEHOUSE_CONFIG: path, GATEHOUSE_DATA_DIR, ...environment });
}

function issues(secrets: string | undefined, file: object = {}): readonly SettingsIssue[] {
  return refusal(() => load(settingsWith(secrets, file))).issues;
}

describe('the secret file', () => {
  it('the secret file gives every secret, as written, without the environment', () => {
    const settings = load(settingsWith(ALL));
    expect(settings).to.deep.include({
      production: true,
      secret: SECRET,
      previousSecret: 'previous'.repeat(4),
      managementKey: KEY,
      store: { kind: 'redis', url: STORE },
    });
    expect(settings.identityProviders[0]?.clientSecret).to.equal(CLIENT_SECRET);
  });

  it('a secret file with one line that has no name gives the root secret', () => {
    for (const text of [SECRET, `\n${SECRET}\n`, `# the root secret\n${SECRET}=\n`])
      expect(load(settingsWith(text)).secret).to.equal(text.trim().split('\n').at(-1));
  });

  it('a variable of the environment takes precedence, directly or as a file', () => {
    const path = settingsWith(ALL);
    const other = 'another-secret-that-is-long-enough';
    const file = join(temporaryDirectory(), 'key');
    writeFileSync(file, `${KEY}-from-a-file`);
    const settings = load(path, {
      GATEHOUSE_SECRET: other,
      GATEHOUSE_MANAGEMENT_KEY_FILE: file,
      GATEHOUSE_STORE: '',
    });
    expect(settings).to.deep.include({
      secret: other,
      managementKey: `${KEY}-from-a-file`,
      store: { kind: 'redis', url: STORE },
    });
  });

  it('the address of the store can be in a file of its own, and not in a variable as well', () => {
    const file = join(temporaryDirectory(), 'store');
    writeFileSync(file, `${STORE}\n`);
    const path = settingsWith(ALL.replace(/GATEHOUSE_STORE=.*/, 'GATEHOUSE_STORE=redis://other'));
    expect(load(path, { GATEHOUSE_STORE_FILE: file }).store).to.deep.equal({
      kind: 'redis',
      url: STORE,
    });
    const both = { GATEHOUSE_STORE_FILE: file, GATEHOUSE_STORE: STORE };
    expect(refusal(() => load(path, both)).message).to.include('only one of them');
    const missing = { GATEHOUSE_STORE_FILE: '/nowhere/store' };
    expect(refusal(() => load(path, missing)).message).to.match(/GATEHOUSE_STORE_FILE.*ENOENT/s);
  });

  it('commands take the management key from the secret file', () => {
    const path = settingsWith(ALL);
    expect(findManagementAccess({ GATEHOUSE_CONFIG: path }).key).to.equal(KEY);
  });

  it('a secret file that cannot be read is an issue, except for commands that need nothing from it', () => {
    const issue = {
      setting: 'secretFile',
      given: '"gatehouse.secret"',
      expected: 'a readable file (ENOENT)',
    };
    expect(issues(undefined)).to.deep.include(issue);
    const path = settingsWith(undefined);
    const access = (environment: object) =>
      findManagementAccess({ GATEHOUSE_CONFIG: path, ...environment });
    expect(refusal(() => access({})).issues).to.deep.equal([issue]);
    expect(access({ GATEHOUSE_MANAGEMENT_KEY: KEY }).key).to.equal(KEY);
  });

  it('a secret in place of the path is not shown', () => {
    const [issue] = issues(undefined, { secretFile: SECRET });
    expect(issue?.setting).to.equal('secretFile');
    expect(issue?.given).to.equal(`a value of ${SECRET.length} characters`);
  });

  it('every wrong line is an issue that names the line and what is possible, and shows no value', () => {
    const found = issues(
      [
        `GATEHOUSE_SECRET=${SECRET}`,
        'GATEHOUSE_SECRETS=misspelt',
        'no name at all',
        'GATEHOUSE_SECRET=again',
        'GATEHOUSE_MANAGEMENT_KEY= ',
      ].join('\n'),
    );
    expect(found.filter(({ setting }) => setting.startsWith('secretFile'))).to.deep.equal([
      {
        setting: 'secretFile, line 2',
        given: 'an unknown name, GATEHOUSE_SECRETS',
        expected: NAMES,
      },
      { setting: 'secretFile, line 3', given: 'a line without NAME=', expected: NAMES },
      {
        setting: 'secretFile, line 4',
        given: 'GATEHOUSE_SECRET for the second time',
        expected: NAMES,
      },
      {
        setting: 'secretFile, line 5',
        given: 'GATEHOUSE_MANAGEMENT_KEY without a value',
        expected: NAMES,
      },
    ]);
  });

  it('the rules about secrets apply to the secret file too', () => {
    const names = issues(
      `GATEHOUSE_SECRET=short\nGATEHOUSE_MANAGEMENT_KEY=${'change-me'.repeat(4)}`,
    );
    expect(names.map(({ setting }) => setting)).to.have.members([
      'GATEHOUSE_SECRET',
      'GATEHOUSE_MANAGEMENT_KEY',
    ]);
  });
});
