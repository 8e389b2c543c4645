// Uses every feature correctly and incorrectly, and collects every private value that occurs.
import { decodeJwt } from 'jose';
import { createConnector } from '../support/management-api.ts';
import { openBrowser, type Browser } from '../support/browser.ts';
import { advanceClock, restoreClock } from '../support/clock.ts';
import { redeem, REDIRECT_URI, type IssuedCode } from '../support/connection.ts';
import { callTool } from '../support/mcp.ts';
import {
  authorizeUrl,
  discover,
  register,
  type AuthMethod,
  type Client,
  type Server,
} from '../support/oauth.ts';
import type { System } from '../support/system.ts';
import { postToken } from '../support/token-endpoints.ts';
import type { Canaries } from './canaries.ts';
import { present, tokensOf, type Tokens } from './token-family.ts';

/** A connection that is still active at the end. */
type Connected = Tokens & { client: Client; code: string };

export type PrivateValues = { canaries: Canaries; clientName: string; connected: Connected };

const CLIENT_NAME = 'Canary assistant';
const CONNECTOR_NAME = 'Canary figures';
/** A person of config/development.yaml. */
const PERSON = { name: 'Ada Lovelace', 'email address': 'ada@example.com' };
const GUESS = 'Canary-guessed-by-an-attacker-0123456789-0123456789';
const SECRET_PARAMETERS = ['code', 'state', 'nonce', 'code_challenge'];

export async function collectPrivateValues(system: System): Promise<PrivateValues> {
  const canaries: Canaries = new Map(Object.entries(PERSON));
  canaries.set('client name', CLIENT_NAME);
  canaries.set('connector name', CONNECTOR_NAME);
  canaries.set('management key', system.managementKey);
  const { link } = await createConnector(system, { name: CONNECTOR_NAME });
  const { server } = await discover(link);
  const connectAs = (method: AuthMethod, title: string) =>
    connectAndRecord(system, canaries, { server, link, method, title });
  for (const method of ['none', 'client_secret_basic', 'client_secret_post'] as const) {
    const connection = await connectAs(method, method);
    await attack(connection, await callAndRefresh(connection, canaries), canaries);
  }
  await replayCode(await connectAs('none', 'the replayed code'));
  await disconnect(await connectAs('client_secret_post', 'the disconnected client'));
  const { code, tokens } = await connectAs('client_secret_basic', 'the connected client');
  const value = code.callback.searchParams.get('code') ?? '';
  return { canaries, clientName: CLIENT_NAME, connected: { ...tokens, ...code, code: value } };
}

type Wanted = { server: Server; link: string; method: AuthMethod; title: string };
type RecordedConnection = { code: IssuedCode; tokens: Tokens; title: string };

/** Registers, signs in, consents and redeems the code, and records every value. */
async function connectAndRecord(
  system: System,
  canaries: Canaries,
  { server, link, method, title }: Wanted,
): Promise<RecordedConnection> {
  const note = (what: string, value: string | undefined) =>
    value === undefined || canaries.set(`${what} of ${title}`, value);
  const { body } = await register(server, {
    client_name: CLIENT_NAME,
    redirect_uris: [REDIRECT_URI],
    token_endpoint_auth_method: method,
  });
  const { client_id: id = '', client_secret: secret } = body;
  const client: Client = { id, secret, method, redirectUri: REDIRECT_URI };
  note('client id', id);
  note('client secret', secret);
  const { url, verifier, state } = authorizeUrl(server, client, { resource: link });
  note('verifier', verifier);
  note('state', state);
  const browser = openBrowser(system.origins);
  const callback = await browser.authorize(url, { level: 'analytics' });
  const code: IssuedCode = { link, server, client, callback, verifier };
  const tokens = tokensOf(await redeem(code));
  note('code', callback.searchParams.get('code') ?? undefined);
  noteTokens(note, 'first', tokens);
  noteBrowser(note, browser);
  return { code, tokens, title };
}

type Note = (what: string, value: string | undefined) => unknown;

