import { expect } from 'chai';
import {
  DEVELOPMENT,
  load,
  loadInProduction,
  issuesIn,
  PRODUCTION,
  refusal,
  settingsFile,
} from './settings-file.ts';

const PLACEHOLDER = 'change-me-change-me-change-me-change-me';

const client = { id: 'reporting', name: 'Reporting', redirectUris: ['https://a.example/cb'] };
const preRegistered = [{ ...client, secret: PLACEHOLDER }];
const { identityProvider } = PRODUCTION;

describe('a placeholder in place of a secret', () => {
  const PLACES: Record<string, [change: object, environment?: Record<string, string>]> = {
    'clients.preRegistered[0].secret': [{ clients: { preRegistered } }],
    'authorization.introspectionClients[0].secret': [
      { authorization: { introspectionClients: [{ id: 'reports', secret: PLACEHOLDER }] } },
    ],
    'identityProvider.clientSecret': [
      { identityProvider: { ...identityProvider, clientSecret: 'change-me' } },
    ],
    'identityProvider.clientSecretFile': [
      { identityProvider: { ...identityProvider, clientSecretFile: settingsFile('Change-Me\n') } },
    ],
    GATEHOUSE_SECRET: [{}, { GATEHOUSE_SECRET: PLACEHOLDER }],
    GATEHOUSE_MANAGEMENT_KEY: [{}, { GATEHOUSE_MANAGEMENT_KEY: PLACEHOLDER }],
  };
  for (const [setting, [change, environment]] of Object.entries(PLACES)) {
    it(`a placeholder in ${setting} is refused in production, and not shown`, () => {
      const { issues, message } = refusal(() =>
        loadInProduction({ ...PRODUCTION, ...change }, environment),
      );
      expect(issues.map((issue) => issue.setting)).to.deep.equal([setting]);
      expect(message)
        .to.include('not a placeholder')
        .and.not.match(/change-me/i);
    });
  }

  it('a placeholder is accepted in development', () => {
    const settings = load({ ...DEVELOPMENT, clients: { preRegistered } });
    expect(settings.clients.preRegistered[0]?.secret).to.equal(PLACEHOLDER);
  });
});

describe('the management key', () => {
  for (const key of ['a key with spaces in it, which is long enough', 'é'.repeat(40)]) {
    it(`ADM-02 the management key ${key.slice(0, 5)}… is an issue that does not show it`, () => {
      expect(issuesIn(DEVELOPMENT, { GATEHOUSE_MANAGEMENT_KEY: key })).to.deep.equal([
        {
          setting: 'GATEHOUSE_MANAGEMENT_KEY',
          given: 'a value with spaces or characters outside ASCII',
          expected: 'the management key on one line',
        },
      ]);
    });
  }
});
