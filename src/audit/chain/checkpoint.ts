// A checkpoint: a signed statement about the items since the one before it.
import { hash } from 'node:crypto';
import {
  compactVerify,
  CompactSign,
  createLocalJWKSet,
  decodeJwt,
  importJWK,
  type JWK,
} from 'jose';
import { isObject } from '../../json-values.ts';
import { SIGNING_ALGORITHM, type SigningKey } from '../../keys/signing-keys.ts';

type Place = { number: number; id: string };

/** What is signed. */
export type Checkpoint = {
  /** From 1, without gaps. */
  checkpoint: number;
  /** The id of the item that has it. */
  id: string;
  /** ISO 8601. */
  time: string;
  /** Of the log, and of its last item. */
  log: string;
  epoch: string;
  /** The items that it covers. */
  first: Place;
  last: Place;
  /** The head of the chain before and after them (`chainHead`); '' before the first item of all. */
  previous: string;
  head: string;
};

/** What lies beside a checkpoint until the last of its items is trimmed: the ids and digests of its items, in order; '' for one that was missing. */
export type CheckpointList = {
  jws: string;
  ids: readonly string[];
  digests: readonly string[];
};

/** A checkpoint covers no more, so that verifiers have to hold no more of them. */
export const CHECKPOINT_ITEMS = 1000;

const TYPE = 'gatehouse-audit-checkpoint';
const DIGEST_BYTES = 32;
/** In Base64url. */
const DIGEST_LENGTH = 43;

/** The head after the digests of further items. */
export function chainHead(previous: string, digests: readonly string[]): string {
  // The head and a digest. Reused, because allocating a buffer takes longer than hashing it.
  const pair = Buffer.alloc(2 * DIGEST_BYTES);
  pair.write(previous, 'base64url');
  for (const digest of digests) {
    // What is too long would be cut. No chain has this head.
    if (digest.length > DIGEST_LENGTH) return '';
    pair.fill(0, DIGEST_BYTES);
    pair.write(digest, DIGEST_BYTES, 'base64url');
    pair.write(hash('sha256', pair, 'binary'), 'binary');
  }
  return pair.toString('base64url', 0, DIGEST_BYTES);
}

export async function signCheckpoint(
  checkpoint: Checkpoint,
  jwk: SigningKey['jwk'],
): Promise<string> {
  return new CompactSign(Buffer.from(JSON.stringify(checkpoint)))
    .setProtectedHeader({ alg: SIGNING_ALGORITHM, kid: jwk.kid, typ: TYPE })
    .sign(await importJWK(jwk, SIGNING_ALGORITHM));
}

/** Reads without verifying. Undefined for anything else than a checkpoint. */
export function readCheckpoint(jws: string): Checkpoint | undefined {
  try {
    const read: unknown = decodeJwt(jws);
    return isCheckpoint(read) ? read : undefined;
  } catch {
    return undefined;
  }
}

function isCheckpoint(value: unknown): value is Checkpoint {
  if (!isObject(value)) return false;
  const { checkpoint, first, last } = value;
  const texts = ['id', 'time', 'log', 'epoch', 'previous', 'head'].map((name) => value[name]);
  const numbers = [
    checkpoint,
    isObject(first) && first['number'],
    isObject(last) && last['number'],
  ];
  return texts.every((text) => typeof text === 'string') && numbers.every(Number.isSafeInteger);
}

/** Whether one of the keys signed it. */
export type IsSigned = (jws: string) => Promise<boolean>;

export function checkpointSignatures(keys: readonly JWK[]): IsSigned {
  const find = createLocalJWKSet({ keys: [...keys] });
  return async (jws) => {
    try {
      const { protectedHeader } = await compactVerify(jws, find);
      return protectedHeader.typ === TYPE;
    } catch {
      return false;
    }
  };
}
