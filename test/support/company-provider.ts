// A real OpenID provider (oidc-provider) of a company, whose people and network tests change. It signs in without a page.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { exportJWK, generateKeyPair } from 'jose';
import { type Adapter, type AdapterPayload, type Configuration, Provider } from 'oidc-provider';
import { listenOnLoopback } from './loopback-server.ts';
import { OPENID_CLIENT } from './openid-provider.ts';
import type { SystemOptions } from './system.ts';

const LIFETIME_SECONDS = 400 * 86_400;

export type Employee = { name: string; email: string; email_verified: boolean; groups: string[] };

/**
 * What happens to a request at the token endpoint. `down`: the connection is closed, and so are those to all other endpoints. `hold`: it is handled
 * when `release` is called. `lose`: it is handled, and the response is lost.
 */
export type Fault = 'down' | 'hold' | 'lose';

export type CompanyProvider = {
  issuer: string;
  /** The people who work here, by subject. */
  people: Map<string, Employee>;
  /** Who signs in next. */
  signInAs: (subject: string) => void;
  setFault: (fault: Fault | undefined) => void;
  /** Handles the requests that are held. */
  release: () => void;
  /** How many refresh requests arrived. */
  refreshes: () => number;
  /** Ends the session and the tokens of a person, who still works here. */
  revoke: (subject: string) => void;
  /** Whether it issues refresh tokens from now on. */
  issueRefreshTokens: (issues: boolean) => void;
  /** Ends the session of a person here, and nothing else. */
  endSession: (subject: string) => void;
  /** Ends the session of a person, and sends a logout token to `url` (OpenID Connect Back-Channel Logout 1.0). */
  signOut: (subject: string, url: string) => Promise<void>;
  /** Token exchanges that arrived, with the client that asked. */
  exchanges: (Record<string, unknown> & { client: string; subject: string })[];
  /** Every token and code that it has issued or got. */
  secrets: () => string[];
  /** Answers of the next exchanges, in place of a token. */
  refusals: { status: number; body: object }[];
  stop: () => Promise<void>;
};

/** A client that may only exchange tokens. */
export const EXCHANGE_CLIENT = { clientId: 'exchanger', clientSecret: 'secret-of-the-exchanger' };

export type Exchanging = {
  /** Returns the token that a person gets. */
  issue: (subject: string) => string;
  /** Seconds. */
  lifetime?: number;
};

/** Settings of a system with this provider as the only one; `provider` adds to its settings. */
export function companySettings(
  { issuer }: CompanyProvider,
  provider: object,
  file: object = {},
): SystemOptions {
  const identityProvider = { issuer, ...OPENID_CLIENT, ...provider };
  return {
    settings: { GATEHOUSE_DEVELOPMENT_IDP_URL: '' },
    file: { developmentIdp: undefined, identityProvider, ...file },
  };
}

