import { createSecretKey } from 'node:crypto';
import { expect } from 'chai';
import { changedSettings, digestOf, differingSecrets } from '../../src/reload/changes.ts';
import { loadSettings } from '../../src/settings/load.ts';
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
