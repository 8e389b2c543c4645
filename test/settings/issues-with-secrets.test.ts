import { expect } from 'chai';
import { DEVELOPMENT, PRODUCTION, load, refusal } from './settings-file.ts';

describe('a secret', () => {
  const secret = 'hunter2-hunter2-hunter2-hunter2-hunter2';
  const client = {
    id: 'reporting',
    name: 'Reporting',
    redirectUris: ['https://reporting.example.com/cb'],
  };
  const LEAKS: Record<string, [file: unknown, environment?: Record<string, string>]> = {
    'a root secret that is too short': [DEVELOPMENT, { GATEHOUSE_SECRET: secret.slice(0, 31) }],
    'a management key that is too short': [
      DEVELOPMENT,
      { GATEHOUSE_MANAGEMENT_KEY: secret.slice(0, 31) },
    ],
    'a root secret where its file is expected': [DEVELOPMENT, { GATEHOUSE_SECRET_FILE: secret }],
    'a root secret and a root secret file': [
      DEVELOPMENT,
      { GATEHOUSE_SECRET: secret, GATEHOUSE_SECRET_FILE: '/nowhere' },
    ],
    'a root secret in a misspelt variable': [DEVELOPMENT, { GATEHOUSE_SECRT: secret }],
    'a short secret of a client': [
      { ...DEVELOPMENT, clients: { preRegistered: [{ ...client, secret: secret.slice(0, 31) }] } },
    ],
    'a misspelt secret of a client': [
      { ...DEVELOPMENT, clients: { preRegistered: [{ ...client, secert: secret }] } },
    ],
    'a list of secrets': [
      { ...DEVELOPMENT, clients: { preRegistered: [{ ...client, secret: [secret] }] } },
    ],
    'a client secret beside a file with one': [
      {
        ...PRODUCTION,
        identityProvider: {
          ...PRODUCTION.identityProvider,
          clientSecret: secret,
          clientSecretFile: 'x',
        },
      },
    ],
    'a store address with a password': [
      { ...DEVELOPMENT, store: `redi://default:${secret}@localhost:6379` },
    ],
    'a store address without a scheme': [
      { ...DEVELOPMENT },
      { GATEHOUSE_STORE: `default:${secret}@localhost:6379` },
    ],
    'an address with a password': [
      { ...DEVELOPMENT, authUrl: `https://ada:${secret}@auth.example.com` },
    ],
    'a line that is not YAML': [`clientSecret: "\\q${secret}`],
    'an undefined YAML alias': [`clientSecret: *${secret}`],
    'a block that is not YAML': [`clientSecret: |${secret}\n`],
  };
  for (const [name, [file, environment]] of Object.entries(LEAKS)) {
    it(`a secret is not in the message about ${name}`, () => {
      const error = refusal(() => load(file, environment));
      expect(`${error.stack} ${JSON.stringify(error.issues)}`).not.to.include('hunter2');
    });
  }
});
