// Notes every list of tools that this process reads or passes on, tells what changed, and says which tools wait for an operator.
import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { auditItem, storeAudit } from '../../audit/audit.ts';
import { isObject, isRawJSON, membersOf } from '../../json-values.ts';
import { lruCache } from '../../lru-cache.ts';
import type { Services } from '../../services.ts';
import type { Upstream } from '../../settings/upstreams.ts';
import type { CatalogTool } from '../../upstreams/tool-catalog.ts';
import {
  compareTool,
  type Comparison,
  similarNames,
  type SimilarName,
} from '../../upstreams/tool-differences.ts';
import {
  isSameVariant,
  type Variant,
  variantOf,
  variantOfText,
} from '../../upstreams/tool-digest.ts';
import { findPins, findText, updatePins } from '../../upstreams/tool-pin-records.ts';
import {
  approvedVariant,
  heldIn,
  hintsOfCallers,
  holdOf,
  type HoldReason,
  INSTRUCTIONS,
  isUnread,
  NO_PINS,
  notedReading,
  type Pin,
  type PinChange,
  pinsInMode,
  type ReadTool,
  pinsWithFault,
  schemasOf,
  type ToolPins,
  type ToolReading,
} from '../../upstreams/tool-pins.ts';
import { MAX_NAME_LENGTH } from '../../upstreams/tool-levels.ts';
import { findsParts } from './quoting.ts';
import { printable } from '../../printable-text.ts';

/** One list, maybe of several pages. */
/** `place` is where the first tool of the name stands, counted through all pages. */
type ToolList = readonly (ReadTool & { place: number })[];

export type ToolPinning = {
  /** Reads what is stored, maybe by another process. */
  adopt(): Promise<void>;
  /** Notes Gatehouse's own reading. */
  noteOwn(pages: readonly (readonly unknown[])[], instructions: string | undefined): Promise<void>;
  /** Notes a list, or instructions, that pass through to a caller, and returns the list as it was read. */
  noteListed(
    tools: readonly unknown[],
    caller: string,
    about: Pick<ToolReading, 'isWhole' | 'isContinued' | 'isOnlySource'>,
  ): Promise<ToolList>;
  noteInstructions(
    text: string,
    caller: string,
    about: Pick<ToolReading, 'isOnlySource'>,
  ): Promise<void>;
  /** Why the tool is hidden and refused with `hold`. Undefined if it is usable. `named` are the tools of a catalog from before there were pins. */
  held(
    name: string,
    caller: string | undefined,
    named: readonly CatalogTool[],
  ): HoldReason | undefined;
  /** With `hold`: the tools of a list that the caller may see. */
  shown(
    list: readonly unknown[],
    read: ToolList,
    caller: string | undefined,
    named: readonly CatalogTool[],
  ): unknown[];
  areInstructionsApproved(text: string): boolean;
  /** The hints of approved texts that only callers are shown: the same object until they change. */
  hintsOfCallers(): ReturnType<typeof hintsOfCallers>;
  /** Changes when tools are held or approved. */
  holdState(): string;
  /** The digests of the texts whose schema a call of the tool may follow: the one that was last listed to the caller, or each that is approved. */
  schemasFor(name: string, caller: string): string[];
  findSchema(digest: string): Promise<unknown>;
  /** Notes, and logs once, that a schema is not enforced. */
  noteFault(name: string, digest: string, fault: string): Promise<void>;
};

/** Of the lists that were read, all together. */
const MAX_READ_BYTES = 16 * 1024 * 1024;
const MAX_LISTED = 10_000;
/** Beyond it, the audit log gets one item for all other changes of a reading. */
const MAX_ITEMS = 50;

