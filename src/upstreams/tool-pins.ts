// Which texts of its tools an upstream was seen with, and which of them count as approved. Pure: tool-pin-records.ts stores it.
import type { ToolChanges } from '../settings/schema.ts';
import type { ToolHints } from './tool-catalog.ts';
import { hintsOf, isSameVariant, nameForModels, type Variant } from './tool-digest.ts';

/** Seconds since the epoch. */
export type SeenVariant = Variant & {
  at: number;
  /** An operator approved it, or it was in the first list of a caller. Only lists of callers had it. */
  isFromCallersOnly?: true;
};

/** A text that nobody has approved. */
export type PendingVariant = SeenVariant & {
  /** Whether Gatehouse's own reading had it last. Otherwise only lists of callers have. */
  isOwn: boolean;
  /** The connections and tokens in whose last list it was. */
  callers: readonly string[];
};

/** A change that nobody has looked at: `from` is absent for a new tool, `to` for a removed one. */
export type UnseenChange = { at: number; from?: string | undefined; to?: string | undefined };

/** One tool, or the instructions of a server. It outlives the removal of the tool, so that removing and adding it again resets nothing. */
export type Pin = {
  /** The newest last. */
  approved: readonly SeenVariant[];
  pending: readonly PendingVariant[];
  /** The digest in Gatehouse's last reading; absent if that had no such tool. */
  latest?: string | undefined;
  /** Other tools of the last reading whose names are equal to a model. */
  twins?: readonly string[] | undefined;
  /** The name came twice in the last reading. */
  isTwice?: true | undefined;
  /** The connections and tokens in whose last list the name came twice. */
  twiceFor?: readonly string[] | undefined;
  /** The connections and tokens in whose last list was a text that is no longer in `pending`, for want of room. */
  droppedFor?: readonly string[] | undefined;
  /** With `follow`. */
  change?: UnseenChange | undefined;
  /** When the audit log last got a change of it. */
  reportedAt?: number | undefined;
};

export type ToolPins = {
  mode: ToolChanges;
  /** When Gatehouse first read the tools. Absent if it never did. */
  since?: number | undefined;
  /**
   * With `hold`, of a server that lists nothing to Gatehouse: the first list of a caller, which counts as the first reading. Without `caller`: all
   * lists of callers before the switch from `follow`.
   */
  firstList?: { at: number; caller?: string } | undefined;
  tools: readonly (readonly [name: string, pin: Pin])[];
  instructions?: Pin | undefined;
};

export const NO_PINS: ToolPins = { mode: 'follow', tools: [] };

export type ReadTool = { name: string; variant: Variant; isTwice: boolean };

/** `caller` is absent for Gatehouse's own reading. */
export type ToolReading = {
  mode: ToolChanges;
  at: number;
  tools: readonly ReadTool[];
  instructions?: Variant | undefined;
  caller?: string | undefined;
  /** Whether a tool that is not in it was not listed to the caller. */
  isWhole?: boolean;
  /** Whether it may be a further page. */
  isContinued?: boolean;
  /** Whether the server lists its tools to callers only. */
  isOnlySource?: boolean;
};

export const INSTRUCTIONS = '';

/** `digest` is absent for a removed tool, `from` for a new one. */
export type PinChange = {
  /** INSTRUCTIONS for those of the server. */
  name: string;
  digest?: string | undefined;
  from?: string | undefined;
  /** Whether the audit log had none of it in the last hour. */
  isReported: boolean;
};

const MAX_APPROVED = 20;
const MAX_PENDING = 20;
/** A text in the lists of more callers counts for all. */
export const MAX_CALLERS = 100;
const MAX_NAMES = 4000;
const REPORT_SECONDS = 3600;
/** The pages of the first list follow each other within it. */
const FIRST_LIST_SECONDS = 60;

const NEW_PIN: Pin = { approved: [], pending: [] };

/**
 * The pins under another mode. With `hold`, what Gatehouse read last is approved, and nothing that only callers were shown. If it never read the
 * tools, the last text of each that callers were shown is.
 */
