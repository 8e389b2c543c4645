// Grants: the connections of apps.
import * as z from 'zod';
import { CALLER_CLAIMS } from '../../settings/schema.ts';
import { CONNECTION_STATES } from '../../connections/connection.ts';
import { isMachineSubject } from '../../connections/machine-subject.ts';
import { searchOption } from '../commands/options.ts';
import { minute, plain, quoted } from '../commands/terminal.ts';
import { recordPath } from '../console/address.ts';
import { callLimits, limitLines } from './call-limit.ts';
import { SHARED_LIMITS } from '../../connections/call-limits.ts';
import { ACCOUNT, emailVerified } from './account.ts';
import { CLIENT } from './client.ts';
import { CONNECTOR } from './connector.ts';
import { dateFields, detailsText, type Fields, lastUsedFields, translatedField } from './fields.ts';
import {
  type Argument,
  type CommandOption,
  type ConsoleList,
  type Operation,
  type ResourceCommands,
  TEXT_STREAM,
} from './resource.ts';
import { keptOutSchema } from './kept-out.ts';
import * as schemas from './schemas.ts';

export const grantSchema = z
  .strictObject({
    id: z.string(),
    state: z.enum(CONNECTION_STATES),
    reason: z.string().optional().describe('Why the grant ended or is refused, as a code.'),
    explanation: z.string().optional().describe('The reason as an English sentence.'),
    level: schemas.level.optional(),
    connector: z.string(),
    connectorName: z.string().optional(),
    account: z.string(),
    accountName: z.string().optional(),
    accountEmail: z.string().optional(),
    accountEmailVerified: emailVerified,
    clientId: z.string(),
    clientName: z.string(),
    redirectHost: z
      .string()
      .describe('Empty if the access went to no redirect URI, as on a device.'),
    createdAt: schemas.time,
    lastUsedAt: schemas.time.optional().describe('When the client last fetched tokens.'),
    expiresAt: schemas.time.optional().describe('When the grant expires if it is not used.'),
    endedAt: schemas.time.optional().describe('Absent if the time is not known.'),
    unused: z
      .literal(true)
      .optional()
      .describe('No request with its token has arrived within two minutes after the token.'),
    callerClaims: z
      .array(z.enum(CALLER_CLAIMS))
      .optional()
      .describe(
        'Claims about the person that the MCP server learns, as far as the settings still have them: those that the person was told. Absent if there are none.',
      ),
    refusals: z
      .array(z.strictObject({ time: schemas.time, reason: z.string(), explanation: z.string() }))
      .describe(
        'Refreshes that were refused while the grant was active, at most one an hour for each reason.',
      ),
  })
  .meta({ id: 'Grant' });

export type Grant = z.output<typeof grantSchema>;

const shownGrantSchema = grantSchema
  .extend({
    limits: callLimits,
    keptOutSince: schemas.time
      .optional()
      .describe('Since when the app is kept out with this grant. Absent if it is not.'),
  })
  .meta({ id: 'ShownGrant' });

export type ShownGrant = z.output<typeof shownGrantSchema>;

const filters = {
  connector: schemas.idSchema('the id of a connector').optional(),
  account: schemas.idSchema('the id of an account').optional(),
  client: schemas.idSchema('the id of a client').optional(),
  state: schemas.oneOf(CONNECTION_STATES),
  level: z
    .string('the id of a level')
    .max(100, 'the id of a level')
    .optional()
    .describe('Lists only items with this level.'),
  q: schemas.search(
    'the name, id or redirect host of the app, or the name, verified email address or id of the person, or the name or id of the connector',
  ),
};

const grantsQuery = z.strictObject({
  ...schemas.pageQuery(/^\d{12}\.[\w-]{16,64}( [A-Za-z0-9]{22}| [\w-]{27})?$/),
  ...filters,
});

