// Which permission level a tool call needs, and what to answer a caller that holds less (RFC 6750 section 3.1, MCP authorization).
import { isAtLeast } from '../permission-level.ts';
import type { Level } from '../permission-level.ts';

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
};

export type Decision = 'allowed' | 'step-up' | 'never';
export type ToolCall = { tool: string; arguments: unknown };
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

/** The `tools/call` messages in a parsed JSON-RPC body, be it one message or a batch; whatever else it holds is passed over. */
export function toolCallsIn(body: unknown): ToolCall[] {
  return (Array.isArray(body) ? body : [body]).flatMap((message: unknown) => {
    const { method, params } = membersOf(message);
    const { name, arguments: given } = membersOf(params);
    return method === 'tools/call' && typeof name === 'string'
      ? [{ tool: name, arguments: given }]
      : [];
  });
}

/** The highest level that the tool calls in `body` need, and the tool that needs it; undefined when nothing known is called. */
export function neededLevel(body: unknown, levels: ReadonlyMap<string, Level>): Needed | undefined {
  return toolCallsIn(body).reduce<Needed | undefined>((highest, { tool }) => {
    const level = levels.get(tool);
    if (!level || (highest && isAtLeast(highest.level, level))) return highest;
    return { level, tool };
  }, undefined);
}

function membersOf(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? { ...value } : {};
}