export function pinsInMode(pins: ToolPins, mode: ToolChanges): ToolPins {
  if (pins.mode === mode) return pins;
  const { firstList: _first, ...kept } = pins;
  if (mode === 'follow') return { ...kept, mode };
  const { since, tools, instructions } = pins;
  const times = tools.flatMap(([, { approved }]) => approved.at(-1)?.at ?? []);
  const isListedOnly = since === undefined && times.length > 0;
  const names = Map.groupBy(tools, ([name]) => nameForModels(name));
  const hasTwin = (name: string) => (names.get(nameForModels(name))?.length ?? 0) > 1;
  const approvedIn = (pin: Pin, name?: string): Pin['approved'] => {
    if (isAmbiguous(pin)) return [];
    if (!isListedOnly || pin.latest !== undefined)
      return pin.approved.filter(({ digest }) => digest === pin.latest);
    if (name !== undefined && hasTwin(name)) return [];
    return pin.approved.slice(-1).map((last) => ({ ...last, isFromCallersOnly: true as const }));
  };
  const approve = (pin: Pin, name?: string): Pin => ({
    ...pin,
    change: undefined,
    approved: approvedIn(pin, name),
    pending: [],
    droppedFor: undefined,
  });
  return {
    ...kept,
    mode,
    ...(isListedOnly ? { firstList: { at: Math.max(...times) } } : {}),
    tools: tools.map(([name, pin]) => [name, approve(pin, name)] as const),
    instructions: instructions && approve(instructions),
  };
}

function isAmbiguous({ twins, isTwice }: Pin): boolean {
  return isTwice === true || (twins !== undefined && twins.length > 0);
}

/** Returns the same pins if the reading says nothing new. */
export function notedReading(
  given: ToolPins,
  reading: ToolReading,
): { pins: ToolPins; changes: PinChange[] } {
  const { mode, at, caller } = reading;
  const known = pinsInMode(given, mode);
  const isOwn = caller === undefined;
  const isFirst = isOwn && isUnread(known);
  // With `follow`, the first list is no change, whether Gatehouse or a caller read it.
  const isBegin =
    isFirst || (mode === 'follow' && known.since === undefined && known.tools.length === 0);
  const firstList = known.firstList ?? firstListIn(known, reading);
  const isOfFirstList = firstList !== undefined && isPartOf(firstList, known, reading);
  const changes: PinChange[] = [];
  const tools = new Map(known.tools);
  const reported = (pin: Pin, name: string, change: ChangedTexts): Pin => {
    // Also if the clock was set back.
    const isReported = Math.abs(at - (pin.reportedAt ?? -Infinity)) >= REPORT_SECONDS;
    changes.push({ ...change, name, isReported });
    return isReported ? { ...pin, reportedAt: at } : pin;
  };
  // Its further pages came with it, and are no later tools.
  const dated = isOfFirstList ? { ...reading, at: firstList.at } : reading;
  const noted = (name: string, before: Pin, seen: SeenOnce, isInitial: boolean): Pin => {
    const { pin, change } = notedVariant(before, seen, isInitial ? dated : reading, isInitial);
    return change ? reported(pin, name, change) : pin;
  };
  for (const [name, seen] of seenByName(reading)) {
    const before = tools.get(name) ?? NEW_PIN;
    const isInitial = isBegin || (isOfFirstList && before.approved.length === 0);
    const after = noted(name, before, seen, isInitial);
    if (after !== before) tools.set(name, after);
  }
  const listed = new Set(reading.tools.map(({ name }) => name));
  for (const [name, pin] of tools) {
    if (listed.has(name)) continue;
    if (!isOwn) {
      if (reading.isWhole) tools.set(name, withoutCaller(pin, caller));
    } else if (pin.latest !== undefined) {
      const { pin: after, change } = removedPin(pin, reading);
      tools.set(name, change ? reported(after, name, change) : after);
    }
    if (isOwn && isForgotten(tools.get(name), at)) tools.delete(name);
  }
  const { instructions: text } = reading;
  const before = known.instructions ?? NEW_PIN;
  // A server without tools has instructions too.
  // Apps get them before the first list.
  const areFirst = canBeFirst(known, reading) && before.approved.length === 0;
  const isUnknown = before.latest === undefined && (mode === 'follow' || !before.approved.length);
  const isInitial = (isBegin && isUnknown) || areFirst;
  const instructions = text
    ? noted(INSTRUCTIONS, before, { variant: text, twins: [], isTwice: false }, isInitial)
    : before;
  const isSame =
    known === given &&
    !isFirst &&
    firstList === known.firstList &&
    instructions === before &&
    tools.size === known.tools.length &&
    known.tools.every(([name, pin]) => tools.get(name) === pin);
  if (isSame) return { pins: given, changes: [] };
  return {
    pins: {
      mode,
      since: known.since ?? (isOwn && reading.tools.length > 0 ? at : undefined),
      ...(firstList ? { firstList } : {}),
      tools: bounded([...tools]),
      ...(instructions === NEW_PIN ? {} : { instructions }),
    },
    changes,
  };
}

