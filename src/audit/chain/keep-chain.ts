// Makes checkpoints when they are due, and notices what the store lost.
import type { Logger } from 'pino';
import { type BackgroundLoop, startLoop } from '../../background-loop.ts';
import { StoreUnavailable } from '../../store/store.ts';
import type { AuditServices } from '../audit.ts';
import { lastAuditNumber, readAuditAfter } from '../audit-log.ts';
import { openLease } from '../lease.ts';
import { dailyVerification, type VerifyingServices } from './daily-verification.ts';
import {
  deleteList,
  markOf,
  oldestList,
  readCheckpointMark,
  readList,
} from './checkpoint-lists.ts';
import { type Checkpoint, CHECKPOINT_ITEMS } from './checkpoint.ts';
import { makeCheckpoint, newestCheckpoint } from './make-checkpoint.ts';
import type { AuditMemory } from './rollback.ts';

export type ChainServices = AuditServices & { logger: Logger };

const POLL_MS = 1000;
/** Checkpoints are at most a minute apart while there are new items. */
const NEW_ITEMS_SECONDS = 50;
const DAY_SECONDS = 86_400;

/** `services` returns those in force. Reads only, until a checkpoint is due; then one process makes it. */
export function keepChain(services: () => VerifyingServices, memory: AuditMemory): BackgroundLoop {
  const lease = openLease(services().store, 'audit-checkpoint-lease:all');
  const times = checkpointTimes();
  const verifyIfDue = dailyVerification();
  const report = (error: unknown, what: string) => {
    // The store reports its own failures.
    if (!(error instanceof StoreUnavailable)) services().logger.error({ err: error }, what);
  };
  const run = async () => {
    await memory.check(services());
    if (!(await times.isDue(services()))) return POLL_MS;
    await lease.keep();
    memory.digests.isUsed = lease.isHeld();
    if (!lease.isHeld()) {
      memory.digests.clear();
      return POLL_MS;
    }
    const made = await makeCheckpoint(services());
    if (made) times.note(made);
    if (made && made.checkpoint % SWEEP_EVERY === 0) await deleteTrimmedLists(services(), made);
    return made ? 0 : POLL_MS;
  };
  const loop = startLoop(() =>
    run().catch((error: unknown) => {
      report(error, 'the audit log got no checkpoint');
      return POLL_MS;
    }),
  );
  const verifying = startLoop(() =>
    verifyIfDue(services())
      .catch((error: unknown) => report(error, 'the audit log was not verified'))
      .then(() => POLL_MS),
  );
  return {
    async stop() {
      await Promise.all([loop, verifying].map((each) => each.stop()));
      await lease.release();
    },
  };
}

/** When a checkpoint is to be made. `note` tells of one that was made, so that its list need not be read. */
function checkpointTimes() {
  let newest: { mark: string; last: number; time: number } | undefined;
  const note = (made: Checkpoint) => {
    newest = { mark: markOf(made), last: made.last.number, time: Date.parse(made.time) / 1000 };
  };
  const isDue = async (services: ChainServices): Promise<boolean> => {
    const { store, now } = services;
    const mark = await readCheckpointMark(store);
    const text = mark ? markOf(mark) : '';
    if (newest?.mark !== text) {
      const { newest: listed } = await newestCheckpoint(services);
      newest = {
        mark: text,
        last: listed?.checkpoint.last.number ?? 0,
        time: listed ? Date.parse(listed.checkpoint.time) / 1000 : now(),
      };
    }
    const number = await lastAuditNumber(store);
    // One of the items after the last one is the checkpoint itself.
    const count = number - newest.last - (mark ? 1 : 0);
    if (number === newest.last) return false;
    const passed = Math.abs(now() - newest.time);
    if (count >= CHECKPOINT_ITEMS) return true;
    return passed >= (count > 0 ? NEW_ITEMS_SECONDS : DAY_SECONDS);
  };
  return { note, isDue };
}

const LISTS_AT_A_TIME = 100;
const SWEEP_EVERY = 20;

/** Deletes the oldest lists as long as all their items are gone. */
async function deleteTrimmedLists(
  { store }: ChainServices,
  { checkpoint }: Checkpoint,
): Promise<void> {
  const oldest = (await readAuditAfter(store, 0, 1))[0]?.number ?? 0;
  let number = await oldestList(store, checkpoint);
  for (const end = number + LISTS_AT_A_TIME; number < Math.min(checkpoint, end); number += 1) {
    const list = await readList(store, number);
    if (!list || list.checkpoint.last.number >= oldest) return;
    await deleteList(store, number);
  }
}
