// What a process knows of an upstream's tools, and when it reads them again. `reduce` has no effects of its own: tool-discovery.ts has them.
import { isDeepStrictEqual } from 'node:util';
import { membersOf } from '../../json-values.ts';
import { isAtLeast, type Levels } from '../../permission-levels.ts';
import { type CatalogTool, hintsIn, type ToolCatalog } from '../../upstreams/tool-catalog.ts';
import { annotatedLevel } from '../../upstreams/tool-levels.ts';
import { MAX_TOOLS, toolOf } from './discovery.ts';

export type DiscoveryState = {
  catalog: ToolCatalog | undefined;
  /** Failed attempts in a row. */
  failures: number;
  /** The tools may have changed since they were read. */
  isChangeReported: boolean;
  /** Seconds since the epoch. */
  startedAt: number;
};

export type DiscoveryEvent =
  | { type: 'started'; at: number }
  | { type: 'change-reported' }
  | { type: 'reading' }
  | { type: 'read'; catalog: ToolCatalog }
  /** What is stored, maybe by another process. */
  | { type: 'found'; catalog: ToolCatalog | undefined }
  /** A list passed through to a caller. */
  | { type: 'listed'; tools: readonly unknown[]; at: number };

/** `stop-watching`: another process waits for changes. */
export type DiscoveryEffect = 'save' | 'stop-watching' | undefined;

const INTERVAL_SECONDS = 300;
/** An upstream that reports changes all the time is not asked more often. */
const MIN_INTERVAL_SECONDS = 5;
/** After the first failure. It doubles with each further one, up to INTERVAL_SECONDS. */
const RETRY_SECONDS = 10;

export function reduce(
  levels: Levels,
  state: DiscoveryState,
  event: DiscoveryEvent,
): readonly [DiscoveryState, DiscoveryEffect] {
  switch (event.type) {
    case 'started':
      return [{ ...state, startedAt: event.at }, undefined];
    case 'change-reported':
      return [{ ...state, isChangeReported: true }, undefined];
    case 'reading':
      return [{ ...state, isChangeReported: false }, undefined];
    case 'read':
      return [withCatalog(state, event.catalog), 'save'];
    case 'found': {
      const { catalog } = event;
      const isKnown = catalog === undefined || catalog.triedAt === state.catalog?.triedAt;
      return isKnown ? [state, undefined] : [withCatalog(state, catalog), 'stop-watching'];
    }
    case 'listed': {
      const { catalog } = state;
      if (catalog?.needsCredential) {
        const read = withListed(catalog, event);
        return read === catalog ? [state, undefined] : [{ ...state, catalog: read }, 'save'];
      }
      if (!catalog?.seenAt) return [state, undefined];
      const observed = withObservedHints(levels, catalog.tools, event.tools.map(membersOf));
      const next = observed.isChanged ? { ...state, isChangeReported: true } : state;
      if (observed.tools === catalog.tools) return [next, undefined];
      const raised = { ...catalog, tools: observed.tools, triedAt: event.at };
      return [{ ...next, catalog: raised }, 'save'];
    }
  }
}

/** What a caller was listed is a reading where Gatehouse can read nothing. Another caller may be listed other tools. */
function withListed(
  catalog: ToolCatalog,
  { tools, at }: { tools: readonly unknown[]; at: number },
): ToolCatalog {
  const listed = tools.map(membersOf).flatMap((tool) => toolOf(tool, () => false));
  const names = new Set(listed.map(({ name }) => name));
  const all = [...catalog.tools.filter(({ name }) => !names.has(name)), ...listed];
  const isFresh = catalog.seenAt !== undefined && at - catalog.seenAt < INTERVAL_SECONDS;
  if (listed.length === 0 || (isFresh && isDeepStrictEqual(all, catalog.tools))) return catalog;
  return { ...catalog, tools: all.slice(0, MAX_TOOLS), seenAt: at };
}

function withCatalog(state: DiscoveryState, catalog: ToolCatalog): DiscoveryState {
  return { ...state, catalog, failures: catalog.error ? state.failures + 1 : 0 };
}

/** Whether the tools must be read now. */
export function isDue(
  { catalog, failures, isChangeReported, startedAt }: DiscoveryState,
  now: number,
): boolean {
  const triedAt = catalog?.triedAt ?? 0;
  const age = now - triedAt;
  const interval =
    failures === 0
      ? INTERVAL_SECONDS
      : Math.min(RETRY_SECONDS * 2 ** (failures - 1), INTERVAL_SECONDS);
  // The process that read at the start may have stopped.
  if (triedAt < startedAt || age >= interval || age < -INTERVAL_SECONDS) return true;
  return isChangeReported && age >= MIN_INTERVAL_SECONDS;
}

/** Returns the same list unless a hint raises the level of a tool. A hint that is missing is no change. */
function withObservedHints(
  levels: Levels,
  known: readonly CatalogTool[],
  listed: readonly Record<string, unknown>[],
): { tools: readonly CatalogTool[]; isChanged: boolean } {
  const stated = new Map(listed.map(({ name, annotations }) => [name, hintsIn(annotations)]));
  let isChanged = false;
  let isRaised = false;
  const tools = known.map((tool) => {
    const hints = { ...tool.hints, ...stated.get(tool.name) };
    if (isDeepStrictEqual(hints, tool.hints ?? {})) return tool;
    isChanged = true;
    if (!isAtLeast(levels, annotatedLevel(levels, hints), annotatedLevel(levels, tool.hints)))
      return tool;
    isRaised = true;
    return { ...tool, hints };
  });
  return { tools: isRaised ? tools : known, isChanged };
}
