// A client that completed the flow: registration, sign-in, approval and code exchange.
import { openBrowser, type Browser, type AuthorizeOptions } from './browser.ts';
import type { CookieJar } from './cookie-jar.ts';
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
): Promise<Client> {
  const { status, body } = await register(server, {
    ...METADATA,
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

/** The cookies of a person who has signed in, by authorization server and person. */
const signedIn = new Map<string, CookieJar>();

/** Without a browser in the options, a new one starts with the session of an earlier sign-in, if there is one. */
async function authorizeClient(
  system: System,
  { link }: { link: string },
  options: ConnectOptions,
): Promise<IssuedCode & { browser: Browser }> {
  const { server } = await discover(link);
  const client = options.as?.client ?? (await registerClient(server, options.method));
  const { url, verifier } = authorizeUrl(server, client, { resource: link, ...options.parameters });
  const session = `${options.person ?? 'ada'} at ${system.auth}`;
  const browser = options.as?.browser ?? openBrowser(system.origins);
  if (!options.as?.browser) browser.jar.push(...structuredClone(signedIn.get(session) ?? []));
  const callback = await browser.authorize(url, options);
  if (!options.as?.browser) signedIn.set(session, structuredClone(browser.jar));
  return { link, server, client, browser, callback, verifier };
}

export function redeem(
  { server, client, callback, verifier }: IssuedCode,
  more: Parameters = {},
): Promise<TokenResponse> {
  return exchange(server, client, { callback, verifier }, more);
}