export const grantOperations = {
  listGrants: {
    method: 'get',
    path: '/grants',
    role: 'viewer',
    summary: 'Lists grants, oldest first. Without a filter they are sorted by connector first.',
    query: grantsQuery,
    response: schemas.pageSchema('GrantPage', grantSchema),
  },
  exportGrants: {
    method: 'get',
    path: '/exports/grants',
    role: 'viewer',
    summary:
      'Sends every grant that matches as CSV: person, app, connector, level, since, last used, and the entitlement that gives it. A connection that ends early is an incomplete export.',
    query: z.strictObject(filters),
    response: TEXT_STREAM,
    stream: 'text/csv; charset=utf-8',
  },
  showGrant: {
    method: 'get',
    path: '/grants/:id',
    role: 'viewer',
    summary: 'Shows a grant, and why it ended or is refused. Ended grants are kept for 30 days.',
    response: shownGrantSchema,
  },
  resetGrantLimits: {
    method: 'post',
    path: '/grants/:id/reset-limits',
    role: 'operator',
    summary:
      'Begins the windows of the limits on calls of this grant anew. Those that it shares, of the person and the connector, go on.',
    response: shownGrantSchema,
  },
  revokeGrant: {
    method: 'delete',
    path: '/grants/:id',
    role: 'operator',
    summary: 'Ends a grant. The app is disconnected immediately.',
    query: z.strictObject({
      keepOut: z
        .enum(['true', 'false'], 'true or false')
        .optional()
        .describe(
          'With `true`, all grants of the app and the person end, and the person cannot connect the app: any with the same metadata document, or with the same name and a redirect host in common.',
        ),
    }),
    response: grantSchema,
  },
  allowGrant: {
    method: 'post',
    path: '/grants/:id/allow',
    role: 'operator',
    summary:
      'Lets a person connect an app again that is kept out. `id` is the grant that was ended with it, also after 30 days. Ended grants are not restored.',
    response: keptOutSchema,
  },
} as const satisfies Record<string, Operation>;

/** Returns what to call the person of a grant. An address that is not verified may belong to somebody else. */
export function personName(grant: Grant): string {
  return verifiedEmail(grant) ?? grant.accountName ?? grant.account;
}

export function verifiedEmail({ accountEmail, accountEmailVerified }: Grant): string | undefined {
  return accountEmailVerified ? accountEmail : undefined;
}

export const grantFields: Fields<Grant> = {
  id: { code: 'id' },
  client: {
    text: 'clientName',
    row: ({ clientName, clientId }) => `${clientName} (${clientId})`,
  },
  redirectHost: { code: 'redirectHost', none: '-' },
  person: {
    text: personName,
    row: (grant) => `${personName(grant)} (${grant.account})`,
    label: 'person',
    console: (grant) =>
      isMachineSubject(grant.account)
        ? [
            {
              label: 'machine',
              text: personName(grant),
              href: recordPath('clients', grant.clientId),
            },
          ]
        : [
            {
              label: 'person',
              text: personName(grant),
              href: recordPath('accounts', grant.account),
            },
          ],
  },
  connector: {
    text: ({ connectorName, connector }) => connectorName ?? connector,
    row: ({ connectorName = 'unknown', connector }) => `${connectorName} (${connector})`,
    href: ({ connectorName, connector }) => connectorName && recordPath('connectors', connector),
  },
  level: { level: 'level', label: 'granted', none: '-' },
  callerClaims: { text: ({ callerClaims }) => callerClaims?.join(', '), heading: 'server learns' },
  since: { time: 'createdAt' },
  lastUsed: { time: 'lastUsedAt', none: '-' },
  lastActive: {
    label: 'lastActive',
    console: ({ endedAt, lastUsedAt }) =>
      endedAt === undefined
        ? lastUsedFields('lastActive', lastUsedAt)
        : dateFields('ended', endedAt),
  },
  expires: { time: 'expiresAt', heading: 'expires if unused', label: 'expiresUnused' },
  ended: { time: 'endedAt' },
  state: {
    text: 'state',
    cell: ({ state, reason, unused }) =>
      reason ? `${state}: ${reason}` : unused && `${state}: no request yet`,
  },
  unused: { text: ({ unused }) => unused && UNUSED },
  reason: {
    text: ({ explanation, reason }) => explanation && `${explanation} (${reason})`,
    console: ({ reason }) => (reason ? [translatedField('reason', reason, 'console.reasons')] : []),
  },
};

