// Measures every page of the console, and the lists of the API, with many people and a long audit log (npm run bench:console).
import { join } from 'node:path';
import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { parse } from 'yaml';
import { StoreUnavailable } from '../../src/store/store.ts';
import { requestManagement } from '../support/management-api.ts';
import { openSystemStore } from '../support/system-store.ts';
import { startChangingV2 } from '../support/upstream/changing-upstream.ts';
import { until } from '../support/until.ts';
import { writeAuditItems } from './audit-items.ts';
import { openClient } from './client.ts';
import { oneOf, readFlags, temporaryFolder, wholeNumber } from './command.ts';
import { logProgress } from './progress.ts';
import { measurePages, type PageTime, TARGET_MS } from './scale/pages.ts';
import { openPeople, type Person, readPattern } from './scale/people.ts';
import { cpuTime } from './server-process.ts';
import { startGatehouse, type StartedGatehouse } from './subjects.ts';

const HELP = `npm run bench:console -- [flags]

  --people 100000   how many people are connected, 100 to a connector
  --items 1000000   how many items the audit log has
  --store redis     redis or sqlite
  --minutes 10      how long writing all that may take; what is not written by then is left out, and the result says so
  --rounds 10       how often each page is read
  --quick           200 people and 2000 items: shows that all of it runs; the numbers mean little

Writes the records with Gatehouse's own store code, reads all pages as often as it measures them later, then prints the time of each page:
the median, the mean processor time of the server, which hardly depends on other load, and the processor time of the very first reading.
Needs redis-server and 2 GB of memory for the default.
`;

const WRITERS = 32;
/** A write can time out on a busy machine. */
const MAX_TRIES = 20;
const AGAIN_MS = 500;
const MINUTE_MS = 60_000;
const PROGRESS_MS = 10_000;
/** Of the time, for the people; the rest is for the audit log. */
const PEOPLE_SHARE = 0.75;
const MACHINES = 30;
/** Of processor time in a second. */
const QUIET_MS = 50;
const QUIET_SECONDS = 5;
const MAX_QUIET_SECONDS = 180;

const flags = readFlags(HELP, {
  people: { type: 'string', default: '100000' },
  items: { type: 'string', default: '1000000' },
  store: { type: 'string', default: 'redis' },
  minutes: { type: 'string', default: '10' },
  rounds: { type: 'string', default: '10' },
});
const PEOPLE = flags.quick ? 200 : wholeNumber('people', flags.people, 100, 1_000_000);
const ITEMS = flags.quick ? 2000 : wholeNumber('items', flags.items, 1000, 5_000_000);
const STORE = oneOf('store', ['redis', 'sqlite'] as const, flags.store);
const MINUTES = wholeNumber('minutes', flags.minutes, 1, 600);
const ROUNDS = flags.quick ? 1 : wholeNumber('rounds', flags.rounds, 1, 1000);

const UPSTREAM = 'orders';
const TOOLS = [{ name: 'search_orders' }, { name: 'order_totals' }, { name: 'cancel_order' }];

const root = await temporaryFolder();
const upstream = await startChangingV2(TOOLS);
const subject = await startGatehouse(
  STORE,
  { root, logLevel: 'warn' },
  { config: await settingsFor(upstream.url) },
);
try {
  upstream.trustIssuer(subject.issuer);
  const { people, items } = await fill(subject);
  logProgress('until the server has read the index and made checkpoints');
  const isQuiet = await quiet(subject);
  logProgress(`the pages of the console${isQuiet ? '' : ', beside other work of the server'}`);
  report(await measureWarm(people), people.length, items);
} finally {
  await subject.stop();
  await upstream.close();
}

/** In a server whose code for the pages is compiled. `first` is still the very first reading. */
async function measureWarm(people: readonly Person[]): Promise<PageTime[]> {
  const before = await measurePages({ subject }, people, { lists: ROUNDS });
  const firsts = new Map(before.map(({ page, first }) => [page, first]));
  const pages = await measurePages({ subject }, people, { lists: ROUNDS });
  return pages.map((page) => ({ ...page, first: firsts.get(page.page) ?? page.first }));
}

