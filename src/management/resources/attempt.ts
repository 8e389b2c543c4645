// Attempts: how far an app and a person got, and why no further.
import * as z from 'zod';
import {
  ATTEMPT_ENDS,
  ATTEMPT_REASONS,
  ATTEMPT_STEPS,
  type AttemptEnd,
  type AttemptStep,
  PLACE,
} from '../../connections/attempts.ts';
import { accessRefusals } from '../../observability/labels.ts';
import { ACCOUNT } from './account.ts';
import { CLIENT } from './client.ts';
import { details, minute, plain } from '../commands/terminal.ts';
import { recordPath } from '../console/address.ts';
import { type Fields, textField, translatedField } from './fields.ts';
import { refusalText } from './person-access.ts';
import type { ConsoleList, Operation } from './resource.ts';
import * as schemas from './schemas.ts';

export const attemptSchema = z
  .strictObject({
    id: z.string(),
    reference: z
      .string()
      .optional()
      .describe('Of the last page with an error that the person saw, and `requestId` in the log.'),
    time: schemas.time.describe('When it began.'),
    step: z.enum(ATTEMPT_STEPS).describe('The last step that was reached.'),
    client: z.string().optional().describe('Id of the app.'),
    clientName: z.string().optional(),
    account: z.string().optional().describe('Absent if nobody had signed in.'),
    connector: z.string().optional(),
    grant: z.string().optional().describe('The connection that it led to.'),
    address: z
      .string()
      .optional()
      .describe('As `audit.addresses` lets it be kept. The role viewer does not get it.'),
    groups: z.array(z.string()).optional().describe('Those that arrived with the sign-in.'),
    end: z.enum(ATTEMPT_ENDS).optional().describe('Absent while it may go on.'),
    reason: z
      .string()
      .optional()
      .describe(`Why: ${ATTEMPT_REASONS.join(', ')}, a reason of a refusal, or an error code.`),
    code: z
      .string()
      .optional()
      .describe('What the other server answered, or why it could not be reached.'),
    count: z
      .int()
      .optional()
      .describe('How often the app used a client id that is not known. All are one attempt.'),
    explanation: z.string().optional().describe('The end as an English sentence.'),
  })
  .meta({ id: 'Attempt' });

export type Attempt = z.output<typeof attemptSchema>;

const attemptsQuery = z.strictObject({
  ...schemas.pageQuery(PLACE),
  account: schemas.idSchema('the id of an account').optional(),
  client: schemas.idSchema('the id of a client').optional(),
  since: schemas.timestamp.optional().describe('Only attempts that began at this time or later.'),
  end: schemas.oneOf(ATTEMPT_ENDS).describe('Only attempts that ended so.'),
  q: schemas.search('the reference, the id or name of the app, the id of the person or the reason'),
});

export const attemptOperations = {
  listAttempts: {
    method: 'get',
    path: '/attempts',
    role: 'viewer',
    summary: 'Lists the attempts of apps to connect, newest first. Kept for 30 days.',
    query: attemptsQuery,
    response: schemas.pageSchema('AttemptPage', attemptSchema),
  },
  showAttempt: {
    method: 'get',
    path: '/attempts/:id',
    role: 'viewer',
    summary:
      'Shows an attempt by its id, by the reference of a page, or by the id of the grant that it led to.',
    response: attemptSchema,
  },
} as const satisfies Record<string, Operation>;

const REASONS: Record<(typeof ATTEMPT_REASONS)[number], string> = {
  unknown_client:
    'The app sent a client id that is not known: its registration was deleted, or the store was restored. Remove the server in the app and add it again.',
  redirect_refused:
    'The app wants its answers at an address that the settings do not allow (clients.apps, clients.allowedRedirects).',
  provider_error: 'The identity provider answered with an error.',
  metadata_document: 'The metadata document of the app could not be fetched or used.',
  upstream_unreachable: 'The MCP server behind Gatehouse could not be reached.',
  console:
    'Somebody who opened the console saw an error page. The answer has its code, and the log line with this requestId the rest.',
  not_authorized: 'The app registered, and then opened no page for the person.',
  not_returned:
    'The person did not come back from the identity provider: look for the error there.',
  not_decided: 'The person closed the consent page.',
  code_not_redeemed:
    'The person approved, and the app never redeemed its code: its callback may be out of reach (WSL, container, SSH).',
  token_not_used:
    'The app got a token, and no request with it has arrived: a proxy or edge in front may block the app.',
};

