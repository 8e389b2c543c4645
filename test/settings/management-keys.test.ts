import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import {
  DEVELOPMENT,
  issuesIn,
  load,
  loadInProduction,
  PRODUCTION,
  refusal,
  settingsFile,
  temporaryDirectory,
} from './settings-file.ts';

const KEY = 'a-management-key-of-the-settings-tests';
const OTHER = 'another-key-of-the-settings-tests-0123';
const IN_VARIABLE = { name: 'ci', role: 'operator', keyEnv: 'CI_KEY' };

describe('the settings of management keys', () => {
  const withKeys = (...keys: object[]) => ({ ...DEVELOPMENT, management: { keys } });
  const fileWith = (text: string) => settingsFile(text);

  it('ROL-07 keys come from files and variables, without surrounding white space', () => {
    const keyFile = fileWith(`${KEY}\n`);
    const { managementKeys } = load(
      withKeys({ name: 'monitoring', role: 'viewer', keyFile }, IN_VARIABLE),
      { CI_KEY: OTHER },
    );
    expect(managementKeys).to.deep.equal([
      {
        name: 'monitoring',
        role: 'viewer',
        key: KEY,
        setting: 'management.keys[0].keyFile',
        file: keyFile,
      },
      { name: 'ci', role: 'operator', key: OTHER, setting: 'management.keys[1].keyEnv' },
    ]);
  });

  it('ROL-07 a process without the management role reads no key', () => {
    const file = {
      ...PRODUCTION,
      roles: ['resource-server'],
      management: { keys: [IN_VARIABLE] },
    };
    expect(loadInProduction(file).managementKeys).to.deep.equal([]);
  });

  const entry = { name: 'ci', role: 'viewer' };
  const WRONG: Record<string, [keys: object[], setting: string, expected: RegExp]> = {
    'an unknown role': [
      [{ ...IN_VARIABLE, role: 'root' }],
      'management.keys[0].role',
      /viewer, auditor, operator or administrator/,
    ],
    'no role': [[{ name: 'ci', keyEnv: 'CI_KEY' }], 'management.keys[0].role', /viewer/],
    'the reserved name': [
      [{ ...IN_VARIABLE, name: 'default' }],
      'management.keys[0].name',
      /a name other than default/,
    ],
    'a name twice': [
      [IN_VARIABLE, { ...IN_VARIABLE, keyEnv: 'OTHER_KEY' }],
      'management.keys',
      /a unique name for each/,
    ],
    'no key': [[entry], 'management.keys[0]', /exactly one of keyFile and keyEnv/],
    'a key in both places': [
      [{ ...IN_VARIABLE, keyFile: '/k' }],
      'management.keys[0]',
      /exactly one of keyFile and keyEnv/,
    ],
    'a missing file': [
      [{ ...entry, keyFile: '/nowhere/key' }],
      'management.keys[0].keyFile',
      /a readable file \(ENOENT\)/,
    ],
    'a variable that is not set': [
      [{ ...entry, keyEnv: 'MISSING' }],
      'management.keys[0].keyEnv',
      /a variable with a value/,
    ],
    'a variable of Gatehouse itself': [
      [{ ...entry, keyEnv: 'GATEHOUSE_SECRET' }],
      'management.keys[0].keyEnv',
      /does not start with GATEHOUSE_/,
    ],
    'a short key': [
      [{ ...entry, keyEnv: 'SHORT_KEY' }],
      'management.keys[0].keyEnv',
      /at least 32 characters/,
    ],
    'a key with spaces': [
      [{ ...entry, keyEnv: 'SPACED_KEY' }],
      'management.keys[0].keyEnv',
      /the management key on one line/,
    ],
    'the same key twice': [
      [IN_VARIABLE, { ...entry, name: 'other', keyEnv: 'CI_KEY' }],
      'management.keys[1].keyEnv',
      /a different key, not that of management\.keys\[0\]\.keyEnv/,
    ],
    'the key of the variable GATEHOUSE_MANAGEMENT_KEY': [
      [{ ...entry, keyEnv: 'DEFAULT_KEY' }],
      'management.keys[0].keyEnv',
      /a different key, not that of GATEHOUSE_MANAGEMENT_KEY/,
    ],
  };
  const ENVIRONMENT = {
    CI_KEY: OTHER,
    OTHER_KEY: KEY,
    SHORT_KEY: KEY.slice(0, 31),
    SPACED_KEY: `${KEY} ${KEY}`,
    DEFAULT_KEY: `${KEY}-default`,
    GATEHOUSE_MANAGEMENT_KEY: `${KEY}-default`,
  };
  for (const [title, [keys, setting, expected]] of Object.entries(WRONG)) {
    it(`ROL-07 ${title} is one issue that shows no key`, () => {
      const issues = issuesIn(withKeys(...keys), ENVIRONMENT);
      expect(issues.map((issue) => issue.setting)).to.deep.equal([setting]);
      expect(issues[0]?.expected).to.match(expected);
      expect(JSON.stringify(issues)).not.to.include(KEY.slice(0, 31)).and.not.include(OTHER);
    });
  }

  it('ROL-07 a placeholder, and a key that contains another secret, are refused in production', () => {
    const file = { ...PRODUCTION, management: { keys: [IN_VARIABLE] } };
    for (const [CI_KEY, expected] of [
      ['change-me'.repeat(4), /not a placeholder/],
      [`${KEY}-part`, /not GATEHOUSE_MANAGEMENT_KEY or a part of it/],
    ] as const) {
      const { issues } = refusal(() =>
        loadInProduction(file, { GATEHOUSE_MANAGEMENT_KEY: KEY, CI_KEY }),
      );
      expect(issues.map(({ setting }) => setting)).to.deep.equal(['management.keys[0].keyEnv']);
      expect(issues[0]?.expected).to.match(expected);
    }
  });

  it('ROL-07 the generated key cannot be named again', () => {
    const dataDir = join(temporaryDirectory(), 'data');
    const environment = { GATEHOUSE_DATA_DIR: dataDir };
    mkdirSync(dataDir);
    writeFileSync(join(dataDir, 'management.key'), KEY);
    chmodSync(join(dataDir, 'management.key'), 0o600);
    const keyFile = join(dataDir, 'management.key');
    expect(issuesIn(withKeys({ ...entry, keyFile }), environment)).to.deep.equal([
      {
        setting: 'management.keys[0].keyFile',
        given: `a value of ${KEY.length} characters`,
        expected: `a different key, not that of ${keyFile}`,
      },
    ]);
  });
});
