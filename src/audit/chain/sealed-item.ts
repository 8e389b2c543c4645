// What the chain of checkpoints has of an item: a digest that stays the same after what the item says about a person was deleted.
import { hash } from 'node:crypto';
import { pooledRandom } from '../../pooled-random.ts';
import type { AuditItem } from '../audit.ts';
import { canonicalJson, withCanonicalForm } from './canonical.ts';

/** An item as it is stored and exported. */
export type SealedItem = AuditItem & {
  /** Without it, nobody can find values by guessing what has their digest. Deleted together with them. */
  salt?: string;
  /** Of deleted values, by member. */
  digests?: Record<string, string>;
};

/** Members that say something about a person. What the log gets to know of that kind has to be added here. */
const PERSONAL_MEMBERS = [
  'address',
  'userAgent',
  'clientName',
  'target',
  'arguments',
  'argumentsJson',
  'groups',
  'upstreamAccount',
  'subject',
] as const;

/** Names that an export adds at reading. The chain does not know them. */
export const JOINED_NAMES = 'names';

const SALT_BYTES = 16;
const random = pooledRandom();

/**
 * Adds what the digests of new items need. Those of one account that are stored together have one salt: they are forgotten together, and equal
 * values are hashed once.
 */
export function sealed(items: readonly AuditItem[]): SealedItem[] {
  const salts = new Map<string | undefined, string>();
  return items.map((item) => {
    const whole = withCanonicalForm(item) as AuditItem;
    if (!hasPersonal(whole)) return whole;
    let salt = salts.get(item.account);
    if (salt === undefined) {
      salt = random(SALT_BYTES).toString('base64url');
      if (item.account !== undefined) salts.set(item.account, salt);
    }
    return { ...whole, salt };
  });
}

/** The item as others than verifiers see it. */
export function unsealed({ salt: _salt, digests: _digests, ...item }: SealedItem): AuditItem {
  return item;
}

/** `item` has its number and its epoch. `known` has digests of the same values. Throws a TypeError if it is not an item of the log. */
export function itemDigest(item: SealedItem, known?: Map<string, string>): string {
  const open: Record<string, unknown> = { ...item };
  for (const member of OUTSIDE) open[member] = undefined;
  const personal = { ...item.digests, ...personalDigests(item, known) };
  if (Object.keys(personal).length > 0) open['personal'] = personal;
  return hash('sha256', canonicalJson(open), 'base64url');
}

const OUTSIDE = ['salt', 'digests', JOINED_NAMES, ...PERSONAL_MEMBERS] as const;

/** The item without what it says about a person, with the same digest. */
export function forgotten(item: SealedItem): SealedItem {
  const { salt: _salt, ...left } = item;
  const found = personalOf(item);
  if (found.length === 0) return item;
  const kept = Object.entries(left).filter(([member]) => !found.some(([name]) => name === member));
  const digests = { ...item.digests, ...personalDigests(item) };
  return { ...(Object.fromEntries(kept) as AuditItem), digests };
}

export function hasPersonal(item: SealedItem): boolean {
  const members: Record<string, unknown> = item;
  return PERSONAL_MEMBERS.some((name) => members[name] !== undefined);
}

function personalOf(item: SealedItem): [name: string, value: unknown][] {
  const members: Record<string, unknown> = item;
  return PERSONAL_MEMBERS.flatMap((name) => {
    const value = members[name];
    return value === undefined ? [] : [[name, value] as [string, unknown]];
  });
}

function personalDigests(item: SealedItem, known?: Map<string, string>): Record<string, string> {
  const digests: Record<string, string> = {};
  for (const [name, value] of personalOf(item)) {
    const json = canonicalJson([item.salt ?? '', name, value]);
    const digest = known?.get(json) ?? hash('sha256', json, 'base64url');
    known?.set(json, digest);
    digests[name] = digest;
  }
  return digests;
}
