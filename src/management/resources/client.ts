// Clients: the apps that people connect, and the rules that block and allow them.
import * as z from 'zod';
import { CLIENT_KINDS, CLIENT_STATES } from '../../clients/clients.ts';
import { destinationsOf } from '../../clients/rules.ts';
import { allItems } from '../api/all-items.ts';
import { ManagementError } from '../api/management-error.ts';
import { searchOption } from '../commands/options.ts';
import { resolveId } from '../commands/resolve.ts';
import { minute, plain, quoted } from '../commands/terminal.ts';
import { recordPath } from '../console/address.ts';
import { codeField, dateFields, detailsText, type Fields, lastUsedFields } from './fields.ts';
import { machineCommands } from './machine.ts';
import {
  type Argument,
  type ConsoleList,
  NOT_FOUND,
  type Operation,
  type ResourceCommands,
} from './resource.ts';
import { ruleCommands } from './client-rule.ts';
import * as schemas from './schemas.ts';

export const machineFacts = z.strictObject({
  key: schemas.key.optional(),
  connector: z.string(),
  level: schemas.level,
  expiresAt: schemas.time,
});

/** Refused registrations are no clients, and are only listed. */
const LISTED_STATES = [...CLIENT_STATES, 'redirect_refused'] as const;

export const clientSchema = z
  .strictObject({
    id: z.string(),
    kind: z.enum(CLIENT_KINDS),
    state: z
      .enum(LISTED_STATES)
      .describe(
        '`waiting` for an administrator to allow it; `blocked` by a rule; `redirect_refused`: its registration was refused, because the settings allow none of its redirect hosts.',
      ),
    name: z.string().optional(),
    redirectUris: z.array(z.string()),
    usesDevice: z
      .literal(true)
      .optional()
      .describe('It may also connect devices without a browser (RFC 8628).'),
    lastUsedAt: schemas.time.optional(),
    revokedAt: schemas.time
      .optional()
      .describe('When the client was revoked. It is refused until it is allowed.'),
    waitingSince: schemas.time
      .optional()
      .describe('When a person first tried to connect the client, if it waits.'),
    lastSeenAt: schemas.time
      .optional()
      .describe('When it last tried to register, if it was refused.'),
    allowWith: z
      .string()
      .optional()
      .describe('The line of the settings file that would allow it, if it was refused.'),
    machine: machineFacts.optional().describe('Of a machine.'),
  })
  .meta({ id: 'Client' });

export type Client = z.output<typeof clientSchema>;

const clientIdBody = z.strictObject({ id: schemas.idSchema('the id of a client') }, schemas.OBJECT);

const SEARCHED = 'its name, id or redirect URIs';

/** A client id may be a URL, so it is never part of a path. */
export const clientOperations = {
  listClients: {
    method: 'get',
    path: '/clients',
    role: 'viewer',
    summary: 'Lists connected, waiting, allowed and revoked clients, or one client by its id.',
    query: z.strictObject({
      // The name of a list, and an id.
      ...schemas.pageQuery(/^([a-z-]{1,30}:\w{1,20} )?.{1,500}$/),
      id: schemas.idSchema('the id of a client').optional(),
      state: schemas.oneOf(LISTED_STATES),
      kind: schemas.oneOf(CLIENT_KINDS),
      q: schemas.search(SEARCHED),
    }),
    response: schemas.pageSchema('ClientPage', clientSchema),
  },
  revokeClient: {
    method: 'post',
    path: '/clients/revoke',
    role: 'operator',
    summary: 'Revokes a client. All its grants end and it cannot be connected.',
    body: () => clientIdBody,
    response: z
      .strictObject({ ...clientSchema.shape, endedGrants: z.int() })
      .meta({ id: 'RevokedClient' }),
    errors: NOT_FOUND,
  },
  allowClient: {
    method: 'post',
    path: '/clients/allow',
    role: 'operator',
    summary: 'Allows people to connect a waiting or revoked client.',
    body: () =>
      clientIdBody.extend({
        app: z
          .boolean('true or false')
          .optional()
          .describe(
            'Also allows later registrations with the same name and no other redirect hosts. Names are not verified.',
          ),
      }),
    response: clientSchema,
    errors: { ...NOT_FOUND, 409: 'A rule blocks the client, or its name is missing.' },
  },
} as const satisfies Record<string, Operation>;

/** The order of a list that people read: apps that wait first, the last one first. Others keep their order. */
function lastWaitingFirst(clients: readonly Client[]): Client[] {
  return clients.toSorted((one, other) =>
    (other.waitingSince ?? '').localeCompare(one.waitingSince ?? ''),
  );
}

/** All of them: the last one may be the one that matters. */
function hostsText({ redirectUris, usesDevice }: Client): string {
  return destinationsOf({ redirectUris, usesDevice }).join(', ') || '-';
}

const ID_START = 8;