/** Whether a list of a caller, or instructions, can be the first that are read of the server. */
function canBeFirst(pins: ToolPins, { mode, caller, isOnlySource }: ToolReading): boolean {
  return mode === 'hold' && caller !== undefined && isOnlySource === true && isUnread(pins);
}

function firstListIn(pins: ToolPins, reading: ToolReading): ToolPins['firstList'] {
  const { at, caller, tools } = reading;
  if (caller === undefined || tools.length === 0 || !canBeFirst(pins, reading)) return undefined;
  return { at, caller };
}

/** Whether a list is the first, or a further page of it. */
function isPartOf(
  first: NonNullable<ToolPins['firstList']>,
  { firstList, since }: ToolPins,
  { at, caller, isContinued }: ToolReading,
): boolean {
  if (firstList === undefined) return true;
  const isNext = isContinued === true && Math.abs(at - first.at) <= FIRST_LIST_SECONDS;
  return isNext && caller === first.caller && since === undefined;
}

/** No list has it, nobody approved it, and the audit log may tell of it again. */
function isForgotten(pin: Pin | undefined, at: number): boolean {
  if (!pin || pin.approved.length > 0 || pin.pending.length > 0 || pin.latest !== undefined)
    return false;
  return Math.abs(at - (pin.reportedAt ?? -Infinity)) >= REPORT_SECONDS;
}

type ChangedTexts = Pick<PinChange, 'digest' | 'from'>;
/** `change` is what the audit log gets. */
type Noted = { pin: Pin; change?: ChangedTexts };

function removedPin(pin: Pin, { mode, at }: ToolReading): Noted {
  const { latest: from, twins: _twins, isTwice: _twice, ...kept } = pin;
  const pending = pin.pending
    .filter(({ callers }) => callers.length > 0)
    .map((each) => ({ ...each, isOwn: false }));
  const left: Pin = { ...kept, pending };
  if (pin.approved.length === 0) return { pin: left };
  const next = mode === 'hold' ? left : withChange(left, pin, { at, from });
  return { pin: next, change: { from } };
}

/** What one list has under a name. */
type SeenOnce = { variant: Variant; twins: readonly string[]; isTwice: boolean };

function seenByName({ tools }: ToolReading): Map<string, SeenOnce> {
  const namesByModelName = Map.groupBy(
    tools.map(({ name }) => name),
    nameForModels,
  );
  return new Map(
    tools.map(({ name, variant, isTwice }) => {
      const similar = namesByModelName.get(nameForModels(name)) ?? [];
      return [name, { variant, twins: similar.filter((other) => other !== name), isTwice }];
    }),
  );
}

