// The record of the keys: read, changed in one write at a time, and followed while the process runs.
import { createSecretKey, type KeyObject } from 'node:crypto';
import type { ByteStore } from './byte-store.ts';
import {
  type DataKeys,
  type Envelope,
  envelopeBytes,
  fingerprintOf,
  KEYS_RECORD,
  keysOfEarlierStore,
  nameKeyOf,
  newestOf,
  newKeys,
  newStoreId,
  parseEnvelope,
  signingSecrets,
  storedVersions,
  unwrap,
  valueRing,
  wrap,
} from './data-keys.ts';
import { createEncryption, type Encryption, type RingKey } from './encryption.ts';
import { deriveKey, type RootSecrets } from './key-derivation.ts';
import { refusalOf, versionsAfterOpening, versionsOfNewStore } from './state-version.ts';
import { StoreNotOpened, StoreUnavailable } from './store.ts';

/** The first key signs, every key verifies. */
export type KeyRing = readonly [KeyObject, ...KeyObject[]];

/** The keys of a store that this process has open. */
export type StoredKeys = {
  encryption: Encryption;
  /** Keys for one purpose, independent of those for others. Follows the keys of the store. */
  ring: (purpose: string) => KeyRing;
  state: () => KeysState;
  /** Reads the record again. Stores it again if the store lost its data. */
  follow: () => Promise<void>;
  /** Changes the record, in one write. Undefined leaves it as it is. Throws StoreUnavailable if this process has an earlier root secret. */
  change: (change: (state: KeysState) => KeysState | undefined) => Promise<void>;
};

export type KeysState = { envelope: Envelope; keys: DataKeys };

/** Which store is expected. */
export type ExpectedStore = {
  /** The setting. A new store gets this id. */
  storeId?: string | undefined;
  /** What shows that there was a store, so that none is created. */
  earlier?: string | undefined;
  /** Where it is. */
  at?: string;
};

/** What the start did to the record. */
export type KeysOpening = 'created' | 'converted' | 'wrapped' | 'updated' | 'opened';

type Opened = { stored: Buffer; state: KeysState; opening: KeysOpening };

/** Throws StoreNotOpened if no secret opens the store, or if a process of this version would lose something in it. */
export async function openStoredKeys(
  bytes: ByteStore,
  secrets: RootSecrets & ExpectedStore,
  version: string,
): Promise<{ keys: StoredKeys; opening: KeysOpening }> {
  if (secrets.secret === secrets.previousSecret)
    throw new StoreNotOpened(
      'GATEHOUSE_PREVIOUS_SECRET is the same as GATEHOUSE_SECRET: remove it, or set it to the root secret that is being replaced',
    );
  const opened = await openRecord(bytes, secrets, version);
  return { keys: followKeys(bytes, secrets, version, opened), opening: opened.opening };
}

/** Each step is one write, so that a process that is killed leaves a record that opens. */
async function openRecord(
  bytes: ByteStore,
  secrets: RootSecrets & ExpectedStore,
  version: string,
): Promise<Opened> {
  let stored = await bytes.get(KEYS_RECORD);
  for (;;) {
    const { opening, state } = openingOf(stored, secrets, version);
    if (opening === 'created' && secrets.earlier !== undefined)
      throw new StoreNotOpened(
        `${placed(secrets)} is empty, but ${secrets.earlier}. Check dataDir and GATEHOUSE_STORE, or restore the backup. To begin with a new, empty store, start once with --new-store`,
      );
    requireStoreId(state.envelope, secrets);
    const next = opening === 'opened' && stored ? stored : envelopeBytes(state.envelope);
    if (stored?.equals(next)) return { stored, state, opening };
    const found = await bytes.compareAndSwap(KEYS_RECORD, stored, next, Infinity);
    if (found === true) return { stored: next, state, opening };
    stored = found;
  }
}

function placed({ at }: ExpectedStore): string {
  return at === undefined ? 'the store' : `the store at ${at}`;
}

function requireStoreId({ id }: Envelope, expected: ExpectedStore): void {
  const { storeId } = expected;
  if (storeId === undefined || id === storeId) return;
  throw new StoreNotOpened(
    `${placed(expected)} is another one, with the id ${id}, and storeId in the settings is ${storeId}. Check dataDir and GATEHOUSE_STORE. If it is the right one, set storeId to its id`,
  );
}

