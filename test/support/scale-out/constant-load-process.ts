// The child process of constant-load.ts. Its argument is the input; the parent sends the ports of ready processes, and `stop`.
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { openListening } from '../../revocation/open-streams.ts';
import { openBrowser, requireExternalRedirect, requirePage } from '../browser.ts';
import { type Connection, redeem, registerClient } from '../connection.ts';
import { violations } from '../faults/invariants.ts';
import { callTool } from '../mcp.ts';
import { authorizeUrl, discover, refresh } from '../oauth.ts';
import { approveAs } from '../openid-provider.ts';
import type { LoadCounts, Progress, LoadMessage, LoadInput } from './constant-load.ts';
import { openDirectFetch } from './direct-fetch.ts';
import { startArrivals, type Arrivals } from './arrivals.ts';

/** The state of a connected person; `busy` while refreshing. */
type Person = Omit<Connection, 'browser' | 'scope'> & { calls: number; busy: boolean };

const CONCURRENCY = 16;
const MAX_UNDER_WAY = 100;
const REPORT_INTERVAL_MS = 100;
const MAX_ERRORS = 50;

const input: LoadInput = JSON.parse(process.argv[2] ?? '');
let { readyPorts } = input;
const direct = openDirectFetch(() => readyPorts, input.maxMs);
globalThis.fetch = direct.fetch;
const stopped = new AbortController();
process.on('message', (message: 'stop' | LoadInput['readyPorts']) => {
  if (message === 'stop') stopped.abort();
  else readyPorts = message;
});
process.once('disconnect', () => process.exit());

const wrong: string[] = [];
const people: Person[] = [];
let done = noCounts();
const report = (said: LoadMessage) => process.send?.(said);

await work();

async function work(): Promise<void> {
  const { callers, listeners, maxMs } = input;
  await inParallel([...Array(callers + listeners).keys()], connectAnew);
  const last = await untilStopped(people.slice(0, callers), people.slice(callers));
  done = noCounts();
  await inParallel(people, async (each) => {
    await recordErrors(() => refreshTokens(each))();
    await recordErrors(() => call(each))();
  });
  wrong.push(...violations(direct.exchanges, { maxMs }));
  const first = wrong.slice(0, MAX_ERRORS);
  report({ report: { ...last, people: people.length, afterStop: done, errors: first } });
}

async function untilStopped(callers: readonly Person[], listeners: readonly Person[]) {
  done = noCounts();
  let turn = 0;
  const next = () => callers[turn++ % callers.length] as Person;
  const flows = startArrivals(input.flowsPerSecond, MAX_UNDER_WAY, recordErrors(connectAnew));
  const callNext = recordErrors(() => callInTurn(next()));
  const calls = startArrivals(input.callsPerSecond, MAX_UNDER_WAY, callNext);
  const streams = listeners.map((each) => repeat(recordErrors(() => listen(each))));
  const progress = () => progressOf(flows, calls);
  const saying = setInterval(() => report({ progress: progress() }), REPORT_INTERVAL_MS);
  await once(stopped.signal, 'abort');
  clearInterval(saying);
  await Promise.all([flows.stop(), calls.stop(), ...streams]);
  return progress();
}

function progressOf(flows: Arrivals, calls: Arrivals): Progress {
  return {
    due: { flows: flows.due(), calls: calls.due() },
    behind: flows.behind() + calls.behind(),
    done: { ...done, retries: direct.retries() },
    people: people.length,
  };
}

function noCounts(): LoadCounts {
  return { flows: 0, refreshes: 0, calls: 0, streams: 0, retries: 0 };
}

function recordErrors(act: () => Promise<void>): () => Promise<void> {
  return () => act().catch((error: unknown) => void wrong.push(String(error)));
}

async function repeat(round: () => Promise<void>): Promise<void> {
  while (!stopped.signal.aborted) await round();
}

async function inParallel<Item>(items: readonly Item[], act: (item: Item) => Promise<void>) {
  const left = [...items];
  const go = async () => {
    for (let item = left.pop(); item !== undefined; item = left.pop()) await act(item);
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, go));
}

/** Connects a new person with a new client and browser, up to the first call. */
async function connectAnew(): Promise<void> {
  const { link, origins } = input;
  const { server } = await discover(link);
  const client = await registerClient(server);
  const browser = openBrowser(origins);
  const { url, verifier } = authorizeUrl(server, client, { resource: link });
  const departure = requireExternalRedirect(await browser.visit(url));
  const consent = await browser.visit(approveAs(`subject of ${client.id}`, departure));
  const approved = await browser.submit(requirePage(consent), { decision: 'approve' });
  const callback = requireExternalRedirect(approved);
  const { status, body } = await redeem({ link, server, client, callback, verifier });
  const { access_token: accessToken, refresh_token: refreshToken } = body;
  if (!accessToken || !refreshToken) throw new Error(`exchange: ${status} ${body.error}`);
  const person = { link, server, client, accessToken, refreshToken, calls: 0, busy: false };
  people.push(person);
  await call(person);
  done.calls -= 1;
  done.flows += 1;
}

/** Calls, and refreshes first if it is time. */
async function callInTurn(person: Person): Promise<void> {
  person.calls += 1;
  if (person.calls % input.callsPerRefresh === 0 && !person.busy) {
    person.busy = true;
    await refreshTokens(person).finally(() => (person.busy = false));
  }
  await call(person);
}

async function refreshTokens(person: Person): Promise<void> {
  const { server, client } = person;
  const { status, body } = await refresh(server, client, person.refreshToken);
  const { access_token: accessToken, refresh_token: refreshToken } = body;
  if (!accessToken || !refreshToken) throw new Error(`refresh: ${status} ${body.error}`);
  Object.assign(person, { accessToken, refreshToken });
  done.refreshes += 1;
}

async function call({ link, accessToken }: Person): Promise<void> {
  const { name, given } = input.tool;
  const { status, rpc, text } = await callTool(link, accessToken, name, given);
  if (status !== 200 || !rpc?.result || rpc.result.isError)
    throw new Error(`call: ${status} ${text}`);
  done.calls += 1;
}

/** Reads one stream to its end. */
async function listen({ link, accessToken }: Person): Promise<void> {
  const stream = await openListening(link, accessToken);
  done.streams += 1;
  while (!stream.areClosed() && !stopped.signal.aborted) await delay(20);
  if (stopped.signal.aborted) await stream.abort();
  else if (!stream.areEnded()) wrong.push('a stream was cut off');
}
