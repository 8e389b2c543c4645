// Takes away again what a restored store gives back. Every step can be repeated after the process was killed.
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { type AuditServices, recordAudit } from '../audit/audit.ts';
import {
  auditReplicated,
  beginAuditEpoch,
  lastAuditNumber,
  readAuditItems,
} from '../audit/audit-log.ts';
import { findConnection } from '../connections/connections.ts';
import { persistentKey } from '../keys/persistent-key.ts';
import { listenForProcesses, type Processes } from '../reload/processes.ts';
import type { Settings } from '../settings/settings.ts';
import { type OpenedStore, openStore } from '../store/open.ts';
import type { StoreTimeouts } from '../store/timeout.ts';
import { StoreInUse } from '../store/store.ts';
import { copyOf } from './copied-item.ts';
import { SUBJECTS } from './decisions.ts';
import { endAll } from './end-all.ts';
import type { Connected, Happened, History } from './history.ts';
import { readExport, type ReadExport } from './read-export.ts';
import { RestoreRefused } from './refused.ts';
import { BY_RESTORE, type Restoring, type Subject } from './subjects/subject.ts';
import { noteFinished, noteUnfinished } from './unfinished.ts';

export type RestoreOptions = {
  /** The file of an export. */
  replay: string | undefined;
  endAll: boolean;
  /** Shows how far it is. */
  onProgress: (text: string) => void;
  now: () => number;
  /** Only tests set these. `waitMs`: for answers of processes. */
  waitMs?: number;
  timeouts?: Partial<StoreTimeouts>;
};

export type RestoreReport = {
  /** What was taken away again, and what the store had already. */
  applied: number;
  again: number;
  /** Between the last line of the export and now. Null without an export. */
  gapMinutes: number | null;
  /** Connections of people that the store does not have, because it is older. */
  signInAgain: Connected[];
  /** What a person has to do or check. */
  hints: string[];
  /** What is wrong with the export. */
  problems: string[];
};

/** Throws RestoreRefused, or StoreNotOpened. */
export async function restore(settings: Settings, options: RestoreOptions): Promise<RestoreReport> {
  const store = await openExclusively(settings, options);
  let processes: Processes | undefined;
  try {
    if (settings.store.kind !== 'sqlite')
      processes = await listenForProcesses(store, options.waitMs);
    const requireAlone = () => refuseProcesses(processes?.heard() ?? []);
    requireAlone();
    return await restoreIn(store, settings, { ...options, requireAlone });
  } finally {
    processes?.close();
    await store.close();
  }
}

async function openExclusively(
  settings: Settings,
  { timeouts = {} }: Pick<RestoreOptions, 'timeouts'>,
): Promise<OpenedStore> {
  const { secret, previousSecret, dataDir, store: address } = settings;
  if (address.kind === 'sqlite') {
    const file = resolve(dataDir, address.file);
    if (!existsSync(file))
      throw new RestoreRefused(`there is no store at ${file}: put the backup there first`);
  }
  try {
    return await openStore(address, {
      secret,
      previousSecret,
      dataDir,
      isExclusive: true,
      timeouts,
    });
  } catch (error) {
    if (error instanceof StoreInUse) refuseProcesses(['another process']);
    throw error;
  }
}

function refuseProcesses(names: readonly string[]): void {
  if (names.length === 0) return;
  const subject = names.length === 1 ? `${names[0]} uses` : `${names.join(', ')} use`;
  throw new RestoreRefused(`${subject} the store: stop every Gatehouse process first`);
}

type Run = RestoreOptions & { requireAlone: () => void };