function openingOf(
  stored: Buffer | undefined,
  secrets: RootSecrets & ExpectedStore,
  version: string,
): Omit<Opened, 'stored'> {
  const { secret } = secrets;
  const newId = () => secrets.storeId ?? newStoreId();
  const first = (keys: DataKeys): KeysState => ({
    keys,
    envelope: {
      format: 2,
      id: newId(),
      ...versionsOfNewStore(version),
      wrapped: [wrap(keys, secret)],
      newest: newestOf(keys),
      replaced: [],
    },
  });
  if (!stored) return { opening: 'created', state: first(newKeys(secret)) };
  const refusal = versionRefusal(stored, version);
  if (refusal !== undefined) throw new StoreNotOpened(refusal);
  const found = parseEnvelope(stored);
  if (!found) {
    const keys = keysOfEarlierStore(stored, secretsIn(secrets));
    if (!keys) throw new StoreNotOpened(OTHER_SECRET);
    return { opening: 'converted', state: first(keys) };
  }
  const keys = openEnvelope(found, secrets);
  const own = fingerprintOf(secret);
  const versions = versionsAfterOpening(found, version);
  const isUpdated =
    versions.version !== found.version || versions.needs !== found.needs || found.id === undefined;
  const envelope = { ...found, ...versions, id: found.id ?? newId() };
  if (envelope.wrapped.some(({ by }) => by === own))
    return { opening: isUpdated ? 'updated' : 'opened', state: { envelope, keys } };
  const wrapped = [wrap(keys, secret), ...envelope.wrapped];
  return { opening: 'wrapped', state: { keys, envelope: { ...envelope, wrapped } } };
}

/** Why a process of this version must not use the store with this record. */
function versionRefusal(stored: Buffer, version: string): string | undefined {
  const versions = storedVersions(stored);
  return versions && refusalOf(versions, version);
}

function secretsIn({ secret, previousSecret }: RootSecrets): string[] {
  return previousSecret === undefined ? [secret] : [secret, previousSecret];
}

/** With the first secret that opens it. */
function unwrapWith(envelope: Envelope, secrets: RootSecrets): DataKeys | undefined {
  for (const secret of secretsIn(secrets)) {
    const keys = unwrap(envelope, secret);
    if (keys) return keys;
  }
  return undefined;
}

const OTHER_SECRET =
  'the store was created with another root secret: set GATEHOUSE_SECRET to that secret';

/** With what tells secrets apart, for the store and for each secret that is set. */
function otherSecret({ wrapped }: Envelope, secrets: RootSecrets): string {
  const [needed, ...others] = wrapped.map(({ by }) => by).toReversed();
  const given = secretsIn(secrets).map(fingerprintOf).join(' and ');
  const needs = [needed, ...others].join(' or ');
  return `${OTHER_SECRET} (the fingerprint of the one that opens it is ${needs}, and not ${given}). A restored backup needs the root secret of its time: set it as GATEHOUSE_PREVIOUS_SECRET`;
}

/** What an operator should know of the secrets, although the store opened. */
export function secretsNotice({ envelope }: KeysState, secrets: RootSecrets): string | undefined {
  const by = envelope.wrapped.map((each) => each.by);
  const { previousSecret } = secrets;
  if (by[0] !== fingerprintOf(secrets.secret))
    return 'a newer root secret opens the store too: this process still has the earlier one as GATEHOUSE_SECRET';
  if (previousSecret === undefined) return undefined;
  const previous = fingerprintOf(previousSecret);
  if (by.includes(previous))
    return 'the previous root secret still opens the store: once every process has the new one, run gatehouse keys rewrap';
  if (!envelope.replaced.includes(previous))
    return 'GATEHOUSE_PREVIOUS_SECRET never opened this store: if the root secret is being replaced, the current and the previous one are exchanged';
  return undefined;
}

/** Throws StoreNotOpened. */
function openEnvelope(envelope: Envelope, secrets: RootSecrets): DataKeys {
  const { secret, previousSecret } = secrets;
  const isReplaced = envelope.replaced.includes(fingerprintOf(secret));
  if (isReplaced && previousSecret !== undefined && unwrap(envelope, previousSecret))
    throw new StoreNotOpened(
      'the current and the previous root secret are exchanged: GATEHOUSE_SECRET is the one that was replaced, and GATEHOUSE_PREVIOUS_SECRET the one in force. Set GATEHOUSE_SECRET to the one in force',
    );
  if (isReplaced)
    throw new StoreNotOpened(
      'GATEHOUSE_SECRET is a root secret that was replaced, and opens nothing any more: set it to the one that replaced it',
    );
  const keys = unwrapWith(envelope, secrets);
  if (!keys) throw new StoreNotOpened(otherSecret(envelope, secrets));
  return keys;
}

