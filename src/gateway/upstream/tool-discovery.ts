// Keeps the catalog of an upstream's tools current: reads it at the start, when the upstream says that its list changed, and every five minutes.
import { lruCache } from '../../lru-cache.ts';
import { membersOf } from '../../json-values.ts';
import { discoverTools, watchTools } from './discovery.ts';
import { discoveryTarget, type DiscoveryOptions } from './discovery-connection.ts';
import { DiscoveryError, remedyFor } from './discovery-faults.ts';
import { openOperatorCredential } from './operator-credential.ts';
import { type DiscoveryEvent, type DiscoveryState, isDue, reduce } from './discovery-state.ts';
import { listOf } from './tool-comparison.ts';
import { listsWithoutMatch } from './unmatched-patterns.ts';
import { openToolPinning, type ToolPinning } from './tool-pinning.ts';
import { shownUrl } from './quoting.ts';
import type { Services } from '../../services.ts';
import type { Lock } from '../../store/lock.ts';
import { StoreUnavailable } from '../../store/store.ts';
import type { Settings } from '../../settings/settings.ts';
import type { Upstream } from '../../settings/upstreams.ts';
import {
  CATALOGS_CHANNEL,
  type CatalogFault,
  findCatalog,
  missingTools,
  saveCatalog,
  type ToolCatalog,
  withDiscoveryLock,
} from '../../upstreams/tool-catalog.ts';

export type ToolDiscovery = {
  /** The catalog as this process knows it; undefined before the first attempt of any process. Costs nothing. */
  catalog(): ToolCatalog | undefined;
  /** Reads the tools, and keeps doing so until `close`. Resolves after the first attempt. Never rejects. */
  start(signal: AbortSignal): Promise<void>;
  /** Call when the upstream may have changed its tools. */
  refresh(): void;
  /**
   * Reads a list that passes through to a caller. A tool whose hints ask for a higher level needs it from now on; everything else waits for the
   * next reading, which is soon, because an upstream may list other tools, and say other things, to each caller. Never rejects.
   */
  observe(tools: readonly unknown[]): Promise<void>;
  /** Lists the tools as a caller sees them, page by page. Rejects with DiscoveryError. */
  listFor(
    headers: Required<Pick<DiscoveryOptions, 'credentials' | 'ofCaller'>>,
    signal: AbortSignal,
  ): Promise<readonly (readonly unknown[])[]>;
  /** Which texts of the tools were seen and approved. */
  pinning: ToolPinning;
  /** Whether a list with this tool passed through to a caller of this process. */
  wasListed(name: string): boolean;
  /** Ends reading, until the next `start`. The catalog goes on following what other processes read. */
  close(): Promise<void>;
};

const CHECK_INTERVAL_MS = 1000;
/** A message between processes may be lost, and what is held must be held in all of them within five seconds. */
const ADOPT_INTERVAL_MS = 3000;
const TIMEOUT_MS = 15_000;

/** Names of tools that were listed to callers. */
const MAX_PASSED_ON = 5000;

type Watch = { close: () => Promise<void> };

