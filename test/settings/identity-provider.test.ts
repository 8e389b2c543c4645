import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import {
  DEVELOPMENT,
  load,
  loadInProduction,
  issuesIn,
  PRODUCTION,
  SECRET,
  temporaryDirectory,
  wrongSettings,
} from './settings-file.ts';

describe('the identity provider', () => {
  it('in development the default is the embedded identity provider, whose secret is derived later', () => {
    expect(load(DEVELOPMENT).identityProviders).to.deep.equal([
      {
        id: 'development',
        listed: false,
        kind: 'openid',
        organizations: false,
        emailDomains: [],
        name: 'the development identity provider',
        issuer: 'http://localhost:4003',
        clientId: 'gatehouse',
        pkce: true,
        authorizationParameters: {},
        scopes: ['openid', 'profile', 'email', 'groups'],
        groupsClaim: 'groups',
        emailVerified: 'provider',
        userInfo: true,
        switchAccountPrompt: 'login',
        backchannelLogout: 'sessions',
        embedded: true,
      },
    ]);
  });

  it('a configured identity provider replaces the embedded one and has no listener here', () => {
    const { identityProviders, listen } = loadInProduction(PRODUCTION);
    expect(identityProviders).to.have.length(1);
    expect(identityProviders[0]).to.include({
      issuer: 'https://login.example.com',
      embedded: false,
    });
    expect(listen.developmentIdp).to.equal(undefined);
  });

  const withClientSecret = (secret: object) => ({
    ...PRODUCTION,
    identityProvider: { ...PRODUCTION.identityProvider, ...secret },
  });
  const secretFile = (text: string) => {
    const path = join(temporaryDirectory(), 'client-secret');
    writeFileSync(path, text);
    return path;
  };

  it('the client secret comes from the settings file, a secret file or the environment', () => {
    const inFile = withClientSecret({ clientSecretFile: secretFile('from-a-file\n') });
    const secretOf = (content: unknown, environment = {}) =>
      loadInProduction(content, environment).identityProviders[0]?.clientSecret;
    expect(secretOf(PRODUCTION)).to.equal(undefined);
    expect(secretOf(withClientSecret({ clientSecret: 'from-yaml' }))).to.equal('from-yaml');
    expect(secretOf(inFile)).to.equal('from-a-file');
    expect(secretOf(inFile, { GATEHOUSE_IDENTITY_PROVIDER_SECRET: 'from-env' })).to.equal(
      'from-env',
    );
    const fileVariable = { GATEHOUSE_IDENTITY_PROVIDER_SECRET_FILE: secretFile('from-env-file') };
    expect(secretOf(withClientSecret({ clientSecret: 'from-yaml' }), fileVariable)).to.equal(
      'from-env-file',
    );
  });

  it('two client secrets, or one that cannot be read, are an issue', () => {
    const both = { clientSecret: 'one', clientSecretFile: secretFile('two') };
    expect(wrongSettings(withClientSecret(both), { GATEHOUSE_SECRET: SECRET })).to.deep.equal([
      'identityProvider.clientSecretFile',
    ]);
    const environment = {
      GATEHOUSE_SECRET: SECRET,
      GATEHOUSE_IDENTITY_PROVIDER_SECRET_FILE: '/nowhere/client-secret',
    };
    const [issue, ...others] = issuesIn(PRODUCTION, environment);
    expect(others).to.deep.equal([]);
    expect(issue).to.deep.equal({
      setting: 'GATEHOUSE_IDENTITY_PROVIDER_SECRET_FILE',
      given: '"/nowhere/client-secret"',
      expected: 'a readable file (ENOENT)',
    });
  });

  it('an empty client secret file is an issue', () => {
    const empty = withClientSecret({ clientSecretFile: secretFile('\n') });
    expect(issuesIn(empty, { GATEHOUSE_SECRET: SECRET })).to.deep.equal([
      {
        setting: 'identityProvider.clientSecretFile',
        given: 'a value of 0 characters',
        expected: 'at least 1 character',
      },
    ]);
  });

  it('how the provider is asked cannot override what Gatehouse sets, weaken a client without a secret or have no effect', () => {
    const issuesWith = (provider: object) =>
      issuesIn(withClientSecret(provider), { GATEHOUSE_SECRET: SECRET }).map(
        ({ setting, expected }) => [setting.replace('identityProvider.', ''), expected],
      );
    const clientSecret = 'the-secret';
    const recheckScopes = ['offline_access'];
    const good = { clientSecret, pkce: false, clientAuthentication: 'client_secret_post' };
    loadInProduction(withClientSecret({ ...good, authorizationParameters: { resource: 'urn:a' } }));
    loadInProduction(withClientSecret({ recheck: '24h', recheckScopes: [] }));
    for (const name of ['state', 'redirect_uri', 'Prompt', 'code_challenge', 'acr_values'])
      expect(issuesWith({ authorizationParameters: { [name]: 'x' } })).to.deep.equal([
        ['authorizationParameters', `no ${name}, because Gatehouse sets this parameter itself`],
      ]);
    expect(issuesWith({ recheckScopes })).to.deep.equal([
      ['recheckScopes', 'no value without recheck'],
    ]);
    expect(issuesWith({ pkce: false })).to.deep.equal([
      ['pkce', 'true, because nothing else protects the code of a client without a secret'],
    ]);
    expect(issuesWith({ clientAuthentication: 'client_secret_post' })).to.deep.equal([
      ['clientAuthentication', 'no value without a client secret'],
    ]);
    const github = { kind: 'github', clientSecret, recheck: '24h', recheckScopes, pkce: true };
    expect(issuesWith(github).map(([setting]) => setting)).to.deep.equal(['pkce', 'recheckScopes']);
  });

  it('exactly one of identityProvider and developmentIdp is required', () => {
    const { developmentIdp: _, ...neither } = DEVELOPMENT;
    expect(wrongSettings(neither)).to.deep.equal(['identityProvider']);
    const both = { ...DEVELOPMENT, identityProvider: PRODUCTION.identityProvider };
    expect(wrongSettings(both)).to.deep.equal(['developmentIdp']);
  });
});