const shownFields: Fields<ShownGrant> = {
  ...grantFields,
  keptOut: { time: 'keptOutSince', heading: 'kept out' },
};

const ID: Argument = {
  name: 'id',
  help: 'grant id, see gatehouse grant list or grantId in the audit log',
};

/** An option that narrows the list to the grants of one record. */
function ownerOption(of: string, { name, resolve }: Required<Argument>): CommandOption {
  return {
    flags: `--${name} <${name}>`,
    help: `only grants of this ${of}`,
    members: async (text: string, api) => ({ [name]: await resolve(api, text) }),
  };
}

const EXAMPLES = `
Examples:
  $ gatehouse grant list
  $ gatehouse grant list --connector Ops --state active
  $ gatehouse grant list --format csv > review.csv
  $ gatehouse grant why <id>
  $ gatehouse grant revoke <id>`;

export const grantCommands: ResourceCommands = {
  noun: 'grant',
  description: 'list, explain and end connections (grants)',
  examples: EXAMPLES,
  commands: [
    {
      operation: 'listGrants',
      name: 'list',
      description: 'list grants, oldest first',
      options: [
        ownerOption('connector (id, link or unique name)', CONNECTOR),
        ownerOption('person (id, verified email address or unique name)', ACCOUNT),
        ownerOption('app (id or unique name)', CLIENT),
        {
          flags: '--state <state>',
          help: 'only grants in this state',
          choices: CONNECTION_STATES,
        },
        searchOption('the names and ids of app, person and connector'),
        {
          flags: '--format <format>',
          help: 'csv for a spreadsheet, with the entitlement that gives each access',
          choices: ['csv'],
          members: () => ({}),
        },
      ],
      csv: 'exportGrants',
      help: EXAMPLES,
      fields: grantFields,
      columns: 'id client person connector level since lastUsed state',
      empty: 'There are no grants. Nobody has connected an app.',
    },
    {
      operation: 'showGrant',
      name: 'show',
      description: 'show one grant',
      argument: ID,
      text: shownText,
    },
    {
      operation: 'resetGrantLimits',
      name: 'reset-limits',
      description: 'begin the limits on calls of a connection anew',
      argument: ID,
      help: `
The limits of the connection, of its levels and of its tools begin anew, and those of a machine. The limits that it shares with
others, of the person and of the connector, go on.`,
      text: shownText,
    },
    {
      operation: 'showGrant',
      name: 'why',
      description: 'explain why a grant ended or is refused',
      argument: ID,
      text: whyText,
    },
    {
      operation: 'revokeGrant',
      name: 'revoke',
      description: 'end a grant immediately',
      argument: ID,
      options: [
        {
          flags: '--keep-out',
          help: 'also end other grants of the app and the person, and refuse it until grant allow',
          members: () => ({ keepOut: 'true' }),
        },
      ],
      help: `
With --keep-out, the person cannot connect the app again: any with the same metadata document, or with the same name and a
redirect host in common. Others can connect it. To let the person connect it again: gatehouse grant allow <id>`,
      text: (grant, { keepOut }) =>
        `${whyText(grant)}\n${keepOut ? `The app is kept out. To let the person connect it again: gatehouse grant allow ${grant.id}\n` : ''}To revoke this app for everyone: gatehouse client revoke ${quoted(grant.clientId)}`,
    },
    {
      operation: 'allowGrant',
      name: 'allow',
      description: 'let a person connect an app again that is kept out',
      argument: {
        name: 'id',
        help: 'id of the grant that was ended with --keep-out, see gatehouse account show',
      },
      text: ({ clientName, account }) =>
        `${account} can connect ${quoted(clientName)} again. Ended connections are not restored.`,
    },
  ],
};

