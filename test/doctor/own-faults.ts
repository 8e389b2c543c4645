// Faults of what Gatehouse stands on: Redis, the identity provider, and the settings.
import { INTERNET } from '../../src/authorization-server/engine/guarded-fetch.ts';
import type { IdentityProvider } from '../../src/settings/identity-provider.ts';
import type { GoodDeployment } from './good-deployment.ts';
import type { Fault } from './fault.ts';

const configure = (name: string, value: string) => (good: GoodDeployment) =>
  good.admin.config('SET', name, value);
const nothing = () => undefined;

function withoutSecrets(providers: readonly IdentityProvider[]): IdentityProvider[] {
  return providers.map((provider) => {
    const known = { ...provider };
    delete known.clientSecret;
    return known;
  });
}

export const OWN_FAULTS: Fault[] = [
  {
    fault: 'Redis that drops any record',
    plant: configure('maxmemory-policy', 'allkeys-lru'),
    found: ['eviction', 'ready'],
    says: /maxmemory-policy is allkeys-lru/,
  },
  {
    fault: 'Redis that drops records with a lifetime',
    plant: configure('maxmemory-policy', 'volatile-lru'),
    found: ['eviction'],
    says: /maxmemory-policy is volatile-lru/,
  },
  {
    fault: 'Redis without an append-only file',
    plant: configure('appendonly', 'no'),
    found: ['persistence'],
    says: /append-only file is off/,
  },
  {
    fault: 'Redis that never flushes',
    plant: configure('appendfsync', 'no'),
    found: ['persistence'],
    says: /appendfsync is no/,
  },
  {
    fault: 'Redis that is nearly full',
    plant: async ({ admin }) => {
      const [, used = '0'] = /used_memory:(\d+)/.exec(await admin.info('memory')) ?? [];
      await admin.config('SET', 'maxmemory', String(Math.round(Number(used) * 1.15)));
    },
    found: ['memory'],
    says: /Redis uses [789]\d % of its memory/,
  },
  {
    fault: 'another root secret',
    plant: nothing,
    changed: ({ settings }) => ({ settings: { ...settings, secret: 'another-secret'.repeat(3) } }),
    found: ['secret'],
    says: /written with another root secret/,
  },
  {
    fault: 'an identity provider that is down',
    plant: ({ provider }) => provider.behave({ isDown: true }),
    found: ['identity-provider'],
    says: /does not answer from here: the connection was cut/,
  },
  {
    fault: 'an identity provider with another issuer',
    plant: ({ provider }) =>
      provider.behave({ answersWith: { issuer: `${provider.issuer}/tenant` } }),
    found: ['identity-provider-issuer'],
    says: /calls itself https:\/\/localhost:\d+\/tenant/,
  },
  {
    fault: 'a callback that is not registered',
    plant: ({ provider }) => provider.behave({ callback: 'https://old.example.com/callback' }),
    found: ['callback'],
    says: /redirect_uri_mismatch/,
  },
  {
    fault: 'a client secret that was replaced',
    plant: ({ provider }) => provider.behave({ secret: 'another' }),
    found: ['client-secret'],
    says: /refuses Gatehouse: invalid_client \(Unknown secret\)/,
  },
  {
    fault: 'a client secret that is missing',
    plant: nothing,
    changed: ({ settings }) => ({
      settings: {
        ...settings,
        identityProviders: withoutSecrets(settings.identityProviders),
      },
    }),
    found: ['client-secret'],
    says: /refuses Gatehouse: invalid_client/,
  },
  {
    fault: 'a client that is disabled',
    plant: ({ provider }) =>
      provider.behave({ tokenAnswer: [400, { error: 'unauthorized_client' }] }),
    found: ['client-secret'],
    says: /refuses Gatehouse: unauthorized_client/,
  },
  {
    fault: 'a token endpoint that fails',
    plant: ({ provider }) => provider.behave({ tokenAnswer: [503, { error: 'server_error' }] }),
    found: ['client-secret'],
    says: /does not answer requests for tokens as it should: server_error/,
  },
  {
    fault: 'a callback of the console that is not registered',
    plant: nothing,
    changed: ({ settings }) => ({
      settings: {
        ...settings,
        management: {
          ...settings.management,
          administrators: [{ group: 'administrators', from: { via: 'sign-in', issuers: [] } }],
        },
      },
    }),
    found: ['callback'],
    says: /redirect_uri_mismatch/,
  },
  {
    fault: 'a callback that is not registered, as Google shows it',
    plant: ({ provider }) =>
      provider.behave({
        location: 'https://accounts.example/error?authError=Cg9yZWRpcmVjdF91cmlfbWlzbWF0Y2g',
      }),
    found: ['callback'],
    says: /redirect_uri_mismatch/,
  },
  {
    fault: 'a scope that the identity provider does not have',
    plant: ({ provider }) => provider.behave({ answersWith: { scopes_supported: ['openid'] } }),
    found: ['identity-provider'],
    says: /does not offer the scope profile, email/,
  },
  {
    fault: 'metadata documents without a guard',
    plant: nothing,
    changed: () => ({ network: { ...INTERNET, isAllowed: () => true, port: 1 } }),
    found: ['document-guard'],
    says: /fetched from this computer itself/,
  },
  {
    fault: 'everybody may hold everything',
    plant: nothing,
    changed: ({ settings }) => ({
      settings: {
        ...settings,
        entitlements: settings.entitlements.map(({ match: { from } }) => ({
          match: { anyone: true, from },
          level: 'full',
        })),
      },
    }),
    found: ['settings'],
    says: /everybody who can sign in .* may hold full/,
  },
];