/** `refreshTokens`: whether it issues any; each use rotates them, and a second use ends all of the person's tokens. */
export async function startCompanyProvider({
  refreshTokens = true,
  exchanging,
}: { refreshTokens?: boolean; exchanging?: Exchanging } = {}): Promise<CompanyProvider> {
  const people = new Map<string, Employee>();
  const records = new Map<string, AdapterPayload>();
  const held: (() => void)[] = [];
  let handle = (_req: IncomingMessage, _res: ServerResponse): unknown => undefined;
  let fault: Fault | undefined;
  let next = '';
  let refreshes = 0;
  let issues = refreshTokens;
  const seen = new Set<string>();

  const server = createServer((req, res) => {
    const isToken = req.url === '/token';
    if (isToken) refreshes += 1;
    if (fault === 'down') return void req.destroy();
    if (isToken && fault === 'hold') return void held.push(() => handle(req, res));
    if (isToken && fault === 'lose') Object.assign(res, { end: () => res.socket?.destroy() });
    return handle(req, res);
  });
  const { origin: issuer, stop } = await listenOnLoopback(server);
  const provider = new Provider(
    issuer,
    await configuration(
      people,
      records,
      seen,
      () => issues,
      exchanging ? [TOKEN_EXCHANGE, ON_BEHALF_OF] : [],
    ),
  );
  const exchanges: CompanyProvider['exchanges'] = [];
  const refusals: CompanyProvider['refusals'] = [];
  if (exchanging) registerExchange(provider, exchanging, { exchanges, refusals });
  const callback = provider.callback();
  handle = async (req, res) => {
    if (!req.url?.startsWith('/sign-in')) return callback(req, res);
    const { prompt, params } = await provider.interactionDetails(req, res);
    if (prompt.name === 'login') {
      const result = people.has(next) ? { login: { accountId: next } } : { error: 'access_denied' };
      return provider.interactionFinished(req, res, result);
    }
    const grant = new provider.Grant({ accountId: next, clientId: String(params.client_id) });
    grant.addOIDCScope('openid profile email groups offline_access');
    const consent = { grantId: await grant.save() };
    return provider.interactionFinished(req, res, { consent }, { mergeWithLastSubmission: true });
  };
  const endSession = (subject: string) => {
    for (const [id, { accountId }] of records)
      if (id.startsWith('Session:') && accountId === subject) records.delete(id);
  };
  return {
    issuer,
    people,
    signInAs: (subject) => {
      next = subject;
    },
    setFault: (wanted) => {
      fault = wanted;
    },
    release: () => held.splice(0).forEach((run) => run()),
    refreshes: () => refreshes,
    revoke(subject) {
      for (const [id, { accountId }] of records) if (accountId === subject) records.delete(id);
    },
    issueRefreshTokens(wanted) {
      issues = wanted;
    },
    endSession,
    exchanges,
    secrets: () => [...seen],
    refusals,
    async signOut(subject, url) {
      endSession(subject);
      const client = await provider.Client.find(OPENID_CLIENT.clientId);
      Object.assign(client ?? {}, { backchannelLogoutUri: url });
      await (client as unknown as LogoutClient).backchannelLogout(subject);
    },
    stop,
  };
}

const TOKEN_EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange';
const ON_BEHALF_OF = 'urn:ietf:params:oauth:grant-type:jwt-bearer';
const EXCHANGE_PARAMETERS =
  'subject_token subject_token_type requested_token_type audience resource scope assertion requested_token_use'.split(
    ' ',
  );

/** RFC 8693, and the on-behalf-of request of Microsoft Entra ID. The subject token must be an access token of this provider that is valid. */
function registerExchange(
  provider: Provider,
  { issue, lifetime = 300 }: Exchanging,
  { exchanges, refusals }: Pick<CompanyProvider, 'exchanges' | 'refusals'>,
): void {
  const handler: Parameters<Provider['registerGrantType']>[1] = async (ctx) => {
    const { client } = ctx.oidc;
    const params: Record<string, unknown> = ctx.oidc.params ?? {};
    const token = await provider.AccessToken.find(String(params.subject_token ?? params.assertion));
    const subject = token?.accountId;
    const given = Object.entries(params).filter(([, value]) => value !== undefined);
    exchanges.push({
      ...Object.fromEntries(given),
      client: String(client?.clientId),
      subject: String(subject),
    });
    const refusal = refusals.shift();
    ctx.status = refusal?.status ?? (subject === undefined ? 400 : 200);
    if (refusal) ctx.body = refusal.body;
    else if (subject === undefined) ctx.body = { error: 'invalid_request' };
    else
      ctx.body = {
        access_token: issue(subject),
        issued_token_type: 'urn:ietf:params:oauth:token-type:access_token',
        token_type: 'Bearer',
        expires_in: lifetime,
      };
  };
  for (const name of [TOKEN_EXCHANGE, ON_BEHALF_OF])
    provider.registerGrantType(name, handler, EXCHANGE_PARAMETERS);
}