function followKeys(
  bytes: ByteStore,
  secrets: RootSecrets,
  version: string,
  opened: Opened,
): StoredKeys {
  let { stored, state } = opened;
  const values: RingKey[] = valueRing(state.keys);
  const rings = new Map<string, [KeyObject, ...KeyObject[]]>();
  const keysFor = (purpose: string): [KeyObject, ...KeyObject[]] => {
    const [first, ...others] = signingSecrets(state.keys).map((secret) =>
      createSecretKey(deriveKey(secret, purpose)),
    );
    if (!first) throw new TypeError('the store has no keys');
    return [first, ...others];
  };
  const adopt = (next: Omit<Opened, 'opening'>) => {
    ({ stored, state } = next);
    values.splice(0, values.length, ...valueRing(state.keys));
    for (const [purpose, ring] of rings) ring.splice(0, ring.length, ...keysFor(purpose));
  };
  const read = (found: Buffer): KeysState | undefined => {
    const envelope = parseEnvelope(found);
    if (!envelope) return undefined;
    const keys = unwrapWith(envelope, secrets);
    if (keys) return { envelope, keys };
    if (!envelope.replaced.includes(fingerprintOf(secrets.secret))) return undefined;
    if (envelope.newest !== undefined && envelope.newest !== newestOf(state.keys))
      throw new StoreUnavailable(new Error(OTHER_DATA_KEYS));
    // The process goes on with the keys that it has.
    return { envelope, keys: state.keys };
  };
  const adoptStored = (found: Buffer) => {
    const refusal = versionRefusal(found, version);
    if (refusal !== undefined) throw new StoreUnavailable(new Error(refusal));
    const next = read(found);
    if (!next || next.keys.names !== state.keys.names || !sharesSecret(next.keys, state.keys))
      throw new StoreUnavailable(
        new Error('the store was emptied and initialized with other keys: restart this process'),
      );
    adopt({ stored: found, state: next });
  };
  const self: StoredKeys = {
    encryption: createEncryption({ nameKey: nameKeyOf(state.keys), ring: values }),
    ring(purpose) {
      const ring = rings.get(purpose) ?? keysFor(purpose);
      rings.set(purpose, ring);
      return ring;
    },
    state: () => state,
    async follow() {
      const found = await bytes.compareAndSwap(KEYS_RECORD, undefined, stored, Infinity);
      if (found === true || !found || found.equals(stored)) return;
      try {
        adoptStored(found);
      } catch (error) {
        throw error instanceof StoreNotOpened ? new StoreUnavailable(error) : error;
      }
    },
    async change(change) {
      for (;;) {
        await self.follow();
        if (!hasNewestSecret(state, secrets)) throw new StoreUnavailable(new Error(EARLIER_SECRET));
        const next = change(state);
        if (!next) return;
        const after = envelopeBytes(next.envelope);
        const found = await bytes.compareAndSwap(KEYS_RECORD, stored, after, Infinity);
        if (found === true) return adopt({ stored: after, state: next });
      }
    },
  };
  return self;
}

/** The keys are encrypted with root secrets that a process with an earlier one does not know, so that it must not change them. */
export function hasNewestSecret({ envelope }: KeysState, { secret }: RootSecrets): boolean {
  return envelope.wrapped[0]?.by === fingerprintOf(secret);
}

export const EARLIER_SECRET =
  'this process has an earlier root secret than the store: restart every process with the new one as GATEHOUSE_SECRET';

const OTHER_DATA_KEYS =
  'the store has new data keys, which the root secret of this process does not open: restart this process with the root secret in force as GATEHOUSE_SECRET';

function sharesSecret(first: DataKeys, second: DataKeys): boolean {
  const known = new Set(signingSecrets(first));
  return signingSecrets(second).some((secret) => known.has(secret));
}

type ReadRecord = (name: string) => Promise<Buffer | null>;

/** What a start would say about the secrets and the store. */
export type KeysReport = {
  /** Of the store. Absent if it has none yet. */
  id?: string;
  /** Why the start would be refused. */
  refusal?: string;
  /** No secret opens the store. */
  isOtherSecret?: boolean;
  notice?: string;
};

function storedId(stored: Buffer): string | undefined {
  return parseEnvelope(stored)?.id;
}

/** Undefined if the store is empty. Does not write. */
export async function reportKeys(
  read: ReadRecord,
  secrets: RootSecrets & ExpectedStore,
  version: string,
): Promise<KeysReport | undefined> {
  const stored = await read(KEYS_RECORD);
  if (stored === null) return undefined;
  try {
    const { state, opening } = openingOf(stored, secrets, version);
    const notice = opening === 'converted' ? undefined : secretsNotice(state, secrets);
    const id = storedId(stored);
    requireStoreId(state.envelope, secrets);
    return { ...(id === undefined ? {} : { id }), ...(notice === undefined ? {} : { notice }) };
  } catch (error) {
    if (!(error instanceof StoreNotOpened)) throw error;
    const { message: refusal } = error;
    return { refusal, isOtherSecret: refusal.startsWith(OTHER_SECRET) };
  }
}

/** Undefined if no secret opens it. */
function keysIn(stored: Buffer, secrets: RootSecrets): DataKeys | undefined {
  const envelope = parseEnvelope(stored);
  return envelope ? unwrapWith(envelope, secrets) : keysOfEarlierStore(stored, secretsIn(secrets));
}

/**
 * Reads one value without opening the store, so that nothing is written. Returns undefined if the value does not exist or was written with
 * other keys.
 */
export async function readStored<Value>(
  read: ReadRecord,
  key: string,
  secrets: RootSecrets,
): Promise<Value | undefined> {
  const stored = await read(KEYS_RECORD);
  const keys = stored === null ? undefined : keysIn(stored, secrets);
  if (!keys) return undefined;
  const encryption = createEncryption({ nameKey: nameKeyOf(keys), ring: valueRing(keys) });
  const name = encryption.name(key);
  const value = await read(name);
  return value === null ? undefined : encryption.decrypt<Value>(name, value);
}