export const clientFields: Fields<Client> = {
  id: { code: 'id' },
  key: { code: ({ machine }) => machine?.key },
  name: { text: 'name', row: ({ name = 'unknown' }) => name },
  kind: {
    text: 'kind',
    console: ({ kind }) => [{ label: 'kind', code: kind, textKey: `console.kinds.${kind}` }],
  },
  appKind: {
    console: ({ kind }) => [{ label: 'kind', code: kind, textKey: `console.appKinds.${kind}` }],
  },
  host: {
    code: ({ id, kind }) => (kind === 'metadata-document' ? new URL(id).host : undefined),
  },
  state: {
    text: 'state',
    cell: ({ state, waitingSince, allowWith }) => {
      if (allowWith) return `${state}; to allow it: ${allowWith}`;
      return waitingSince ? `${state} since ${minute(waitingSince)}` : undefined;
    },
  },
  // All of them: an administrator must see what is allowed. An app cannot register more than 20.
  redirects: {
    heading: 'redirect URIs',
    text: ({ redirectUris }) => redirectUris.join(' '),
    none: '-',
    console: ({ redirectUris, usesDevice }) =>
      [...redirectUris, ...(usesDevice ? ['device'] : [])].map((uri) => codeField('redirect', uri)),
  },
  redirectHosts: { text: hostsText },
  // Of a metadata document, the host of its address tells it from others.
  destinations: {
    label: 'redirectHost',
    text: ({ redirectUris, usesDevice, kind }) =>
      kind === 'metadata-document'
        ? undefined
        : destinationsOf({ redirectUris, usesDevice })
            .map((host) => (host === 'loopback' ? 'localhost' : host))
            .join(', '),
  },
  // Tells apps of one name from each other.
  idStart: {
    label: 'id',
    code: ({ id, kind }) =>
      kind === 'metadata-document' ? undefined : `${id.slice(0, ID_START)}…`,
  },
  machineConnector: {
    label: 'connector',
    text: ({ machine }) => machine?.connector,
    href: ({ machine }) => machine && recordPath('connectors', machine.connector),
  },
  machineLevel: { label: 'granted', level: ({ machine }) => machine?.level },
  lastUsed: {
    time: 'lastUsedAt',
    none: '-',
    console: ({ lastUsedAt, kind }) =>
      kind === 'machine'
        ? lastUsedFields('lastUsed', lastUsedAt)
        : dateFields('lastUsed', lastUsedAt),
  },
  lastConnected: { time: 'lastUsedAt' },
  requested: { time: 'waitingSince' },
  lastSeen: { time: 'lastSeenAt' },
  allowWith: { code: 'allowWith' },
  expires: { time: ({ machine }) => machine?.expiresAt },
  revoked: {
    time: 'revokedAt',
    row: ({ revokedAt }) => (revokedAt ? `since ${minute(revokedAt)}` : 'no'),
  },
};

/** Ids of clients that registered themselves, and addresses of metadata documents. */
const CLIENT_ID = /^(https:\/\/\S+|[\w-]{21,})$/;

/** Clients choose their names, so a text that looks like an id is never compared with names. */
export const CLIENT: Required<Argument> = {
  name: 'client',
  help: 'id (which can be a URL) or unique name, see gatehouse client list',
  resolve: (api, argument) =>
    resolveId<Client>(argument, {
      noun: 'client',
      names: ' or name',
      find: async (id) => (await api.listClients({ query: { id } })).items[0],
      list: () => allItems((query) => api.listClients({ query })),
      isNamed: ({ name, state }, text) =>
        state !== 'redirect_refused' && !CLIENT_ID.test(text) && name?.normalize() === text,
      describe: ({ kind, state, redirectUris }) => `${kind}  ${state}  ${redirectUris[0] ?? '-'}`,
      id: CLIENT_ID,
    }),
};

const EXAMPLES = `
Examples:
  $ gatehouse client list
  $ gatehouse client revoke https://app.example.com/client.json
  $ gatehouse client allow https://app.example.com/client.json`;

