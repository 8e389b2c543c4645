// Checks the arguments of tool calls against the approved input schemas (argument-checker.ts).
import { membersOf } from '../../json-values.ts';
import type { Services } from '../../services.ts';
import type { Upstream } from '../../settings/upstreams.ts';
import { type Caller, connectionOf } from '../authenticate.ts';
import { type Message, toolErrorResponse } from '../json-rpc.ts';
import { type ArgumentChecker, openArgumentChecker, type Outcome } from './argument-checker.ts';
import { refuseBatch } from './levels.ts';
import type { ToolPinning } from './tool-pinning.ts';

/** Returns the responses if the arguments of a message do not fit. Undefined at once if nothing is checked. */
export type CheckArguments = (
  caller: Caller,
  messages: readonly Message[],
) => Promise<object[] | undefined> | undefined;

export function validation({ validateArguments, toolChanges }: Upstream): boolean | 'warn' {
  return validateArguments ?? toolChanges === 'hold';
}

const NOTHING: CheckArguments = () => undefined;

export async function openArgumentCheck(
  services: Services,
  upstream: Upstream,
  pinning: ToolPinning,
): Promise<CheckArguments> {
  const mode = validation(upstream);
  if (mode === false) return NOTHING;
  const { metrics, logger } = services;
  const checker = await services.keep('argument checker', ({ resources }) => {
    const opened = openArgumentChecker();
    resources.defer(opened.close);
    return opened;
  });
  return async (caller, messages) => {
    const misfits = await Promise.all(
      messages.map((message) => misfit(checker, pinning, caller, message)),
    );
    for (const [n, found] of misfits.entries()) {
      if (!found) continue;
      metrics.argumentViolation(upstream.id);
      if (mode !== 'warn') continue;
      const { name } = membersOf(messages[n]?.params);
      const reason = found.violation ?? 'they could not be checked in time';
      logger.warn(
        { what: upstream.id, tool: name, reason },
        'arguments of a tool do not fit its input schema',
      );
    }
    if (mode === 'warn') return undefined;
    return refuseBatch(
      messages,
      misfits.map((found, n) => {
        const { id, params } = messages[n] ?? {};
        return found && toolErrorResponse(id, textOf(String(params?.['name']), found));
      }),
    );
  };
}

/** For the model. */
function textOf(tool: string, { slow, violation }: Outcome): string {
  return slow
    ? `The arguments of ${tool} could not be checked in time, so the call was not made. Use simpler arguments.`
    : `The arguments of ${tool} do not fit its input schema, so the call was not made: ${violation}. Correct them and call it again.`;
}

/** What is wrong with the arguments of a call; undefined if they fit one of the approved schemas. */
async function misfit(
  checker: ArgumentChecker,
  pinning: ToolPinning,
  caller: Caller,
  { method, params }: Message,
): Promise<Outcome | undefined> {
  if (method !== 'tools/call') return undefined;
  const name = String(params?.['name']);
  let first: Outcome | undefined;
  for (const digest of pinning.schemasFor(name, connectionOf(caller))) {
    const outcome = await checker.check(
      digest,
      () => pinning.findSchema(digest),
      params?.['arguments'],
    );
    if (outcome.unusable !== undefined)
      await pinning.noteFault(name, digest, outcome.unusable).catch(() => undefined);
    if (outcome.violation === undefined && !outcome.slow) return undefined;
    first ??= outcome;
  }
  return first;
}
