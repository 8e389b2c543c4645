// Finds the record that an argument means: by its id, by its connect link, or by a name that no other record has.
import { ManagementError } from '../api/management-error.ts';
import { plain } from './terminal.ts';

type Kind<Item> = {
  noun: string;
  /** The names that records have besides their id. */
  names: string;
  /** Finds a record by its id or link without reading the list. */
  find?: (text: string) => Promise<Item | undefined>;
  list: () => AsyncIterable<Item> | Iterable<Item>;
  isNamed: (item: Item, text: string) => boolean;
  /** Distinguishes records with the same name. */
  describe: (item: Item) => string;
  /** Ids without a record are passed on, because grants outlive what they belong to. */
  id?: RegExp;
};

const MAX_LISTED = 20;

/** Rejects with `not_found`, or with `ambiguous_name` and the ids of all records with the name. */
export async function resolveId<Item extends { id: string }>(
  argument: string,
  { noun, names, find, list, isNamed, describe, id }: Kind<Item>,
): Promise<string> {
  const text = argument.trim().normalize();
  const found = text === '' ? undefined : await find?.(text);
  if (found) return found.id;
  const matching: Item[] = [];
  for await (const item of list()) {
    if (item.id === text) return item.id;
    if (isNamed(item, text)) matching.push(item);
  }
  const [first, ...others] = matching;
  if (others.length > 0) {
    const listed = matching
      .slice(0, MAX_LISTED)
      .map((item) => `  ${plain(item.id)}  ${plain(describe(item))}`);
    const rest =
      matching.length > MAX_LISTED ? [`  … and ${matching.length - MAX_LISTED} more`] : [];
    const heading = `${matching.length} ${noun}s have this name. Use an id:`;
    throw new ManagementError('ambiguous_name', [heading, ...listed, ...rest].join('\n'));
  }
  if (first) return first.id;
  if (id?.test(text)) return text;
  throw new ManagementError('not_found', `there is no ${noun} with this id${names}`);
}

/** Undefined if there is no such record. */
export async function foundOnly<Item>(response: Promise<Item>): Promise<Item | undefined> {
  try {
    return await response;
  } catch (error) {
    if (error instanceof ManagementError && error.code === 'not_found') return undefined;
    throw error;
  }
}