function shownText(grant: ShownGrant): string {
  const names =
    'id state client redirectHost person connector level callerClaims since lastUsed expires ended reason keptOut';
  const lines = limitLines(grant.limits).map((line) => `  ${line}`);
  const limits = lines.length === 0 ? [] : [`Limits on calls:\n${lines.join('\n')}`];
  return [detailsText(shownFields, names, grant), ...limits].join('\n\n');
}

export function whyText(grant: Grant): string {
  const app = `"${plain(grant.clientName)}" of ${plain(personName(grant))}`;
  const { explanation, reason } = grant;
  const refusals = grant.refusals.map(
    (refusal) => `  ${minute(refusal.time)}  ${refusal.explanation} (${refusal.reason})`,
  );
  return [
    STATE_TEXTS[grant.state](app, grant),
    ...(explanation ? [`${explanation} (${reason})`] : []),
    ...(grant.unused ? [UNUSED] : []),
    ...(refusals.length > 0 ? ['', 'Earlier refusals:', ...refusals] : []),
  ].join('\n');
}

const UNUSED =
  'No request with its token has arrived: a proxy or edge in front may block the app. See gatehouse doctor.';

const STATE_TEXTS: Record<Grant['state'], (app: string, grant: Grant) => string> = {
  pending: (app) => `${app} was approved but has not requested its tokens yet.`,
  active: (app) => `${app} is connected.`,
  refused: (app) => `${app} is connected, but Gatehouse refuses its requests.`,
  ended: (app, { endedAt }) => `${app} was disconnected${endedAt ? ` on ${minute(endedAt)}` : ''}.`,
};

/** Somebody else may have called tools with a copied key. */
export const IS_SUSPICIOUS: ReadonlySet<string> = new Set(['refresh_replay', 'code_replay']);

/** An ended connection needs attention only if somebody else may have used it. */
export function needsNothing({ state, reason = '' }: Grant): boolean {
  return state !== 'refused' && !IS_SUSPICIOUS.has(reason);
}

/** The text of the action to end a connection says what it takes to connect again. */
function endButton({ state, account }: Grant): string | undefined {
  if (state === 'ended') return undefined;
  if (isMachineSubject(account)) return 'endMachine';
  return state === 'refused' ? 'endPaused' : 'endGrant';
}

/** On its own page also for an ended connection: the person may connect its app again. */
function keepOutButton(grant: Grant & Partial<ShownGrant>): string | undefined {
  const { account, state, keptOutSince } = grant;
  const isOffered = state !== 'ended' || 'limits' in grant;
  return !isOffered || isMachineSubject(account) || keptOutSince ? undefined : 'keepOut';
}

/** On the page of a connection. */
function allowButton({ keptOutSince }: Grant & Partial<ShownGrant>): string | undefined {
  return keptOutSince === undefined ? undefined : 'endKeptOut';
}

/** On the page of a connection that has used one of its own limits. */
function resetButton({ limits = [] }: Grant & Partial<ShownGrant>): string | undefined {
  const isUsed = limits.some(({ limit, used }) => used > 0 && !SHARED_LIMITS.has(limit));
  return isUsed ? 'resetLimits' : undefined;
}

export const grantList: ConsoleList<Grant> = {
  section: 'grants',
  operation: 'listGrants',
  show: 'showGrant',
  limit: 50,
  fields: grantFields,
  title: ({ clientName }) => clientName,
  href: ({ id }) => recordPath('grants', id),
  state: ({ state }) => state,
  isOk: needsNothing,
  facts: 'person connector level lastActive unused reason',
  details: 'since callerClaims redirectHost id',
  csv: 'exportGrants',
  actions: [
    { path: 'end', operation: 'revokeGrant', done: 'ended', button: endButton, several: true },
    {
      path: 'keep-out',
      operation: 'revokeGrant',
      query: { keepOut: 'true' },
      done: 'kept-out',
      button: keepOutButton,
    },
    { path: 'allow', operation: 'allowGrant', done: 'kept-out-ended', button: allowButton },
    {
      path: 'reset-limits',
      operation: 'resetGrantLimits',
      done: 'limits-reset',
      button: resetButton,
    },
  ],
};
