// Sign-in at GitHub: OAuth 2.0 with PKCE, then its REST API in place of an ID token (RFC 6749 section 4.1, RFC 7636).
import * as openid from 'openid-client';
import * as z from 'zod';
import {
  emailIn,
  normalizeEmail,
  personNameIn,
  type Identity,
  type Organization,
} from '../people/account.ts';
import { unavailable } from '../http/errors.ts';
import {
  type IdentityProvider as IdentityProviderSettings,
  storesToken,
} from '../settings/identity-provider.ts';
import { checkClient } from './client-check.ts';
import { notTrusted, UNAVAILABLE } from './errors.ts';
import { exchangeCode, providerClient } from './oauth-client.ts';
import type { ProtocolClient } from './provider.ts';

const user = z.object({
  id: z.int().positive(),
  login: z.string().min(1),
  name: z.string().nullish(),
});
const emails = z.array(
  z.object({ email: z.string(), primary: z.boolean(), verified: z.boolean() }),
);
const organizations = z.array(z.object({ login: z.string().min(1), id: z.int().positive() }));

type Emails = z.output<typeof emails>;

const PAGE_SIZE = 100;
const MAX_PAGES = 10;

export function openGithub(
  settings: IdentityProviderSettings,
  callbackUrl: string,
): ProtocolClient {
  const { issuer, clientId, clientSecret = '', scopes } = settings;
  const { origin } = new URL(issuer);
  const config = providerClient(
    {
      issuer,
      authorization_endpoint: `${origin}/login/oauth/authorize`,
      token_endpoint: `${origin}/login/oauth/access_token`,
    },
    clientId,
    openid.ClientSecretPost(clientSecret),
  );
  const client = { settings, callbackUrl, config: async () => config };
  const apiWith =
    (token: string, onError?: (response: Response) => Promise<void>) =>
    (path: string): Promise<unknown> =>
      fetchJson(config, apiOf(origin) + path, token, onError);
  return {
    async authorizationUrl({ state, verifier }, { prompt, loginHint } = {}) {
      return openid.buildAuthorizationUrl(config, {
        redirect_uri: callbackUrl,
        scope: scopes.join(' '),
        state,
        code_challenge: await openid.calculatePKCECodeChallenge(verifier),
        code_challenge_method: 'S256',
        ...(loginHint ? { login: loginHint } : {}),
        // GitHub supports no other prompt; it cannot force reauthentication.
        ...(prompt ? { prompt: 'select_account' } : {}),
      });
    },
    async identify(query, { state, verifier }) {
      const { access_token: token } = await exchangeCode(client, query, {
        expectedState: state,
        pkceCodeVerifier: verifier,
      });
      const identity = await identityOf(settings, apiWith(token));
      return { ...identity, ...(storesToken(settings) ? { recheckToken: token } : {}) };
    },
    async recheck({ token, person }) {
      let refusal: 'ended' | 'sign-in' | undefined;
      const fetchApi = apiWith(token, async (response) => {
        refusal ??= await refusalIn(response);
      });
      const identity = await identityOf(settings, fetchApi).catch((error: unknown) => {
        if (refusal) return refusal;
        throw error;
      });
      if (typeof identity === 'string') return identity;
      if (identity.subject !== person.subject)
        throw new Error('the response is about another person');
      return { identity };
    },
    checkClient: () => checkClient(client),
  };
}

/** GitHub answers 403 to a suspended person and to a token that lacks a scope, but also if there are too many requests. */
async function refusalIn(response: Response): Promise<'ended' | 'sign-in' | undefined> {
  if (response.status === 401) return 'ended';
  const { headers } = response;
  const isLimited = headers.get('x-ratelimit-remaining') === '0' || headers.has('retry-after');
  if (response.status !== 403 || isLimited) return undefined;
  return /rate limit/i.test(await response.text()) ? undefined : 'sign-in';
}

/** The API has its own host at github.com and ghe.com, and a path on GitHub Enterprise Server. */
export function apiOf(origin: string): string {
  const { hostname } = new URL(origin);
  const isHosted = hostname === 'github.com' || hostname.endsWith('.ghe.com');
  return isHosted ? `https://api.${hostname}` : `${origin}/api/v3`;
}

/** The subject is the numeric id: a login can be released and registered by another person. */
async function identityOf(
  { issuer, emailDomains, ...settings }: IdentityProviderSettings,
  fetchApi: (path: string) => Promise<unknown>,
): Promise<Identity> {
  const { id, login, name } = parseResponse(user, await fetchApi('/user'));
  const all = parseResponse(emails, await fetchApi(`/user/emails?per_page=${PAGE_SIZE}`));
  const addresses = all.filter(({ email }) => emailIn(email) !== undefined);
  const address = preferredEmail(addresses, emailDomains);
  const shown = { email: address?.email, emailVerified: address?.verified === true };
  return {
    issuer,
    subject: String(id),
    name: personNameIn([name], shown) ?? login,
    ...(address ? { email: address.email } : {}),
    emailVerified: shown.emailVerified,
    ...(settings.organizations ? await membershipsOf(fetchApi) : { groups: [] }),
  };
}

/** Returns a verified address at one of `emailDomains`, otherwise the primary address. */
function preferredEmail(addresses: Emails, domains: readonly string[]): Emails[number] | undefined {
  const isOurs = ({ email, verified }: Emails[number]) =>
    verified && domains.includes(String(normalizeEmail(email).split('@').at(-1)));
  const ours = addresses.filter(isOurs);
  return ours.find(({ primary }) => primary) ?? ours[0] ?? addresses.find(({ primary }) => primary);
}

/** Returns organizations also as groups, for entitlement rules that name a login. */
async function membershipsOf(
  fetchApi: (path: string) => Promise<unknown>,
): Promise<Pick<Identity, 'organizations' | 'groups'>> {
  const all: Organization[] = [];
  for (let page = 1; page <= MAX_PAGES; page += 1) {
    const answer = await fetchApi(`/user/orgs?per_page=${PAGE_SIZE}&page=${page}`);
    const found = parseResponse(organizations, answer);
    all.push(...found);
    if (found.length < PAGE_SIZE) break;
  }
  return { organizations: all, groups: all.map(({ login }) => login) };
}

/** Any error is a 503: a person must not lose entitlements because email or groups could not be read. */
async function fetchJson(
  config: openid.Configuration,
  url: string,
  token: string,
  onError?: (response: Response) => Promise<void>,
): Promise<unknown> {
  const headers = new Headers({
    accept: 'application/vnd.github+json',
    'x-github-api-version': '2022-11-28',
  });
  try {
    const answer = await openid.fetchProtectedResource(
      config,
      token,
      new URL(url),
      'GET',
      undefined,
      headers,
    );
    if (!answer.ok) await onError?.(answer);
    if (!answer.ok) throw new Error(`${new URL(url).pathname} answered ${answer.status}`);
    return await answer.json();
  } catch (cause) {
    if (cause instanceof openid.WWWAuthenticateChallengeError) await onError?.(cause.response);
    throw unavailable(cause, UNAVAILABLE);
  }
}

function parseResponse<Shape>(shape: z.ZodType<Shape>, answer: unknown): Shape {
  const { success, data, error } = shape.safeParse(answer);
  if (success) return data;
  throw notTrusted('the response of the identity provider about the person is not valid', error);
}
