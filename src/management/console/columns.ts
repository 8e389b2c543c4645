// The columns of a table, and the order of its rows.
import type { ConsoleColumn, ConsoleField, ConsoleItem } from '../../pages/console-values.ts';

/** `column` is the name of a column; `title` and `state` are those that every list has. */
type Order = { column: string; direction: 'ascending' | 'descending' };

const ORDER = /^(-?)(\w{1,40})$/;

/** Reads `?sort=name`, or `?sort=-name` for the descending order. */
export function orderIn({ sort = '' }: Record<string, string | undefined>): Order | undefined {
  const [, sign, column] = ORDER.exec(sort) ?? [];
  return column === undefined
    ? undefined
    : { column, direction: sign === '' ? 'ascending' : 'descending' };
}

/** Returns the columns that have a value in a row, in the order that the rows have them in. With `at`, which returns the address of the list with other members of its query, they can be sorted, all but `unsorted`. */
export function columnsOf(
  rows: readonly ConsoleItem[],
  sorting?: {
    order: Order | undefined;
    at: (more: { sort: string }) => string;
    unsorted?: string;
  },
): ConsoleColumn[] {
  const names: string[] = [];
  const kinds = new Map<string, ConsoleColumn['kind']>([['title', 'title']]);
  if (rows.some(({ state }) => state)) kinds.set('state', 'state');
  const found = new Map<string, ConsoleColumn['kind']>();
  for (const { facts = [] } of rows) {
    let place = -1;
    for (const field of facts) {
      const name = columnOf(field);
      if (!found.has(name)) names.splice(place + 1, 0, name);
      const kind = kindOf(field);
      // A row without a time has a text in its place.
      found.set(name, kind === 'time' ? kind : (found.get(name) ?? kind));
      place = names.indexOf(name);
    }
  }
  for (const name of names) kinds.set(name, found.get(name) ?? 'text');
  return [...kinds].map(([name, kind]) => ({
    name,
    kind,
    ...(sorting && name !== sorting.unsorted ? { sort: sortLink({ name, kind }, sorting) } : {}),
  }));
}

function columnOf({ column, label }: ConsoleField): string {
  return column ?? label;
}

function kindOf(field: ConsoleField): ConsoleColumn['kind'] {
  if (field.time !== undefined) return 'time';
  if (field.level !== undefined) return 'level';
  return field.code !== undefined && field.textKey === undefined ? 'code' : 'text';
}

/** What ends next and what happened last comes first, and texts from A. */
function sortLink(
  { name, kind }: Pick<ConsoleColumn, 'name' | 'kind'>,
  { order, at }: { order: Order | undefined; at: (more: { sort: string }) => string },
): NonNullable<ConsoleColumn['sort']> {
  const first = kind === 'time' && name !== 'expires' ? '-' : '';
  if (order?.column !== name) return { href: at({ sort: first + name }) };
  const isDescending = order.direction === 'descending';
  return { href: at({ sort: (isDescending ? '' : '-') + name }), direction: order.direction };
}

const TEXT_ORDER = new Intl.Collator('en', { numeric: true, sensitivity: 'base' });

/** Rows without a value come last, and in a column of times those without a time. */
export function sortRows(
  rows: readonly ConsoleItem[],
  { column, direction }: Order,
  levels: readonly string[],
): ConsoleItem[] {
  const sign = direction === 'ascending' ? 1 : -1;
  const hasTimes = rows.some((row) => fieldIn(row, column)?.time !== undefined);
  const keyOf = (row: ConsoleItem) =>
    hasTimes ? fieldIn(row, column)?.time : keyIn(row, column, levels);
  const keyed = rows.map((row) => ({ row, key: keyOf(row) }));
  return keyed
    .toSorted(({ key: one }, { key: other }) => {
      if (one === undefined || other === undefined)
        return Number(one === undefined) - Number(other === undefined);
      if (typeof one === 'number' && typeof other === 'number') return sign * (one - other);
      return sign * TEXT_ORDER.compare(String(one), String(other));
    })
    .map(({ row }) => row);
}

function fieldIn({ facts = [] }: ConsoleItem, column: string): ConsoleField | undefined {
  return facts.find((each) => columnOf(each) === column);
}

function keyIn(
  row: ConsoleItem,
  column: string,
  levels: readonly string[],
): string | number | undefined {
  if (column === 'title') return row.title;
  if (column === 'state') return row.state;
  const field = fieldIn(row, column);
  if (!field) return undefined;
  const { level, text, name, code, codes, textValues = {}, textKey } = field;
  const number = Object.values(textValues).find((value) => value !== undefined);
  return level === undefined
    ? (number ?? text ?? name ?? code ?? codes?.[0] ?? textKey)
    : levels.indexOf(level);
}
