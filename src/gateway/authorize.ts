// Decides whether a caller's permission level is enough for a call (RFC 6750 section 3.1, MCP authorization).
import type { Connector } from '../links/connector.ts';
import { isMachineSubject } from '../connections/machine-subject.ts';
import { HttpError } from '../http/errors.ts';
import { isAtLeast, type Level, type Levels } from '../permission-levels.ts';
import { type Caller, challenge } from './authenticate.ts';
import type { Addresses } from './metadata.ts';

export type Decision = 'allowed' | 'step-up' | 'dpop-required' | 'forbidden';

/** `tool` is the name of the tool or, for other requests, the method. */
export type RequiredLevel = {
  level: Level;
  tool: string;
  /** The server has no such tool, so no level would help. */
  isUnknown?: true;
};

/**
 * `step-up`: the person can grant the level (403 `insufficient_scope`). `dpop-required`: only to a client with DPoP. `forbidden`: nobody can
 * grant it on this link.
 */
export function authorize(
  levels: Levels,
  caller: Pick<Caller, 'level' | 'ceiling' | 'ceilingWithDpop' | 'minted'>,
  required: Level,
): Decision {
  if (isAtLeast(levels, caller.level, required)) return 'allowed';
  if (caller.minted) return 'forbidden';
  if (isAtLeast(levels, caller.ceiling, required)) return 'step-up';
  const { ceilingWithDpop = caller.ceiling } = caller;
  return isAtLeast(levels, ceilingWithDpop, required) ? 'dpop-required' : 'forbidden';
}

/** Throws 403 if the person can grant the missing level. Other denied calls pass: the MCP handler returns a tool error. */
export function challengeForStepUp(
  levels: Levels,
  addresses: Addresses,
  connector: Connector,
  caller: Caller,
  required: RequiredLevel | undefined,
): void {
  if (!required || required.isUnknown) return;
  if (authorize(levels, caller, required.level) !== 'step-up') return;
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
  decision: Exclude<Decision, 'allowed'>,
): string {
  const needs = `${tool} needs the permission level ${level}, and this call was made with ${caller.level}.`;
  if (decision === 'step-up')
    return `${needs} Call it in a separate request to be asked for that level.`;
  if (decision === 'dpop-required')
    return `${needs} Only an app that supports DPoP (RFC 9449) can get ${level} here.`;
  const source = sourceOf(caller);
  return `${needs} A higher level cannot be granted here. Ask an administrator of ${productName} for a ${source} with the level ${level}.`;
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
