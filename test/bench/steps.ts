// `npm run bench:steps`: what every request of an authorization costs: commands and round trips of Redis, processor time of the server.
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { registerClient } from '../support/connection.ts';
import { type CookieJar, cookieHeader, storeCookies } from '../support/cookie-jar.ts';
import { type Command, type RedisProxy, startRedisProxy } from '../support/faults/redis-proxy.ts';
import { fillForm, type FormValues, parseForms } from '../support/html-forms.ts';
import { authorizeUrl, type Client, exchange, refresh, type Server } from '../support/oauth.ts';
import { startRedis } from '../support/redis-server.ts';
import { serverMetadata } from './client.ts';
import { blockOf, readFlags, temporaryFolder, WRITE, writeBetween } from './command.ts';
import { logProgress } from './progress.ts';
import { cpuTime } from './server-process.ts';
import { METADATA_PATH, startBareEngine, startGatehouseOn, type Subject } from './subjects.ts';
import { textTable } from './text.ts';
import { median, timeOf } from './timing.ts';

const HELP = `npm run bench:steps -- [flags]

  --quick  two people instead of hundreds: shows that all of it runs; the numbers mean little
  --write  puts the result into test/bench/README.md as well

Takes about two minutes on two idle cores. Needs redis-server. How it measures: test/bench/README.md.
`;

/** `people` for processor time, after `warmUp` of them; `samples` for round trips, one at a time. */
const FULL = { warmUp: 300, people: 300, samples: 5 };
const QUICK = { warmUp: 2, people: 2, samples: 1 };
type Effort = typeof FULL;

const CONCURRENCY = 8;
/** So large that the time of a request reveals the number of round trips. */
const LATENCY_MS = 50;
const DOCUMENT = join(import.meta.dirname, 'README.md');

/** One person in one browser, between two requests. */
type Visit = {
  subject: Subject;
  server: Server;
  jar: CookieJar;
  next: PageRequest;
  page: string;
  client?: Client;
  verifier: string;
  refreshToken?: string | undefined;
};

type PageRequest = { url: URL; form?: URLSearchParams };

type Step = { name: string; take: (visit: Visit) => Promise<void> };

const register: Step = {
  name: 'register',
  async take(visit) {
    visit.client = await registerClient(visit.server);
  },
};

const authorize: Step = {
  name: 'authorize',
  async take(visit) {
    const { resource } = visit.subject;
    const parameters = { resource, scope: 'operations offline_access' };
    const { url, verifier } = authorizeUrl(visit.server, clientOf(visit), parameters);
    visit.verifier = verifier;
    visit.next = { url };
    await send(visit);
  },
};

const SIGN_IN: Step[] = [
  { name: 'sign-in, start', take: send },
  {
    name: 'sign-in at the development identity provider',
    async take(visit) {
      while (visit.next.url.origin !== visit.subject.issuer) {
        await send(visit);
        if (visit.page) submit(visit, { person: 'ada' });
      }
    },
  },
  {
    name: 'sign-in, callback (two requests)',
    async take(visit) {
      await send(visit);
      await send(visit);
    },
  },
  { name: 'resume after the sign-in', take: send },
];

const CONSENT: Step[] = [
  { name: 'consent page', take: send },
  {
    name: 'approve',
    async take(visit) {
      submit(visit, { decision: 'approve' });
      await send(visit);
    },
  },
  { name: 'resume', take: send },
];

const TOKENS: Step[] = [
  {
    name: 'exchange',
    async take(visit) {
      const { server, subject, next, verifier } = visit;
      const code = { callback: next.url, verifier };
      const { resource } = subject;
      const { body } = await exchange(server, clientOf(visit), code, { resource });
      visit.refreshToken = requireToken(body);
    },
  },
  {
    name: 'refresh',
    async take(visit) {
      const { server, subject, refreshToken } = visit;
      const { resource } = subject;
      const { body } = await refresh(server, clientOf(visit), refreshToken, { resource });
      visit.refreshToken = requireToken(body);
    },
  },
];

const FIRST = [register, authorize, ...SIGN_IN, ...CONSENT, ...TOKENS];
const SIGNED_IN = [register, authorize, ...CONSENT, ...TOKENS];