export const clientCommands: ResourceCommands = {
  noun: 'client',
  description: 'list, allow, revoke and block apps (clients), and create machines',
  examples: EXAMPLES,
  commands: [
    {
      operation: 'listClients',
      name: 'list',
      description: 'list connected, waiting, allowed and revoked apps',
      options: [
        { flags: '--state <state>', help: 'only apps in this state', choices: LISTED_STATES },
        { flags: '--kind <kind>', help: 'only apps of this kind', choices: CLIENT_KINDS },
        searchOption(SEARCHED),
      ],
      sortShown: lastWaitingFirst,
      fields: clientFields,
      columns: 'id name kind lastUsed state redirectHosts',
      empty: ({ state, kind }) =>
        state || kind
          ? `There are no ${[state, kind].filter(Boolean).map(String).join(' ')} apps.`
          : 'Nobody has connected an app yet.',
    },
    {
      name: 'show',
      description: 'show one app',
      argument: CLIENT,
      run: async (api, { id }) => {
        const [found] = (await api.listClients({ query: { id } })).items;
        if (found) return found;
        throw new ManagementError('not_found', 'there is no client with this id');
      },
      text: (client: Client) =>
        detailsText(
          clientFields,
          'name id key kind state redirects lastUsed expires revoked',
          client,
        ),
    },
    {
      operation: 'revokeClient',
      name: 'revoke',
      description: 'end all grants of an app and prevent new ones',
      argument: CLIENT,
      help: `
Ends all grants of the app immediately. Nobody can connect the app until you allow it again. To stop an app from registering
again under a new id, use gatehouse client block. If a connect link leaked, revoke the connector instead.
${EXAMPLES}`,
      text: ({ id, name, kind, endedGrants }) => {
        const grants = endedGrants === 1 ? '1 grant' : `${endedGrants} grants`;
        const did = `Revoked ${plain(name ?? id)} (${plain(id)}) and ended ${grants}.`;
        if (kind === 'machine')
          return `${did} It can no longer get tokens. To replace it, create a new machine.`;
        return `${did} Nobody can connect it. To allow it again:
  gatehouse client allow ${quoted(id)}`;
      },
    },
    {
      operation: 'allowClient',
      name: 'allow',
      description: 'allow a waiting or revoked app; ended grants are not restored',
      argument: CLIENT,
      options: [
        {
          flags: '--app',
          help: 'also allow later registrations with the same name and redirect hosts',
        },
      ],
      help: `
Without --app, allows only this registration or metadata document. If its name or redirect URIs change, the app waits again.

Use --app for apps that register anew for each connection. Names are not verified: if the app redirects only to the
person's computer, any program there can register the same name.
${EXAMPLES}`,
      text: (client, { app }) => {
        const { id, name, kind } = client;
        const rule = `\nLater registrations with the name ${quoted(name ?? id)} and no other redirect hosts are allowed too.`;
        return `Allowed ${plain(name ?? id)} (${plain(id)}) with the redirect hosts ${plain(hostsText(client))}. People can connect it. Earlier grants are not restored.${app && kind === 'self-registered' ? rule : ''}`;
      },
    },
    ...machineCommands(CLIENT),
    ...ruleCommands,
  ],
};

/** The rule that "Always allow" adds. */
function ruleFor({ id, name = id, redirectUris, usesDevice }: Client) {
  return { name, destinations: destinationsOf({ redirectUris, usesDevice }) };
}

function allowButton({ state, kind }: Client): string | undefined {
  if (state === 'revoked' && kind !== 'machine') return 'allowAgain';
  return state === 'waiting' ? 'allowClient' : undefined;
}

/** A client whose registration has expired is known only while it is revoked. */
function isRegistered({ redirectUris, usesDevice }: Client): boolean {
  return redirectUris.length > 0 || usesDevice === true;
}

/** A machine that is not revoked is active: nobody has to allow it. */
export function shownState({ state, kind }: Client): string {
  return kind === 'machine' && state === 'allowed' ? 'active' : state;
}

export const clientList: ConsoleList<Client> = {
  section: 'clients',
  operation: 'listClients',
  limit: 50,
  sort: lastWaitingFirst,
  withPeople: true,
  fields: clientFields,
  title: ({ id, name = id }) => name,
  href: ({ id, state }) => (state === 'redirect_refused' ? undefined : recordPath('clients', id)),
  state: shownState,
  isOk: ({ state }) => state === 'allowed',
  facts: 'kind host destinations lastConnected requested lastSeen allowWith revoked idStart',
  details: 'id redirects',
  actions: [
    {
      path: 'allow',
      operation: 'allowClient',
      done: 'allowed',
      button: allowButton,
      keepsPage: isRegistered,
    },
    {
      path: 'allow-app',
      operation: 'allowClient',
      body: { app: true },
      done: 'allowed',
      button: ({ state, kind }) =>
        state === 'waiting' && kind === 'self-registered' ? 'allowApp' : undefined,
      rule: ruleFor,
      keepsPage: isRegistered,
    },
    {
      path: 'revoke',
      operation: 'revokeClient',
      done: 'app-revoked',
      button: ({ state, kind }) =>
        ({
          waiting: 'refuseClient',
          allowed: kind === 'machine' ? 'revokeMachine' : 'revokeClient',
          revoked: undefined,
          blocked: undefined,
          redirect_refused: undefined,
        })[state],
      several: true,
      keepsPage: isRegistered,
    },
  ],
};

/** Machines are clients, and are revoked as these. */
export const machineList: ConsoleList<Client> = {
  ...clientList,
  section: 'machines',
  only: { kind: 'machine' },
  withPeople: false,
  states: ['allowed', 'revoked', 'blocked'],
  stateTexts: 'console.machines.states',
  create: 'createMachine',
  facts: 'machineConnector machineLevel lastUsed expires revoked',
  details: 'id',
};
