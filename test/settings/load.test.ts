import { readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { expect } from 'chai';
import { stringify } from 'yaml';
import type { CommandLineSettings } from '../../src/settings/environment.ts';
import { loadSettings, secretVariablesIn } from '../../src/settings/load.ts';
import {
  DEVELOPMENT,
  load,
  PRODUCTION,
  refusal,
  rulesIn,
  SECRET,
  settingsFile,
  temporaryDirectory,
} from './settings-file.ts';

const SECRETS = {
  GATEHOUSE_SECRET: SECRET,
  GATEHOUSE_MANAGEMENT_KEY: 'k'.repeat(32),
};

/** Calls `use` with `folder` as the working directory. */
function inDirectory(folder: string, use: (folder: string) => void): void {
  const before = process.cwd();
  process.chdir(folder);
  try {
    use(process.cwd());
  } finally {
    process.chdir(before);
  }
}

describe('settings loaded for a command', () => {
  const read = (content: object, environment: Record<string, string>) =>
    loadSettings(
      { GATEHOUSE_CONFIG: settingsFile(content), ...environment },
      { makesSecrets: false },
    );

  it('loading requires the generated root secret and does not generate one', () => {
    const dataDir = temporaryDirectory();
    const { issues } = refusal(() => read(DEVELOPMENT, { GATEHOUSE_DATA_DIR: dataDir }));
    expect(issues.map(({ setting }) => setting)).to.deep.equal(['GATEHOUSE_SECRET']);
    expect(readdirSync(dataDir)).to.deep.equal([]);
    const made = load(DEVELOPMENT, { GATEHOUSE_DATA_DIR: dataDir });
    const found = read(DEVELOPMENT, { GATEHOUSE_DATA_DIR: dataDir });
    expect(found).to.include({ secret: made.secret, managementKey: made.managementKey });
  });

  it('loading works without a management key', () => {
    const dataDir = temporaryDirectory();
    const environment = { GATEHOUSE_DATA_DIR: dataDir, GATEHOUSE_SECRET: SECRET };
    expect(read(PRODUCTION, environment).managementKey).to.equal(undefined);
    expect(readdirSync(dataDir)).to.deep.equal([]);
  });
});

describe('settings without environment variables', () => {
  it('the settings are those of config/development.yaml', () => {
    const settings = loadSettings({ GATEHOUSE_DATA_DIR: temporaryDirectory() });
    expect(settings).to.deep.include({
      authUrl: 'http://localhost:4000',
      resourceUrl: 'http://localhost:4001',
      managementUrl: 'http://127.0.0.1:4002',
      roles: ['authorization-server', 'resource-server', 'management'],
      production: false,
      environmentName: 'development',
    });
    expect(settings.developmentIdp?.url).to.equal('http://localhost:4003');
  });

  it('the settings file is found from any working directory', () => {
    inDirectory(temporaryDirectory(), () => {
      const settings = loadSettings({ GATEHOUSE_DATA_DIR: 'data' });
      expect(settings.authUrl).to.equal('http://localhost:4000');
    });
  });

  it('a gatehouse.yaml in the working directory is used unless another file is named', () => {
    const config = settingsFile({ ...DEVELOPMENT, productName: 'Named' });
    inDirectory(temporaryDirectory(), () => {
      writeFileSync('gatehouse.yaml', stringify({ ...DEVELOPMENT, productName: 'Local' }));
      expect(loadSettings({}).productName).to.equal('Local');
      expect(loadSettings({ GATEHOUSE_CONFIG: config }).productName).to.equal('Named');
      expect(loadSettings({}, { options: { config } }).productName).to.equal('Named');
    });
  });

  it('a gatehouse.yaml that cannot be read is an error, not a reason to use other settings', () => {
    inDirectory(temporaryDirectory(), (folder) => {
      symlinkSync('nothing.yaml', 'gatehouse.yaml');
      expect(refusal(() => loadSettings({})).issues).to.deep.equal([
        {
          setting: 'gatehouse.yaml',
          given: JSON.stringify(join(folder, 'gatehouse.yaml')),
          expected: 'a readable settings file (ENOENT)',
        },
      ]);
    });
  });

  it('the example entitlements give Ada full, Grace operations and Alan nothing', () => {
    const settings = loadSettings({ GATEHOUSE_DATA_DIR: temporaryDirectory() });
    const { developmentIdp } = settings;
    expect(developmentIdp?.people.map(({ id }) => id)).to.deep.equal(['ada', 'grace', 'alan']);
    expect(rulesIn(settings)).to.deep.equal([
      { match: { subject: 'ada' }, level: 'full' },
      { match: { group: 'staff' }, level: 'operations' },
    ]);
  });
});

describe('the settings file', () => {
  it('durations are converted to seconds', () => {
    const lifetimes = {
      accessToken: '90s',
      session: '15m',
      unusedClient: '12h',
      usedClient: '45d',
    };
    expect(load({ ...DEVELOPMENT, lifetimes }).lifetimes).to.deep.equal({
      accessToken: 90,
      session: 900,
      unusedClient: 43_200,
      usedClient: 3_888_000,
      refreshTokenIdle: 2_592_000,
      refreshTokenAbsolute: 7_776_000,
    });
  });

  it('a group whose settings are all commented out is accepted', () => {
    const settings = load({
      ...DEVELOPMENT,
      listen: null,
      lifetimes: null,
      clients: { allowedRedirects: null },
    });
    expect(settings.lifetimes.accessToken).to.equal(3600);
    expect(settings.clients.allowedRedirects).to.deep.equal([]);
  });

  it('relative paths in the file start at its folder', () => {
    const file = settingsFile({
      ...DEVELOPMENT,
      dataDir: 'state',
      theme: 'theme',
      identityProvider: { ...PRODUCTION.identityProvider, clientSecretFile: 'client-secret' },
      developmentIdp: undefined,
    });
    const folder = dirname(file);
    writeFileSync(join(folder, 'client-secret'), 'the-secret-of-the-client');
    const settings = loadSettings({ GATEHOUSE_CONFIG: file, ...SECRETS });
    expect(settings).to.deep.include({
      dataDir: join(folder, 'state'),
      store: { kind: 'sqlite', file: join(folder, 'state/gatehouse.sqlite') },
      theme: join(folder, 'theme'),
    });
    const secrets = settings.identityProviders.map(({ clientSecret }) => clientSecret);
    expect(secrets).to.deep.equal(['the-secret-of-the-client']);
  });

  it('the default data directory starts at the working directory', () => {
    const settings = load(DEVELOPMENT, { GATEHOUSE_DATA_DIR: '', ...SECRETS });
    expect(settings.dataDir).to.equal(resolve('.data'));
  });

  it('a role that is listed twice counts once', () => {
    const { roles } = load({
      ...DEVELOPMENT,
      store: 'redis://localhost:6379',
      roles: ['management', 'management'],
    });
    expect(roles).to.deep.equal(['management']);
  });
});

describe('environment variables', () => {
  it('a variable takes precedence over the file', () => {
    const settings = load(
      {
        ...DEVELOPMENT,
        managementUrl: 'http://127.0.0.1:4002',
        logLevel: 'warn',
        listen: { auth: '127.0.0.1:1' },
      },
      {
        GATEHOUSE_AUTH_URL: 'http://localhost:5000',
        GATEHOUSE_RESOURCE_URL: 'http://localhost:5001',
        GATEHOUSE_MANAGEMENT_URL: 'http://127.0.0.1:5002',
        GATEHOUSE_DEVELOPMENT_IDP_URL: 'http://localhost:5003',
        GATEHOUSE_AUTH_LISTEN: '127.0.0.1:6000',
        GATEHOUSE_RESOURCE_LISTEN: '127.0.0.1:6001',
        GATEHOUSE_MANAGEMENT_LISTEN: '127.0.0.1:6002',
        GATEHOUSE_DEVELOPMENT_IDP_LISTEN: '[::1]:6003',
        GATEHOUSE_METRICS_LISTEN: '127.0.0.1:6004',
        GATEHOUSE_STORE: 'redis://127.0.0.1:6379/3',
        GATEHOUSE_DEFAULT_CONNECTOR: 'first',
        GATEHOUSE_LOG_LEVEL: 'debug',
      },
    );
    expect(settings).to.deep.include({
      authUrl: 'http://localhost:5000',
      resourceUrl: 'http://localhost:5001',
      managementUrl: 'http://127.0.0.1:5002',
      store: { kind: 'redis', url: 'redis://127.0.0.1:6379/3' },
      authorization: {
        defaultConnector: 'first',
        deviceGrant: true,
        introspectionClients: [],
        trustedIssuers: [],
      },
      logLevel: 'debug',
      listen: {
        auth: { host: '127.0.0.1', port: 6000 },
        resource: { host: '127.0.0.1', port: 6001 },
        management: { host: '127.0.0.1', port: 6002 },
        developmentIdp: { host: '::1', port: 6003 },
        metrics: { host: '127.0.0.1', port: 6004 },
      },
    });
    expect(settings.developmentIdp?.url).to.equal('http://localhost:5003');
    expect(settings.developmentIdp?.people).to.have.length(1);
  });

  it('the roles variable is a list or all', () => {
    const file = { ...DEVELOPMENT, store: 'redis://localhost:6379', roles: ['management'] };
    expect(load(file, { GATEHOUSE_ROLES: 'all' }).roles).to.have.length(3);
    expect(
      load(file, { GATEHOUSE_ROLES: 'resource-server, authorization-server' }).roles,
    ).to.deep.equal(['resource-server', 'authorization-server']);
  });

  it('an empty variable counts as not set', () => {
    expect(
      load({ ...DEVELOPMENT, logLevel: 'warn' }, { GATEHOUSE_LOG_LEVEL: '' }).logLevel,
    ).to.equal('warn');
  });

  it('the service variables that Kubernetes sets for a service named gatehouse are ignored', () => {
    const names = { GATEHOUSE_PORT: 'tcp://10.0.0.1:80', GATEHOUSE_SERVICE_HOST: '10.0.0.1' };
    expect(load(DEVELOPMENT, names).authUrl).to.equal(DEVELOPMENT.authUrl);
  });
});

describe('the options of the command line', () => {
  const options = (given: CommandLineSettings) => (environment: Record<string, string>) =>
    loadSettings({ ...SECRETS, ...environment }, { options: given });

  it('--config and --data-dir take precedence over variables and start at the working directory', () => {
    const config = relative('', settingsFile({ ...DEVELOPMENT, productName: 'By option' }));
    const environment = {
      GATEHOUSE_CONFIG: settingsFile({ ...DEVELOPMENT, dataDir: 'in-the-file' }),
      GATEHOUSE_DATA_DIR: 'by-variable',
    };
    expect(options({ config, dataDir: 'by-option' })(environment)).to.include({
      productName: 'By option',
      dataDir: resolve('by-option'),
    });
  });

  it('an error names the option that is wrong', () => {
    const missing = join(temporaryDirectory(), 'missing.yaml');
    const wrong = [
      [{ config: missing }, '--config', /^a readable settings file \(ENOENT\)$/],
      [{ config: settingsFile(DEVELOPMENT), dataDir: settingsFile('') }, '--data-dir', /directory/],
    ] as const;
    for (const [given, setting, expected] of wrong) {
      const { issues } = refusal(() => loadSettings({}, { options: given }));
      expect(issues.map((issue) => issue.setting)).to.deep.equal([setting]);
      expect(issues[0]?.expected).to.match(expected);
    }
  });
});

describe('secrets that a reload cannot read again', () => {
  it('names the variables of the settings that are set, also those in a list', () => {
    const delivery = [
      {
        id: 'siem',
        kind: 'webhook',
        url: 'https://siem.example.com/',
        secretEnv: ['NEW', 'OLD', 'GONE'],
      },
    ];
    const content = {
      ...DEVELOPMENT,
      audit: { delivery },
      management: { keys: [{ name: 'ci', keyEnv: 'CI_KEY' }] },
    };
    const environment = {
      GATEHOUSE_CONFIG: settingsFile(content),
      GATEHOUSE_MANAGEMENT_KEY: 'key',
      NEW: 'one',
      OLD: 'two',
      CI_KEY: 'three',
      OTHER: 'four',
    };
    expect(secretVariablesIn(environment)).to.deep.equal([
      'CI_KEY',
      'GATEHOUSE_MANAGEMENT_KEY',
      'NEW',
      'OLD',
    ]);
  });
});
