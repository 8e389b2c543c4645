// The filter of a caller without limits, whose tasks tests control.
import type { Caller } from '../../../src/gateway/authenticate.ts';
import type { TaskOwnership } from '../../../src/gateway/upstream/bound-ids.ts';
import type { FilterOptions } from '../../../src/gateway/upstream/filter.ts';
import { parameterHeaders } from '../../../src/gateway/upstream/headers.ts';
import { levelRules } from '../../../src/upstreams/tool-levels.ts';
import { DEFAULT_LEVELS } from '../levels.ts';

export const caller: Caller = {
  accountId: 'account',
  clientId: 'client',
  tokenId: 'token',
  level: 'full',
  ceiling: 'full',
  minted: false,
};

/** `ownTasks` are known when the call begins; `idsOf` reads all. */
export function filterOptions(
  ownTasks: ReadonlySet<string>,
  idsOf: TaskOwnership['idsOf'],
): FilterOptions {
  const rules = levelRules(DEFAULT_LEVELS, {
    tools: [],
    defaultLevel: 'full',
  } as unknown as Parameters<typeof levelRules>[1]);
  return {
    extensions: {},
    rules: () => rules,
    caller,
    tasks: { add: () => Promise.resolve(), idsOf },
    ownTasks,
    ids: { bind: (_kind, _caller, handle) => handle, unbind: () => undefined },
    parameterHeaders: parameterHeaders(),
    onToolsChanged: () => undefined,
    onToolsListed: () => Promise.resolve(),
    holds: {
      state: () => '',
      shown: async ({ tools }) => tools,
      reason: () => undefined,
      areInstructionsShown: async () => true,
    },
    isListening: true,
    startsLists: false,
  };
}
