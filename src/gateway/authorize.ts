// Decides whether a caller's permission level is enough for a call (RFC 6750 section 3.1, MCP authorization).
import type { Connector } from '../links/connector.ts';
import { isMachineSubject } from '../connections/machine-subject.ts';
import { HttpError } from '../http/errors.ts';
import { isAtLeast, type Level, type Levels } from '../permission-levels.ts';
import {
  decide,
  decideByLevel,
  type ForbiddenBy,
  type Needed,
  type Rights,
  type Verdict,
} from '../upstreams/tool-access.ts';
import { type Caller, challenge } from './authenticate.ts';
import type { Addresses } from './metadata.ts';

export { decideByLevel as authorize };

/** `tool` is the name of the tool or, for other requests, the method. */
export type RequiredLevel = {
  level: Level;
  tool: string;
  /** What lists of the caller have to open. Default: the tool. */
  items?: readonly Needed[];
  /** The server has no such tool, so no level would help. */
  isUnknown?: true;
};

/** Decides about a request. One that needs no level is allowed. */
export function authorizeRequest(
  levels: Levels,
  caller: Rights,
  required: RequiredLevel | undefined,
): Verdict {
  if (!required) return { decision: 'allowed' };
  const { level, tool } = required;
  const items = required.items ?? [{ kind: 'tool', name: tool, isListed: true, level }];
  return decide(levels, caller, { level, items });
}

/** Throws 403 if the person can grant the missing level of every message. Other denied calls pass: the MCP handler returns a tool error. */
export function challengeForStepUp(
  levels: Levels,
  addresses: Addresses,
  connector: Connector,
  caller: Caller,
  needed: readonly (RequiredLevel | undefined)[],
): void {
  const required = highestRequired(levels, needed);
  if (!required || required.isUnknown) return;
  if (decideByLevel(levels, caller, required.level) !== 'step-up') return;
  const isDenied = (each: RequiredLevel | undefined) =>
    authorizeRequest(levels, caller, each).decision === 'forbidden';
  if (needed.some(isDenied)) return;
  const { level, tool } = required;
  throw insufficientScope(addresses, connector, caller, {
    level,
    message: `the tool ${tool} needs the level ${level}: sign in again and allow it`,
  });
}

/** Asks the app to get the level (MCP authorization, step-up). Pass a level that the person can grant. */
export function insufficientScope(
  addresses: Addresses,
  connector: Connector,
  caller: Caller,
  { level, message }: { level: Level; message: string },
): HttpError {
  const header = challenge(addresses, connector, {
    error: 'insufficient_scope',
    scope: level,
    scheme: caller.keyThumbprint === undefined ? 'Bearer' : 'DPoP',
  });
  return new HttpError(403, 'insufficient_scope', message, {
    headers: { 'WWW-Authenticate': header },
  });
}

/** Explains a denied call. `step-up` occurs only in a batch with another call that is forbidden. */
export function denialText(
  productName: string,
  caller: Caller,
  { tool, level }: RequiredLevel,
  verdict: Verdict,
): string {
  const { decision } = verdict;
  if (decision === 'forbidden' && verdict.by !== 'level')
    return closedText(productName, tool, verdict.by);
  const needs = `${tool} needs the permission level ${level}, and this call was made with ${caller.level}.`;
  if (decision === 'step-up')
    return `${needs} Call it in a separate request to be asked for that level.`;
  if (decision === 'dpop-required')
    return `${needs} Only an app that supports DPoP (RFC 9449) can get ${level} here.`;
  const source = sourceOf(caller);
  return `${needs} A higher level cannot be granted here. Ask an administrator of ${productName} for a ${source} with the level ${level}.`;
}

const CLOSED: Record<Exclude<ForbiddenBy, 'level'>, string> = {
  connector: 'this connect link does not open it',
  machine: 'this machine does not open it',
  token: 'this minted token does not open it',
  rule: 'no entitlement of this person opens it',
  name: 'its name is too similar to another',
  held: 'an administrator is reviewing it',
};

function closedText(productName: string, tool: string, by: keyof typeof CLOSED): string {
  return `${tool} cannot be used here: ${CLOSED[by]}. No sign-in changes that. Ask an administrator of ${productName}.`;
}

function sourceOf({ minted, accountId }: Caller): string {
  if (minted) return 'token minted';
  return isMachineSubject(accountId) ? 'machine' : 'connect link';
}

/** The highest of the levels that the messages of a body need. */
export function highestRequired(
  levels: Levels,
  required: readonly (RequiredLevel | undefined)[],
): RequiredLevel | undefined {
  return required.reduce(
    (highest, next) =>
      !next || (highest && isAtLeast(levels, highest.level, next.level)) ? highest : next,
    undefined,
  );
}
