// Which permission level a tool call needs, and what to answer a caller that holds less (RFC 6750 section 3.1, MCP authorization).
import { isAtLeast } from '../permission-level.ts';
import type { Level } from '../permission-level.ts';
import { membersOf } from './messages.ts';

/**
 * Who is calling, as read from a checked access token. `ceiling` is the most the caller could ever be granted here: the
 * connector's level, or for a minted token its own.
 */
export type Caller = {
  accountId: string;
  clientId: string;
  connector?: string;
  grantId?: string;
  tokenId: string;
  level: Level;
  ceiling: Level;
  minted: boolean;
  /** Of the key that the token is bound to (RFC 7638), which each request has to prove. */
  keyThumbprint?: string;
};

export type Decision = 'allowed' | 'step-up' | 'never';
export type Needed = { level: Level; tool: string };

/** `step-up`: the person may grant what is missing (403 `insufficient_scope`); `never`: no authorization on this link gives it. */
export function decide(
  caller: Pick<Caller, 'level' | 'ceiling' | 'minted'>,
  needed: Level,
): Decision {
  if (isAtLeast(caller.level, needed)) return 'allowed';
  return !caller.minted && isAtLeast(caller.ceiling, needed) ? 'step-up' : 'never';
}

/** Says who can give what is missing. `step-up` comes here only in a batch whose highest call is beyond the link. */
export function refusal(
  productName: string,
  caller: Caller,
  { tool, level }: Needed,
  decision: 'step-up' | 'never',
): string {
  const needs = `${tool} needs the permission level ${level}, and this call was made with ${caller.level}.`;
  if (decision === 'step-up') return `${needs} Call it by itself to be asked for that level.`;
  const asked = caller.minted ? 'token minted' : 'connect link';
  return `${needs} No more can be had here. Ask whoever runs ${productName} for a ${asked} with the level ${level}.`;
}

/** The highest level that the messages of a parsed JSON-RPC body need, be it one message or a batch; undefined when they need none. */
export function highestNeeded(
  body: unknown,
  neededBy: (message: unknown) => Needed | undefined,
): Needed | undefined {
  const messages: unknown[] = Array.isArray(body) ? body : [body];
  return messages
    .map(neededBy)
    .reduce(
      (highest, needed) =>
        !needed || (highest && isAtLeast(highest.level, needed.level)) ? highest : needed,
      undefined,
    );
}

/** The same by the levels of the tools that are called; undefined when nothing known is called. */
export function neededLevel(body: unknown, levels: ReadonlyMap<string, Level>): Needed | undefined {
  return highestNeeded(body, (message) => {
    const { method, params } = membersOf(message);
    const { name: tool } = membersOf(params);
    const level =
      method === 'tools/call' && typeof tool === 'string' ? levels.get(tool) : undefined;
    return level && { level, tool: String(tool) };
  });
}
