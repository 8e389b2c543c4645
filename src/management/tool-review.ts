// What a server changed in its tools, for an operator to approve, or with `toolChanges: follow` to look at.
import { recordChanges } from '../audit/recorded-change.ts';
import { HttpError, notFound } from '../http/errors.ts';
import { membersOf } from '../json-values.ts';
import { isUsable } from '../links/connector.ts';
import { listConnectors } from '../links/connectors.ts';
import { listMintedTokens } from '../links/minted-tokens.ts';
import { highestLevel, isAtLeast, type Level, lowest } from '../permission-levels.ts';
import { findUpstream, type Upstream as Configured } from '../settings/upstreams.ts';
import { rightsAt } from '../upstreams/opened-tools.ts';
import { decide, type Needed, selectionOf } from '../upstreams/tool-access.ts';
import { hintsIn, type ToolHints } from '../upstreams/tool-catalog.ts';
import { strictestLevel } from '../upstreams/tool-levels.ts';
import { compareTool, similarNames, visible } from '../upstreams/tool-differences.ts';
import { findPins, findText, updatePins } from '../upstreams/tool-pin-records.ts';
import {
  type Approval,
  approvedPins,
  hintsOfCallers,
  INSTRUCTIONS,
  NO_PINS,
  NotCurrent,
  type Pin,
  pinsInMode,
  type ToolPins,
} from '../upstreams/tool-pins.ts';
import { findMachines } from './apply/machines.ts';
import type { ManagementContext } from './context.ts';
import { isoTime } from './represent.ts';
import type { ToolReview } from './resources/tool-review.ts';

/** A change that waits. `digest` names it: the text that would be approved, or that of a removed tool. */
type Waiting = {
  name: string;
  change: 'new' | 'changed' | 'removed';
  digest: string;
  from?: string | undefined;
  to?: string | undefined;
  /** When it was first seen, in seconds since the epoch. */
  at?: number;
  pin: Pin;
};

/** At most; the first are approved or looked at before others are shown. */
const MAX_SHOWN = 200;

export async function reviewTools(
  management: ManagementContext,
  upstream: Configured,
): Promise<ToolReview> {
  const { store } = management.services;
  const { id, toolChanges } = upstream;
  const pins = pinsInMode((await findPins(store, id)) ?? NO_PINS, toolChanges);
  const present = pins.tools.filter(([, pin]) => pin.latest !== undefined);
  const similarTo = similarNames(present.map(([name]) => name));
  const ofCallers = hintsOfCallers(pins);
  const waiting = pins.tools.flatMap(([name, pin]) => waitingIn(name, pin, pins));
  const tools = await Promise.all(
    waiting.slice(0, MAX_SHOWN).map(async ({ name, change, digest, from, to, at, pin }) => {
      const [before, after] = await Promise.all([textOf(store, id, from), textOf(store, id, to)]);
      const { severity, differences } = compareTool(before, after, similarTo);
      // The text that Gatehouse read last counts too.
      const isOfCallers =
        pin.latest !== undefined && pin.pending.some((one) => one.digest === digest && !one.isOwn);
      const others = ofCallers.get(name) ?? [];
      const gains = isOfCallers
        ? undefined
        : await gainsOf(management, upstream, { name, before, after, others });
      const isAmbiguous = pin.isTwice === true || (pin.twins ?? []).length > 0;
      return {
        name,
        change,
        digest,
        ...(at === undefined ? {} : { since: isoTime(at) }),
        severity: isAmbiguous ? ('alert' as const) : severity,
        differences,
        ...(gains ? { gains } : {}),
        ...(pin.twins && pin.twins.length > 0 ? { similarTo: [...pin.twins] } : {}),
        ...(pin.isTwice ? { isTwice: true as const } : {}),
      };
    }),
  );
  const [text] = pins.instructions ? waitingIn(INSTRUCTIONS, pins.instructions, pins) : [];
  return {
    tools: [
      ...tools.filter(({ severity }) => severity === 'alert'),
      ...tools.filter(({ severity }) => severity === 'note'),
    ],
    ...(waiting.length > MAX_SHOWN ? { more: waiting.length - MAX_SHOWN } : {}),
    ...(text ? { instructions: await instructionsIn(store, id, text) } : {}),
  };
}

/** How many changes wait for the review. */
export function countChanges(known: ToolPins | undefined, { toolChanges }: Configured): number {
  const pins = pinsInMode(known ?? NO_PINS, toolChanges);
  return [
    ...pins.tools,
    ...(pins.instructions ? [[INSTRUCTIONS, pins.instructions] as const] : []),
  ].flatMap(([name, pin]) => waitingIn(name, pin, pins)).length;
}