/** What a list says about one tool. */
function notedVariant(
  pin: Pin,
  { variant: seen, twins, isTwice }: SeenOnce,
  { mode, at, caller }: ToolReading,
  isFirst: boolean,
): Noted {
  const isOwn = caller === undefined;
  const marks: Marks = isOwn
    ? {
        twins: twins.length > 0 ? twins : undefined,
        isTwice: isTwice ? true : undefined,
        twiceFor: pin.twiceFor,
        droppedFor: pin.droppedFor,
      }
    : {
        twins: pin.twins,
        isTwice: pin.isTwice,
        twiceFor: isTwice ? addedTo(pin.twiceFor, caller) : removedFrom(pin.twiceFor, caller),
        droppedFor: removedFrom(pin.droppedFor, caller),
      };
  const approved = pin.approved.find((one) => isSameVariant(one, seen));
  if (approved) {
    const { digest } = approved;
    const pending = withoutSeen(pin.pending, caller);
    const latest = isOwn ? digest : pin.latest;
    // The catalog of a reading is stored after its pins. Until then, nothing else gives the level of this text.
    const isOwnAgain = isOwn && approved.isFromCallersOnly === true && pin.latest === digest;
    if (
      pending === pin.pending &&
      latest === pin.latest &&
      haveSameMarks(pin, marks) &&
      !isOwnAgain
    )
      return { pin };
    const { isFromCallersOnly: _callers, ...own } = approved;
    const all = pin.approved.map((one) => (isOwnAgain && one === approved ? own : one));
    const next: Pin = { ...pin, ...marks, pending, latest, approved: all };
    // With `hold`, one approved text for another is no change.
    if (mode === 'hold' || !isOwn || isFirst || latest === pin.latest) return { pin: next };
    const from = pin.latest;
    return { pin: withChange(next, pin, { at, from, to: digest }), change: { digest, from } };
  }
  const from = pin.latest ?? pin.approved.at(-1)?.digest;
  const approves = mode === 'follow' || (isFirst && twins.length === 0 && !isTwice);
  if (approves) {
    const origin = mode === 'hold' && !isOwn ? { isFromCallersOnly: true as const } : {};
    const all = [...pin.approved, { ...seen, ...origin, at }].slice(-MAX_APPROVED);
    const latest = isOwn ? seen.digest : pin.latest;
    const next: Pin = {
      ...pin,
      ...marks,
      approved: all,
      pending: [],
      droppedFor: undefined,
      latest,
    };
    if (isFirst || mode === 'hold') return { pin: next };
    const to = seen.digest;
    return { pin: withChange(next, pin, { at, from, to }), change: { digest: to, from } };
  }
  const waiting = pin.pending.find((one) => isSameVariant(one, seen));
  const others = withoutSeen(pin.pending, caller, waiting?.digest);
  const latest = isOwn ? seen.digest : pin.latest;
  if (waiting) {
    const callers = waiting.callers;
    const isNoted = isOwn
      ? waiting.isOwn
      : callers.includes(caller) || callers.length > MAX_CALLERS;
    if (
      isNoted &&
      others === pin.pending &&
      (!isOwn || pin.latest === waiting.digest) &&
      haveSameMarks(pin, marks)
    )
      return { pin };
    const merged = {
      ...waiting,
      isOwn: isOwn || waiting.isOwn,
      callers: isOwn || isNoted ? callers : [...callers, caller],
    };
    const pending = [...others.filter((one) => one.digest !== waiting.digest), merged];
    return { pin: { ...pin, ...marks, pending, latest: isOwn ? waiting.digest : pin.latest } };
  }
  const added = { ...seen, at, isOwn, callers: isOwn ? [] : [caller] };
  const all = [...others, added];
  const dropped = all.length > MAX_PENDING ? all.find((one) => !one.isOwn) : undefined;
  const pending = all.filter((one) => one !== dropped);
  const droppedFor = (dropped?.callers ?? []).reduce(addedTo, marks.droppedFor);
  return {
    pin: { ...pin, ...marks, pending, droppedFor, latest },
    change: { digest: seen.digest, from: pin.approved.at(-1)?.digest },
  };
}

/** From what was last looked at. Undone if it is that again. */
function withChange(next: Pin, { change }: Pin, { at, from, to }: UnseenChange): Pin {
  const first = change ? change.from : from;
  return { ...next, change: first === to ? undefined : { at, from: first, to } };
}

type Marks = Pick<Pin, 'twins' | 'isTwice' | 'twiceFor' | 'droppedFor'>;

function haveSameMarks(pin: Pin, { twins, isTwice, twiceFor, droppedFor }: Marks): boolean {
  const isSame =
    pin.isTwice === isTwice && pin.twiceFor === twiceFor && pin.droppedFor === droppedFor;
  return isSame && (pin.twins ?? []).join('\n') === (twins ?? []).join('\n');
}

type Callers = readonly string[] | undefined;

function addedTo(callers: Callers, caller: string): Callers {
  const isKnown = callers?.includes(caller) || isForAll(callers);
  return isKnown ? callers : [...(callers ?? []), caller];
}

function removedFrom(callers: Callers, caller: string): Callers {
  if (!callers?.includes(caller)) return callers;
  return callers.length === 1 ? undefined : callers.filter((each) => each !== caller);
}

function isForAll(callers: Callers = []): boolean {
  return callers.length > MAX_CALLERS;
}

/** After a whole list without the tool. */
function withoutCaller(pin: Pin, caller: string): Pin {
  const pending = withoutSeen(pin.pending, caller);
  const twiceFor = removedFrom(pin.twiceFor, caller);
  const droppedFor = removedFrom(pin.droppedFor, caller);
  const isSame =
    pending === pin.pending && twiceFor === pin.twiceFor && droppedFor === pin.droppedFor;
  return isSame ? pin : { ...pin, pending, twiceFor, droppedFor };
}

