import { expect } from 'chai';
import { loadSettings } from '../../src/settings/load.ts';
import {
  issuesIn,
  refusal,
  settingsFile,
  temporaryDirectory,
  wrongSettings,
} from './settings-file.ts';

describe('an unusable settings file', () => {
  it('the error names a file that does not exist', () => {
    const path = `${temporaryDirectory()}/none.yaml`;
    expect(refusal(() => loadSettings({ GATEHOUSE_CONFIG: path })).issues).to.deep.equal([
      {
        setting: 'GATEHOUSE_CONFIG',
        given: JSON.stringify(path),
        expected: 'a readable settings file (ENOENT)',
      },
    ]);
  });

  it('the error names line and column of invalid YAML', () => {
    const path = settingsFile('authUrl: http://localhost:4000\nlisten:\n  auth: "0.0.0.0:1\n');
    expect(refusal(() => loadSettings({ GATEHOUSE_CONFIG: path })).issues).to.deep.equal([
      {
        setting: `${path}, line 4, column 1`,
        given: 'Missing closing "quote',
        expected: 'valid YAML',
      },
    ]);
  });

  it('the error names the second place of a duplicate key', () => {
    const path = settingsFile('authUrl: http://a.example\nauthUrl: http://b.example\n');
    const [issue] = refusal(() => loadSettings({ GATEHOUSE_CONFIG: path })).issues;
    expect(issue).to.include({
      setting: `${path}, line 2, column 1`,
      given: 'Map keys must be unique',
    });
  });

  it('a list is refused, and an empty file lacks every required setting', () => {
    expect(issuesIn('- authUrl').map(({ expected }) => expected)).to.include('a group of settings');
    expect(wrongSettings('')).to.deep.equal([
      'authUrl',
      'resourceUrl',
      'entitlements',
      'identityProvider',
    ]);
  });
});
