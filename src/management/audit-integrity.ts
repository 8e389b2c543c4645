import { setTimeout as delay } from 'node:timers/promises';
import { publicChainKeys } from '../audit/chain/chain-keys.ts';
import {
  type Checkpoint,
  checkpointSignatures,
  readCheckpoint,
} from '../audit/chain/checkpoint.ts';
import { lastVerification } from '../audit/chain/daily-verification.ts';
import { verifyStore } from '../audit/chain/verify-store.ts';
import { HttpError } from '../http/errors.ts';
import { recordReading } from './audit-read.ts';
import type { Handlers, ManagementContext } from './context.ts';
import { isoTime } from './represent.ts';
import type { auditIntegrityOperations } from './resources/audit-integrity.ts';

export const auditIntegrityHandlers: Handlers<keyof typeof auditIntegrityOperations> = {
  showAuditKeys: ({ services: { store, now } }) => publicChainKeys(store, now()),

  async showAuditVerification({ services: { store } }) {
    const last = await lastVerification(store);
    if (!last) return { problems: [] };
    const { at, ...found } = last;
    return { verifiedAt: isoTime(at), ...found };
  },

  async verifyAudit(management, { query: { since, checkpoint } }) {
    const kept =
      checkpoint === undefined ? undefined : await signedCheckpoint(management, checkpoint);
    await recordReading(management, 'verification', { since });
    return verification(management, { since, kept });
  },
};

async function signedCheckpoint(
  { services: { store, now } }: ManagementContext,
  jws: string,
): Promise<Checkpoint> {
  const { keys } = await publicChainKeys(store, now());
  const checkpoint = readCheckpoint(jws);
  if (checkpoint && (await checkpointSignatures(keys)(jws))) return checkpoint;
  throw new HttpError(400, 'invalid_request', 'checkpoint: no key of this log signed it');
}

const PROGRESS_MS = 1000;

async function silence(signal: AbortSignal): Promise<undefined> {
  await delay(PROGRESS_MS, undefined, { signal }).catch(() => undefined);
}

/** Lines of JSON, at least one a second. */
async function* verification(
  { services: { store, now, logger } }: ManagementContext,
  options: { since: number | undefined; kept: Checkpoint | undefined },
): AsyncGenerator<string> {
  let checkpoints = 0;
  const onProgress = (done: number) => void (checkpoints = done);
  const verified = verifyStore(store, { ...options, now: now(), onProgress }).then(
    (result) => ({ result }),
    (error: unknown) => {
      logger.error({ err: error }, 'the audit log could not be verified');
      const description = 'the audit log could not be verified: see the log of the server';
      return { error: 'server_error', error_description: description };
    },
  );
  for (;;) {
    const pause = new AbortController();
    const done = await Promise.race([verified, silence(pause.signal)]);
    pause.abort();
    yield `${JSON.stringify(done ?? { progress: { checkpoints } })}\n`;
    if (done) return;
  }
}
