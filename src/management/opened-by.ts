// What the list of a connector, machine or minted token opens of the tools that are known.
import type { Level } from '../permission-levels.ts';
import { findUpstream } from '../settings/upstreams.ts';
import { isOpen, rightsAt } from '../upstreams/opened-tools.ts';
import { type ListOwner, selectionOf } from '../upstreams/tool-access.ts';
import { findKnownTools } from '../upstreams/tool-pin-records.ts';
import { opensLaterTools, unmatchedPatterns } from '../upstreams/tool-list.ts';
import type { ManagementContext } from './context.ts';
import { knownServer } from './explained-tools.ts';
import type { Opened } from './resources/opened.ts';

type Opener = {
  level: Level;
  upstream?: string | undefined;
  tools?: readonly string[] | undefined;
};

/** Returns nothing for a record without a list, and while the tools of its server are not known. */
export async function openedBy(
  { settings, services: { store, now } }: ManagementContext,
  of: ListOwner,
  record: Opener,
): Promise<{ opened?: Opened }> {
  const { level, tools } = record;
  const upstream = findUpstream(settings.upstreams, record);
  if (!tools || !upstream) return {};
  const server = knownServer(settings, upstream, await findKnownTools(store, upstream), now());
  if (!server.isRead) return {};
  const openWith = (selection: ReturnType<typeof selectionOf>) =>
    server.tools
      .filter((tool) => isOpen(settings.levels, rightsAt(level, selection), tool))
      .map(({ name }) => name);
  const open = openWith(selectionOf({ [of]: { tools } }));
  const names = server.tools.map(({ name }) => name);
  return {
    opened: {
      tools: open,
      unmatched: unmatchedPatterns(tools, names),
      isEverything: open.length === openWith({}).length,
      includesLater: opensLaterTools(tools),
    },
  };
}
