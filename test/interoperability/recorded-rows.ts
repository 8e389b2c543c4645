// The rows of recorded clients; each runs every step once for each way to identify itself.
import { advanceClock } from '../support/clock.ts';
import type { System } from '../support/system.ts';
import { callStep, refreshStep, revokeStep, stepUpStep } from './recorded-connection.ts';
import {
  documentOf,
  needsPermission,
  type RecordedClient,
  registrationOf,
} from './recorded-clients.ts';
import {
  authorizeStep,
  discoverStep,
  identifyStep,
  type ClientRun,
  tokenStep,
} from './recorded-steps.ts';
import type { TestSystems } from './systems.ts';
import type { Proof, Row } from './table.ts';

const ACCESS_TOKEN_SECONDS = 3600;
const REVOKES = 'it also ends its own connection when the person disconnects it (RFC 7009)';

const ALLOWED = 'after the operator allows its redirect address (`clients.allowedRedirects`)';
const ALLOWED_APP = 'after the operator allows it (`clients.apps`)';
const PINNED =
  'after the operator puts its document, with the redirect address that it really uses, into `clients.metadataDocuments`';

type ClientRuns = { register?: ClientRun; document?: ClientRun };

export function recordedRow(recorded: RecordedClient, systems: () => TestSystems): Row {
  const runs: ClientRuns = {};
  const onEach = (step: (run: ClientRun) => Promise<void>): Proof => ({
    prove: async () => {
      for (const run of allOf(runs)) await step(run);
    },
  });
  return {
    client: recorded.name,
    kind: 'recording',
    steps: {
      discover: { prove: () => discoverBoth(recorded, systems(), runs) },
      register: registering(recorded, runs),
      document: publishing(recorded, runs),
      authorize: onEach(authorizeStep),
      token: onEach(tokenStep),
      call: onEach(callStep),
      refresh: {
        prove: async () => {
          advanceClock(ACCESS_TOKEN_SECONDS + 1);
          for (const run of allOf(runs)) await refreshStep(run);
        },
      },
      'step-up':
        'notOffered' in recorded.stepUp
          ? { notOffered: recorded.stepUp.notOffered }
          : onEach(stepUpStep),
      revoke: {
        ...onEach(revokeStep),
        ...(recorded.revokes.length > 0 ? { note: REVOKES } : {}),
      } as Proof,
    },
  };
}

async function discoverBoth(
  recorded: RecordedClient,
  { system, configured }: TestSystems,
  runs: ClientRuns,
): Promise<void> {
  const registration = registrationOf(recorded);
  const document = documentOf(recorded);
  const own: System = registration && needsPermission(registration) ? configured : system;
  if (registration) runs.register = await discoverStep(own, recorded, { registration });
  const pinning: System = document?.pinned ? configured : system;
  if (document) runs.document = await discoverStep(pinning, recorded, { document });
}

function registering({ registration }: RecordedClient, runs: ClientRuns): Proof {
  if ('notOffered' in registration) return { notOffered: registration.notOffered };
  const prove = () => identifyStep(required(runs.register));
  if (!needsPermission(registration)) return { prove };
  return { prove, note: registration.app === undefined ? ALLOWED : ALLOWED_APP };
}

function publishing({ document }: RecordedClient, runs: ClientRuns): Proof {
  if ('notOffered' in document) return { notOffered: document.notOffered };
  const prove = () => identifyStep(required(runs.document));
  return { prove, ...(document.pinned ? { note: PINNED } : {}) };
}

function allOf({ register, document }: ClientRuns): ClientRun[] {
  const all = [register, document].filter((run) => run !== undefined);
  if (all.length === 0) throw new Error('it found nothing');
  return all;
}

function required(run: ClientRun | undefined): ClientRun {
  if (!run) throw new Error('it found nothing');
  return run;
}