async function restoreIn(
  store: OpenedStore,
  settings: Settings,
  options: Run,
): Promise<RestoreReport> {
  const { replay, now, onProgress, requireAlone } = options;
  const services: AuditServices = {
    store,
    metrics: { auditEvent: () => undefined },
    auditLog: () => undefined,
    now,
  };
  const accountIds = await persistentKey(store, 'account-ids');
  const restoring: Restoring = { settings, services, accountIds, by: BY_RESTORE };
  const found =
    replay === undefined
      ? undefined
      : await readExport(replay, store, {
          issuer: settings.authUrl,
          onProgress: (part) => onProgress(`read ${Math.floor(part * 100)} % of the export`),
        });
  requireAlone();
  await noteUnfinished(store, new Date(now() * 1000).toISOString());
  await beginEpoch(services, found);
  const counts = { applied: 0, again: 0 };
  const hints: string[] = [];
  const count = (isApplied: boolean) => {
    counts[isApplied ? 'applied' : 'again'] += 1;
    onProgress(`${counts.applied} applied, ${counts.again} again`);
    requireStillAlone(requireAlone);
  };
  for (const history of found?.histories ?? []) {
    const { isApplied, hint } = await replayOne(restoring, history);
    if (hint !== undefined) hints.push(hint);
    count(isApplied);
  }
  if (options.endAll) for await (const isEnded of endAll(restoring)) count(isEnded);
  const signInAgain = await missingOf(restoring, found?.connected ?? []);
  const gapMinutes = found
    ? Math.max(0, Math.ceil((now() - Date.parse(found.last.time) / 1000) / 60))
    : null;
  const details = {
    ...counts,
    ...(gapMinutes === null ? {} : { gapMinutes }),
    ...(found ? { after: found.base.number, until: found.last.number } : {}),
    endAll: options.endAll,
  };
  await recordAudit(services, {
    event: 'restored',
    by: BY_RESTORE,
    arguments: details,
    outcome: 'done',
  });
  await noteFinished(store);
  await auditReplicated(store);
  return { ...counts, gapMinutes, signInAgain, hints, problems: found?.problems ?? [] };
}

function requireStillAlone(requireAlone: () => void): void {
  try {
    requireAlone();
  } catch (error) {
    if (!(error instanceof RestoreRefused)) throw error;
    throw new RestoreRefused(
      `${error.message}; the restore is not complete: run gatehouse restore again afterwards`,
    );
  }
}

/** So that nobody takes new items for those that the store lost. */
async function beginEpoch(services: AuditServices, found: ReadExport | undefined): Promise<void> {
  const { store } = services;
  const last = await lastAuditNumber(store);
  const [newest] = await readAuditItems(store, [last]);
  const epoch = found?.base.epoch ?? newest?.epoch ?? '';
  // An earlier run began it.
  if (found && newest && newest.epoch !== epoch) return;
  await beginAuditEpoch(store);
  const lost = found && found.last.number > found.base.number ? { lost: found.last.number } : {};
  const details = { epoch, last: found?.base.number ?? last, ...lost };
  await recordAudit(services, {
    event: 'rolled_back',
    by: BY_RESTORE,
    arguments: details,
    outcome: 'done',
  });
}

/** Returns what needs a person, and false if the store had it already. */
async function replayOne(
  restoring: Restoring,
  { name, id, happened }: History,
): Promise<{ isApplied: boolean; hint?: string | undefined }> {
  const subject: Subject = SUBJECTS[name];
  const items = happened.map(({ item }) => item);
  const step = await subject.plan(restoring, id, items);
  if (step) {
    // First, so that an export of this log has what was taken away, also if the process is killed.
    await recordCopies(restoring, happened);
    await step();
  }
  const hint = happened.at(-1)?.isOwn ? undefined : await subject.hint?.(restoring, id, items);
  return { isApplied: step !== undefined, hint };
}

async function recordCopies(
  { services, by }: Restoring,
  happened: readonly Happened[],
): Promise<void> {
  for (const { item, isOwn } of happened)
    if (!isOwn) await recordAudit(services, { ...copyOf(item), by });
}

async function missingOf(
  { settings, services }: Restoring,
  connected: readonly Connected[],
): Promise<Connected[]> {
  const missing: Connected[] = [];
  for (const one of connected)
    if (!(await findConnection(settings, services, one.grantId ?? ''))) missing.push(one);
  return missing;
}