export async function openToolPinning(
  services: Services,
  { id, toolChanges: mode, headers }: Upstream,
): Promise<ToolPinning> {
  const { store, now, metrics, logger } = services;
  const reveals = findsParts(headers);
  /** Lists are repeated, and reading one takes milliseconds. */
  const lists = lruCache<ToolList>(MAX_READ_BYTES, bytesOf);
  const lastListed = lruCache<string>(MAX_LISTED);
  let pins: ToolPins | undefined;
  let holdState = '';
  let byName: ReadonlyMap<string, Pin> = new Map();
  let callersHints = hintsOfCallers(NO_PINS);

  const use = (stored: ToolPins | undefined) => {
    if (!stored) return;
    pins = pinsInMode(stored, mode);
    byName = new Map(pins.tools);
    const hints = hintsOfCallers(pins);
    if (!isDeepStrictEqual(hints, callersHints)) callersHints = hints;
    const held = heldIn(pins);
    holdState = held.join('\n');
    metrics.toolsHeld(id, held.length);
  };
  use(await findPins(store, id));

  function listOf(pages: readonly (readonly unknown[])[]): ToolList {
    const key = createHash('sha256').update(JSON.stringify(pages)).digest('base64url');
    const known = lists.get(key);
    if (known) return known;
    const read = readList(pages);
    lists.set(key, read);
    return read;
  }

  async function note(reading: ToolReading, textOf: TextOf): Promise<void> {
    if (pins && notedReading(pins, reading).pins === pins) return;
    let changes: readonly PinChange[] = [];
    const stored = await updatePins(
      store,
      id,
      (current) => {
        const noted = notedReading(current, reading);
        changes = noted.changes;
        return noted.pins;
      },
      (digest) => masked(textOf(digest), reveals),
    );
    use(stored);
    await tell(changes).catch((error: unknown) =>
      logger.error({ err: error, what: id }, 'changed tools were not recorded'),
    );
  }

  async function tell(changes: readonly PinChange[]): Promise<void> {
    if (changes.length === 0) return;
    const similarTo = similarNames(byName.keys());
    const compared = await Promise.all(
      changes.map(async (change) => ({ change, compared: await compare(change, similarTo) })),
    );
    for (const each of compared) metrics.toolChange(id, each.compared.severity);
    const reported = compared
      .filter(({ change }) => change.isReported)
      .toSorted((one, other) => rank(one.compared) - rank(other.compared));
    const items = reported.slice(0, MAX_ITEMS).map((each) => itemOf(each.change, each.compared));
    const more = reported.length - items.length;
    await storeAudit(services, [
      ...items,
      ...(more > 0 ? [itemOf(undefined, { severity: 'note', differences: [] }, more)] : []),
    ]);
  }

  async function compare(
    { name, digest, from }: PinChange,
    similarTo: SimilarName,
  ): Promise<Comparison> {
    const [before, after] = await Promise.all(
      [from, digest].map((each) => (each === undefined ? undefined : findText(store, id, each))),
    );
    return compareTool(before, after, name === INSTRUCTIONS ? undefined : similarTo);
  }

  function itemOf(change: PinChange | undefined, compared: Comparison, count?: number) {
    const differences = compared.differences
      .slice(0, MAX_TOLD)
      .map(({ path, suspicion }) => ({ path: path.slice(0, MAX_PATH_LENGTH), suspicion }));
    const item = auditItem(services, {
      event: 'tools_changed',
      upstream: id,
      ...(change && change.name !== INSTRUCTIONS ? { tool: change.name } : {}),
      ...(count === undefined ? {} : { count }),
      arguments: {
        ...(change ? { change: kindOf(change), digest: change.digest ?? change.from } : {}),
        severity: compared.severity,
        toolChanges: mode,
        differences,
      },
      outcome: mode === 'hold' ? 'held' : 'done',
    });
    return { item, part: 'lasting' as const };
  }

  const pinning: ToolPinning = {
    adopt: async () => use(await findPins(store, id)),
    async noteOwn(pages, instructions) {
      const tools = listOf(pages);
      const said = variantOfText(instructions ?? '');
      const textOf = textsOf(pages, tools);
      await note({ mode, at: now(), tools, instructions: said }, (digest) =>
        digest === said.digest ? (instructions ?? '') : textOf(digest),
      );
    },
    async noteListed(tools, caller, about) {
      const list = listOf([tools]);
      for (const { name, variant } of list) {
        const { approved = [] } = byName.get(name) ?? {};
        // Of one text, it is clear which.
        const seen = approved.length > 1 ? approvedVariant(byName.get(name), variant) : undefined;
        if (seen) lastListed.set(`${caller} ${name}`, seen.digest);
      }
      const reading = { mode, at: now(), tools: list, caller, ...about };
      await note(reading, textsOf([tools], list)).catch((error: unknown) =>
        logger.debug({ err: error, what: id }, 'a list was not noted'),
      );
      return list;
    },
    async noteInstructions(text, caller, about) {
      const instructions = variantOfText(text);
      const reading = { mode, at: now(), tools: [], instructions, caller, ...about };
      await note(reading, () => text).catch((error: unknown) =>
        logger.debug({ err: error, what: id }, 'instructions were not noted'),
      );
    },
    held(name, caller, named) {
      const isNamed = () => named.some((tool) => tool.name === name);
      return holdOf(pins ?? { mode }, byName.get(name), { caller, isNamed });
    },
    shown(list, read, caller, named) {
      if (mode !== 'hold')
        return list.filter((tool) => typeof membersOf(tool)['name'] === 'string');
      const variants = new Map(read.map((tool) => [tool.name, tool]));
      return list.filter((tool) => {
        const { name } = membersOf(tool);
        const seen = typeof name === 'string' ? variants.get(name) : undefined;
        if (!seen || seen.isTwice || pinning.held(seen.name, caller, named)) return false;
        const isUpgraded = isUnread(pins ?? NO_PINS);
        return isUpgraded || approvedVariant(byName.get(seen.name), seen.variant) !== undefined;
      });
    },
    areInstructionsApproved(text) {
      if (mode !== 'hold' || text === '') return true;
      const { latest, approved = [] } = pins?.instructions ?? {};
      const isRead = !isUnread(pins ?? NO_PINS) || latest !== undefined || approved.length > 0;
      return !isRead || approvedVariant(pins?.instructions, variantOfText(text)) !== undefined;
    },
    hintsOfCallers: () => callersHints,
    holdState: () => holdState,
    schemasFor(name, caller) {
      const digests = schemasOf(byName.get(name));
      const listed = lastListed.get(`${caller} ${name}`);
      return listed !== undefined && digests.includes(listed) ? [listed] : digests;
    },
    async findSchema(digest) {
      return membersOf(await findText(store, id, digest))['inputSchema'];
    },
    async noteFault(name, digest, fault) {
      const isNoted = byName
        .get(name)
        ?.approved.some((one) => one.digest === digest && one.schemaFault);
      if (isNoted !== false) return;
      use(await updatePins(store, id, (current) => pinsWithFault(current, name, digest, fault)));
      const details = { what: id, tool: name, reason: printable(fault) };
      logger.warn(details, 'the input schema of a tool is not enforced');
    },
  };
  return pinning;
}