/** The part of the engine's client that its types lack. Rejects if the response is not 200. */
type LogoutClient = { backchannelLogout: (subject: string) => Promise<void> };

async function configuration(
  people: CompanyProvider['people'],
  records: Map<string, AdapterPayload>,
  seen: Set<string>,
  issuesRefreshTokens: () => boolean,
  exchangeGrants: string[],
): Promise<Configuration> {
  const { privateKey } = await generateKeyPair('ES256', { extractable: true });
  const key = { ...(await exportJWK(privateKey)), alg: 'ES256', use: 'sig', kid: 'company' };
  return {
    adapter: (model: string) => adapter(model, records, seen),
    jwks: { keys: [key] },
    clients: [
      {
        client_id: OPENID_CLIENT.clientId,
        client_secret: OPENID_CLIENT.clientSecret,
        redirect_uris: [
          'http://localhost/interaction/callback',
          'http://localhost/interaction/callback/company',
          'http://localhost/interaction/callback/partner',
          'http://127.0.0.1/console/callback',
        ],
        application_type: 'native',
        grant_types: ['authorization_code', 'refresh_token', ...exchangeGrants],
        id_token_signed_response_alg: 'ES256',
      },
      ...(exchangeGrants.length === 0
        ? []
        : [
            {
              client_id: EXCHANGE_CLIENT.clientId,
              client_secret: EXCHANGE_CLIENT.clientSecret,
              redirect_uris: [],
              response_types: [],
              grant_types: exchangeGrants,
              id_token_signed_response_alg: 'ES256',
            },
          ]),
    ],
    claims: {
      openid: ['sub'],
      profile: ['name'],
      email: ['email', 'email_verified'],
      groups: ['groups'],
    },
    scopes: ['openid', 'offline_access'],
    conformIdTokenClaims: false,
    findAccount: (_ctx, id) => {
      const person = people.get(id);
      return person && { accountId: id, claims: () => ({ sub: id, ...person }) };
    },
    issueRefreshToken: async () => issuesRefreshTokens(),
    rotateRefreshToken: true,
    expiresWithSession: () => false,
    renderError: (ctx, out) => {
      ctx.body = out;
    },
    features: { devInteractions: { enabled: false } },
    // Without the engine's dispatcher, which does not send logout tokens to loopback addresses.
    fetch: (url: string, { dispatcher: _dispatcher, ...options }: { dispatcher?: unknown }) =>
      fetch(url, options),
    interactions: { url: (_ctx, { uid }) => `/sign-in/${uid}` },
    cookies: { keys: ['a key of the tests'] },
    ttl: {
      AccessToken: 300,
      Grant: LIFETIME_SECONDS,
      IdToken: 300,
      Interaction: 300,
      RefreshToken: LIFETIME_SECONDS,
      Session: 60,
    },
  } as Configuration;
}

/** Their ids are the values. */
const SECRET_MODELS = ['AccessToken', 'AuthorizationCode', 'RefreshToken'];

/** Expiry is that of the payloads. */
function adapter(model: string, records: Map<string, AdapterPayload>, seen: Set<string>): Adapter {
  const key = (id: string) => `${model}:${id}`;
  const find = async (id: string) => records.get(key(id));
  const findBy = (name: 'uid' | 'userCode', value: string) =>
    [...records.entries()].find(([id, it]) => id.startsWith(model) && it[name] === value)?.[1];
  return {
    find,
    async upsert(id, payload) {
      if (SECRET_MODELS.includes(model)) seen.add(id);
      records.set(key(id), payload);
    },
    findByUid: async (uid) => findBy('uid', uid),
    findByUserCode: async (code) => findBy('userCode', code),
    async consume(id) {
      const found = records.get(key(id));
      if (found) found.consumed = Math.floor(Date.now() / 1000);
    },
    async destroy(id) {
      records.delete(key(id));
    },
    async revokeByGrantId(grantId) {
      for (const [id, payload] of records) if (payload.grantId === grantId) records.delete(id);
    },
  };
}
