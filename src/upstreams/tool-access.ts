// The one decision about what a caller may use of an MCP server: for lists, calls, the consent page, the console and explanations. Pure: no I/O.
import { isAtLeast, type Level, type Levels, lowest } from '../permission-levels.ts';
import { type Item, type NamedKind, opensAllOf, type ToolList, toolList } from './tool-list.ts';

/**
 * `step-up`: the person can grant the level (403 `insufficient_scope`). `dpop-required`: only to a client with DPoP. `forbidden`: nobody can
 * grant it on this link.
 */
export type Decision = 'allowed' | 'step-up' | 'dpop-required' | 'forbidden';

/** What a caller may have. `lists` and `rules` are absent if they open everything of the level. */
export type Rights = {
  level: Level;
  /** The highest level that can be granted to this client here. For a minted token, its own. */
  ceiling: Level;
  /** Set if a client with DPoP can be granted a higher level here. */
  ceilingWithDpop?: Level;
  minted: boolean;
  /** All of them have to open what is used. */
  lists?: readonly { of: ListOwner; list: ToolList }[];
  /** One of the rules that match the person has to open it, with a level that suffices. */
  rules?: readonly { level: Level; list?: ToolList }[];
};

export const LIST_OWNERS = ['connector', 'machine', 'token'] as const;
export type ListOwner = (typeof LIST_OWNERS)[number];

/**
 * What forbids it. `rule`: no entitlement of the person opens it with a level that suffices. `name`: the name is too similar to another. `held`:
 * it waits for an operator.
 */
export const FORBIDDEN_BY = ['level', ...LIST_OWNERS, 'rule', 'name', 'held'] as const;
export type ForbiddenBy = (typeof FORBIDDEN_BY)[number];

export type Verdict =
  { decision: Exclude<Decision, 'forbidden'> } | { decision: 'forbidden'; by: ForbiddenBy };

/** An item of a request, and the level that it needs. */
export type Needed = Item & { level: Level };

/** Decides about a request that needs the level for all of the items. */
export function decide(
  levels: Levels,
  rights: Rights,
  { level, items }: { level: Level; items: readonly Needed[] },
): Verdict {
  const decision = decideByLevel(levels, rights, level);
  if (decision === 'forbidden') return { decision, by: 'level' };
  const { lists, rules } = rights;
  if (lists) {
    const closing = lists.find(({ list }) => !items.every(list.opens));
    if (closing) return { decision: 'forbidden', by: closing.of };
  }
  if (!rules) return { decision };
  const isOpen = items.every((item) =>
    rules.some(
      (rule) => isAtLeast(levels, rule.level, item.level) && (rule.list?.opens(item) ?? true),
    ),
  );
  return isOpen ? { decision } : { decision: 'forbidden', by: 'rule' };
}

export function decideByLevel(
  levels: Levels,
  { level, ceiling, ceilingWithDpop = ceiling, minted }: Omit<Rights, 'lists' | 'rules'>,
  needed: Level,
): Decision {
  if (isAtLeast(levels, level, needed)) return 'allowed';
  if (minted) return 'forbidden';
  if (isAtLeast(levels, ceiling, needed)) return 'step-up';
  return isAtLeast(levels, ceilingWithDpop, needed) ? 'dpop-required' : 'forbidden';
}

type WithTools = { tools?: readonly string[] | undefined };

/** What opens tools, apart from levels: absent if everything is open. */
export type Selection = Pick<Rights, 'lists' | 'rules'>;

/** `matching` are the entitlements that match the person. */
export function selectionOf(
  owners: Partial<Record<ListOwner, WithTools | undefined>>,
  matching: readonly ({ level: Level } & WithTools)[] = [],
): Selection {
  return { ...listsOf(owners), ...rulesOf(matching) };
}

function listsOf(owners: Partial<Record<ListOwner, WithTools | undefined>>): Pick<Rights, 'lists'> {
  const lists = LIST_OWNERS.flatMap((of) => {
    const tools = owners[of]?.tools;
    return tools ? [{ of, list: toolList(tools) }] : [];
  });
  return lists.length === 0 ? {} : { lists };
}

/** Rules without lists leave the decision to the level. */
function rulesOf(matching: readonly ({ level: Level } & WithTools)[]): Pick<Rights, 'rules'> {
  if (matching.every(({ tools }) => tools === undefined)) return {};
  return {
    rules: matching.map(({ level, tools }) => ({
      level,
      ...(tools ? { list: toolList(tools) } : {}),
    })),
  };
}

/** Whether a selection is certain to open everything of these kinds that the other opens with a level. */
export function opensAllWith(
  levels: Levels,
  level: Level,
  { selection, other, kinds }: { selection: Selection; other: Selection; kinds: NamedKind[] },
): boolean {
  const { lists = [], rules } = selection;
  const opensAll = (list: ToolList | undefined, narrower: ToolList | undefined) =>
    opensAllOf(list?.patterns ?? [], narrower?.patterns ?? [], kinds);
  const others = [undefined, ...(other.lists ?? []).map(({ list }) => list)];
  if (!lists.every(({ list }) => others.some((narrower) => opensAll(list, narrower)))) return false;
  const opened = other.rules ?? [{ level }];
  return (
    !rules ||
    opened.every((narrower) =>
      rules.some(
        (rule) =>
          isAtLeast(levels, rule.level, lowest(levels, narrower.level, level)) &&
          opensAll(rule.list, narrower.list),
      ),
    )
  );
}

/** Whether both open the same, apart from the level. */
export function isSameSelection(one: Selection, other: Selection): boolean {
  return one === other || selectionText(one) === selectionText(other);
}

function selectionText({ lists = [], rules = [] }: Selection): string {
  return JSON.stringify([
    lists.map(({ of, list }) => [of, list.text]),
    rules.map(({ level, list }) => [level, list?.text]),
  ]);
}
