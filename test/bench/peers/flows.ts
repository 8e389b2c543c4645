// The measured flows: registration, authorization up to the code, exchange, refresh, and MCP calls with and without a token.
import { Agent } from 'node:http';
import type { Browser } from '../../support/browser.ts';
import type { Client } from '../../support/oauth.ts';
import { call } from '../tool-calls.ts';
import { forCalls, forSeconds, refresh as refreshFamily } from '../load.ts';
import { loadOf, loadWhile, type Sample } from './measurement.ts';
import type { Options } from './options.ts';
import {
  authorize,
  type Code,
  type Connection,
  connectionFrom,
  newBrowser,
  newClient,
  obtainCode,
  redeem,
  type Session,
} from './session.ts';

const CONCURRENCY = 16;
const PEOPLE = 8;
/**
 * Of each server, until most of its code is compiled, as it is after the first minutes of a day. A server that does more needs more of them, so
 * they are counted, not timed.
 */
const WARM_UP = { connections: 600, refreshes: 2000 };
const SLICES = 4;

/** The state of one implementation during the measurement: signed-in people, and codes and tokens of clients. */
export type Runner = {
  session: Session;
  people: Browser[];
  connections: Connection[];
};

export function newRunner(session: Session): Runner {
  const people = Array.from({ length: PEOPLE }, () => newBrowser(session));
  return { session, people, connections: [] };
}

/** Signs everyone in and runs every flow once. */
export async function warmUp(runner: Runner, options: Options): Promise<void> {
  for (const browser of runner.people) await authorize(runner.session, { browser });
  const { connections } = options.quick ? { connections: options.codes } : WARM_UP;
  for (let made = 0; made < connections; made += options.codes)
    await measureConnections(runner, options, () => undefined);
  // As many as a round makes.
  runner.connections.splice(0, runner.connections.length - options.codes);
  await refreshWhile(forCalls(options.quick ? options.codes : WARM_UP.refreshes), runner);
  await measureCalls(runner, options, () => undefined);
}

export type Add = (flow: string, sample: Sample) => void;

/** Every connection of a round uses a new client, so that consent is asked every time. */
export async function measureConnections(
  { session, people, connections }: Runner,
  { codes: count }: Options,
  add: Add,
): Promise<void> {
  const wanted = [...Array(count).keys()];
  const clients: Client[] = [];
  const codes: Code[] = [];
  const register = async () => clients.push(await newClient(session));
  add(FLOWS.register, await loadOf(wanted, CONCURRENCY, register));
  const free = [...people];
  const obtain = async (client: Client) => {
    const browser = free.shift();
    if (!browser) throw new Error('there are as many people as authorizations at a time');
    codes.push(await obtainCode(session, { client, browser }));
    free.push(browser);
  };
  add(FLOWS.authorize, await loadOf(clients, PEOPLE, obtain));
  const exchange = async (code: Code) =>
    connections.push(connectionFrom(code, await redeem(session, code)));
  add(FLOWS.exchange, await loadOf(codes, CONCURRENCY, exchange));
}

export const FLOWS = {
  register: `registrations, ${CONCURRENCY} at a time`,
  authorize: `authorizations from request through consent to code, ${PEOPLE} people signed in`,
  exchange: `code exchanges, ${CONCURRENCY} at a time`,
  refresh: (concurrency: number) => `refreshes, ${concurrency} at a time`,
  call: `MCP calls with a token, ${CONCURRENCY} at a time`,
  open: `the same calls without authorization, ${CONCURRENCY} at a time`,
};

export function refreshFor(seconds: number, concurrency: number, runner: Runner): Promise<Sample> {
  return refreshWhile(forSeconds(seconds), runner, concurrency);
}

/**
 * Throws at the first refusal, because errors must not count as fast responses. Each turn uses new connections, because the server may
 * have closed idle ones.
 */
function refreshWhile(
  mayStart: () => boolean,
  { session, connections }: Runner,
  concurrency = CONCURRENCY,
): Promise<Sample> {
  const agent = new Agent({ keepAlive: true });
  const { token_endpoint: tokenEndpoint } = session.server;
  return loadWhile(mayStart, concurrency, connections, async (connection) => {
    const { client, link: resource, accessToken, refreshToken } = connection;
    const family = { refreshToken, accessToken };
    const visitor = { agent, tokenEndpoint, clientId: client.id, resource };
    const failure = await refreshFamily(visitor, family);
    if (failure !== undefined) throw new Error(`a refresh was answered ${failure}`);
    connection.refreshToken = family.refreshToken;
  });
}

/** With and without a token; undefined if there is no resource server. */
export async function measureCalls(
  { session, connections: [connection] }: Runner,
  { seconds }: Options,
  add: Add,
): Promise<void> {
  const { open } = session.running;
  if (open === undefined || !connection) return;
  const agent = new Agent({ keepAlive: true });
  const idle = (url: string, token?: string) =>
    Array.from({ length: CONCURRENCY }, () => ({ url, agent, token }));
  const guarded = idle(connection.link, connection.accessToken);
  const targets = { [FLOWS.call]: guarded, [FLOWS.open]: idle(open) };
  // Alternating slices, so that other load slows both.
  for (let slice = 0; slice < SLICES; slice += 1)
    for (const [flow, items] of Object.entries(targets))
      add(flow, await loadWhile(forSeconds(seconds / SLICES), CONCURRENCY, items, call));
}
