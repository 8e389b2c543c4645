// A client that completed the flow: registration, sign-in, approval and code exchange.
import {
  openBrowser,
  type Browser,
  type AuthorizeOptions,
  type Page,
  type Person,
  type Step,
} from './browser.ts';
import type { CookieJar } from './cookie-jar.ts';
import type { FormValues } from './html-forms.ts';
import {
  authorizeUrl,
  discover,
  exchange,
  register,
  type AuthMethod,
  type Client,
  type Parameters,
  type Server,
  type TokenResponse,
} from './oauth.ts';
import type { System } from './system.ts';

export const REDIRECT_URI = 'http://127.0.0.1:7070/callback';

const METADATA = {
  client_name: 'Test client',
  redirect_uris: [REDIRECT_URI],
  grant_types: ['authorization_code', 'refresh_token'],
  response_types: ['code'],
};

export async function registerClient(
  server: Server,
  method: AuthMethod = 'none',
  redirectUri = REDIRECT_URI,
  name = METADATA.client_name,
): Promise<Client> {
  const { status, body } = await register(server, {
    ...METADATA,
    client_name: name,
    redirect_uris: [redirectUri],
    token_endpoint_auth_method: method,
  });
  if (!body.client_id) throw new Error(`registration answered ${status} ${JSON.stringify(body)}`);
  return { id: body.client_id, secret: body.client_secret, method, redirectUri };
}

/** The state of a connected client. */
export type Connection = {
  link: string;
  server: Server;
  client: Client;
  browser: Browser;
  accessToken: string;
  refreshToken: string | undefined;
  scope: string | undefined;
};

export type ConnectOptions = AuthorizeOptions & {
  /** Reuses the browser and the client of an earlier connection. */
  as?: { browser?: Browser; client?: Client };
  method?: AuthMethod;
  parameters?: Parameters;
};

/** Runs the flow from the connect link to tokens. Throws if a step fails. */
export async function connect(
  system: System,
  { link }: { link: string },
  options: ConnectOptions = {},
): Promise<Connection> {
  const { browser, ...code } = await authorizeClient(system, { link }, options);
  const { body } = await redeem(code, { resource: link });
  if (!body.access_token) throw new Error(`${code.callback.search} gave ${JSON.stringify(body)}`);
  const { access_token: accessToken, refresh_token: refreshToken, scope } = body;
  const { server, client } = code;
  return { link, server, client, browser, accessToken, refreshToken, scope };
}

/** A code that has not been redeemed. */
export type IssuedCode = {
  link: string;
  server: Server;
  client: Client;
  callback: URL;
  verifier: string;
};

export async function obtainCode(
  system: System,
  { link }: { link: string },
  options: ConnectOptions = {},
): Promise<IssuedCode> {
  const { browser: _, ...code } = await authorizeClient(system, { link }, options);
  return code;
}

async function authorizeClient(
  system: System,
  connector: { link: string },
  options: ConnectOptions,
): Promise<IssuedCode & { browser: Browser }> {
  const { url, state: _, keepSession, ...request } = await prepare(system, connector, options);
  const callback = await request.browser.authorize(url, options);
  keepSession();
  return { ...request, callback };
}

/** An authorization that waits for a decision. */
export type OpenConsent = {
  link: string;
  server: Server;
  client: Client;
  browser: Browser;
  /** The consent page, or the page shown instead of it. */
  page: Page;
  state: string;
  /** Another authorization request of the same client. */
  again(): URL;
  decide(filling: FormValues): Promise<Step>;
  redeem(callback: URL, more?: Parameters): Promise<TokenResponse>;
};

/** Opens the page in a new browser, unless the options have one. */
export async function openConsent(
  system: System,
  connector: { link: string },
  options: ConnectOptions = {},
): Promise<OpenConsent> {
  const browser = options.as?.browser ?? openBrowser(system.origins);
  const as = { ...options.as, browser };
  const prepared = await prepare(system, connector, { ...options, as });
  const { url, verifier, keepSession: _, ...request } = prepared;
  const { link, server, client } = request;
  const page = await browser.openConsent(url, options.person);
  return {
    ...request,
    page,
    again: () => authorizeUrl(server, client, { resource: link }).url,
    decide: (filling) => browser.submit(page, filling),
    redeem: (callback, more) => redeem({ link, server, client, callback, verifier }, more),
  };
}

/** Cookies of people who have signed in, by system and person. Each approval changes the id of the session, so only one connection at a time uses it. */
const sessions = new Map<string, CookieJar>();

const sessionName = ({ dataDir }: System, person: Person = 'ada') => `${person} ${dataDir}`;

/** Metadata of each authorization server, by system and origins, which a connection after the first does not discover again. */
const servers = new Map<string, Server>();

async function serverOf({ dataDir, auth }: System, link: string): Promise<Server> {
  const name = `${dataDir} ${auth} ${new URL(link).origin}`;
  const known = servers.get(name);
  if (known) return known;
  const { server } = await discover(link);
  servers.set(name, server);
  return server;
}

/** An authorization request that no browser has made yet, by default of a new client. */
export async function requestAuthorization(
  system: System,
  { link }: { link: string },
  parameters: Parameters = {},
  given?: Client | AuthMethod,
) {
  const server = await serverOf(system, link);
  const client = typeof given === 'object' ? given : await registerClient(server, given);
  const request = authorizeUrl(server, client, { resource: link, ...parameters });
  return { link, server, client, ...request };
}

/** Without a browser in the options, a new one has the session of an earlier sign-in, if there is one. */
async function prepare(system: System, connector: { link: string }, options: ConnectOptions) {
  const { as = {}, person, method, parameters } = options;
  const request = await requestAuthorization(system, connector, parameters, as.client ?? method);
  const browser = as.browser ?? openBrowser(system.origins);
  const session = sessionName(system, person);
  if (!as.browser) {
    browser.jar.push(...(sessions.get(session) ?? []));
    sessions.delete(session);
  }
  const keepSession = () => {
    if (!as.browser) sessions.set(session, structuredClone(browser.jar));
  };
  return { ...request, browser, keepSession };
}

export function redeem(
  { server, client, callback, verifier }: IssuedCode,
  more: Parameters = {},
): Promise<TokenResponse> {
  return exchange(server, client, { callback, verifier }, more);
}
