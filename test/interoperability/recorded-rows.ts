// The rows of recorded clients; each runs every step once for each way to identify itself.
import { advanceClock } from '../support/clock.ts';
import type { System } from '../support/system.ts';
import { callStep, refreshStep, revokeStep, stepUpStep } from './recorded-connection.ts';
import { documentOf, type RecordedClient, registrationOf } from './recorded-clients.ts';
import {
  authorizeStep,
  discoverStep,
  identifyStep,
  type Journey,
  tokenStep,
} from './recorded-journey.ts';
import type { Stage } from './stage.ts';
import type { Proof, Row } from './table.ts';

const ACCESS_TOKEN_SECONDS = 3600;
const REVOKES = 'it also ends its own connection when the person disconnects it (RFC 7009)';

const ALLOWED = 'after the operator allows its redirect address (`clients.allowedRedirects`)';
const PINNED =
  'after the operator puts its document, with the redirect address that it really uses, into `clients.metadataDocuments`';

type Journeys = { register?: Journey; document?: Journey };

export function recordedRow(recorded: RecordedClient, stage: () => Stage): Row {
  const journeys: Journeys = {};
  const onEach = (step: (journey: Journey) => Promise<void>): Proof => ({
    prove: async () => {
      for (const journey of allOf(journeys)) await step(journey);
    },
  });
  return {
    client: recorded.name,
    kind: 'recording',
    steps: {
      discover: { prove: () => discoverBoth(recorded, stage(), journeys) },
      register: registering(recorded, journeys),
      document: publishing(recorded, journeys),
      authorize: onEach(authorizeStep),
      token: onEach(tokenStep),
      call: onEach(callStep),
      refresh: {
        prove: async () => {
          advanceClock(ACCESS_TOKEN_SECONDS + 1);
          for (const journey of allOf(journeys)) await refreshStep(journey);
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
  { system, allowing }: Stage,
  journeys: Journeys,
): Promise<void> {
  const registration = registrationOf(recorded);
  const document = documentOf(recorded);
  const own: System = registration?.allowedRedirects.length ? allowing : system;
  if (registration) journeys.register = await discoverStep(own, recorded, { registration });
  const pinning: System = document?.pinned ? allowing : system;
  if (document) journeys.document = await discoverStep(pinning, recorded, { document });
}

function registering({ registration }: RecordedClient, journeys: Journeys): Proof {
  if ('notOffered' in registration) return { notOffered: registration.notOffered };
  const { allowedRedirects } = registration;
  const prove = () => identifyStep(required(journeys.register));
  if (allowedRedirects.length === 0) return { prove };
  return { prove, note: ALLOWED };
}

function publishing({ document }: RecordedClient, journeys: Journeys): Proof {
  if ('notOffered' in document) return { notOffered: document.notOffered };
  const prove = () => identifyStep(required(journeys.document));
  return { prove, ...(document.pinned ? { note: PINNED } : {}) };
}

function allOf({ register, document }: Journeys): Journey[] {
  const all = [register, document].filter((journey) => journey !== undefined);
  if (all.length === 0) throw new Error('it found nothing');
  return all;
}

function required(journey: Journey | undefined): Journey {
  if (!journey) throw new Error('it found nothing');
  return journey;
}
