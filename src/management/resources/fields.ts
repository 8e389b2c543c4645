// The values of a record: how each is read, and how the command line and the console show it.
import type { ConsoleField } from '../../pages/console-values.ts';
import type { ManagementClient } from '../api/client.ts';
import { details, minute, table } from '../commands/terminal.ts';

/** Reads a value: the name of a member, or a function. */
type Read<Item, Value = string> = Extract<keyof Item, string> | ((item: Item) => Value | undefined);

/** `time`, `text`, `code` or `level` reads the value and says how it is shown. Times are ISO 8601. */
export type Field<Item> = {
  time?: Read<Item>;
  text?: Read<Item>;
  /** An id, an address, or a code as in logs. */
  code?: Read<Item>;
  level?: Read<Item>;
  /** The heading in the command line. Default: the name of the field in words. */
  heading?: string;
  /** What the command line shows without a value. Default: `-` in a column, and no row. */
  none?: string;
  /** What a column and a row of the command line show instead of the value. */
  cell?: (item: Item) => string | undefined;
  row?: (item: Item) => string | undefined;
  /** Finds names by id, which a column of the command line shows before the ids. */
  lookUp?: (api: ManagementClient) => Promise<Names>;
  /** Whether these items need a column in a list. Default: always. */
  isColumn?: (items: readonly Item[]) => boolean;
  /** The key of its label and of its column in the console, below `console.fields`. Default: the name of the field, or the label of what `console` returns. */
  label?: string;
  /** The page in the console of the record that it names. */
  href?: (item: Item) => string | undefined;
  /** What the console shows instead. */
  console?: (item: Item) => readonly ConsoleField[];
};

/** By name. Lists and pages give the names of the fields that they show, in their order, separated by spaces. */
export type Fields<Item> = Readonly<Record<string, Field<Item>>>;

/** By id. */
export type Names = ReadonlyMap<string, string>;

/** Returns the text of a list in the command line: the columns with these names. */
export function listText<Item>(
  fields: Fields<Item>,
  names: string,
  items: readonly Item[],
  found: Names = new Map(),
): string {
  const columns = shownColumns(fields, names, items);
  return table(
    columns.map(([name, field]) => headingOf(name, field).toUpperCase()),
    items.map((item) => columns.map(([, field]) => cellOf(field, item, found))),
  );
}

/** Looks up the names that the columns show. */
export async function findNames<Item>(
  api: ManagementClient,
  fields: Fields<Item>,
  names: string,
  items: readonly Item[],
): Promise<Names> {
  const columns = shownColumns(fields, names, items);
  const found = await Promise.all(columns.map(([, { lookUp }]) => lookUp?.(api) ?? new Map()));
  return new Map(found.flatMap((each) => [...each]));
}

function shownColumns<Item>(
  fields: Fields<Item>,
  names: string,
  items: readonly Item[],
): (readonly [string, Field<Item>])[] {
  return names
    .split(' ')
    .map((name) => [name, requireField(fields, name)] as const)
    .filter(([, { isColumn }]) => isColumn?.(items) ?? true);
}

function cellOf<Item>(field: Field<Item>, item: Item, found: Names): string {
  const text = field.cell?.(item) ?? textOf(field, item);
  return (field.lookUp ? nameAndId(found, text) : text) ?? field.none ?? '-';
}

/** Before the id of an account, and of a minted token, in the audit log. */
const PREFIX = /^(account|minted):/;

/** Returns the name and the id, or only what there is. */
export function nameAndId(found: Names, id: string | undefined): string | undefined {
  const name = id && (found.get(id) ?? found.get(id.replace(PREFIX, '')));
  return !name || name === id ? id : `${name} (${id})`;
}

/** Returns the text of one record in the command line: a row for each field with a value. */
export function detailsText<Item>(fields: Fields<Item>, names: string, item: Item): string {
  const rows = names.split(' ').flatMap((name): [string, string][] => {
    const field = requireField(fields, name);
    const text = field.row?.(item) ?? textOf(field, item) ?? field.none;
    return text === undefined ? [] : [[headingOf(name, field), text]];
  });
  return details(Object.fromEntries(rows));
}

/** Returns the fields of one record in the console. A field without a value is left out. */
export function consoleFields<Item>(
  fields: Fields<Item>,
  names: string,
  item: Item,
): ConsoleField[] {
  return names.split(' ').flatMap((name) => consoleField(fields, name, item));
}

function consoleField<Item>(fields: Fields<Item>, name: string, item: Item): ConsoleField[] {
  const field = requireField(fields, name);
  const { label = name } = field;
  if (field.console) {
    const column = field.label;
    return field.console(item).map((each) => (column === undefined ? each : { column, ...each }));
  }
  const value = valueOf(field, item);
  if (value === undefined) return [];
  if (field.time !== undefined) return dateFields(label, value);
  if (field.level !== undefined) return [{ label, level: value }];
  const href = field.href?.(item);
  return [{ label, [field.code === undefined ? 'text' : 'code']: value, href }];
}

function requireField<Item>(fields: Fields<Item>, name: string): Field<Item> {
  const field = fields[name];
  if (!field) throw new Error(`there is no field ${name}`);
  return field;
}

function headingOf(name: string, { heading }: { heading?: string }): string {
  return heading ?? name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}

function textOf<Item>(field: Field<Item>, item: Item): string | undefined {
  const value = valueOf(field, item);
  return value !== undefined && field.time !== undefined ? minute(value) : value;
}

/** An empty text is no value. */
function valueOf<Item>({ time, text, code, level }: Field<Item>, item: Item): string | undefined {
  const read = time ?? text ?? code ?? level;
  const value = typeof read === 'function' ? read(item) : read && item[read];
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** `href` is the page of the record that `text` names. */
export function textField(label: string, text: string, href?: string): ConsoleField {
  return { label, text, href };
}

/** For an id, an address, or a code as it appears in logs. */
export function codeField(label: string, code: string): ConsoleField {
  return { label, code };
}

/** What a connector, machine or minted token opens, if it has a list. */
export function toolsField<Item extends { tools?: string[] | undefined }>(): Field<Item> {
  return {
    text: ({ tools }) => tools?.join(' '),
    isColumn: (items) => items.some(({ tools }) => tools !== undefined),
    console: ({ tools }) => (tools ? [{ label: 'tools', codes: tools }] : []),
  };
}

/** The limit on calls of a connector, machine or minted token. */
export function callsField<Item extends { calls?: string | undefined }>(): Field<Item> {
  return {
    heading: 'limit on calls',
    label: 'callLimit',
    text: ({ calls }) => calls,
    isColumn: (items) => items.some(({ calls }) => calls !== undefined),
  };
}

/** For a code with a translated meaning: the text named after it below `texts`. */
export function translatedField(label: string, code: string, texts: string): ConsoleField {
  return { label, code, textKey: `${texts}.${code}` };
}

/** For an ISO 8601 time, shown as a day. Returns no field without a time. */
export function dateFields(label: string, time: string | undefined): ConsoleField[] {
  return time === undefined ? [] : [{ label, time: epochSeconds(time) }];
}

/** As `dateFields`, or “Never used” without a time. */
export function lastUsedFields(label: string, time: string | undefined): ConsoleField[] {
  return time === undefined
    ? [{ label, textKey: 'console.fields.neverUsed' }]
    : dateFields(label, time);
}

/** Converts an ISO 8601 time. */
export function epochSeconds(time: string): number {
  return Math.floor(Date.parse(time) / 1000);
}