/** The list of a caller, or Gatehouse's own, has another text now. What is in no list any more is dropped. */
function withoutSeen(
  pending: Pin['pending'],
  caller: string | undefined,
  except?: string,
): Pin['pending'] {
  const next = pending.flatMap((one) => {
    if (one.digest === except) return [one];
    const isOwn = caller !== undefined && one.isOwn;
    const callers = caller === undefined ? one.callers : one.callers.filter((id) => id !== caller);
    if (isOwn === one.isOwn && callers.length === one.callers.length) return [one];
    return isOwn || callers.length > 0 ? [{ ...one, isOwn, callers }] : [];
  });
  return next.length === pending.length && next.every((one, n) => one === pending[n])
    ? pending
    : next;
}

/** A server that always lists other tools fills no store: those that were never approved, and are in no list, go first. */
function bounded(tools: [string, Pin][]): [string, Pin][] {
  if (tools.length <= MAX_NAMES) return tools;
  const rank = ([, pin]: [string, Pin]) =>
    (pin.latest === undefined ? 0 : 2) + (pin.approved.length > 0 ? 1 : 0);
  return tools.toSorted((one, other) => rank(other) - rank(one)).slice(0, MAX_NAMES);
}

/** The digests whose texts are needed. */
export function digestsIn({ tools, instructions }: ToolPins): Set<string> {
  const pins = [...tools.map(([, pin]) => pin), ...(instructions ? [instructions] : [])];
  return new Set(
    pins.flatMap(({ approved, pending, change }) => [
      ...approved.map(({ digest }) => digest),
      ...pending.map(({ digest }) => digest),
      ...(change?.from === undefined ? [] : [change.from]),
      ...(change?.to === undefined ? [] : [change.to]),
    ]),
  );
}

/** Why a tool is not usable. `unknown`: no list had it. */
export type HoldReason = 'unknown' | 'new' | 'changed' | 'twins' | 'twice';

/** `caller` is whose list counts besides Gatehouse's own. Undefined if the tool is usable. */
export function holdReason(pin: Pin | undefined, caller?: string): HoldReason | undefined {
  if (!pin) return 'unknown';
  if (pin.approved.length === 0) return pin.twins ? 'twins' : 'new';
  const isAbout = (callers: Callers) =>
    isForAll(callers) || (caller !== undefined && callers?.includes(caller) === true);
  if (pin.isTwice || isAbout(pin.twiceFor)) return 'twice';
  const isPending = pin.pending.some(({ isOwn, callers }) => isOwn || isAbout(callers));
  return isPending || isAbout(pin.droppedFor) ? 'changed' : undefined;
}

/** Whether nothing was read that could be approved. After an upgrade, what the catalog names counts as approved until then. */
export function isUnread({ since, firstList }: Pick<ToolPins, 'since' | 'firstList'>): boolean {
  return since === undefined && firstList === undefined;
}

/** Why a tool is not usable under a mode. `isNamed`: whether the catalog has it. */
export function holdOf(
  pins: Pick<ToolPins, 'mode' | 'since' | 'firstList'>,
  pin: Pin | undefined,
  { caller, isNamed }: { caller?: string | undefined; isNamed: () => boolean },
): HoldReason | undefined {
  if (pins.mode !== 'hold') return undefined;
  if (isUnread(pins) && isNamed()) return undefined;
  return holdReason(pin, caller);
}

/** The approved text that a tool of a list is; undefined if it is none. */
export function approvedVariant(pin: Pin | undefined, seen: Variant): SeenVariant | undefined {
  return pin?.approved.find((one) => isSameVariant(one, seen));
}

export type Approval = { name: string; digest: string };

/** Of an approval whose digest is not waiting. */
export class NotCurrent extends Error {
  readonly approval: Approval;

  constructor(approval: Approval) {
    super('the digest is not current');
    this.approval = approval;
  }
}

/**
 * Approves texts that wait, marks changes as seen, and forgets removed tools, so that they are new if they come back. Throws NotCurrent, and then
 * approves none.
 */