/** What the server does with new items in the background would count as the time of pages. False if it takes too long. */
async function quiet({ server }: StartedGatehouse): Promise<boolean> {
  for (let seconds = 0, isQuiet = 0; seconds < MAX_QUIET_SECONDS; seconds += 1) {
    const before = cpuTime(server.pid);
    await delay(1000);
    isQuiet = cpuTime(server.pid) - before < QUIET_MS ? isQuiet + 1 : 0;
    if (isQuiet === QUIET_SECONDS) return true;
  }
  return false;
}

/** Everyone at the identity provider may connect. */
async function settingsFor(url: string): Promise<string> {
  const development = join(import.meta.dirname, '../../config/development.yaml');
  const settings = parse(await readFile(development, 'utf8'));
  const file = join(await mkdtemp(join(root, 'settings-')), 'settings.yaml');
  const changed = {
    ...settings,
    entitlements: [{ match: { anyone: true }, level: 'operations' }],
    audit: { keepCalls: { items: 10_000_000 } },
    resourceServer: { upstreams: [{ id: UPSTREAM, name: 'Orders', url }] },
  };
  await writeFile(file, JSON.stringify(changed));
  return file;
}

async function fill(gatehouse: StartedGatehouse): Promise<{ people: Person[]; items: number }> {
  const { store } = await openSystemStore({
    storeAddress: gatehouse.storeAddress,
    dataDir: gatehouse.directory,
  });
  const client = await openClient(gatehouse);
  const { refreshToken } = await client.openFamily();
  const resourceUrl = new URL(gatehouse.resource).origin;
  const connectOne = await openPeople(
    store,
    resourceUrl,
    await readPattern(store, refreshToken),
    UPSTREAM,
  );
  const started = performance.now();
  const end = started + MINUTES * MINUTE_MS;
  const people: Person[] = [];
  let [begun, shown] = [0, started];
  const write = async () => {
    while (begun < PEOPLE && performance.now() < started + (end - started) * PEOPLE_SHARE) {
      begun += 1;
      people.push(await persistently(connectOne));
      if (performance.now() < shown + PROGRESS_MS) continue;
      shown = performance.now();
      logProgress(`${people.length} people`);
    }
  };
  await Promise.all(Array.from({ length: WRITERS }, write));
  await addMachines(gatehouse, people[0]);
  logProgress('the audit log');
  const items = await writeAuditItems(
    store,
    ITEMS,
    (n) => {
      const {
        account = '',
        clientId = '',
        connector = '',
        grantId = '',
      } = people[n % people.length] ?? {};
      return { account, clientId, connector, grantId };
    },
    { deadline: end, write: persistently },
  );
  await store.close();
  return { people, items };
}

async function persistently<T>(write: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1)
    try {
      return await write();
    } catch (error) {
      if (!(error instanceof StoreUnavailable) || tries === MAX_TRIES) throw error;
      await delay(AGAIN_MS);
    }
}

async function addMachines(gatehouse: StartedGatehouse, person: Person | undefined): Promise<void> {
  for (let n = 1; n <= MACHINES; n += 1)
    await requestManagement(gatehouse, 'POST', '/clients', {
      name: `Nightly job ${n}`,
      connector: person?.connector,
      level: 'analytics',
    });
  await until('the tools to be read', async () => {
    const read = await requestManagement(gatehouse, 'GET', `/upstreams/${UPSTREAM}`);
    return (read as { tools: object[] }).tools.length === TOOLS.length;
  });
}

function report(pages: readonly PageTime[], people: number, items: number): void {
  const slow = pages.filter(({ processor }) => processor >= TARGET_MS).length;
  const sorted = pages.toSorted((one, other) => other.processor - one.processor);
  const width = Math.max(...pages.map(({ page }) => page.length));
  const lines = sorted.map(
    ({ page, milliseconds, processor, first }) =>
      `${page.padEnd(width)}  ${milliseconds.toFixed(1).padStart(8)}  ${processor.toFixed(1).padStart(8)}  ${first.toFixed(0).padStart(8)}`,
  );
  console.log(
    [
      `${people} people and ${items} items in ${STORE}; ${pages.length} pages, each read ${ROUNDS} times`,
      `processor time of a page, target: less than ${TARGET_MS} ms, ${slow === 0 ? 'met by all' : `missed by ${slow}`}`,
      `${'page'.padEnd(width)}  ${'ms'.padStart(8)}  ${'CPU ms'.padStart(8)}  ${'first'.padStart(8)}`,
      ...lines,
    ].join('\n'),
  );
}
