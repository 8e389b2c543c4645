// Devices that wait for a person (RFC 8628). Neither code is stored: a record has the digest of the device code as its name, and the user code
// leads to that name.
import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { EnginePayload } from '../../connections/grant-record.ts';
import { KEEP, type Store } from '../../store/store.ts';

/** Times are seconds since the epoch. */
export type WaitingDevice = {
  payload: EnginePayload & {
    iat: number;
    exp: number;
    clientId: string;
    userCode: string;
    params: { scope?: string; resource: string };
    deviceInfo: { address: string };
  };
  /** Seconds between two polls. Grows by 5 with each `slow_down` (section 3.5). */
  interval: number;
  /** The last poll in time. */
  polledAt?: number;
  /** The grant of the person's approval. */
  decision?: 'denied' | { grantId: string };
};

/** RFC 8628 section 3.2, `expires_in`. The page that refuses a code names this time. */
export const DEVICE_CODE_SECONDS = 600;
/** Seconds, sent as `interval` (section 3.2). */
export const POLL_INTERVAL_SECONDS = 5;
const MAX_INTERVAL_SECONDS = 60;
/** Networks delay some polls more than others. */
const POLL_TOLERANCE_SECONDS = 1;
/** For this long after its expiry, a device learns that its code has expired. */
const KEPT_SECONDS = 300;

const deviceKey = (id: string) => `device:${id}`;
const userCodeKey = (code: string) => `user-code:${code}`;

/** Returns the name of the record of a device code. */
export function deviceIdOf(deviceCode: string): string {
  return createHash('sha256').update(deviceCode).digest('base64url');
}

/** Eight letters without vowels (RFC 8628 section 6.1): the engine's `base-20`. */
export const USER_CODE_MASK = '****-****';
const LETTERS = /^[BCDFGHJKLMNPQRSTVWXZ]{8}$/;

/** Returns the eight letters of a code as a person typed it. Undefined if it cannot be one (section 6.1). */
export function normalizedUserCode(typed: string): string | undefined {
  const letters = typed
    .slice(0, 40)
    .toUpperCase()
    .replace(/[\s\p{P}]/gu, '');
  return LETTERS.test(letters) ? letters : undefined;
}

/** Returns the code as the device shows it. */
export function formattedUserCode(letters: string): string {
  return `${letters.slice(0, 4)}-${letters.slice(4)}`;
}

/** False if the user code is taken, which is as unlikely as guessing one. */
export async function addDevice(
  store: Store,
  id: string,
  payload: WaitingDevice['payload'],
  now: number,
): Promise<boolean> {
  const left = Math.max(1, Math.ceil(payload.exp - now));
  if (!(await store.add(userCodeKey(payload.userCode), id, left))) return false;
  const { scope, resource } = payload.params;
  const params = { ...(scope === undefined ? {} : { scope }), resource };
  const device: WaitingDevice = {
    payload: { ...payload, params },
    interval: POLL_INTERVAL_SECONDS,
  };
  await store.set(deviceKey(id), device, left + KEPT_SECONDS);
  return true;
}

export async function findDevice(store: Store, id: string): Promise<WaitingDevice | undefined> {
  return (await store.get<WaitingDevice>(deviceKey(id)))?.value;
}

/** Finds a device that still waits, by its eight letters. */
export async function findWaitingDevice(
  store: Store,
  userCode: string,
  now: number,
): Promise<{ id: string; device: WaitingDevice } | undefined> {
  const id = (await store.get<string>(userCodeKey(userCode)))?.value;
  const device = id === undefined ? undefined : await findDevice(store, id);
  return id !== undefined && device && isWaiting(device, now) ? { id, device } : undefined;
}

export function isWaiting({ decision, payload }: WaitingDevice, now: number): boolean {
  return decision === undefined && now < payload.exp;
}

/**
 * False if the device has to slow down (section 3.5). Polls that come too early are written only while the interval grows, so that they cost
 * no writes in the end.
 */
export async function recordPoll(store: Store, id: string, now: number): Promise<boolean> {
  let isInTime = true;
  await store.update<WaitingDevice>(deviceKey(id), (device) => {
    if (!device) return KEEP;
    const { interval, polledAt = -Infinity } = device;
    isInTime = now - polledAt >= interval - POLL_TOLERANCE_SECONDS;
    if (!isInTime && interval >= MAX_INTERVAL_SECONDS) return KEEP;
    const value = isInTime
      ? { ...device, polledAt: now }
      : { ...device, interval: interval + POLL_INTERVAL_SECONDS };
    return { value, ttl: timeToLive(device, now) };
  });
  return isInTime;
}

/** Records the first decision. False if there is another one already, or the code has expired. */
export async function decideDevice(
  store: Store,
  id: string,
  decision: NonNullable<WaitingDevice['decision']>,
  now: number,
): Promise<boolean> {
  let isDecided = false;
  const after = await store.update<WaitingDevice>(deviceKey(id), (device) => {
    const isFirst = device !== undefined && isWaiting(device, now);
    isDecided = isFirst || isDeepStrictEqual(device?.decision, decision);
    return device && isFirst
      ? { value: { ...device, decision }, ttl: timeToLive(device, now) }
      : KEEP;
  });
  if (after && isDecided) await store.delete(userCodeKey(after.value.payload.userCode));
  return isDecided;
}

function timeToLive({ payload }: WaitingDevice, now: number): number {
  return Math.max(1, Math.ceil(payload.exp - now)) + KEPT_SECONDS;
}
