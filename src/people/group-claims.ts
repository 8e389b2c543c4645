// Reads the claim that lists a person's groups, in the forms in which identity providers send it. Pure: no I/O.
import { isObject } from '../json-values.ts';

/** `groups` is absent if the claim has none that can be read. `unusable` says what was sent that is no group, for example `a number`. */
export type GroupsInClaim = { groups?: string[]; unusable?: string };

/**
 * Returns the member with this name. If there is none, the name is a path with dots: `realm_access.roles` is the member `roles` of the member
 * `realm_access`. Names of members may contain dots themselves (`https://example.com/groups`).
 */
export function claimAt(claims: object, name: string): unknown {
  const memberNamed = (key: string): unknown =>
    Object.hasOwn(claims, key) ? Reflect.get(claims, key) : undefined;
  const member = memberNamed(name);
  if (member !== undefined) return member;
  for (let dot = name.lastIndexOf('.'); dot > 0; dot = name.lastIndexOf('.', dot - 1)) {
    const outer = memberNamed(name.slice(0, dot));
    const found = isObject(outer) ? claimAt(outer, name.slice(dot + 1)) : undefined;
    if (found !== undefined) return found;
  }
  return undefined;
}

/**
 * A string is one group, also if it contains commas: names of groups may (`CN=Analysts,OU=Groups`), so parts of it are never groups. Entries of
 * a list are names, or objects with a `name`. The keys of an object are names.
 */
export function groupsIn(claim: unknown): GroupsInClaim {
  if (claim === undefined || claim === null) return {};
  if (typeof claim === 'string') return inText(claim);
  if (Array.isArray(claim)) return inList(claim);
  if (isObject(claim)) return { groups: Object.keys(claim) };
  return { unusable: kindOf(claim) };
}

/** The `=` is in the names of a directory, such as `CN=Analysts,OU=Groups`. */
function inText(text: string): GroupsInClaim {
  const looksLikeList = /^\s*\[|,/.test(text) && !text.includes('=');
  return {
    groups: text === '' ? [] : [text],
    ...(looksLikeList ? { unusable: 'one string that looks like a list' } : {}),
  };
}

function inList(list: readonly unknown[]): GroupsInClaim {
  const names = list.map((entry) => (isObject(entry) ? entry['name'] : entry));
  const groups = names.filter((name): name is string => typeof name === 'string' && name !== '');
  const other = list.find((_, index) => typeof names[index] !== 'string');
  return {
    groups: [...new Set(groups)],
    ...(groups.length < names.length && other !== undefined
      ? { unusable: `a list with ${kindOf(other)}` }
      : {}),
  };
}

function kindOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'a list';
  return isObject(value) ? 'an object without a name' : `a ${typeof value}`;
}
