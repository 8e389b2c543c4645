// The console's lists of clients, grants, accounts and the audit log, with what an administrator can do about each item.
import { CONNECTION_STATES, type ConnectionState } from '../../connections/connection.ts';
import { changeAccount, forgetAccount, listAccounts } from '../accounts.ts';
import { allowClient, listClients, revokeClient } from '../clients.ts';
import type { AccountDocument } from '../documents.ts';
import { type ClientDocument, type GrantDocument, personIn } from '../grant-documents.ts';
import { listGrants, revokeGrant } from '../grants.ts';
import { accountsQuery, clientsQuery, grantsQuery } from '../input.ts';
import { audit } from './audit-list.ts';
import { code, level, said, text, time } from './facts.ts';
import { addList, type List, PAGE } from './list.ts';
import { CONSOLE, type Sections } from './visit.ts';

const REASONS = 'console.reasons';

export function listPages(sections: Sections): void {
  addList(sections, clients);
  addList(sections, grants);
  addList(sections, accounts);
  addList(sections, audit);
}

/** As people read it when they are asked for consent. */
const KINDS: Record<ClientDocument['kind'], string> = {
  'self-registered': 'consent.appUnverified',
  'metadata-document': 'consent.appAddress',
  'pre-registered': 'consent.appKnown',
};

const clients: List<ClientDocument> = {
  section: 'clients',
  query: clientsQuery,
  read: (tools, _query, after) => listClients(tools, { limit: PAGE, after }),
  item: ({ id, name, state, kind, redirectUris, lastUsedAt, revokedAt }) => ({
    title: name ?? id,
    state,
    isWell: state === 'allowed',
    facts: [
      code('id', id),
      { label: 'kind', code: kind, said: KINDS[kind] },
      ...redirectUris.slice(0, 5).map((uri) => code('redirect', uri)),
      ...time('lastUsed', lastUsedAt),
      ...time('ended', revokedAt),
    ],
    actions: [
      state === 'allowed'
        ? { name: 'revokeClient', action: `${CONSOLE}/clients/revoke`, id }
        : { name: 'allowClient', action: `${CONSOLE}/clients/allow`, id },
    ],
  }),
  actions: {
    revoke: { done: 'ended', act: revokeClient },
    allow: { done: 'allowed', act: allowClient },
  },
};

const grants: List<GrantDocument> = {
  section: 'grants',
  query: grantsQuery,
  filters: ({ state = '' }) => [
    { name: 'state', value: state, said: 'console.choices', choices: [...CONNECTION_STATES] },
  ],
  read: (tools, { state, connector, account, client }, after) =>
    listGrants(tools, {
      limit: PAGE,
      after,
      state: CONNECTION_STATES.find((known: ConnectionState) => known === state),
      connector: connector || undefined,
      account: account || undefined,
      client: client || undefined,
    }),
  item: (grant) => ({
    title: grant.clientName,
    state: grant.state,
    isWell: grant.state === 'active',
    facts: [
      text('person', personIn(grant)),
      text('connector', grant.connectorName ?? grant.connector),
      ...(grant.level ? [level(grant.level, 'granted')] : []),
      ...(grant.reason ? [said('reason', grant.reason, REASONS)] : []),
      ...time('since', grant.createdAt),
      ...time('lastUsed', grant.lastUsedAt),
      ...time('ended', grant.endedAt),
      code('redirect', grant.redirectHost),
      code('id', grant.id),
    ],
    actions:
      grant.state === 'ended'
        ? []
        : [{ name: 'endGrant', action: `${CONSOLE}/grants/end`, id: grant.id }],
  }),
  actions: { end: { done: 'ended', act: revokeGrant } },
};

const accounts: List<AccountDocument> = {
  section: 'accounts',
  query: accountsQuery,
  read: (tools, _query, after) => listAccounts(tools, { limit: PAGE, after }),
  item: ({
    id,
    name,
    email,
    emailVerified,
    identityProvider,
    signedInAt,
    disabledAt,
    forgottenAt,
  }) => ({
    title: name,
    state: disabledAt === undefined ? 'allowed' : 'disabled',
    isWell: disabledAt === undefined,
    facts: [
      ...(email === undefined ? [] : [text(emailVerified ? 'email' : 'emailUnverified', email)]),
      ...time('signedIn', signedInAt),
      ...time('ended', disabledAt),
      ...time('forgotten', forgottenAt),
      ...(identityProvider === '' ? [] : [code('provider', identityProvider)]),
      code('id', id),
    ],
    actions: [
      accountAction(disabledAt === undefined ? 'disable' : 'enable', id),
      ...(forgottenAt === undefined ? [accountAction('forget', id)] : []),
    ],
  }),
  actions: {
    disable: { done: 'disabled', act: (tools, id) => changeAccount(tools, id, 'disable') },
    enable: { done: 'enabled', act: (tools, id) => changeAccount(tools, id, 'enable') },
    forget: { done: 'forgotten', act: forgetAccount },
  },
};

function accountAction(name: 'disable' | 'enable' | 'forget', id: string) {
  return { name, action: `${CONSOLE}/accounts/${name}`, id };
}
