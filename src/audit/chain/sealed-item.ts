// What the chain of checkpoints has of an item: a digest that stays the same after what the item says about a person was deleted.
import { createHash, randomBytes } from 'node:crypto';
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

/** Adds what the digests of a new item need. */
export function sealed(item: AuditItem): SealedItem {
  const whole = withCanonicalForm(item) as AuditItem;
  return personalOf(whole).length === 0
    ? whole
    : { ...whole, salt: randomBytes(SALT_BYTES).toString('base64url') };
}

/** The item as others than verifiers see it. */
export function unsealed({ salt: _salt, digests: _digests, ...item }: SealedItem): AuditItem {
  return item;
}

/** `item` has its number and its epoch. Throws a TypeError if it is not an item of the log. */
export function itemDigest(item: SealedItem): Buffer {
  const { salt: _salt, digests, [JOINED_NAMES]: _names, ...open } = item as SealedItem & Joined;
  const personal = { ...digests, ...personalDigests(item) };
  for (const member of PERSONAL_MEMBERS) delete (open as Record<string, unknown>)[member];
  return sha256(canonicalJson(Object.keys(personal).length === 0 ? open : { ...open, personal }));
}

type Joined = { [JOINED_NAMES]?: unknown };

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
  return personalOf(item).length > 0;
}

function personalOf(item: SealedItem): [name: string, value: unknown][] {
  const members: Record<string, unknown> = item;
  return PERSONAL_MEMBERS.flatMap((name) => {
    const value = members[name];
    return value === undefined ? [] : [[name, value] as [string, unknown]];
  });
}

function personalDigests(item: SealedItem): Record<string, string> {
  return Object.fromEntries(
    personalOf(item).map(([name, value]) => [
      name,
      sha256(canonicalJson([item.salt ?? '', name, value])).toString('base64url'),
    ]),
  );
}

export function sha256(...parts: readonly (string | Buffer)[]): Buffer {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part);
  return hash.digest();
}
