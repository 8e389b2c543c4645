// Checks the arguments of tool calls against the approved input schemas (argument-checker.ts).
import { membersOf } from '../../json-values.ts';
import type { Services } from '../../services.ts';
import type { Upstream } from '../../settings/upstreams.ts';
import type { Caller } from '../authenticate.ts';
import { type Message, toolErrorResponse } from '../json-rpc.ts';
import { type ArgumentChecker, openArgumentChecker, type Outcome } from './argument-checker.ts';
import { refuseBatch } from './levels.ts';
import type { ToolPinning } from './tool-pinning.ts';

/** Returns the responses if the arguments of a message do not fit. */
export type CheckArguments = (
  caller: Caller,
  messages: readonly Message[],
) => Promise<object[] | undefined>;

export function validation({ validateArguments, toolChanges }: Upstream): boolean | 'warn' {
  return validateArguments ?? toolChanges === 'hold';
}

const NOTHING: CheckArguments = async () => undefined;

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
    const texts = await Promise.all(
      messages.map((message) => misfit(checker, pinning, caller, message)),
    );
    for (const [n, text] of texts.entries()) {
      if (text === undefined) continue;
      metrics.argumentViolation(upstream.id);
      if (mode !== 'warn') continue;
      const { name } = membersOf(messages[n]?.params);
      const details = { what: upstream.id, tool: name, reason: text };
      logger.warn(details, 'arguments of a tool do not fit its input schema');
    }
    if (mode === 'warn') return undefined;
    return refuseBatch(
      messages,
      texts.map((text, n) =>
        text === undefined ? undefined : toolErrorResponse(messages[n]?.id, text),
      ),
    );
  };
}

/** What is wrong with the arguments of a call, for the model. */
async function misfit(
  checker: ArgumentChecker,
  pinning: ToolPinning,
  caller: Caller,
  { method, params }: Message,
): Promise<string | undefined> {
  if (method !== 'tools/call') return undefined;
  const name = String(params?.['name']);
  let first: Outcome | undefined;
  for (const digest of pinning.schemasFor(name, caller.grantId ?? caller.tokenId)) {
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
  if (!first) return undefined;
  if (first.slow)
    return `The arguments of ${name} could not be checked in time, so the call was not made. Use simpler arguments.`;
  return `The arguments of ${name} do not fit its input schema, so the call was not made: ${first.violation}. Correct them and call it again.`;
}