export function approvedPins(pins: ToolPins, approvals: readonly Approval[], at: number): ToolPins {
  const tools = new Map(pins.tools);
  let { instructions } = pins;
  for (const approval of approvals) {
    const { name } = approval;
    const pin = name === INSTRUCTIONS ? instructions : tools.get(name);
    const next = pin && approvedPin(pin, approval.digest, at);
    if (next === undefined) throw new NotCurrent(approval);
    if (name === INSTRUCTIONS) instructions = next ?? undefined;
    else if (next === null) tools.delete(name);
    else tools.set(name, next);
  }
  return { ...pins, tools: [...tools], ...(instructions ? { instructions } : {}) };
}

/** Null if the pin is no longer needed, undefined if the digest is not current. */
function approvedPin(pin: Pin, digest: string, at: number): Pin | null | undefined {
  const waiting = pin.pending.find((one) => one.digest === digest);
  if (waiting) {
    const { isOwn, callers: _callers, ...variant } = waiting;
    const origin = isOwn ? {} : { isFromCallersOnly: true as const };
    const pending = pin.pending.filter((one) => one !== waiting);
    // Nothing would be left to approve while the tool is held from all. Their next lists tell again.
    const isEnd = pending.length === 0 && isForAll(pin.droppedFor);
    return {
      ...pin,
      approved: [...pin.approved, { ...variant, ...origin, at }].slice(-MAX_APPROVED),
      pending,
      droppedFor: isEnd ? undefined : pin.droppedFor,
      change: undefined,
    };
  }
  const { change } = pin;
  if (change && (change.to ?? change.from) === digest) return { ...pin, change: undefined };
  const isRemoved = pin.latest === undefined && pin.approved.at(-1)?.digest === digest;
  return isRemoved ? null : undefined;
}

/** The tools that came, or were approved, after a time, and after the first reading. */
export function toolsSince(
  { firstList, since = firstList?.at ?? Infinity, tools }: ToolPins,
  time: number,
): Set<string> {
  const after = Math.max(since, time);
  // Of a tool that changed so often, the first text is no longer known.
  const isLater = ({ approved }: Pin) =>
    approved.length < MAX_APPROVED && (approved[0]?.at ?? 0) > after;
  return new Set(tools.flatMap(([name, pin]) => (isLater(pin) ? [name] : [])));
}

/** The tools of Gatehouse's last reading, or of a caller's list, that wait for an operator. */
export function heldIn(pins: ToolPins): string[] {
  if (pins.mode !== 'hold') return [];
  return pins.tools.filter(([, pin]) => isWaiting(pin)).map(([name]) => name);
}

function isWaiting(pin: Pin): boolean {
  return pin.pending.length > 0 || (pin.latest !== undefined && holdReason(pin) !== undefined);
}

/** The approved texts whose schema a call may follow, if the caller's own list is not known. */
export function schemasOf(pin: Pin | undefined): string[] {
  const { approved = [], latest } = pin ?? {};
  const digests = approved.map(({ digest }) => digest).toReversed();
  return latest !== undefined && digests.includes(latest)
    ? [latest, ...digests.filter((digest) => digest !== latest)]
    : digests;
}

/**
 * The hints of approved texts that Gatehouse itself was never shown, by tool. Its own readings cannot tell when such a text ends, so that the
 * strictest of them and of its last reading gives a tool its level.
 */
export function hintsOfCallers({ mode, tools }: ToolPins): ReadonlyMap<string, ToolHints[]> {
  if (mode !== 'hold') return new Map();
  return new Map(
    tools.flatMap(([name, { approved }]) => {
      const hints = approved.filter(({ isFromCallersOnly }) => isFromCallersOnly).map(hintsOf);
      return hints.length > 0 ? [[name, hints] as const] : [];
    }),
  );
}

/** Notes that the input schema of a text is not enforced. */
export function pinsWithFault(
  pins: ToolPins,
  name: string,
  digest: string,
  fault: string,
): ToolPins {
  const tools = pins.tools.map(([each, pin]) => {
    const isIt =
      each === name && pin.approved.some((one) => one.digest === digest && !one.schemaFault);
    if (!isIt) return [each, pin] as const;
    const approved = pin.approved.map((one) =>
      one.digest === digest ? { ...one, schemaFault: fault } : one,
    );
    return [each, { ...pin, approved }] as const;
  });
  return tools.every(([, pin], n) => pin === pins.tools[n]?.[1]) ? pins : { ...pins, tools };
}
