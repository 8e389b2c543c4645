// A settings file that cannot be used is named, with the place in it where that can be said.
import { expect } from 'chai';
import { loadSettings } from '../../src/settings/load.ts';
import {
  issuesIn,
  refusal,
  settingsFile,
  temporaryDirectory,
  wrongSettings,
} from './settings-file.ts';

describe('a settings file that cannot be used', () => {
  it('is named when it is not there', () => {
    const path = `${temporaryDirectory()}/none.yaml`;
    expect(refusal(() => loadSettings({ GATEHOUSE_CONFIG: path })).issues).to.deep.equal([
      {
        setting: 'GATEHOUSE_CONFIG',
        given: JSON.stringify(path),
        expected: 'a readable settings file (ENOENT)',
      },
    ]);
  });

  it('is named with line and column when it is not YAML', () => {
    const path = settingsFile('authUrl: http://localhost:4000\nlisten:\n  auth: "0.0.0.0:1\n');
    expect(refusal(() => loadSettings({ GATEHOUSE_CONFIG: path })).issues).to.deep.equal([
      {
        setting: `${path}, line 4, column 1`,
        given: 'Missing closing "quote',
        expected: 'valid YAML',
      },
    ]);
  });

  it('is refused when a key stands twice, with the second place', () => {
    const path = settingsFile('authUrl: http://a.example\nauthUrl: http://b.example\n');
    const [issue] = refusal(() => loadSettings({ GATEHOUSE_CONFIG: path })).issues;
    expect(issue).to.include({
      setting: `${path}, line 2, column 1`,
      given: 'Map keys must be unique',
    });
  });

  it('is refused when it is a list, and lacks everything when it is empty', () => {
    expect(issuesIn('- authUrl').map(({ expected }) => expected)).to.include('a group of settings');
    expect(wrongSettings('')).to.deep.equal([
      'authUrl',
      'resourceUrl',
      'entitlements',
      'identityProvider',
    ]);
  });
});
