// Measures what connected people cost in Redis, and whether response times grow with their number (npm run bench:scale).
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { isWrittenAnyTime } from '../../support/stored-keys.ts';
import { openClient } from '../client.ts';
import { blockOf, temporaryFolder, writeBetween } from '../command.ts';
import { refresh } from '../load.ts';
import { logProgress } from '../progress.ts';
import { residentMemory } from '../server-process.ts';
import { difference, type Inventory, memoryOf, takeInventory, usedMemory } from './inventory.ts';
import { measure, type Measured, type Population, shuffled } from './measurement.ts';
import { type Effort, type Options, readOptions } from './options.ts';
import { measureOtherSizes } from './other-sizes.ts';
import { openPeople, type Pattern, type Person, readPattern } from './people.ts';
import { measurePages } from './pages.ts';
import { measureCosts } from './cpu-time.ts';
import { describe, type Result, unlike } from './report.ts';
import { openDeployment, type Deployment } from './deployment.ts';

const WRITERS = 64;
/** After this time since its exchange, the next refresh drops a code from the grant record. */
const CODE_DROPPED_MS = 1500;
/** No more people are added after this time; the rest takes half a minute. */
const WRITING_ENDS_MS = 4 * 60_000;
const MAX_RUN_MS = 5 * 60_000;
const PROGRESS_MS = 5000;
const DOCUMENT = join(import.meta.dirname, '../../../config/scale.md');
/** Kinds that expire within half a day, exist only once, or are shared by people with similar names, beside those that any request may write. */
const PASSING =
  /^(session|session-uid|interaction|sign-in|answer|outcome|development-.*|audit|connector|connectors|account-index|accounts-named)$/;

async function main({ write, sizes, effort }: Options): Promise<void> {
  const root = await temporaryFolder();
  const [deployment, small] = [await openDeployment(root), await openDeployment(root)];
  try {
    const text = describe(await run(deployment, small, sizes, effort));
    console.log(text);
    if (write) await writeBetween(DOCUMENT, blockOf('bench:scale'), text);
  } finally {
    await Promise.all([deployment.stop(), small.stop()]);
  }
}

async function run(
  deployment: Deployment,
  small: Deployment,
  sizes: readonly number[],
  effort: Effort,
): Promise<Result> {
  const { redis, store, subject } = deployment;
  logProgress('one person connects for real');
  const { refreshToken, real } = await connectForReal(deployment);
  const pattern = await readPattern(store, refreshToken);
  const connectOne = await peopleLike(pattern, deployment);
  const written = await writeOne(deployment, connectOne);
  refuseUnlike({ real, written });
  logProgress(`${effort.small} people are connected to the small system`);
  const beside = await populate(small, effort);
  const { people, measured, isCutShort } = await grow(deployment, connectOne, {
    beside,
    sizes,
    effort,
  });
  logProgress('the pages of the console');
  const pages = await measurePages(deployment, people, effort);
  logProgress('what each costs the processor');
  const costs = await measureCosts(deployment, { ...deployment, people }, effort);
  const memory: Record<string, number> = {};
  for (const kind of Object.keys(real)) {
    // The only key of a shared set says nothing about a person.
    const bytes = real[kind]?.keys === 0 ? undefined : await memoryOf(redis, kind);
    if (bytes !== undefined) memory[kind] = bytes;
  }
  const others = await measureOtherSizes(redis, store, pattern, effort);
  const bytesOfProcess = await residentMemory(subject.server);
  const sizesOf = { real, written, memory, measured, pages, others, costs, bytesOfProcess };
  return { small: effort.small, ...sizesOf, isCutShort };
}

function peopleLike(pattern: Pattern, { store, subject }: Deployment) {
  return openPeople(store, new URL(subject.resource).origin, pattern);
}

async function populate(small: Deployment, effort: Effort): Promise<Population> {
  const { refreshToken } = await connectForReal(small);
  const connectOne = await peopleLike(await readPattern(small.store, refreshToken), small);
  const people: Person[] = [];
  while (people.length < effort.small) people.push(await connectOne());
  return { ...small, people };
}

/** Takes the inventory of the second person, because the first one of a connector also creates its shared keys. */
async function writeOne(
  { redis }: Deployment,
  connectOne: () => Promise<Person>,
): Promise<Inventory> {
  await connectOne();
  const before = await takeInventory(redis);
  await connectOne();
  return lasting(difference(before, await takeInventory(redis)));
}

function refuseUnlike(both: Pick<Result, 'real' | 'written'>): void {
  const strange = unlike(both);
  if (strange.length === 0) return;
  const what = `${strange.join(', ')}\n${JSON.stringify(both, undefined, 1)}`;
  throw new Error(`what is written is not what a real flow writes: ${what}`);
}

/** The inventory of the second person after one refresh, because the first one also creates the shared sets. */
async function connectForReal({
  client: first,
  redis,
  subject,
}: Deployment): Promise<{ refreshToken: string; real: Inventory }> {
  await first.openFamily();
  const before = await takeInventory(redis);
  const client = await openClient(subject, 'grace');
  const family = await client.openFamily();
  await delay(CODE_DROPPED_MS);
  const failure = await refresh(client, family);
  if (failure !== undefined) throw new Error(failure);
  const real = lasting(difference(before, await takeInventory(redis)));
  return { refreshToken: family.refreshToken, real };
}

function lasting(inventory: Inventory): Inventory {
  const isLasting = (kind: string) => !PASSING.test(kind) && !isWrittenAnyTime(`${kind}:`);
  return Object.fromEntries(Object.entries(inventory).filter(([kind]) => isLasting(kind)));
}

async function grow(
  deployment: Deployment,
  connectOne: () => Promise<Person>,
  { beside, sizes, effort }: { beside: Population; sizes: readonly number[]; effort: Effort },
): Promise<Pick<Result, 'measured' | 'isCutShort'> & { people: Person[] }> {
  const { redis } = deployment;
  const empty = { bytes: await usedMemory(redis), keys: await redis.dbsize() };
  const people: Person[] = [];
  const measured: Measured[] = [];
  const every = Math.max(1, Math.floor((sizes[0] ?? 1) / effort.small));
  let count = 0;
  const inTime = () => performance.now() < WRITING_ENDS_MS;
  const progress = setInterval(() => logProgress(`${count} people`), PROGRESS_MS);
  for (const size of sizes) {
    const write = async () => {
      while (count < size && inTime()) {
        const number = count++;
        const person = await connectOne();
        if (number % every === 0) people.push(person);
      }
    };
    await Promise.all(Array.from({ length: WRITERS }, write));
    logProgress(`${count} people are connected: measuring`);
    const isNew = count > (measured.at(-1)?.people ?? 0);
    // As many as the small system has, or caches would hold different shares.
    const all = { ...deployment, people: shuffled(people).slice(0, effort.small) };
    if (isNew)
      measured.push({ people: count, ...(await measure(redis, all, beside, empty, effort)) });
  }
  clearInterval(progress);
  return { people, measured, isCutShort: count < (sizes.at(-1) ?? 0) };
}

const options = readOptions();
const onTimeout = () => {
  console.error('not done within five minutes');
  process.exit(1);
};
setTimeout(onTimeout, MAX_RUN_MS).unref();
await main(options);
