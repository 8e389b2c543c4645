// What the chain of checkpoints has of an item: a digest that stays the same after what the item says about a person was deleted.
import { hash } from 'node:crypto';
import { pooledRandom } from '../../pooled-random.ts';
import type { AuditItem } from '../audit.ts';
import { canonicalJson, canonicalObjects, withCanonicalForm } from './canonical.ts';

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

/** `place` is where the item is stored. `known` has digests of the same values. Throws a TypeError if it is not an item of the log. */
export function itemDigest(
  item: SealedItem,
  place: Pick<SealedItem, 'epoch' | 'number'> = item,
  known?: Map<string, string>,
): string {
  const { epoch, number } = place;
  const personal = personalDigests(item, known);
  return hash('sha256', canonicalForm(item, { epoch, number, personal }), 'base64url');
}

const OUTSIDE = ['salt', 'digests', JOINED_NAMES, ...PERSONAL_MEMBERS] as const;
const canonicalForm = canonicalObjects(new Set(OUTSIDE), ['epoch', 'number', 'personal']);

/** The item without what it says about a person, with the same digest. */
export function forgotten(item: SealedItem): SealedItem {
  if (!hasPersonal(item)) return item;
  const { salt: _salt, ...left } = item;
  const digests = personalDigests(item) ?? {};
  const kept = Object.entries(left).filter(([member]) => !Object.hasOwn(digests, member));
  return { ...(Object.fromEntries(kept) as AuditItem), digests };
}

export function hasPersonal(item: SealedItem): boolean {
  const members: Record<string, unknown> = item;
  return PERSONAL_MEMBERS.some((name) => members[name] !== undefined);
}

/** Also those of values that were deleted. Undefined if there are none. */
function personalDigests(
  item: SealedItem,
  known?: Map<string, string>,
): Record<string, string> | undefined {
  const members: Record<string, unknown> = item;
  const { salt = '' } = item;
  const digests = { ...item.digests };
  for (const name of PERSONAL_MEMBERS) {
    const value = members[name];
    if (value === undefined) continue;
    const key = typeof value === 'string' ? `${name} ${salt} ${value}` : undefined;
    const digest =
      (key === undefined ? undefined : known?.get(key)) ??
      hash('sha256', canonicalJson([salt, name, value]), 'base64url');
    if (key !== undefined) known?.set(key, digest);
    digests[name] = digest;
  }
  return Object.keys(digests).length > 0 ? digests : undefined;
}