/** Who can use the tool if the text after the change is in force, and could not before. Undefined unless a lower level opens it. */
async function gainsOf(
  management: ManagementContext,
  { id, tools, toolLevels }: Configured,
  {
    name,
    before,
    after,
    others,
  }: { name: string; before: unknown; after: unknown; others: readonly ToolHints[] },
): Promise<ToolReview['tools'][number]['gains']> {
  const isDeclared = tools.some((each) => each.name === name);
  if (toolLevels !== 'annotations' || isDeclared || after === undefined) return undefined;
  const { settings, services } = management;
  const { store, now } = services;
  const { levels } = settings;
  const levelOf = (tool: unknown) =>
    strictestLevel(levels, [hintsIn(membersOf(tool)['annotations']), ...others]);
  const level = levelOf(after);
  const earlier = before === undefined ? highestLevel(levels) : levelOf(before);
  if (isAtLeast(levels, level, earlier)) return undefined;
  const isOpen = (opener: Opener) => {
    const { level: held, connector = opener, machine } = opener;
    const rights = rightsAt(
      lowest(levels, held, connector.level),
      selectionOf({ connector, machine }),
    );
    const of = (needed: Level): Needed => ({ kind: 'tool', name, isListed: true, level: needed });
    const decisionAt = (needed: Level) =>
      decide(levels, rights, { level: needed, items: [of(needed)] }).decision;
    return decisionAt(level) === 'allowed' && decisionAt(earlier) !== 'allowed';
  };
  const leadsHere = (opener: Opener) => findUpstream(settings.upstreams, opener)?.id === id;
  const [all, tokens, machines] = await Promise.all([
    listConnectors(store),
    listMintedTokens(store, now()),
    findMachines(management),
  ]);
  const connectors = all.filter((connector) => isUsable(connector, now(), settings));
  const connectorOf = (named: string) =>
    connectors.find((connector) => [connector.id, connector.name].includes(named));
  const programs = [
    ...machines.flatMap(({ isRevoked, name: called, machine }) =>
      isRevoked || machine.expiresAt <= now() ? [] : [{ ...machine, name: called }],
    ),
    ...settings.authorization.trustedIssuers.flatMap(({ id: issuer, workloads = [] }) =>
      workloads
        .filter(({ expires = Infinity }) => expires > now())
        .map((rule) => ({ ...rule, name: `${issuer}:${rule.id}` })),
    ),
  ].flatMap((program) => {
    const connector = connectorOf(program.connector);
    return connector
      ? [{ ...program, upstream: connector.upstream, connector, machine: { tools: program.tools } }]
      : [];
  });
  const gaining = [...connectors, ...tokens, ...programs].filter(
    (opener: Opener) => leadsHere(opener) && isOpen(opener),
  );
  const names = gaining.slice(0, MAX_GAINING).map((opener) => opener.name);
  return {
    before: earlier,
    after: level,
    through: names,
    ...(gaining.length > names.length ? { more: gaining.length - names.length } : {}),
  };
}

type WithTools = { tools?: readonly string[] | undefined };

/** A machine or workload has its connector. */
type Opener = WithTools & {
  level: Level;
  upstream?: string | undefined;
  connector?: WithTools & { level: Level };
  machine?: WithTools;
};

const MAX_GAINING = 50;

type Texts = ManagementContext['services']['store'];

function textOf(store: Texts, id: string, digest: string | undefined): Promise<unknown> {
  return digest === undefined ? Promise.resolve(undefined) : findText(store, id, digest);
}

async function instructionsIn(store: Texts, id: string, { digest, from, to }: Waiting) {
  const [before, after] = await Promise.all([textOf(store, id, from), textOf(store, id, to)]);
  const { severity } = compareTool(before, after);
  return {
    digest,
    severity,
    ...(typeof before === 'string' ? { before: visible(before) } : {}),
    after: visible(String(after ?? '')),
  };
}

function waitingIn(name: string, pin: Pin, { mode, since }: ToolPins): Waiting[] {
  const { change } = pin;
  if (mode === 'follow') {
    const digest = change && (change.to ?? change.from);
    if (!change || digest === undefined) return [];
    const { at, from, to } = change;
    return [{ name, change: kindOf(change), digest, from, to, at, pin }];
  }
  const from = pin.approved.at(-1)?.digest;
  const pending = pin.pending.map(({ digest, at }) => ({
    name,
    change: kindOf({ from, to: digest }),
    digest,
    from,
    to: digest,
    at,
    pin,
  }));
  const isRemoved = since !== undefined && pin.latest === undefined && from !== undefined;
  if (!isRemoved || pending.length > 0 || name === INSTRUCTIONS) return pending;
  return [{ name, change: 'removed', digest: from, from, pin }];
}

function kindOf({ from, to }: Pick<Waiting, 'from' | 'to'>): Waiting['change'] {
  if (to === undefined) return 'removed';
  return from === undefined ? 'new' : 'changed';
}

export type ApproveBody = {
  tools?: readonly Approval[] | undefined;
  instructions?: string | undefined;
};

/** Throws HttpError 409, and approves nothing, if something is not as it was shown. */
export async function approveTools(
  { services, by }: ManagementContext,
  { id, toolChanges }: Configured,
  { tools = [], instructions }: ApproveBody,
): Promise<void> {
  const { store, now } = services;
  if (!(await findPins(store, id)))
    throw notFound('the tools of this MCP server were not read yet');
  const approvals = [
    ...tools,
    ...(instructions === undefined ? [] : [{ name: INSTRUCTIONS, digest: instructions }]),
  ];
  const items = approvals.map(({ name, digest }) => ({
    event: 'tools_approved',
    by,
    upstream: id,
    ...(name === INSTRUCTIONS ? {} : { tool: name }),
    arguments: { digest, toolChanges },
  }));
  const approve = () =>
    updatePins(store, id, (pins) => approvedPins(pinsInMode(pins, toolChanges), approvals, now()));
  try {
    await recordChanges(services, items, { make: approve, itemsOf: () => items });
  } catch (error) {
    if (!(error instanceof NotCurrent)) throw error;
    const { name } = error.approval;
    const what = name === INSTRUCTIONS ? 'the instructions' : `the tool ${visible(name)}`;
    throw new HttpError(
      409,
      'changed_meanwhile',
      `${what} changed meanwhile, or does not wait: review it again`,
    );
  }
}
