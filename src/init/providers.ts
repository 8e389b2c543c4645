// What init knows about identity providers. config/identity-providers.md describes how to register Gatehouse at each.

/** A new one needs an entry here and in PROVIDER; the questions and options are made from them. */
export const PROVIDERS = [
  'google',
  'okta',
  'entra',
  'keycloak',
  'auth0',
  'github',
  'oidc',
  'development',
] as const;

export type ProviderKey = (typeof PROVIDERS)[number];

export type Issuer =
  | { kind: 'none' }
  | { kind: 'fixed'; value: string }
  /** `pattern` is what its issuers have in common, and `example` shows it. */
  | { kind: 'asked'; pattern: RegExp; example: string; isOptional?: boolean };

export type Provider = {
  /** On the prompt, and as `name` in the settings unless `isNameless`. */
  title: string;
  isNameless?: boolean;
  issuer: Issuer;
  /** It is OAuth 2.0 without OpenID Connect. */
  hasNoDiscovery?: boolean;
  /** Whether the settings are refused without a client secret. */
  needsSecret?: boolean;
  /** Lines of YAML in `identityProvider`. */
  settings?: readonly string[];
  sendsLogoutTokens?: boolean;
  /** How to register Gatehouse, in addition to the redirect URI. */
  registration: readonly string[];
  /** The criterion of the rule that nobody fulfils before it is edited, and how to edit it. */
  rule: { match: string; hints: readonly string[] };
};

const GROUP = {
  match: '{ group: gatehouse-users }',
  hints: ['The members of a group at the identity provider.'],
};
const ADDRESS = '{ emailDomain: example.com }';
const HTTPS = /^https?:\/\//;

export const PROVIDER: Readonly<Record<ProviderKey, Provider>> = {
  google: {
    title: 'Google',
    issuer: { kind: 'fixed', value: 'https://accounts.google.com' },
    settings: ['switchAccountPrompt: select_account'],
    registration: ['Create an OAuth client of the type “Web application”.'],
    rule: {
      match: ADDRESS,
      hints: ['Everybody with a verified address in a domain. Google has no groups in its tokens.'],
    },
  },
  okta: {
    title: 'Okta',
    issuer: { kind: 'asked', pattern: HTTPS, example: 'https://<org>.okta.com' },
    settings: ['scopes: [openid, profile, email, groups]'],
    registration: [
      'Create an OIDC web application with the grant type authorization code.',
      'Add a groups claim: Sign On, OpenID Connect ID Token, Groups claim filter `groups`.',
    ],
    rule: GROUP,
  },
  entra: {
    title: 'Microsoft',
    issuer: {
      kind: 'asked',
      pattern: /^https:\/\/login\.[a-z.]+\/(?!(common|organizations|consumers)\/)[^/]+\/v2\.0$/,
      example: 'https://login.microsoftonline.com/<tenant>/v2.0',
    },
    registration: [
      'Register an application of the platform “Web”, and add a groups claim under Token configuration.',
    ],
    rule: {
      match: "{ group: '00000000-0000-0000-0000-000000000000' }",
      hints: [
        'The members of a group, by its object id. Entra ID does not say whether addresses are verified, so email and',
        'emailDomain match only with emailVerified: always, for your own tenant alone.',
      ],
    },
  },
  keycloak: {
    title: 'Keycloak',
    issuer: {
      kind: 'asked',
      pattern: /^https?:\/\/[^/]+\/(.+\/)?realms\/[^/]+$/,
      example: 'https://<host>/realms/<realm>',
    },
    sendsLogoutTokens: true,
    registration: [
      'Create an OpenID Connect client with the standard flow and client authentication.',
      'Add a “Group Membership” mapper: token claim name `groups`, full group path off, added to the ID token.',
    ],
    rule: GROUP,
  },
  auth0: {
    title: 'Auth0',
    issuer: {
      kind: 'asked',
      pattern: /^https?:\/\/[^/]+\/$/,
      example: 'https://<tenant>.auth0.com/ (with the slash)',
    },
    sendsLogoutTokens: true,
    settings: ['groupsClaim: https://example.com/groups'],
    registration: [
      'Create a regular web application.',
      'Set the claim https://example.com/groups to the roles of the person in a post-login Action.',
    ],
    rule: GROUP,
  },
  github: {
    title: 'GitHub',
    issuer: {
      kind: 'asked',
      pattern: HTTPS,
      example: 'https://github.example.com for GitHub Enterprise Server',
      isOptional: true,
    },
    hasNoDiscovery: true,
    needsSecret: true,
    settings: ['kind: github', 'organizations: true'],
    registration: ['Create an OAuth app (Settings, Developer settings, OAuth apps).'],
    rule: {
      match: ADDRESS,
      hints: [
        'Everybody with a verified primary address in a domain. For the members of an organization, write its login and the',
        'numeric id that https://api.github.com/orgs/<login> shows: { organization: <login>#<id> }. Everybody can have a',
        'GitHub account, so never use anyone.',
      ],
    },
  },
  oidc: {
    title: 'another OpenID Connect provider',
    isNameless: true,
    issuer: { kind: 'asked', pattern: HTTPS, example: 'https://login.example.com' },
    sendsLogoutTokens: true,
    registration: [
      'Register a web application with the grant type authorization code and PKCE.',
      'config/identity-providers.md of Gatehouse has the settings for AD FS, Amazon Cognito, GitLab, authentik, Authelia, JumpCloud and PingFederate.',
    ],
    rule: GROUP,
  },
  development: {
    title: 'a built-in provider without passwords, for trying out on this computer',
    issuer: { kind: 'none' },
    registration: [],
    rule: { match: '{ subject: ada }', hints: [] },
  },
};

/** In a sentence. */
export function providerTitle({ title, isNameless }: Provider): string {
  return isNameless ? 'your identity provider' : title;
}