const ENDS: Record<AttemptEnd, string> = {
  connected: 'The app is connected: a request with its token has arrived.',
  refused: 'The person was refused.',
  denied: 'The person chose not to connect the app.',
  failed: 'It failed.',
  abandoned: 'It went no further.',
};

const STEPS: Record<AttemptStep, string> = {
  registered: 'the app registered',
  authorize: 'the sign-in was opened',
  provider: 'the person was sent to the identity provider',
  consent: 'the person saw the consent page',
  code: 'the person approved',
  token: 'the app got a token',
  first_call: 'a request with the token arrived',
};

/** A sentence for operators. */
export function attemptExplanation(end: AttemptEnd, reason: string | undefined): string {
  const refusal = accessRefusals.find((known) => known === reason);
  if (refusal) return refusalText(refusal);
  const known = ATTEMPT_REASONS.find((each) => each === reason);
  if (known) return REASONS[known];
  if (reason === undefined || end === 'denied') return ENDS[end];
  return `${ENDS[end]} The error code is ${reason}.`;
}

function pathOfApp({ client, end, reason }: Attempt): string | undefined {
  const isUnknown = end === 'failed' && reason === 'unknown_client';
  return client === undefined || isUnknown ? undefined : recordPath('clients', client);
}

export const attemptFields: Fields<Attempt> = {
  id: { code: 'id' },
  reference: { code: 'reference' },
  time: { time: 'time' },
  step: {
    text: 'step',
    console: ({ step }) => [translatedField('step', step, 'console.attempts.steps')],
  },
  app: {
    text: ({ client, clientName }) => clientName ?? client,
    row: ({ client, clientName }) => (clientName ? `${clientName} (${client})` : client),
    href: pathOfApp,
  },
  person: { text: 'account', href: ({ account }) => account && recordPath('accounts', account) },
  connector: {
    text: 'connector',
    href: ({ connector }) => connector && recordPath('connectors', connector),
  },
  connection: { code: 'grant', href: ({ grant }) => grant && recordPath('grants', grant) },
  address: { code: 'address' },
  groups: { text: ({ groups }) => groups && (groups.join(', ') || 'none') },
  end: {
    text: ({ end = 'open', reason }) => (reason ? `${end}: ${reason}` : end),
  },
  code: { code: 'code' },
  // The state of an app that is connected says it all.
  why: {
    text: 'explanation',
    console: ({ end, explanation }) =>
      end === 'connected' || explanation === undefined ? [] : [textField('why', explanation)],
  },
  count: { text: ({ count }) => (count === undefined ? undefined : String(count)) },
};

/** What `gatehouse why` prints. */
export function attemptText(attempt: Attempt): string {
  const { step, explanation, account, end, client } = attempt;
  const text = (name: string) => {
    const field = attemptFields[name];
    const read = field?.row ?? field?.text ?? field?.code;
    return typeof read === 'function' ? read(attempt) : read && attempt[read as 'code'];
  };
  const rows = {
    began: minute(attempt.time),
    'last step': `${step}: ${STEPS[step]}`,
    end: text('end'),
    answer: attempt.code,
    app: text('app'),
    person: account,
    groups: text('groups'),
    connector: attempt.connector,
    connection: attempt.grant,
    address: attempt.address,
    times: text('count'),
  };
  const known = Object.entries(rows).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, plain(String(value))] as const],
  );
  const next =
    end === 'refused' && account !== undefined
      ? `\nWhat this person gets: gatehouse account show ${account}`
      : client !== undefined && end === 'failed'
        ? `\nOther attempts of this app: gatehouse attempts --client ${client}`
        : '';
  return `${explanation ?? 'It goes on, as far as Gatehouse knows.'}\n\n${details(Object.fromEntries(known))}${next}`;
}

/** What the command takes to narrow the list. */
export const ATTEMPT_OWNERS = { account: ACCOUNT, client: CLIENT };

/** A row for each, because an attempt has no page. */
export const attemptList: ConsoleList<Attempt> = {
  section: 'attempts',
  operation: 'listAttempts',
  limit: 50,
  fields: attemptFields,
  title: ({ client, clientName, reference, id }) => clientName ?? client ?? reference ?? id,
  href: pathOfApp,
  state: ({ end = 'open' }) => `attempt-${end}`,
  isOk: ({ end }) => end === undefined || end === 'connected',
  facts: 'time why person',
  details: 'step code app connector connection groups count address reference id',
  actions: [],
};