/** The bare engine approves without a page, in three requests. */
const ENGINE: Step[] = [
  register,
  {
    name: 'authorization',
    async take(visit) {
      await authorize.take(visit);
      while (visit.next.url.origin === visit.subject.issuer) await send(visit);
    },
  },
  ...TOKENS,
];

function clientOf({ client }: Visit): Client {
  if (!client) throw new Error('the client is not registered');
  return client;
}

function requireToken(body: { refresh_token?: string | undefined }): string {
  if (body.refresh_token === undefined) throw new Error(`no tokens: ${JSON.stringify(body)}`);
  return body.refresh_token;
}

/** Sends one request. The next one follows the redirect, or is a form of the page. */
async function send(visit: Visit): Promise<void> {
  const { url, form } = visit.next;
  const response = await fetch(url, {
    method: form ? 'POST' : 'GET',
    redirect: 'manual',
    headers: { accept: 'text/html', cookie: cookieHeader(visit.jar, url) },
    ...(form ? { body: form } : {}),
  });
  storeCookies(visit.jar, url, response.headers.getSetCookie());
  const text = await response.text();
  const location = response.headers.get('location');
  if (response.status >= 400) throw new Error(`${response.status} ${url.pathname}: ${text}`);
  visit.page = location === null ? text : '';
  visit.next = { url: location === null ? url : new URL(location, url) };
}

function submit(visit: Visit, filling: FormValues): void {
  const form = parseForms(visit.page, visit.next.url).find(({ controls }) =>
    Object.keys(filling).every((name) => controls.some((control) => control.name === name)),
  );
  if (!form) throw new Error(`the page has no such form: ${visit.page}`);
  visit.next = { url: form.action, form: fillForm(form, filling) };
}

async function openVisit(subject: Subject): Promise<Visit> {
  const server = serverMetadata.parse(await (await fetch(subject.issuer + METADATA_PATH)).json());
  const next = { url: new URL(subject.issuer) };
  return { subject, server, jar: [], next, page: '', verifier: '' };
}

/** Milliseconds of processor time for each step and person. */
async function processorTimes(
  subject: Subject,
  steps: readonly Step[],
  visits: readonly Visit[],
): Promise<number[]> {
  const times: number[] = [];
  for (const { take } of steps) {
    const before = cpuTime(subject.server.pid);
    await inParallel(visits, take);
    times.push((cpuTime(subject.server.pid) - before) / visits.length);
  }
  return times;
}

async function inParallel(
  visits: readonly Visit[],
  take: (visit: Visit) => Promise<void>,
): Promise<void> {
  const left = [...visits];
  const work = async () => {
    for (let visit = left.shift(); visit; visit = left.shift()) await take(visit);
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, work));
}

/** Counts of the overview and the index of the audit log are written now and then, for many requests. */
function isOfRequest({ name, kind }: Command): boolean {
  return kind !== '' && kind !== 'activity' && !kind.startsWith('audit-') && name !== 'xrange';
}

type RoundTrips = { commands: number; blocking: number };

/** Commands, those after the response included, and the round trips that each response waits for. */
async function roundTrips(
  proxy: RedisProxy,
  subject: Subject,
  steps: readonly Step[],
  { samples }: Effort,
): Promise<RoundTrips[]> {
  const measured = steps.map(() => ({ near: [] as number[], far: [] as number[], commands: 0 }));
  const visit = await openVisit(subject);
  for (const { take } of FIRST) await take(visit);
  for (let sample = 0; sample < 2 * samples; sample += 1) {
    if (steps === FIRST) visit.jar = [];
    const isFar = sample % 2 === 1;
    for (const [index, { take }] of steps.entries()) {
      const step = measured[index];
      if (!step) continue;
      proxy.setRule((command) => {
        if (isOfRequest(command)) step.commands += 1;
        return 'pass';
      });
      proxy.delayReplies(isFar ? LATENCY_MS : 0);
      step[isFar ? 'far' : 'near'].push(await timeOf(() => take(visit)));
      // Work after the response.
      await delay(isFar ? 4 * LATENCY_MS : 20);
      proxy.delayReplies(0);
      proxy.setRule();
    }
  }
  return measured.map(({ near, far, commands }) => ({
    commands: commands / samples / 2,
    blocking: Math.max(0, (median(far) - median(near)) / LATENCY_MS),
  }));
}

