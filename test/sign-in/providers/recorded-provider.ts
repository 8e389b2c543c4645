// What an identity provider sends, as its documents and the reports of its users show it. Each file here is one provider, with its sources.
export type Person = {
  subject: string;
  name: string;
  email: string;
  /** In the form in which the provider sends them. */
  groups: string[];
  /** The person's session at the provider. */
  session: string;
};

export type Claims = Record<string, unknown>;
/** `jwt` is sent in place of `body`. */
export type Answer = { status: number; body: object; jwt?: string };

/** The members of a discovery document that Gatehouse reads, and some that it must ignore. */
export type Metadata = Claims & {
  issuer: string;
  authorization_endpoint: string;
  token_endpoint: string;
  userinfo_endpoint: string;
  jwks_uri: string;
};

/** Why a refresh is refused, and what that must mean for the person's apps. */
export type Refusal = {
  why: string;
  /** The response of the token endpoint. */
  token: Answer;
  /** The response of the UserInfo endpoint, if the refresh itself succeeds. */
  userInfo?: (person: Person) => Answer;
  /** `ended`: all connections end. `sign in again`: they work after the next sign-in. `not entitled`: no rule matches any more. */
  means: 'ended' | 'sign in again' | 'not entitled';
};

/** What is tested for each provider. */
export const STEPS = ['sign in', 'groups', 'email', 'recheck', 'logout'] as const;
export type Step = (typeof STEPS)[number];

/** A step that the provider cannot have, with the document that says so. */
export type Missing = { because: string; source: string };

export const NO_EMAIL_VERIFIED =
  'does not say whether an address is verified; `emailVerified: always` can say it of your own directory';

export type RecordedProvider = {
  /** The heading of its settings in config/identity-providers.md. */
  name: string;
  sources: readonly string[];
  steps: Record<Step, 'tested' | Missing>;
  metadata: Metadata;
  /** The scopes that the client may request, if others are refused instead of ignored. */
  permittedScopes?: readonly string[];
  /** How the client is registered to authenticate. Default: as the discovery document says. */
  clientAuthentication?: readonly string[];
  /** Whether the authorization request gets a refresh token. Default: if it has the scope `offline_access`. */
  issuesRefreshToken?: (authorization: URLSearchParams) => boolean;
  idToken: (person: Person) => Claims;
  userInfo: (person: Person) => Answer;
  /** The UserInfo response is a JWT (OpenID Connect Core section 5.3.2). */
  signsUserInfo?: boolean;
  refresh: { hasIdToken: boolean; rotates: boolean };
  /** What it sends in other installations, or in other reports. */
  otherForms?: readonly Partial<Pick<RecordedProvider, 'idToken' | 'signsUserInfo' | 'refresh'>>[];
  /** Of a person who no longer may sign in, and of one who must only sign in again. */
  refusals: readonly Refusal[];
  /** The error of a sign-in that the provider or the person refuses. */
  refusedSignIn: Record<string, string>;
  /** In addition to issuer, audience, times, id and event. */
  logoutToken?: (person: Person) => Claims;
};