function noteTokens(note: Note, which: string, { accessToken, refreshToken }: Tokens): void {
  const [, claims, signature] = accessToken.split('.');
  note(`claims in the ${which} access token`, claims);
  note(`signature of the ${which} access token`, signature);
  note(`${which} refresh token`, refreshToken);
  note(`MAC of the ${which} refresh token`, refreshToken.split('~').at(-1));
  note('grant id', String(decodeJwt(accessToken).grant_id));
}

/** Notes cookies and every URL that the browser visited. */
function noteBrowser(note: Note, { jar, visited }: Browser): void {
  for (const { name, value } of jar) if (value.length > 8) note(`cookie ${name}`, value);
  for (const [number, { pathname, searchParams }] of visited.entries()) {
    const [, uid] = /\/interaction\/([\w-]{16,})/.exec(pathname) ?? [];
    note(`interaction ${number}`, uid);
    for (const name of SECRET_PARAMETERS)
      note(`${name} in address ${number}`, searchParams.get(name) ?? undefined);
  }
}

/** Calls, refreshes and revokes one access token. Returns the newest tokens. */
async function callAndRefresh(
  { code, tokens, title }: RecordedConnection,
  canaries: Canaries,
): Promise<Tokens> {
  let newest = tokens;
  for (const which of ['second', 'third']) {
    await callTool(code.link, newest.accessToken, 'club_overview');
    newest = tokensOf(await present(code, newest.refreshToken));
    noteTokens((what, value = '') => canaries.set(`${what} of ${title}`, value), which, newest);
  }
  await postToken(code.server.revocation_endpoint, code.client, tokens.accessToken);
  return newest;
}

/** Sends requests that are refused, with values that must not be logged. Ends with a replayed refresh token. */
async function attack(
  { code, tokens }: RecordedConnection,
  { accessToken, refreshToken }: Tokens,
  canaries: Canaries,
): Promise<void> {
  const { server, client, link } = code;
  const impostor: Client = { ...client, secret: GUESS, method: 'client_secret_post' };
  canaries.set('the guess', GUESS);
  await present({ server, client: impostor }, refreshToken);
  await present(code, `${refreshToken}${GUESS}`);
  await present(code, refreshToken, { resource: `${link}/${GUESS}`, scope: GUESS });
  await redeem(code, { code_verifier: GUESS });
  await redeem(code, { code: GUESS, redirect_uri: `http://localhost/${GUESS}` });
  await callTool(link, `${accessToken}${GUESS}`, GUESS);
  await register(server, { client_name: GUESS, redirect_uris: [`https://${GUESS}.example/`] });
  await visitAll(new URL(server.token_endpoint).origin, {
    cookie: `gatehouse-session=${GUESS}`,
    authorization: `Bearer ${accessToken}`,
    paths: [
      `/oauth/authorize?client_id=${GUESS}&state=${GUESS}&redirect_uri=http://${GUESS}/`,
      `/oauth/authorize?client_id=${client.id}&redirect_uri=http://${GUESS}/`,
      `/oauth/token?refresh_token=${refreshToken}&code=${GUESS}`,
      `/interaction/${GUESS}?code=${GUESS}`,
      `/sign-in/callback?code=${GUESS}&state=${GUESS}`,
      `/${refreshToken}`,
      `/${GUESS}/${accessToken}`,
    ],
  });
  advanceClock(66);
  await present(code, tokens.refreshToken);
  restoreClock();
}

type Visits = { paths: string[]; cookie: string; authorization: string };

async function visitAll(origin: string, { paths, ...headers }: Visits): Promise<void> {
  for (const path of paths)
    await (await fetch(origin + path, { headers, redirect: 'manual' })).text();
}

async function replayCode({ code }: RecordedConnection): Promise<void> {
  advanceClock(2);
  await redeem(code);
  restoreClock();
}

async function disconnect({ code, tokens }: RecordedConnection): Promise<void> {
  await postToken(code.server.revocation_endpoint, code.client, tokens.refreshToken);
}
