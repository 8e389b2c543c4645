// The tools that people with a connection lose by a change of its connector.
import type { LostTools } from '../connections/affected.ts';
import type { Connection } from '../connections/connection.ts';
import { isMachineSubject } from '../connections/machine-subject.ts';
import type { Connector } from '../links/connector.ts';
import { findAccount } from '../people/accounts.ts';
import { matchingRules } from '../people/entitlement.ts';
import { findUpstream } from '../settings/upstreams.ts';
import { rightsAt, verdictOn } from '../upstreams/opened-tools.ts';
import { selectionOf } from '../upstreams/tool-access.ts';
import { findKnownTools } from '../upstreams/tool-pin-records.ts';
import type { ManagementContext } from './context.ts';
import { knownServer } from './explained-tools.ts';

type Change = { before: Connector; after: Connector };

/** Undefined if the change is about no list, or the tools of the server are not known. */
export async function lostToolsBy(
  { settings, services: { store, now } }: ManagementContext,
  { before, after }: Change,
): Promise<LostTools | undefined> {
  const upstream = findUpstream(settings.upstreams, after);
  if (!upstream || JSON.stringify(before.tools) === JSON.stringify(after.tools)) return undefined;
  const known = await findKnownTools(store, upstream);
  const { tools } = knownServer(settings, upstream, known, now());
  const namesFor = (connector: Connector, { level }: Connection, matching: Matching) => {
    if (level === undefined) return [];
    const rights = rightsAt(level, selectionOf({ connector }, matching));
    return tools
      .filter((tool) => verdictOn(settings.levels, rights, tool).decision === 'allowed')
      .map(({ name }) => name);
  };
  return async (was, becomes) => {
    const { id } = was.account;
    const account = isMachineSubject(id) ? undefined : await findAccount(store, id);
    const via = account?.neverSignedIn ? 'id-jag' : 'sign-in';
    const matching = account ? matchingRules(settings, account, via) : [];
    const left = new Set(namesFor(after, becomes, matching));
    return namesFor(before, was, matching).filter((name) => !left.has(name));
  };
}

type Matching = Parameters<typeof selectionOf>[1];
