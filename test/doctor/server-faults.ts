// Faults of Redis, the identity provider and the settings.
import { INTERNET } from '../../src/http/guarded-request.ts';
import type { IdentityProvider } from '../../src/settings/identity-provider.ts';
import { settingsFile } from '../settings/settings-file.ts';
import type { GoodDeployment } from './good-deployment.ts';
import type { Fault } from './fault.ts';

const configure = (name: string, value: string) => (good: GoodDeployment) =>
  good.admin.config('SET', name, value);
const noChange = () => undefined;

const PROVIDER_CHECKS = ['callback', 'client-secret', 'identity-provider-issuer'];

function withoutSecrets(providers: readonly IdentityProvider[]): IdentityProvider[] {
  return providers.map((provider) => {
    const known = { ...provider };
    delete known.clientSecret;
    return known;
  });
}

export const SERVER_FAULTS: Fault[] = [
  {
    fault: 'a Redis that evicts any record',
    inject: configure('maxmemory-policy', 'allkeys-lru'),
    found: ['eviction', 'ready'],
    says: [/maxmemory-policy is allkeys-lru/, /the process runs but is not ready/],
    hides: ['cookies'],
  },
  {
    fault: 'a Redis that evicts records with a lifetime',
    inject: configure('maxmemory-policy', 'volatile-lru'),
    found: ['eviction', 'ready'],
    says: [/maxmemory-policy is volatile-lru/, /the process runs but is not ready/],
    hides: ['cookies'],
  },
  {
    fault: 'a Redis without an append-only file',
    inject: configure('appendonly', 'no'),
    found: ['persistence'],
    says: /append-only file is off/,
  },
  {
    fault: 'a Redis that never flushes its append-only file',
    inject: configure('appendfsync', 'no'),
    found: ['persistence'],
    says: /appendfsync is no/,
  },
  {
    fault: 'a Redis whose memory is nearly full',
    inject: async ({ admin }) => {
      const [, used = '0'] = /used_memory:(\d+)/.exec(await admin.info('memory')) ?? [];
      await admin.config('SET', 'maxmemory', String(Math.round(Number(used) * 1.15)));
    },
    found: ['memory'],
    says: /Redis uses [789]\d % of its memory/,
  },
  {
    fault: 'a root secret that did not encrypt the store',
    inject: noChange,
    changed: ({ settings, ...rest }) => ({
      ...rest,
      settings: { ...settings, secret: 'another-secret'.repeat(3) },
    }),
    found: ['secret'],
    hides: ['forwarded', 'host'],
    says: /written with another root secret/,
  },
  {
    fault: 'an identity provider that is down',
    inject: ({ provider }) => provider.misbehave({ isDown: true }),
    found: ['identity-provider'],
    hides: PROVIDER_CHECKS,
    says: /cannot be reached from this machine: the connection was closed/,
  },
  {
    fault: 'an identity provider with another issuer than in the settings',
    inject: ({ provider }) =>
      provider.misbehave({ answersWith: { issuer: `${provider.issuer}/tenant` } }),
    found: ['identity-provider-issuer'],
    hides: PROVIDER_CHECKS,
    says: /issuer of the discovery document is https:\/\/localhost:\d+\/tenant/,
  },
  {
    fault: 'a callback that is not registered at the identity provider',
    inject: ({ provider }) => provider.misbehave({ callback: 'https://old.example.com/callback' }),
    found: ['callback'],
    says: /redirect_uri_mismatch/,
  },
  {
    fault: 'a wrong client secret',
    inject: ({ provider }) => provider.misbehave({ secret: 'another' }),
    found: ['client-secret'],
    says: /refuses Gatehouse: invalid_client \(Unknown secret\)/,
  },
  {
    fault: 'a missing client secret',
    inject: noChange,
    changed: ({ settings, ...rest }) => ({
      ...rest,
      settings: {
        ...settings,
        identityProviders: withoutSecrets(settings.identityProviders),
      },
    }),
    found: ['client-secret'],
    says: /refuses Gatehouse: invalid_client/,
  },
  {
    fault: 'a disabled client',
    inject: ({ provider }) =>
      provider.misbehave({ tokenAnswer: [400, { error: 'unauthorized_client' }] }),
    found: ['client-secret'],
    says: /refuses Gatehouse: unauthorized_client/,
  },
  {
    fault: 'a token endpoint that returns 503',
    inject: ({ provider }) => provider.misbehave({ tokenAnswer: [503, { error: 'server_error' }] }),
    found: ['client-secret'],
    says: /token endpoint of the identity provider fails: server_error/,
  },
  {
    fault: 'a console callback that is not registered, and a whole domain of administrators',
    inject: noChange,
    changed: ({ settings, ...rest }) => ({
      ...rest,
      settings: {
        ...settings,
        management: {
          ...settings.management,
          administrators: [
            {
              emailDomain: 'example.com',
              role: 'operator',
              from: { via: 'sign-in', issuers: [] },
            },
          ],
        },
      },
    }),
    found: ['callback', 'settings'],
    says: [/redirect_uri_mismatch/, /everybody with an address at example\.com .* role operator/],
  },
  {
    fault: 'a callback that is not registered at Google',
    inject: ({ provider }) =>
      provider.misbehave({
        location: 'https://accounts.example/error?authError=Cg9yZWRpcmVjdF91cmlfbWlzbWF0Y2g',
      }),
    found: ['callback'],
    says: /redirect_uri_mismatch/,
  },
  {
    fault: 'a scope that the identity provider does not offer',
    inject: ({ provider }) => provider.misbehave({ answersWith: { scopes_supported: ['openid'] } }),
    found: ['identity-provider'],
    says: /does not offer the scope profile, email/,
  },
  {
    fault: 'a network that does not refuse internal addresses to client metadata documents',
    inject: noChange,
    changed: (options) => ({
      ...options,
      network: { ...INTERNET, isAllowed: () => true, port: 1 },
    }),
    found: ['document-guard'],
    says: /fetched from this machine itself/,
  },
  {
    fault: 'an app in the settings whose keys cannot be fetched',
    inject: noChange,
    changed: ({ settings, ...rest }) => {
      const jwksUri = 'https://keys.example.com/keys';
      const app = { id: 'batch', name: 'Reports', redirectUris: ['https://a.example/cb'], jwksUri };
      const clients = { ...settings.clients, preRegistered: [app] };
      const network = { ...INTERNET, resolve: async () => ['10.0.0.7'] };
      return { ...rest, network, settings: { ...settings, clients } };
    },
    found: ['client-keys'],
    hides: ['document-guard', 'settings'],
    says: /keys\.example\.com\/keys cannot be used: the name has a special-use address/,
  },
  {
    fault: 'no way out to the metadata document of an app',
    inject: noChange,
    changed: ({ settings, ...rest }) => ({
      ...rest,
      network: { ...INTERNET, resolve: async () => ['10.0.0.7'] },
      settings: { ...settings, clients: { ...settings.clients, apps: ['claude'] } },
    }),
    found: ['app-documents'],
    hides: ['document-guard', 'settings'],
    says: /claude\.ai\/oauth\/mcp-oauth-client-metadata cannot be fetched/,
  },
  {
    fault: 'closed registration without apps in the settings',
    inject: noChange,
    changed: ({ settings, ...rest }) => ({
      ...rest,
      settings: {
        ...settings,
        clients: { ...settings.clients, registration: 'closed', preRegistered: [] },
        management: { ...settings.management, administrators: [] },
      },
    }),
    found: ['settings'],
    says: /the settings list no app/,
  },
  {
    fault: 'a rule that gives everybody the highest level',
    inject: noChange,
    changed: ({ settings, ...rest }) => ({
      ...rest,
      settings: {
        ...settings,
        entitlements: settings.entitlements.map(({ match: { from } }) => ({
          match: { anyone: true, from },
          level: 'full',
        })),
      },
    }),
    found: ['settings'],
    says: /everybody who can sign in .* may have full/,
  },
  {
    fault: 'files with secrets that other users may read',
    inject: noChange,
    changed: ({ settings, ...rest }) => ({
      ...rest,
      settings: {
        ...settings,
        secretFile: settingsFile(''),
        managementKeys: [
          {
            name: 'monitoring',
            role: 'viewer',
            key: '',
            setting: 'management.keys[0].keyFile',
            file: import.meta.filename,
          },
        ],
      },
    }),
    found: ['secret-file'],
    says: [/other users .*settings\.yaml/, /other users .*server-faults\.ts/],
  },
];