async function main(effort: Effort, write: boolean): Promise<void> {
  const root = await temporaryFolder();
  const place = { root, logLevel: 'warn' };
  const [redis, other, far] = [await startRedis(), await startRedis(), await startRedis()];
  const proxy = await startRedisProxy(far);
  logProgress('starting Gatehouse twice and the bare engine');
  const subject = await startGatehouseOn(redis.url, place);
  const remote = await startGatehouseOn(proxy.url, place);
  const bare = await startBareEngine(place, { redisUrl: other.url });
  try {
    const result = await measure({ subject, remote, bare, proxy }, effort);
    console.log(result);
    if (write) await writeBetween(DOCUMENT, blockOf('bench:steps'), result);
  } finally {
    await Promise.all([subject, remote, bare].map(({ stop }) => stop()));
    await proxy.close();
    await Promise.all([redis, other, far].map(({ stop }) => stop()));
  }
}

type Subjects = { subject: Subject; remote: Subject; bare: Subject; proxy: RedisProxy };

async function measure(subjects: Subjects, effort: Effort): Promise<string> {
  const { subject, remote, bare, proxy } = subjects;
  logProgress('round trips');
  const trips = await roundTrips(proxy, remote, FIRST, effort);
  const again = await roundTrips(proxy, remote, SIGNED_IN, effort);
  const openAll = (of: Subject, count: number) =>
    Promise.all(Array.from({ length: count }, () => openVisit(of)));
  logProgress('warm-up');
  await processorTimes(subject, FIRST, await openAll(subject, effort.warmUp));
  await processorTimes(bare, ENGINE, await openAll(bare, effort.warmUp));
  logProgress('processor time');
  const people = await openAll(subject, effort.people);
  const times = await processorTimes(subject, FIRST, people);
  const timesAgain = await processorTimes(subject, SIGNED_IN, people);
  const engineVisits = await openAll(bare, effort.people);
  await processorTimes(bare, ENGINE, engineVisits);
  const engineTimes = await processorTimes(bare, ENGINE, engineVisits);
  return [
    'A person signs in and connects',
    table(FIRST, times, trips),
    '',
    'The same person connects another app',
    table(SIGNED_IN, timesAgain, again),
    '',
    'The bare engine with the usual adapter: its person is signed in, and it approves without a page',
    table(ENGINE, engineTimes),
    '',
    compare(timesAgain, engineTimes),
  ].join('\n');
}

function table(steps: readonly Step[], times: readonly number[], trips?: RoundTrips[]): string {
  const rows = steps.map(({ name }, index) => {
    const { commands = NaN, blocking = NaN } = trips?.[index] ?? {};
    const counted = trips ? [commands.toFixed(1), blocking.toFixed(1)] : [];
    return [name, ...counted, (times[index] ?? NaN).toFixed(2)];
  });
  const total = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0);
  const all = trips
    ? [
        total(trips.map(({ commands }) => commands)).toFixed(0),
        total(trips.map(({ blocking }) => blocking)).toFixed(0),
      ]
    : [];
  rows.push(['all', ...all, total(times).toFixed(2)]);
  const counted = trips ? ['commands', 'round trips'] : [];
  return textTable(['step', ...counted, 'CPU ms'], rows);
}

const AUTHORIZATION = ['authorize', ...CONSENT.map(({ name }) => name), 'authorization'];
const COMPARED: Record<string, readonly string[]> = {
  register: ['register'],
  'authorize to resume': AUTHORIZATION,
  exchange: ['exchange'],
  refresh: ['refresh'],
};

/** The engine's processor time divided by ours: above 1, Gatehouse needs less. */
function compare(ours: readonly number[], engine: readonly number[]): string {
  const sumOf = (steps: readonly Step[], times: readonly number[], names: readonly string[]) =>
    steps.reduce((sum, { name }, n) => sum + (names.includes(name) ? (times[n] ?? NaN) : 0), 0);
  const rows = Object.entries(COMPARED).map(([flow, names]) => {
    const [mine, bare] = [sumOf(SIGNED_IN, ours, names), sumOf(ENGINE, engine, names)];
    return [flow, mine.toFixed(2), bare.toFixed(2), (bare / mine).toFixed(2)];
  });
  return textTable(['CPU ms of a signed-in person', 'Gatehouse', 'engine', 'ratio'], rows);
}

const { quick, write } = readFlags(HELP, WRITE);
await main(quick ? QUICK : FULL, write);
