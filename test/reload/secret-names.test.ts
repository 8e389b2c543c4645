import { createSecretKey } from 'node:crypto';
import { expect } from 'chai';
import {
  areDifferent,
  changedSettings,
  digestOf,
  differingSecrets,
} from '../../src/reload/changes.ts';
import { loadSettings } from '../../src/settings/load.ts';
import { load, PRODUCTION, SECRET } from '../settings/settings-file.ts';
import { createDeployment } from '../support/system.ts';

describe('The secrets of which processes must see the same', () => {
  it('the path of a file and a name that sounds like a secret are none of them', async () => {
    const place = await createDeployment();
    const settings = loadSettings(place.environment);
    await place.release();
    const key = createSecretKey(Buffer.alloc(32));
    const [provider] = settings.identityProviders;
    if (!provider) throw new Error('there is an identity provider');
    const differ = (one: object, other: object) =>
      differingSecrets(
        [one, other].map((more) =>
          digestOf(
            { ...settings, identityProviders: [{ ...provider, id: 'keycloak', ...more }] },
            key,
          ),
        ),
      );
    expect(differ({ name: 'One' }, { name: 'Other' })).to.deep.equal([]);
    const inFile = (secretFile: string) => digestOf({ ...settings, secretFile }, key);
    expect(differingSecrets([inFile('/one'), inFile('/other')])).to.deep.equal([]);
    expect(differ({ clientSecret: 'one' }, { clientSecret: 'other' })).to.deep.equal([
      'identityProviders.keycloak.clientSecret',
    ]);
  });
});

describe('Processes with different roles', () => {
  const management = {
    administrators: [{ email: 'ada@example.com' }],
    keys: [{ name: 'ci', role: 'operator', keyEnv: 'CI_KEY' }],
  };
  const file = {
    ...PRODUCTION,
    listen: { ...PRODUCTION.listen, management: '127.0.0.1:4002' },
    managementUrl: 'https://admin.example.com',
    management,
  };
  const digestWith = (environment: Record<string, string>, productName = 'Gatehouse') =>
    digestOf(
      load(
        { ...file, productName },
        { NODE_ENV: 'production', GATEHOUSE_SECRET: SECRET, ...environment },
      ),
      createSecretKey(Buffer.alloc(32)),
    );
  const MANAGING = {
    GATEHOUSE_ROLES: 'authorization-server,management',
    GATEHOUSE_IDENTITY_PROVIDER_SECRET: 'the-client-secret-at-the-identity-provider',
    CI_KEY: '4be13c7fd0a8296ef51c7a38b6d2904c',
  };
  const serving = digestWith({ GATEHOUSE_ROLES: 'resource-server' });

  it('have the same settings although one lacks secrets that only the other uses', () => {
    const managing = digestWith(MANAGING);
    expect(areDifferent(serving, managing)).to.equal(false);
    expect(differingSecrets([serving, managing])).to.deep.equal([]);
    const renamed = digestWith({ GATEHOUSE_ROLES: 'resource-server' }, 'Renamed');
    expect(areDifferent(renamed, managing)).to.equal(true);
  });

  it('are told of secrets that two of them see differently', () => {
    const other = {
      GATEHOUSE_IDENTITY_PROVIDER_SECRET: 'another-client-secret-of-the-provider',
      CI_KEY: 'f07a91be6d3c4852a0e7b91f5c6d2387',
    };
    const both = [digestWith(MANAGING), digestWith({ ...MANAGING, ...other })] as const;
    expect(areDifferent(...both)).to.equal(true);
    expect(differingSecrets(both)).to.deep.equal([
      'identityProvider.clientSecret',
      'identityProviders.default.clientSecret',
      'management.keys.ci',
    ]);
  });

  it('may each have a management key of its own data directory, and see the same one in a setting', () => {
    const own = [digestWith(MANAGING), digestWith(MANAGING)] as const;
    expect(areDifferent(...own)).to.equal(false);
    const set = ['0d9c3e57b1f84a62', '71f6a8d04c2be935'].map((part) =>
      digestWith({
        ...MANAGING,
        GATEHOUSE_MANAGEMENT_KEY: part + part.split('').toReversed().join(''),
      }),
    );
    expect(differingSecrets(set)).to.deep.equal(['GATEHOUSE_MANAGEMENT_KEY']);
  });
});

describe('The names of settings that change', () => {
  it('are those of the settings file, for a new item of a list and for a rate', async () => {
    const upstream = { id: 'orders', url: 'https://orders.example/mcp' };
    const load = async (file: Record<string, unknown>) => {
      const place = await createDeployment({ file });
      const settings = loadSettings(place.environment);
      await place.release();
      return settings;
    };
    const before = await load({ resourceServer: { upstreams: [upstream] } });
    const upstreams = [upstream, { ...upstream, id: 'stock', name: 'Stock' }];
    const limits = { signIns: { inAll: '7/1m' } };
    const after = { ...(await load({ resourceServer: { upstreams }, limits })), authUrl: '' };
    const names = changedSettings({ ...before, authUrl: '' }, after);
    expect(names).to.include.members([
      'limits.signIns.inAll',
      'resourceServer.upstreams',
      'resourceServer.upstreams.stock.name',
    ]);
    expect(names.join()).to.not.match(/isNamed|setting\b|count|seconds|embedded|listed/);
  });
});
