// Lists the tools of the operator's MCP server.
import {
  Client,
  ProtocolError,
  SUPPORTED_PROTOCOL_VERSIONS,
  type RequestOptions,
  StreamableHTTPClientTransport,
  type VersionNegotiationOptions,
} from '@modelcontextprotocol/client';
import * as z from 'zod';
import { type CatalogTool, hintsIn } from '../../upstreams/tool-catalog.ts';
import { membersOf } from '../../json-values.ts';
import { OLDER_REVISION, STATELESS_SINCE } from './headers.ts';
import { DiscoveryError, otherFault } from './discovery-faults.ts';
import { type DiscoveryOptions, headersOf, openConnection } from './discovery-connection.ts';
import { printable } from '../../printable-text.ts';
import { findsParts, maskJson, maskText } from './quoting.ts';

/** `revision` is the negotiated protocol revision. */
export type Discovered = {
  revision: string;
  tools: CatalogTool[];
  /** The tools of each page as they came. */
  pages: readonly (readonly unknown[])[];
  /** The server named a page again that was read, so the list ended there. */
  repeatsPages: boolean;
  instructions: string | undefined;
};

const MAX_PAGES = 50;
export const MAX_TOOLS = 2000;
const MAX_TITLE_LENGTH = 120;

/** Lists the tools, over any revision of MCP. Rejects with DiscoveryError within the timeout and END_SESSION_MS. */
export async function discoverTools(options: DiscoveryOptions): Promise<Discovered> {
  const { close, ...discovered } = await openTools(options);
  await close();
  return discovered;
}

/** Lists the tools like `discoverTools`, and calls `onChanged` when the upstream says that its list changed, until `close` or a broken stream. */
export async function watchTools(
  options: DiscoveryOptions,
  onChanged: () => void,
): Promise<Discovered & { close: () => Promise<void> }> {
  return openTools(options, onChanged);
}

type OpenedTools = Discovered & { close: () => Promise<void> };

/**
 * An older server may answer a request that it does not know with an error, in another form or never. Only a list of revisions means that it
 * is of the newer kind (MCP 2026-07-28, versioning).
 */
const PROBE_MS = 3000;
const OLDER_REVISIONS = SUPPORTED_PROTOCOL_VERSIONS.filter(
  (revision) => revision <= OLDER_REVISION,
);

async function openTools(options: DiscoveryOptions, onChanged?: () => void): Promise<OpenedTools> {
  const time = AbortSignal.timeout(options.timeout);
  const signal = options.signal ? AbortSignal.any([options.signal, time]) : time;
  const probe = { timeoutMs: Math.min(PROBE_MS, options.timeout / 3) };
  const newer = await connect(options, { mode: { pin: STATELESS_SINCE }, probe }, signal, onChanged)
    // The older kind is tried next.
    .catch(() => undefined);
  const legacy = (versions?: string[]) =>
    connect(options, { mode: 'legacy' }, signal, onChanged, versions);
  const connection =
    newer ??
    (await legacy().catch((error: unknown) => {
      if (error instanceof DiscoveryError && error.isBadRequest) return legacy(OLDER_REVISIONS);
      throw error;
    }));
  return connection.read();
}

/** Rejects with DiscoveryError. */
async function connect(
  options: DiscoveryOptions,
  versionNegotiation: VersionNegotiationOptions,
  signal: AbortSignal,
  onChanged: (() => void) | undefined,
  supportedProtocolVersions?: string[],
): Promise<{ read: () => Promise<OpenedTools> }> {
  const connection = openConnection(options, signal, onChanged !== undefined);
  const headers = await headersOf(options);
  const transport = new StreamableHTTPClientTransport(new URL(options.url), {
    fetch: connection.fetch,
    requestInit: { headers },
  });
  const client = new Client(
    { name: 'gatehouse', version: options.version },
    {
      versionNegotiation,
      ...(supportedProtocolVersions ? { supportedProtocolVersions } : {}),
      ...(onChanged ? { listChanged: { tools: { autoRefresh: false, onChanged } } } : {}),
    },
  );
  const limits = { signal: connection.signal, timeout: options.timeout };
  const close = async () => {
    await transport.terminateSession().catch(() => undefined);
    await connection.endLeftSession(options.url, headers).catch(() => undefined);
    await client.close().catch(() => undefined);
    connection.close();
  };
  const attempt = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      // The client ignores the signal in some places.
      return await Promise.race([work(), rejectedBy(connection.signal)]);
    } catch (error) {
      await close();
      if (error instanceof DiscoveryError) throw error;
      throw connection.fault() ?? otherFault(error, signal, options);
    }
  };
  await attempt(() => client.connect(transport, limits));
  return {
    read: () =>
      attempt(async () => {
        const { pages: read, repeatsPages } = await listTools(client, limits);
        const { token = '' } = options;
        const pages = maskJson(read, token);
        const listed = pages.flat().map(membersOf);
        const reveals = findsParts(options.credentials);
        const revision = client.getNegotiatedProtocolVersion() ?? '';
        const tools = listed.flatMap((tool) => toolOf(tool, reveals));
        const said = client.getInstructions();
        const instructions = said && maskText(said, token);
        return { revision, tools, pages, repeatsPages, instructions, close };
      }),
  };
}

/** Less strict than the client's own schema, which refuses all tools for one with `"title": null` or another schema than an object. */
const TOOLS_PAGE = z.looseObject({
  tools: z.array(z.unknown()),
  nextCursor: z.string().optional().catch(undefined),
});

/** Returns the tools of each page. A repeated cursor ends the list. */
async function listTools(
  client: Client,
  limits: RequestOptions,
): Promise<Pick<Discovered, 'repeatsPages'> & { pages: unknown[][] }> {
  const pages: unknown[][] = [];
  let count = 0;
  const cursors = new Set<string | undefined>();
  let cursor: string | undefined;
  do {
    cursors.add(cursor);
    const params = cursor === undefined ? {} : { params: { cursor } };
    const page = await client
      .request({ method: 'tools/list', ...params }, TOOLS_PAGE, limits)
      .catch((error: unknown) => {
        const hasTools = pages.length > 0 || client.getServerCapabilities()?.tools !== undefined;
        if (hasTools || !(error instanceof ProtocolError)) throw error;
        return { tools: [], nextCursor: undefined };
      });
    pages.push(page.tools);
    count += page.tools.length;
    cursor = page.nextCursor;
    if (count > MAX_TOOLS)
      throw new DiscoveryError('too-large', `lists more than ${MAX_TOOLS} tools`);
    if (cursors.size > MAX_PAGES)
      throw new DiscoveryError('too-large', `lists its tools on more than ${MAX_PAGES} pages`);
  } while (cursor !== undefined && !cursors.has(cursor));
  return { pages, repeatsPages: cursor !== undefined };
}

function rejectedBy(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}

/** Nobody can call a tool with a longer name. */
const MAX_TOOL_NAME_LENGTH = 512;

type ListedTool = Record<string, unknown>;

/** A title that `reveals` finds a credential in is left out, because people see titles. */
export function toolOf(
  { name, title, annotations }: ListedTool,
  reveals: (text: string) => boolean,
): CatalogTool[] {
  if (typeof name !== 'string' || name.length > MAX_TOOL_NAME_LENGTH) return [];
  const stated = membersOf(annotations);
  const text = printable(String(title ?? stated['title'] ?? ''), MAX_TITLE_LENGTH);
  const hints = hintsIn(annotations);
  return [
    {
      name,
      ...(text === '' || reveals(text) ? {} : { title: text }),
      ...(Object.keys(hints).length === 0 ? {} : { hints }),
    },
  ];
}