const MAX_TOLD = 10;
const MAX_PATH_LENGTH = 120;

const rank = ({ severity }: Comparison) => (severity === 'alert' ? 0 : 1);

function kindOf({ digest, from }: PinChange): string {
  if (digest === undefined) return 'removed';
  return from === undefined ? 'new' : 'changed';
}

/** About, in memory. */
function bytesOf(list: ToolList): number {
  const bytesOfTool = ({ name, variant }: ToolList[number]) =>
    2 * name.length + 400 + 150 * variant.annotations.length;
  return list.reduce((bytes, tool) => bytes + bytesOfTool(tool), 100);
}

/** A list of one page has a name twice even if both tools are the same; a tool that comes again on a later page is one tool. */
function readList(pages: readonly (readonly unknown[])[]): ToolList {
  const tools = new Map<string, ToolList[number]>();
  let count = 0;
  for (const page of pages) {
    const onPage = new Set<string>();
    for (const tool of page) {
      const place = count++;
      const { name } = membersOf(tool);
      const variant =
        typeof name === 'string' && name !== INSTRUCTIONS && name.length <= MAX_NAME_LENGTH
          ? variantOf(tool)
          : undefined;
      if (!variant || typeof name !== 'string') continue;
      const other = tools.get(name);
      const isTwice =
        onPage.has(name) || (other !== undefined && !isSameVariant(other.variant, variant));
      onPage.add(name);
      tools.set(name, {
        name,
        variant: other?.variant ?? withSchemaMark(variant, tool),
        place: other?.place ?? place,
        isTwice: isTwice || other?.isTwice === true,
      });
    }
  }
  return [...tools.values()];
}

/** Returns the text with a digest. */
type TextOf = (digest: string) => unknown;

function textsOf(pages: readonly (readonly unknown[])[], list: ToolList): TextOf {
  return (digest) => {
    const found = list.find(({ variant }) => variant.digest === digest);
    return found && pages.flat()[found.place];
  };
}

function withSchemaMark(variant: Variant, tool: unknown): Variant {
  const isObjectSchema = membersOf(membersOf(tool)['inputSchema'])['type'] === 'object';
  return isObjectSchema ? variant : { ...variant, isNoObject: true };
}

const HIDDEN_TEXT = '[not shown: it contains a credential]';

/** Operators with any role read the texts. */
function masked(value: unknown, reveals: (text: string) => boolean): unknown {
  if (typeof value === 'string') return reveals(value) ? HIDDEN_TEXT : value;
  if (Array.isArray(value)) return value.map((item) => masked(item, reveals));
  if (!isObject(value) || isRawJSON(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name, masked(member, reveals)]),
  );
}
