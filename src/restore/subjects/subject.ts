// What a replay works on: a thing in the store, and what an export says happened to it after the backup.
import type { KeyObject } from 'node:crypto';
import type { AuditItem, AuditServices } from '../../audit/audit.ts';
import { isObject } from '../../json-values.ts';
import { narrowerTools } from '../../upstreams/tool-list.ts';
import { parseRate } from '../../settings/limits.ts';
import type { Settings } from '../../settings/settings.ts';

/** Who makes the changes of a restore, in the audit log. */
export const BY_RESTORE = 'restore';

export type Restoring = {
  settings: Settings;
  services: AuditServices;
  /** Derives account ids, and the digests of audiences (links/audience.ts). */
  accountIds: KeyObject;
  /** In the audit log. */
  by: string;
};

/** Makes the change in the store. May be called again after it stopped half-way. */
export type Step = () => Promise<void>;

/** Something that was taken away, and perhaps given back. */
export type Subject = {
  /** The id of what the item is about. Undefined if it is about something else. */
  idIn: (item: AuditItem) => string | undefined;
  /**
   * Compares what happened to it, oldest first, with the store. Undefined if the store has it already, which includes that there is no such thing in
   * the store. Never gives anything back.
   */
  plan: (
    restoring: Restoring,
    id: string,
    items: readonly AuditItem[],
  ) => Promise<Step | undefined>;
  /** What a person has to do after the replay, unless somebody has changed the thing since. */
  hint?: (
    restoring: Restoring,
    id: string,
    items: readonly AuditItem[],
  ) => Promise<string | undefined>;
};

/** Seconds since the epoch. */
export function timeOf({ time }: Pick<AuditItem, 'time'>): number {
  return Math.floor(Date.parse(time) / 1000);
}

export function detailsOf({ arguments: details }: AuditItem): Record<string, unknown> {
  return isObject(details) ? details : {};
}

/** The members that changed, as the last of the changes left them. A member that was removed is undefined. */
export function lastValues(items: readonly AuditItem[]): Record<string, unknown> {
  const values: Record<string, unknown> = {};
  for (const item of items) {
    const { before, after } = detailsOf(item);
    for (const name of Object.keys(isObject(before) ? before : {})) values[name] = undefined;
    Object.assign(values, isObject(after) ? after : {});
  }
  return values;
}

/** Undefined unless it is a time. */
export function secondsIn(value: unknown): number | undefined {
  const time = typeof value === 'string' ? Date.parse(value) : Number.NaN;
  return Number.isNaN(time) ? undefined : Math.floor(time / 1000);
}

/** What a list of tools that was changed takes away from the one in the store. Undefined: nothing. */
export function narrowedTools(
  stored: readonly string[] | undefined,
  value: unknown,
): readonly string[] | undefined {
  if (!Array.isArray(value)) return undefined;
  const last = value.map(String);
  if (!stored) return last;
  const tools = narrowerTools(stored, last);
  return isSameSet(tools, stored) ? undefined : tools;
}

/** A limit on calls that is lower than the one in the store. Undefined: none. */
export function narrowedCalls(stored: string | undefined, value: unknown): string | undefined {
  if (typeof value !== 'string') return undefined;
  const perSecond = (rate: string) => parseRate(rate).count / parseRate(rate).seconds;
  return stored === undefined || perSecond(value) < perSecond(stored) ? value : undefined;
}

/**
 * Whether nobody can tell what a change left: of one that was too long for the log, only the length and a digest are known, and an interrupted one
 * may not have been made.
 */
export function isUncertain(items: readonly AuditItem[]): boolean {
  return items.some(
    (item) => item.outcome === 'interrupted' || typeof detailsOf(item)['sha256'] === 'string',
  );
}

type Limits = { expiresAt: number; tools?: readonly string[]; calls?: string };

/** What the changes take away from a token or a machine in the store. Undefined: nothing. */
export function narrowedLimits(stored: Limits, items: readonly AuditItem[]): Limits | undefined {
  const values = lastValues(items);
  const expiresAt = Math.min(stored.expiresAt, secondsIn(values['expiresAt']) ?? Infinity);
  const tools = narrowedTools(stored.tools, values['tools']);
  const calls = narrowedCalls(stored.calls, values['calls']);
  if (!tools && !calls && expiresAt === stored.expiresAt) return undefined;
  return { expiresAt, ...(tools ? { tools } : {}), ...(calls ? { calls } : {}) };
}

function isSameSet(one: readonly string[], other: readonly string[]): boolean {
  return one.length === other.length && one.every((text) => other.includes(text));
}
