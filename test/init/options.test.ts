import { mkdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { stringify } from 'yaml';
import { recommendedSettings } from '../sign-in/table.ts';
import { gatehouse } from '../management/command-line.ts';
import { rulesIn, temporaryDirectory } from '../settings/settings-file.ts';
import { initOffline, loadWritten, namesIn, PUBLIC, read, refusedInit, words } from './files.ts';

const CLIENT_SECRET = 'k3Yx9-client-secret-of-the-provider-81qz';

function secretFile(content = CLIENT_SECRET): string {
  const path = join(temporaryDirectory(), 'client.secret');
  writeFileSync(path, `${content}\n`);
  return path;
}

async function written(...args: string[]): Promise<string> {
  const folder = temporaryDirectory();
  const { code, stderr } = await initOffline(folder, '--yes', ...args);
  expect({ code, stderr }).to.deep.equal({ code: 0, stderr: '' });
  return folder;
}

const CLIENT = words('--client-id gatehouse-client --client-secret-file');
const ISSUERS = {
  google: 'https://accounts.google.com',
  okta: 'https://example.okta.com',
  entra: 'https://login.microsoftonline.com/11111111-2222-3333-4444-555555555555/v2.0',
  keycloak: 'https://login.example.com/realms/example',
  auth0: 'https://example.eu.auth0.com/',
  github: 'https://github.com',
  oidc: 'https://login.example.com',
};
/** The headings in config/identity-providers.md. */
const HEADINGS: Record<string, string> = {
  google: 'Google',
  okta: 'Okta',
  entra: 'Microsoft Entra ID',
  keycloak: 'Keycloak',
  auth0: 'Auth0',
  github: 'GitHub',
};

/** The settings in the document, without the addresses and credentials of its examples. */
function recommended(idp: string): object {
  const name = HEADINGS[idp];
  if (name === undefined) return { kind: 'openid', groupsClaim: 'groups' };
  const { identityProvider } = recommendedSettings({ name });
  const own = ['issuer', 'clientId', 'clientSecretFile'];
  return Object.fromEntries(Object.entries(identityProvider).filter(([key]) => !own.includes(key)));
}

describe('gatehouse init with options', () => {
  for (const [idp, issuer] of Object.entries(ISSUERS))
    it(`the files for ${idp} are valid in production, and their rule admits nobody that is not named`, async () => {
      const hasIssuer = !['google', 'github'].includes(idp);
      const folder = await written(
        ...PUBLIC,
        ...words(`--idp ${idp}`),
        ...CLIENT,
        secretFile(),
        ...(hasIssuer ? words(`--issuer ${issuer}`) : []),
      );
      const settings = loadWritten(folder, { NODE_ENV: 'production' });
      expect(settings).to.deep.include({
        production: true,
        authUrl: 'https://auth.example.com',
        resourceUrl: 'https://mcp.example.com',
        dataDir: join(folder, '.data'),
        proxies: 1,
      });
      expect(settings.listen).to.deep.include({
        auth: { host: '127.0.0.1', port: 4000 },
        resource: { host: '127.0.0.1', port: 4001 },
      });
      const expected = {
        ...recommended(idp),
        issuer,
        clientId: 'gatehouse-client',
        clientSecret: CLIENT_SECRET,
      };
      expect(settings.identityProviders).to.have.length(1);
      expect(settings.identityProviders[0]).to.deep.include(expected);
      const [rule, ...others] = rulesIn(settings) as { match: Record<string, unknown> }[];
      expect(others).to.deep.equal([]);
      expect(Object.entries(rule?.match ?? {})).to.have.length(1);
      expect(rule?.match).not.to.have.property('anyone');
      expect(read(folder, 'gatehouse.yaml')).to.include(
        'Redirect URI: https://auth.example.com/interaction/callback\n',
      );
      expect(
        read(folder, 'gatehouse.yaml').includes('https://auth.example.com/backchannel-logout\n'),
      ).to.equal(['keycloak', 'auth0', 'oidc'].includes(idp));
    });

  for (const [address, kind] of [
    ['sqlite:gatehouse.sqlite', 'sqlite'],
    ['redis://127.0.0.1:6379', 'redis'],
    ['rediss://redis.example.com:6379/2', 'redis'],
    ['redis+sentinel://127.0.0.1:1,127.0.0.1:2/main', 'sentinel'],
    ['redis+cluster://127.0.0.1:1,127.0.0.1:2', 'cluster'],
  ] as const)
    it(`the store ${address} is written as given`, async () => {
      const folder = await written('--store', address);
      expect(loadWritten(folder).store.kind).to.equal(kind);
      expect(read(folder, 'gatehouse.yaml')).to.include(address);
    });

  it('a password in the address of the store goes to the secret file', async () => {
    const address = 'rediss://gatehouse:A-pass%20word@redis.example.com:6379';
    const folder = await written('--store', address);
    expect(read(folder, 'gatehouse.yaml')).not.to.include('pass%20word');
    expect(loadWritten(folder).store).to.deep.equal({ kind: 'redis', url: address });
  });

  it('without options, --yes writes settings for trying out on this computer', async () => {
    const folder = await written();
    const settings = loadWritten(folder);
    expect(settings).to.deep.include({
      production: false,
      authUrl: 'http://localhost:4000',
      resourceUrl: 'http://localhost:4001',
    });
    expect(settings.developmentIdp?.people.map(({ id }) => id)).to.deep.equal([
      'ada',
      'grace',
      'alan',
    ]);
    expect(rulesIn(settings)).to.deep.equal([
      { match: { subject: 'ada' }, level: 'full' },
      { match: { group: 'staff' }, level: 'operations' },
    ]);
  });

  it('SUP-10 the secret file has mode 600 and random secrets, which the settings file never contains', async () => {
    const folders = [await written(), await written()];
    const secrets = folders.map((folder) => {
      expect(statSync(join(folder, 'gatehouse.secret')).mode & 0o777).to.equal(0o600);
      const { secret, managementKey } = loadWritten(folder);
      const text = read(folder, 'gatehouse.yaml');
      for (const value of [secret, managementKey]) {
        expect(value).to.match(/^[\w-]{43}$/);
        expect(text).not.to.include(value);
      }
      return [secret, managementKey];
    });
    expect(new Set(secrets.flat()).size).to.equal(4);
  });

  it('SUP-10 the client secret is referenced by path, and printed nowhere', async () => {
    const folder = temporaryDirectory();
    writeFileSync(join(folder, 'idp.secret'), CLIENT_SECRET);
    const args = [...PUBLIC, '--idp', 'google', ...CLIENT, join(folder, 'idp.secret')];
    const { stdout, stderr } = await initOffline(folder, '--yes', ...args);
    expect(loadWritten(folder).identityProviders[0]?.clientSecret).to.equal(CLIENT_SECRET);
    const settings = read(folder, 'gatehouse.yaml');
    expect(settings).to.include('clientSecretFile: ./idp.secret\n');
    for (const text of [stdout, stderr, settings, read(folder, 'gatehouse.secret')])
      expect(text).not.to.include(CLIENT_SECRET);
  });

  it('an id that YAML could take for something else is read back as written', async () => {
    for (const id of [
      '123',
      'true',
      'a:',
      '#a',
      '{a}',
      'a:b',
      '"a\'',
      '1e3',
      '.5',
      '-',
      '*a',
      '~',
    ]) {
      const folder = await written(
        ...words('--auth-url http://localhost:4000 --idp google'),
        `--client-id=${id}`,
      );
      expect(loadWritten(folder).identityProviders[0]?.clientId).to.equal(id);
    }
  });

  it('one address for both servers has one listener', async () => {
    const url = 'https://mcp.example.com';
    const args = words(`--auth-url ${url} --resource-url ${url} --idp google`);
    const folder = await written(...args, ...CLIENT, secretFile());
    const { listen } = loadWritten(folder);
    expect(listen.resource).to.deep.equal(listen.auth);
  });

  it('the output names the redirect URI and the next commands', async () => {
    const folder = temporaryDirectory();
    const args = [
      ...PUBLIC,
      '--idp',
      'keycloak',
      '--issuer',
      ISSUERS.keycloak,
      ...CLIENT,
      secretFile(),
    ];
    const { stdout } = await initOffline(folder, '--yes', ...args);
    expect(stdout)
      .to.include('Keycloak, with the redirect URI https://auth.example.com/interaction/callback\n')
      .and.include('npx gatehouse start\n')
      .and.include('npx gatehouse doctor\n')
      .and.include('npx gatehouse connector create --name');
  });

  it('--json prints the files, the redirect URI and no secret', async () => {
    const folder = temporaryDirectory();
    const args = [...PUBLIC, '--idp', 'google', ...CLIENT, secretFile()];
    const { stdout } = await initOffline(folder, '--yes', '--json', ...args);
    expect(JSON.parse(stdout)).to.deep.include({
      files: [join(folder, 'gatehouse.yaml'), join(folder, 'gatehouse.secret')],
      redirectUri: 'https://auth.example.com/interaction/callback',
      warnings: [],
    });
    expect(stdout).not.to.include(loadWritten(folder).secret);
  });

  it('the secrets of a store that an earlier start made are kept', async () => {
    const folder = temporaryDirectory();
    mkdirSync(join(folder, '.data'));
    const secrets = {
      secret: 'the-earlier-root-secret-of-this-store',
      'management.key': 'the-earlier-management-key-of-it',
    };
    for (const [name, value] of Object.entries({ ...secrets, 'gatehouse.sqlite': '' }))
      writeFileSync(join(folder, '.data', name), value);
    const { code } = await initOffline(folder, '--yes');
    expect(code).to.equal(0);
    expect(loadWritten(folder)).to.include({
      secret: secrets.secret,
      managementKey: secrets['management.key'],
    });
  });
});

describe('options that gatehouse init refuses', () => {
  it('all wrong and missing options are reported at once, with what is expected', async () => {
    const error = await refusedInit(
      '--yes',
      ...words('--auth-url http://auth.example.com --resource-url https://mcp.example.com/'),
      ...words('--idp keycloak --issuer https://login.example.com --store mysql:x'),
      ...words('--client-secret-file /nowhere/secret --upstream localhost:9000'),
    );
    expect(error.match(/^ {2}--[a-z-]+/gm)?.map((line) => line.trim())).to.deep.equal([
      '--auth-url',
      '--resource-url',
      '--store',
      '--issuer',
      '--client-secret-file',
      '--upstream',
      '--client-id',
    ]);
    expect(error)
      .to.include('expected an https address, because other computers can reach it')
      .and.include('https://<host>/realms/<realm>')
      .and.include('expected a readable file (ENOENT)')
      .and.include('redis+cluster://');
  });

  it('an unknown provider is refused with the list of those that exist', async () => {
    expect(await refusedInit('--yes', '--idp', 'gogle')).to.include(
      '--idp: given "gogle"; expected one of google, okta, entra, keycloak, auth0, github, oidc, development',
    );
  });

  it('without a terminal and without --yes, the error lists the options that are missing', async () => {
    const error = await refusedInit('--idp', 'okta', '--auth-url', 'https://auth.example.com');
    for (const option of ['--resource-url', '--store', '--issuer', '--client-id'])
      expect(error).to.include(`  ${option}: given nothing; expected `);
    expect(error).to.include('--yes').and.include('https://<org>.okta.com');
    expect(error).not.to.match(/--(idp|auth-url|upstream):/);
  });

  it('an issuer that does not fit the provider is refused', async () => {
    for (const [idp, issuer] of [
      ['google', 'https://accounts.example.com'],
      ['entra', 'https://login.microsoftonline.com/common/v2.0'],
      ['entra', 'https://login.microsoftonline.com/11111111-2222-3333-4444-555555555555'],
      ['auth0', 'https://example.eu.auth0.com'],
      ['okta', 'http://example.okta.com'],
      ['development', 'https://login.example.com'],
    ] as const) {
      const error = await refusedInit('--yes', ...PUBLIC, '--idp', idp, '--issuer', issuer);
      expect(error, idp).to.include(`  --issuer: given "${issuer}"; expected `);
    }
  });

  it('GitHub needs a client secret, because no sign-in works without it', async () => {
    const error = await refusedInit('--yes', ...PUBLIC, '--idp', 'github', '--client-id', 'Iv1.0');
    expect(error).to.include('  --client-secret-file: given nothing');
  });

  it('the development provider is refused for a public address', async () => {
    expect(await refusedInit('--yes', ...PUBLIC, '--idp', 'development')).to.include(
      'the development identity provider has no passwords',
    );
  });

  it('settings that the environment would refuse are not written', async () => {
    const folder = temporaryDirectory();
    const args = ['init', '--offline', '--yes', '--dir', folder];
    const { code, stderr } = await gatehouse(args, { NODE_ENV: 'production' });
    expect(code).to.equal(1);
    expect(stderr).to.include('developmentIdp').and.include('NODE_ENV is production');
    expect(namesIn(folder)).to.deep.equal([]);
  });

  it('an empty secret file and one that holds a placeholder are refused', async () => {
    const args = ['--yes', ...PUBLIC, '--idp', 'google', ...CLIENT];
    expect(await refusedInit(...args, secretFile(''))).to.include('(it is empty)');
    const folder = join(temporaryDirectory(), 'new');
    const { code, stderr } = await initOffline(folder, ...args, secretFile('change-me'));
    expect(code).to.equal(1);
    expect(stderr).to.include('identityProvider.clientSecretFile').and.include('not a placeholder');
    expect(() => namesIn(folder)).to.throw('ENOENT');
  });
});

describe('the files of gatehouse init', () => {
  for (const name of ['gatehouse.yaml', 'gatehouse.secret'])
    it(`SUP-10 an existing ${name} is never changed, whatever it is, and nothing else is written`, async () => {
      const makers: ((path: string) => void)[] = [
        (path) => writeFileSync(path, 'mine'),
        (path) => symlinkSync('nowhere', path),
        (path) => mkdirSync(path),
      ];
      for (const make of makers) {
        const folder = temporaryDirectory();
        make(join(folder, name));
        // The names are checked before the options.
        const { code, stdout, stderr } = await initOffline(folder, '--idp', 'unknown');
        expect({ code, stdout }).to.deep.equal({ code: 1, stdout: '' });
        expect(stderr).to.match(new RegExp(`^gatehouse: ${name} already exists in .*--dir`));
        expect(namesIn(folder)).to.deep.equal([name]);
      }
    });

  it('a folder that does not exist is created', async () => {
    const folder = join(temporaryDirectory(), 'a', 'b');
    expect((await initOffline(folder, '--yes')).code).to.equal(0);
    expect(namesIn(folder)).to.deep.equal(['gatehouse.secret', 'gatehouse.yaml']);
  });

  it('a folder that is a file is refused', async () => {
    const path = join(temporaryDirectory(), 'file');
    writeFileSync(path, stringify({}));
    for (const folder of [path, join(path, 'below')]) {
      const { code, stderr } = await initOffline(folder, '--yes');
      expect(code).to.equal(1);
      expect(stderr).to.include('no file can be written in').and.include('--dir');
    }
  });
});
