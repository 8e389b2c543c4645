// What the tools of an upstream are, as the resource server last read them. The console, the consent page and doctor read it too.
import { membersOf } from '../json-values.ts';
import type { Upstream } from '../settings/upstreams.ts';
import { acquireLock, type Lock } from '../store/lock.ts';
import type { Store } from '../store/store.ts';

/** Carries the id of an upstream whose catalog changed. */
export const CATALOGS_CHANNEL = 'upstreams';
const catalogKey = (id: string) => `upstream-tools:${id}`;

/** A hint is absent unless the upstream states it as true or false (MCP, tool annotations). */
export type ToolHints = {
  readOnlyHint?: boolean;
  destructiveHint?: boolean;
  idempotentHint?: boolean;
  openWorldHint?: boolean;
};

const HINTS = ['readOnlyHint', 'destructiveHint', 'idempotentHint', 'openWorldHint'] as const;

/** The hints that are stated as true or false. */
export function hintsIn(annotations: unknown): ToolHints {
  const stated = membersOf(annotations);
  return Object.fromEntries(
    HINTS.filter((hint) => typeof stated[hint] === 'boolean').map((hint) => [hint, stated[hint]]),
  );
}

/** Stated by the upstream: untrusted text, shortened. */
export type CatalogTool = { name: string; title?: string; hints?: ToolHints };

/** `rejected`: HTTP 401 or 403, so the caller header was not accepted. `wrong-host`: the `Host` was not accepted. `not-mcp`: the response is not MCP. */
export const DISCOVERY_FAULTS = [
  'unreachable',
  'timeout',
  'rejected',
  'wrong-host',
  'redirected',
  'not-found',
  'failing',
  'too-large',
  'not-mcp',
] as const;
export type DiscoveryFault = (typeof DISCOVERY_FAULTS)[number];

/** Why the last attempt failed. The message completes a sentence that starts with "the MCP server". `remedy` is present if TLS failed. */
export type CatalogFault = { fault: DiscoveryFault; message: string; remedy?: string };

/** Times are seconds since the epoch. */
export type ToolCatalog = {
  /** The address that the tools were read from. A catalog of another address does not count. */
  url: string;
  /** The negotiated protocol revision. */
  revision?: string;
  tools: readonly CatalogTool[];
  /** When the tools were last read; absent if they never were. */
  seenAt?: number;
  /** When the last attempt ended. */
  triedAt: number;
  /** Present if the last attempt failed. `tools` are then those of `seenAt`. */
  error?: CatalogFault;
  /** The upstream answers nobody without a credential, and there is none to read its tools with. What it lists to callers is read then. */
  needsCredential?: true;
};

/** Returns the names in the settings that the MCP server lacks. */
export function missingTools(
  upstream: Pick<Upstream, 'tools'>,
  tools: readonly CatalogTool[],
): string[] {
  const names = new Set(tools.map(({ name }) => name));
  return upstream.tools.map(({ name }) => name).filter((name) => !names.has(name));
}

/**
 * An upstream may have changed its tools since. With `toolLevels: annotations`, tools need the highest level once they could not be read for so
 * long.
 */
const MAX_AGE_SECONDS = 3600;

/** The tools whose annotations count now; the same list while the catalog is the same. */
export function usableTools(catalog: ToolCatalog | undefined, now: number): readonly CatalogTool[] {
  const { tools, seenAt } = catalog ?? {};
  return tools && seenAt !== undefined && now - seenAt < MAX_AGE_SECONDS ? tools : NO_TOOLS;
}

const NO_TOOLS: readonly CatalogTool[] = [];

/** A catalog that nobody refreshes is of no use. */
const LIFETIME_SECONDS = 30 * 86_400;

/** Undefined if the upstream was never tried at its present address. */
export async function findCatalog(
  store: Pick<Store, 'get'>,
  { id, url }: Pick<Upstream, 'id' | 'url'>,
): Promise<ToolCatalog | undefined> {
  const catalog = (await store.get<ToolCatalog>(catalogKey(id)))?.value;
  return catalog?.url === url ? catalog : undefined;
}

export async function saveCatalog(store: Store, id: string, catalog: ToolCatalog): Promise<void> {
  await store.set(catalogKey(id), catalog, LIFETIME_SECONDS);
  // Other processes also read again periodically.
  await store.publish(CATALOGS_CHANNEL, id).catch(() => undefined);
}

/** Calls `work` unless another process does the same at present. Returns whether it was called. */
export async function withDiscoveryLock(
  store: Store,
  id: string,
  work: (lock: Lock) => Promise<void>,
): Promise<boolean> {
  const lock = await acquireLock(store, `upstream-discovery:${id}`);
  if (!lock) return false;
  try {
    await work(lock);
  } finally {
    await lock.release();
  }
  return true;
}
