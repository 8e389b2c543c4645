// The rows of recorded clients; each runs every step once for each way to identify itself.
import { advanceClock } from '../support/clock.ts';
import type { System } from '../support/system.ts';
import { callStep, refreshStep, revokeStep, stepUpStep } from './recorded-connection.ts';
import {
  documentOf,
  needsPermission,
  type RecordedClient,
  registrationOf,
  isKeyed,
} from './recorded-clients.ts';
import { connectByKey, connectBySecret } from './recorded-machines.ts';
import {
  authorizeStep,
  discoverStep,
  identifyStep,
  type ClientRun,
  expectKeyNeeded,
  tokenStep,
} from './recorded-steps.ts';
import type { TestSystems } from './systems.ts';
import type { Proof, Row } from './table.ts';

const ACCESS_TOKEN_SECONDS = 3600;
const REVOKES = 'it also ends its own connection when the person disconnects it (RFC 7009)';

const ASSUMED =
  'as MCP 2025-06-18 requires; no source describes how it discovers. A client that asks the address of the MCP server for the authorization server finds none';
const ALLOWED = 'after the operator allows its redirect address (`clients.allowedRedirects`)';
const ALLOWED_APP = 'after the operator allows it (`clients.apps`)';
const PINNED =
  'after the operator puts its document, with the redirect address that it really uses, into `clients.metadataDocuments`';

type ClientRuns = { register?: ClientRun; document?: ClientRun; fixed?: ClientRun };

const NO_KEY = { notOffered: 'it is not known to authenticate with a key' };
const FOR_PEOPLE = { notOffered: 'it connects for a person' };
const NO_DEVICE = { notOffered: 'it opens a browser; it is not known to ask for a code' };

export function recordedRow(recorded: RecordedClient, systems: () => TestSystems): Row {
  const runs: ClientRuns = {};
  let discovered: Promise<void> | undefined;
  const discover = () => (discovered ??= discoverBoth(recorded, systems(), runs));
  const onEach = (step: (run: ClientRun) => Promise<void>): Proof => ({
    prove: async () => {
      await discover();
      for (const run of allOf(runs)) await step(run);
    },
  });
  return {
    client: recorded.name,
    kind: 'recording',
    steps: {
      discover:
        'notOffered' in recorded.discovery
          ? { notOffered: recorded.discovery.notOffered }
          : { prove: discover, ...('assumed' in recorded.discovery ? { note: ASSUMED } : {}) },
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
      key: keyed(recorded, systems, runs),
      machine: recorded.machine
        ? { prove: () => connectBySecret(systems().system, recorded) }
        : FOR_PEOPLE,
      device: NO_DEVICE,
    },
  };
}

function keyed(recorded: RecordedClient, systems: () => TestSystems, runs: ClientRuns): Proof {
  if (isKeyed(recorded)) return { prove: () => expectKeyNeeded(required(runs.document)) };
  if (!recorded.machine) return NO_KEY;
  return { prove: () => connectByKey(systems().system, recorded) };
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
  const { preRegistered: fixed } = recorded;
  if (fixed) {
    runs.fixed = await discoverStep(configured, recorded, { fixed });
    runs.fixed.client = await runs.fixed.identify();
  }
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

function allOf({ register, document, fixed }: ClientRuns): ClientRun[] {
  const all = [register, document, fixed].filter((run) => run !== undefined);
  if (all.length === 0) throw new Error('it found nothing');
  return all;
}

function required(run: ClientRun | undefined): ClientRun {
  if (!run) throw new Error('it found nothing');
  return run;
}