export async function openToolDiscovery(
  settings: Settings,
  services: Services,
  upstream: Upstream,
): Promise<ToolDiscovery> {
  const { store, logger, now } = services;
  let state: DiscoveryState = {
    catalog: await findCatalog(store, upstream),
    failures: 0,
    isChangeReported: false,
    startedAt: 0,
  };
  let watch: Watch | undefined;
  let running: Promise<void> | undefined;
  let timer: NodeJS.Timeout | undefined;
  let isReading = false;
  let adoptedAt = performance.now();
  let closing = new AbortController();
  let stopOperator: (() => void) | undefined;
  let repeatedPages = false;
  const warnOfPages = () =>
    logger.warn(
      {
        what: shownUrl(upstream.url),
        reason: 'a page of its list of tools leads to a page that was read already',
        remedy: 'look whether tools are missing, and mend the pages of the MCP server',
      },
      'the list of tools ended at a repeated page',
    );
  const passedOn = lruCache<true>(MAX_PASSED_ON);
  const report = reporter(services, upstream);
  const reportLists = listReporter(settings, services, upstream);
  const pinning = await openToolPinning(services, upstream);
  const operator = await openOperatorCredential(settings, services, upstream);

  const options: DiscoveryOptions = {
    ...discoveryTarget(settings, upstream),
    ...(services.keys.signing ? { signingKey: services.keys.signing.current } : {}),
    version: services.version,
    timeout: TIMEOUT_MS,
    now,
  };

  async function on(event: DiscoveryEvent): Promise<void> {
    const [next, effect] = reduce(settings.levels, state, event);
    state = next;
    if (effect === 'stop-watching') await stopWatching();
    if (effect === 'save' && state.catalog) await saveCatalog(store, upstream.id, state.catalog);
  }
  const reportChange = () => void on({ type: 'change-reported' });
  const adoptStored = async () => {
    await Promise.all([
      findCatalog(store, upstream).then((catalog) => on({ type: 'found', catalog })),
      pinning.adopt(),
    ]);
  };

  async function stopWatching(): Promise<void> {
    const stopped = watch;
    watch = undefined;
    await stopped?.close();
  }

  async function discover(signal: AbortSignal, lock: Lock): Promise<void> {
    await on({ type: 'reading' });
    const previous = await findCatalog(store, upstream);
    await stopWatching();
    const read = await readTools(signal, previous, lock);
    if (signal.aborted) return stopWatching();
    if (!read || !lock.isHeld()) {
      // Another process may have read since, and what it stored is newer.
      reportChange();
      return stopWatching();
    }
    report(read);
    await on({ type: 'read', catalog: read });
    // The store is unavailable. The next change of the tools tries again.
    if (!read.error) await reportLists(read).catch(() => undefined);
  }

  /** Undefined if the lock was lost meanwhile. Rejects with StoreUnavailable only. */
  async function readTools(
    signal: AbortSignal,
    previous: ToolCatalog | undefined,
    lock: Lock,
  ): Promise<ToolCatalog | undefined> {
    const { url } = upstream;
    try {
      const { revision, tools, pages, repeatsPages, instructions, close } = await operator.use(
        (own, token) => {
          const credentials = { ...options.credentials, ...own };
          return watchTools({ ...options, credentials, token, signal }, reportChange);
        },
      );
      watch = { close };
      if (repeatsPages && !repeatedPages) warnOfPages();
      repeatedPages = repeatsPages;
      if (!lock.isHeld()) return undefined;
      await pinning.noteOwn(pages, instructions);
      const time = now();
      return { url, revision, tools, seenAt: time, triedAt: time };
    } catch (error) {
      if (error instanceof StoreUnavailable) throw error;
      // It responds, and people who have connected their account can use it.
      if (error instanceof DiscoveryError && error.fault === 'rejected' && upstream.credential) {
        const { error: _, ...known } = previous ?? { url, tools: [] };
        return { ...known, triedAt: now(), needsCredential: true };
      }
      const fault =
        error instanceof DiscoveryError
          ? faultOf(error)
          : ({ fault: 'not-mcp', message: 'cannot be asked for its tools' } as const);
      return { ...(previous ?? { url, tools: [] }), triedAt: now(), error: fault };
    }
  }

  /** At most one attempt at a time, in all processes. */
  function attempt(stopping?: AbortSignal): Promise<void> {
    const signal = stopping ? AbortSignal.any([stopping, closing.signal]) : closing.signal;
    running ??= withDiscoveryLock(store, upstream.id, (lock) => discover(signal, lock))
      .then(() => undefined)
      // The store is unavailable. The next check tries again.
      .catch((error: unknown) =>
        logger.debug({ err: error, what: upstream.id }, 'tools were not read'),
      )
      .finally(() => (running = undefined));
    return running;
  }

  async function check(): Promise<void> {
    if (upstream.toolChanges === 'hold' && performance.now() - adoptedAt > ADOPT_INTERVAL_MS) {
      adoptedAt = performance.now();
      await pinning.adopt();
    }
    if (running || !isDue(state, now())) return;
    await adoptStored();
    if (isDue(state, now())) await attempt();
  }

  await store.subscribe(CATALOGS_CHANNEL, (id) => {
    if (id === upstream.id) void adoptStored().catch(() => undefined);
  });
  return {
    catalog: () => state.catalog,
    pinning,
    async start(signal) {
      if (isReading) return;
      isReading = true;
      closing = new AbortController();
      await on({ type: 'started', at: now() });
      stopOperator ??= operator.onChange(reportChange);
      await attempt(signal);
      if (!isReading) return;
      timer ??= setInterval(() => void check().catch(() => undefined), CHECK_INTERVAL_MS).unref();
    },
    refresh: reportChange,
    async observe(tools) {
      for (const { name } of tools.map(membersOf))
        if (typeof name === 'string') passedOn.set(name, true);
      await on({ type: 'listed', tools, at: now() }).catch(() => undefined);
    },
    async listFor(headers, signal) {
      return (await discoverTools({ ...options, ...headers, signal })).pages;
    },
    wasListed: (name) => passedOn.has(name),
    async close() {
      isReading = false;
      closing.abort();
      clearInterval(timer);
      timer = undefined;
      stopOperator?.();
      stopOperator = undefined;
      // Its lock would keep the next process from reading.
      await running;
      await stopWatching();
    },
  };
}

function faultOf({ fault, message, remedy }: DiscoveryError): CatalogFault {
  return { fault, message, ...(remedy === undefined ? {} : { remedy }) };
}

/** Logs each set of lists with patterns that match no tool once, when the tools have changed. */
function listReporter(
  settings: Settings,
  { store, logger, now }: Services,
  upstream: Upstream,
): (catalog: ToolCatalog) => Promise<void> {
  let known: string | undefined;
  return async ({ tools }) => {
    const names = tools.map(({ name }) => name);
    const state = JSON.stringify(names.toSorted());
    if (state === known) return;
    known = state;
    const lists = await listsWithoutMatch({ settings, store, now: now() }, upstream, names);
    if (lists.length === 0) return;
    const reason = `they match no tool: ${listOf(lists)}`;
    const remedy = `compare them with gatehouse upstream show ${upstream.id}`;
    logger.warn(
      { what: shownUrl(upstream.url), reason, remedy },
      'patterns of tools are without effect',
    );
  };
}

/** Logs each fault, and each set of missing tools, once. */
function reporter({ logger }: Services, upstream: Upstream): (catalog: ToolCatalog) => void {
  const what = shownUrl(upstream.url);
  let reported: string | undefined;
  return ({ tools, error }) => {
    const missing = missingTools(upstream, tools);
    const state = JSON.stringify(error ?? missing);
    if (state === reported) return;
    reported = state;
    if (error) {
      const remedy = remedyFor(error, upstream);
      const details = { what, reason: `it ${error.message}`, remedy };
      return logger.warn(details, 'the tools of the MCP server cannot be read');
    }
    if (missing.length === 0) return;
    const remedy = `correct the names in ${upstream.setting}.tools; the MCP server has ${listOf(tools.map(({ name }) => name))}`;
    logger.warn(
      { what, reason: `it has no tool ${listOf(missing)}`, remedy },
      'the MCP server lacks tools that are in the settings',
    );
  };
}
