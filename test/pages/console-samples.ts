// Sample values for the console's views.
import { groupedChart, stackedChart } from '../../src/pages/column-charts.ts';
import type {
  ConsoleAction,
  ConsoleConnection,
  ConsoleDifference,
  ConsoleEvent,
  ConsoleItem,
  ConsoleLayout,
  ConsoleSearch,
  ConsoleValues,
} from '../../src/pages/console-values.ts';
import { recordPath } from '../../src/management/console/address.ts';
import { columnsOf, sortRows } from '../../src/management/console/columns.ts';
import { formValues } from '../../src/management/console/create-form.ts';
import type { Form } from '../../src/management/console/forms.ts';
import type { ManagementContext } from '../../src/management/context.ts';
import { isoTime } from '../../src/management/represent.ts';
import {
  type Connector,
  CONNECTOR_FACTS,
  connectorEditForm,
  connectorEntries,
  connectorFields,
  connectorForm,
  connectorList,
} from '../../src/management/resources/connector.ts';
import { consoleFields } from '../../src/management/resources/fields.ts';
import type { FormField } from '../../src/management/resources/form-fields.ts';
import { machineForm } from '../../src/management/resources/machine.ts';
import { tokenForm } from '../../src/management/resources/token.ts';
import { DEFAULT_LEVELS } from '../../src/permission-levels.ts';
import { INSTRUCTIONS } from './instruction-samples.ts';

const DIFFERENCES: ConsoleDifference[] = [
  {
    labelKey: 'console.fields.level',
    before: { label: 'level', level: 'admin' },
    after: { label: 'level', level: 'operations' },
  },
  {
    labelKey: 'console.fields.audience',
    before: { label: 'audience', textKey: 'console.connectors.everybody' },
    after: { label: 'audience', codes: ['group:analysts', 'email:ada@example.com'] },
  },
  {
    labelKey: 'console.fields.expires',
    before: { label: 'expires', time: 1_893_500_000 },
    after: { label: 'expires', textKey: 'console.fields.never' },
  },
];

type ListSample = { view: 'console/list'; values: ConsoleValues['console/list'] };

const SECTIONS = Object.entries({
  happened: ['overview', 'audit', 'attempts'],
  people: ['connectors', 'grants', 'accounts'],
  programs: ['clients', 'rules', 'machines', 'tokens', 'workloads'],
  reach: ['servers'],
  running: ['health', 'settings'],
}).flatMap(([group, names]) => names.map((name) => ({ name, href: `/console/${name}`, group })));
const NOON = 1_893_500_000;
const LONG = 'Rechtsschutzversicherungsgesellschaften'.repeat(2);

function layout(section: string, more: Partial<ConsoleLayout> = {}): ConsoleLayout {
  const token = 'form-token';
  return {
    section,
    sections: SECTIONS,
    administrator: 'Ada Lovelace',
    role: 'administrator',
    token,
    ...more,
  };
}

const SEARCH: Omit<ConsoleSearch, 'action'> = {
  q: '',
  filters: [
    {
      name: 'state',
      value: '',
      choiceTexts: 'console.states',
      choices: ['active', 'used-up', 'expired', 'revoked', 'unconfigured'],
    },
  ],
};

function stateFilter(choices: string[]): ConsoleSearch['filters'][number] {
  return { name: 'state', value: '', choiceTexts: 'console.states', choices };
}

const ITEM: ConsoleItem = {
  title: 'Claude Code',
  href: '/console/grants/Wm1xQ0p7Zr8kT2mQp1VxWm1x',
  state: 'active',
  isOk: true,
  facts: [
    { label: 'person', text: 'ada@example.com', href: '/console/accounts/abc' },
    { label: 'granted', level: 'operations' },
    { label: 'lastActive', time: NOON },
  ],
  fields: [
    { label: 'since', time: NOON },
    { label: 'id', code: 'Wm1xQ0p7Zr8kT2mQp1VxWm1xQ0p7Zr8k' },
  ],
  actions: [{ name: 'endGrant', action: '/console/grants/end', id: 'Wm1xQ0p7Zr8kT2mQp1VxWm1x' }],
};
const PICKED: ConsoleItem = {
  title: 'Club numbers',
  href: '/console/connectors/abc/machine',
  state: 'active',
  isOk: true,
  facts: [
    { label: 'level', level: 'operations' },
    { label: 'created', time: NOON },
  ],
  fields: [],
  actions: [],
};
const ENDED: ConsoleItem = {
  title: `Claude ${LONG}`,
  href: '/console/grants/Zt6Vb3Ns8Lw5Kd0HjUe7R0m4',
  state: 'ended',
  isOk: true,
  facts: [
    { label: 'person', text: 'grace@example.com', href: '/console/accounts/def' },
    { label: 'ended', time: NOON },
  ],
  fields: [{ label: 'reason', code: 'disconnected', textKey: 'console.reasons.disconnected' }],
  actions: [],
};

const BY_TITLE = { column: 'title', direction: 'ascending' } as const;

function list(section: string, items: ConsoleItem[], more: object = {}): ListSample {
  const console = layout(section);
  const columns = columnsIn(items);
  const sorted = sortRows(items, BY_TITLE, []);
  const action = `/console/${section}`;
  const values = { console, columns, items: sorted, filters: [], action, ...more };
  return { view: 'console/list', values };
}

/** With links that sort. */
function columnsIn(items: ConsoleItem[]) {
  const at = ({ sort }: { sort: string }) => `/console/list?sort=${sort}`;
  return columnsOf(items, { order: BY_TITLE, at });
}

const PERSON = 'Ikh5AnYxuNnXX_7k2joIiz_pE1R';
const PERSON_PATH = `/console/accounts/${PERSON}`;

const LIST_SAMPLES: Record<string, ListSample> = {
  'console-grants': list('grants', [ITEM, ENDED], {
    several: {
      action: '/console/grants/several',
      of: '/console/grants/end',
      place: 'q=Claude',
      all: 1,
    },
    q: 'Claude',
    filters: [
      {
        name: 'state',
        value: '',
        choiceTexts: 'console.states',
        choices: ['pending', 'active', 'refused', 'ended'],
      },
      { name: 'level', value: '', choiceTexts: '', choices: ['analytics', 'full'] },
    ],
    kept: [{ name: 'connector', value: '4qR8sT1vWxYz2aBcD3eFgH', text: LONG }],
    found: { count: 2, isAll: true },
  }),
  'console-clients': list(
    'clients',
    [
      {
        title: LONG,
        href: '/console/clients/abc',
        state: 'allowed',
        isOk: true,
        facts: [
          { label: 'kind', code: 'metadata-document', textKey: 'console.kinds.metadata-document' },
          { label: 'lastConnected', time: NOON },
        ],
        fields: [
          { label: 'id', code: 'https://claude.ai/oauth/mcp-oauth-client-metadata' },
          { label: 'redirect', code: `https://${LONG}.example.com/callback` },
        ],
        actions: [{ name: 'revokeClient', action: '/console/clients/revoke', id: 'abc' }],
      },
      {
        title: 'Claude Code',
        href: '/console/clients/def',
        state: 'waiting',
        isOk: false,
        facts: [
          { label: 'kind', code: 'self-registered', textKey: 'console.kinds.self-registered' },
          { label: 'requested', time: NOON },
        ],
        fields: [
          { label: 'id', code: 'q1W2e3R4t5Y6u7I8o9P0aA' },
          { label: 'redirect', code: 'http://localhost/callback' },
          { label: 'redirect', code: `https://${LONG}.example.com/callback` },
        ],
        actions: [
          { name: 'allowClient', action: '/console/clients/allow', id: 'def' },
          {
            name: 'allowApp',
            action: '/console/clients/allow-app',
            id: 'def',
            rule: { name: 'Claude Code', destinations: ['loopback', `${LONG}.example.com`] },
          },
          { name: 'refuseClient', action: '/console/clients/revoke', id: 'def' },
        ],
      },
    ],
    { q: '', filters: [stateFilter(['allowed', 'waiting', 'revoked', 'blocked'])] },
  ),
  'console-rules': list(
    'rules',
    [
      {
        title: 'evil.example',
        state: 'blocked',
        isOk: false,
        facts: [
          { label: 'comparedBy', code: 'host', textKey: 'console.rules.host' },
          { label: 'since', time: NOON },
        ],
        fields: [{ label: 'id', code: 'abc' }],
        actions: [{ name: 'removeBlock', action: '/console/rules/remove', id: 'abc' }],
      },
      {
        title: 'Claude Code',
        state: 'allowed',
        isOk: true,
        facts: [
          { label: 'comparedBy', code: 'name', textKey: 'console.rules.name' },
          { label: 'redirectHost', code: 'localhost' },
          { label: 'since', time: NOON },
        ],
        fields: [{ label: 'id', code: 'def' }],
        actions: [{ name: 'removeAllow', action: '/console/rules/remove', id: 'def' }],
      },
    ],
    { block: { host: '', name: '' } },
  ),
  'console-accounts': list(
    'accounts',
    [
      {
        title: 'Alan Turing',
        href: '/console/accounts/abc',
        state: 'disabled',
        isOk: false,
        facts: [{ label: 'signedIn', time: NOON }],
        fields: [{ label: 'emailUnverified', text: `${LONG}@example.com` }, ...ITEM.fields],
        actions: [
          { name: 'enable', action: '/console/accounts/enable', id: 'abc' },
          { name: 'forgetDisabled', action: '/console/accounts/forget', id: 'abc' },
        ],
      },
      {
        title: 'Ikh5AnYxuNnXX_7k2joIiz_pE1R',
        textKey: 'console.record.deletedPerson',
        href: PERSON_PATH,
        state: 'deleted',
        isOk: false,
        fields: [
          { label: 'forgotten', time: NOON },
          { label: 'id', code: 'Ikh5AnYxuNnXX_7k2joIiz_pE1R' },
        ],
        actions: [{ name: 'enableDeleted', action: '/console/accounts/enable', id: 'def' }],
      },
    ],
    { q: '', filters: [stateFilter(['active', 'disabled', 'deleted'])] },
  ),
  'console-nobody': list('accounts', [], { q: '' }),
};

const RULE: ConsoleItem = {
  title: 'entitlements[1]',
  facts: [
    { label: 'level', level: 'operations' },
    { label: 'tools', codes: ['search_*', LONG] },
  ],
  fields: [],
  actions: [],
};
const CREATED: ConsoleItem[] = [
  {
    title: LONG,
    href: '/console/tokens?q=long',
    facts: [
      { label: 'type', code: 'token', textKey: 'console.created.token' },
      { label: 'granted', level: 'full' },
      { label: 'expires', time: NOON },
    ],
    fields: [],
    actions: [],
  },
  {
    title: 'Nightly job',
    href: '/console/clients/QmZ8cT2mQp1VxWm1xQ0p7Z',
    facts: [
      { label: 'type', code: 'machine', textKey: 'console.created.machine' },
      { label: 'granted', level: 'operations' },
      { label: 'expires', time: NOON },
    ],
    fields: [],
    actions: [],
  },
];

type ConsoleSample = {
  [Name in keyof ConsoleValues]: { view: Name; values: ConsoleValues[Name]; status?: number };
}[keyof ConsoleValues];

const DAY = 86_400;

const UNLIMITED: Connector = {
  id: '4qR8sT1vWxYz2aBcD3eFgH',
  name: 'Club numbers',
  level: 'full',
  upstream: 'orders',
  link: 'https://mcp.example.com/connect/4qR8sT1vWxYz2aBcD3eFgH/mcp',
  state: 'active',
  createdAt: isoTime(NOON),
  uses: 2,
};
const LIMITED: Connector = {
  ...UNLIMITED,
  level: 'operations',
  suggestedLevel: 'analytics',
  audience: [{ email: 'ada@example.com' }, { group: 'analysts', provider: 'example' }],
  expiresAt: isoTime(NOON + 30 * DAY),
  maxUses: 5,
};
const CONNECTOR = recordPath('connectors', LIMITED.id);

function connectorRow(connector: Connector, href = CONNECTOR): ConsoleItem {
  const { title, state, isOk, facts } = connectorList;
  return {
    title: title(connector),
    href,
    state: state(connector),
    isOk: isOk(connector),
    facts: consoleFields(connectorFields, facts, connector),
    fields: [],
    actions: [],
  };
}

function connectorValues(connector: Connector): ConsoleValues['console/connector']['connector'] {
  const { name, link, state } = connector;
  const fields = consoleFields(connectorFields, CONNECTOR_FACTS, connector);
  return { name, link, state, fields };
}

/** What nobody can use yet. */
const NO_TOOLS = [
  { level: 'analytics', tools: 0, connectors: 0, tokens: 0 },
  { level: 'operations', tools: 0, connectors: 0, tokens: 0 },
  { level: 'admin', tools: 0, connectors: 0, tokens: 0 },
  { level: 'full', tools: 0, connectors: 0, tokens: 0 },
];

/** A form with these entries. `providers` are the ids of the sign-in providers. */
function form(fields: readonly FormField[], entries: Form = {}, providers = ['example']) {
  const settings = {
    levels: DEFAULT_LEVELS,
    upstreams: ['Orders', 'Tickets'].map((name) => ({ id: name.toLowerCase(), name })),
    identityProviders: providers.map((id) => ({ id })),
  };
  const management = { settings } as unknown as ManagementContext;
  return formValues(management, '/console/connectors', fields, entries);
}

function personAction(name: string, returnTo?: string): ConsoleAction {
  const action = { name, action: `/console/accounts/${name}`, id: PERSON };
  return { ...action, ...(returnTo === undefined ? {} : { returnTo }) };
}

const CALLS: ConsoleConnection['calls'] = (['today', 'yesterday', 'week', 'all'] as const).map(
  (name) => {
    return { name, href: `/console/audit?client=abc&event=call&since=${name}` };
  },
);
const CONNECTION: ConsoleConnection = {
  calls: CALLS,
  person: { name: 'grace@example.com', href: PERSON_PATH },
  connector: { name: 'Club numbers', href: '/console/connectors/4qR8sT1vWxYz2aBcD3eFgH' },
  href: '/console/grants/Wm1xQ0p7Zr8kT2mQp1VxWm1x',
  level: 'operations',
  state: 'active',
  isOk: true,
  since: NOON,
  lastActive: NOON,
  actions: [
    {
      name: 'endGrant',
      action: '/console/grants/end',
      id: 'Wm1xQ0p7Zr8kT2mQp1VxWm1x',
      returnTo: PERSON_PATH,
    },
  ],
};
const APP_CONNECTION: ConsoleConnection = {
  ...CONNECTION,
  app: { name: 'Claude Code', href: '/console/clients/Wm1xQ0p7Zr8kT2mQp1VxWm1xQ0p7Zr8k' },
};
const { person: _person, ...PERSON_CONNECTION } = APP_CONNECTION;
const { connector: _connector, ...CONNECTOR_CONNECTION } = APP_CONNECTION;
const REPLAY = {
  code: 'refresh_replay',
  textKey: 'console.reasons.refresh_replay',
  advice: ['suspicious', 'callsRecorded'],
};
const ENDED_CONNECTION: ConsoleConnection = {
  calls: CALLS,
  app: { name: 'Claude Code', href: '/console/clients/Wm1xQ0p7Zr8kT2mQp1VxWm1xQ0p7Zr8k' },
  person: {},
  connector: {},
  level: 'operations',
  state: 'ended',
  isOk: false,
  since: NOON,
  endedAt: NOON,
  reason: REPLAY,
  actions: [],
};

const { person: _somebody, ...ENDED_OF_PERSON } = ENDED_CONNECTION;
const { app: _app, ...ENDED_OF_APP } = ENDED_CONNECTION;
const { connector: _former, ...ENDED_OF_CONNECTOR } = ENDED_CONNECTION;

const NAMES_IN_EVENTS: ConsoleEvent['values'] = {
  person: { tag: 'name', text: 'Grace Hopper', href: PERSON_PATH },
  app: { tag: 'claim', text: 'Claude Code', href: '/console/clients/abc' },
  connector: { tag: 'name', text: 'Club numbers', href: '/console/connectors/abc' },
  program: { tag: 'name', text: 'Nightly report', href: '/console/tokens' },
  token: { tag: 'name', text: 'Nightly report' },
  tool: { tag: 'code', text: 'export_members' },
  host: { tag: 'code', text: 'evil.example' },
  server: { tag: 'name', text: 'Orders', href: '/console/servers/orders/review' },
  change: 'changed',
  caller: 'person',
  effect: 'block',
  reason: 'none',
  outcome: 'done',
};

/** Fields and values as the audit log has them. */
function sampleEvent(event: string, more: Partial<ConsoleEvent> = {}): ConsoleEvent {
  return {
    time: NOON,
    event,
    textKey: `console.sentences.${event}`,
    isDoubtful: false,
    by: { kind: 'key', text: 'ops' },
    fields: [
      { label: 'event', code: event },
      ...(more.by?.kind === 'person'
        ? [{ label: 'by', code: PERSON, name: 'ada@example.com', href: PERSON_PATH }]
        : []),
    ],
    ...more,
    values: { ...NAMES_IN_EVENTS, ...more.values },
  };
}

const REFUSED_CALL = sampleEvent('call', {
  values: {
    outcome: 'refused',
    connector: { tag: 'name', text: 'Auditors', href: '/console/connectors/abc' },
  },
  outcome: { label: 'outcome', code: 'refused', textKey: 'console.outcomes.refused' },
  isDoubtful: true,
  fields: [{ label: 'arguments', code: JSON.stringify({ bytes: 12, sha256: LONG }) }],
});
function earlier(event: ConsoleEvent, index: number): ConsoleEvent {
  return { ...event, time: NOON - index * 5000 };
}

/** Newest first: the present connection, and those before it. */
const HISTORY: ConsoleEvent[] = [
  sampleEvent('consent_approved', { level: 'operations' }),
  sampleEvent('grant_ended', {
    by: { kind: 'person', text: 'Ada Lovelace', href: PERSON_PATH },
    values: { reason: 'revoked_by_administrator' },
    causeKey: 'console.causes.revoked_by_administrator',
  }),
  sampleEvent('consent_approved', { level: 'operations' }),
  sampleEvent('grant_ended', { values: { reason: 'idle' }, causeKey: 'console.causes.idle' }),
].map(earlier);
const HISTORY_OF_ENDED: ConsoleEvent[] = [
  sampleEvent('refresh_replay'),
  sampleEvent('consent_approved', { level: 'operations' }),
].map(earlier);
const EVENTS: ConsoleEvent[] = [
  sampleEvent('client_blocked'),
  REFUSED_CALL,
  ...HISTORY,
  sampleEvent('consent_approved', {
    level: 'operations',
    values: { app: { tag: 'claim', text: LONG }, person: 'deleted', connector: 'deleted' },
  }),
  sampleEvent('connector_created', { by: { kind: 'unnamed' } }),
  // Of another version.
  sampleEvent('unheard_of', { by: { kind: 'deleted' }, fields: [] }),
].map(earlier);

function tokenFields(lastFour: string, id: string): ConsoleItem['fields'] {
  return [
    { label: 'created', time: NOON },
    { label: 'endsIn', text: `…${lastFour}` },
    { label: 'id', code: id },
  ];
}

/** Ended connections are fewer than approved ones. */
const CONNECTION_CHART = groupedChart(
  ['approved', 'ended'],
  Array.from({ length: 30 }, (_, day) => ({
    at: NOON - (29 - day) * DAY,
    values: [(day * 7) % 6, (day * 5) % 4 === 3 ? 2 : 0],
  })),
);
const CALL_CHART = stackedChart(
  ['done', 'refused', 'failed'],
  Array.from({ length: 24 }, (_, hour) => ({
    at: NOON - (NOON % 3600) - (23 - hour) * 3600,
    values: [(hour * 11) % 17, hour % 9 === 4 ? 2 : 0, hour % 12 === 7 ? 1 : 0],
  })),
);

const TOKEN = `eyJhbGciOiJFUzI1NiJ9.${'eyJpc3MiOiJodHRwczovL2F1dGgu'.repeat(8)}.c2lnbmF0dXJl`;

export const CONSOLE_SAMPLES: Record<string, ConsoleSample> = {
  'console-connectors': list(
    'connectors',
    [
      connectorRow(LIMITED),
      connectorRow({ ...UNLIMITED, name: LONG }, '/console/connectors/second'),
      connectorRow({ ...UNLIMITED, state: 'revoked' }, '/console/connectors/third'),
      connectorRow({ ...LIMITED, state: 'used-up', uses: 5 }, '/console/connectors/fourth'),
    ],
    {
      console: layout('connectors', {
        done: 'deleted',
        doneValues: { connector: 'Last year’s numbers' },
      }),
      next: '/console/connectors?after=4qR8sT1vWxYz2aBcD3eFgH',
      create: '/console/connectors/new',
      ...SEARCH,
    },
  ),
  'console-connectors-none': list('connectors', [], {
    ...SEARCH,
    create: '/console/connectors/new',
    q: LONG,
    found: { count: 0, isAll: true },
  }),
  'console-new-connector': {
    view: 'console/new-connector',
    values: { console: layout('connectors'), form: form(connectorForm), opens: [] },
  },
  'console-new-connector-same': {
    view: 'console/new-connector',
    values: {
      console: layout('connectors'),
      isPartial: true,
      opens: [
        { label: 'opens', codes: ['search_orders', LONG] },
        { label: 'opens', textKey: 'console.fields.opensLater' },
        { label: 'unmatched', codes: ['drop_*'] },
      ],
      form: form(connectorForm, {
        name: 'Club numbers',
        audience: 'group:analysts',
        maxUses: '5',
        days: '30',
      }),
    },
  },
  'console-new-connector-wrong': {
    view: 'console/new-connector',
    values: {
      console: layout('connectors', { problem: 'uses' }),
      opens: [],
      form: form(
        connectorForm,
        {
          name: 'Club numbers',
          level: 'admin',
          suggestedLevel: 'operations',
          audience: 'email:ada@example.com\ngroup:analysts@example',
          maxUses: '0',
          days: '30',
        },
        ['example', 'partners', 'github'],
      ),
    },
    status: 400,
  },
  'console-edit': {
    view: 'console/edit',
    values: {
      console: layout('connectors'),
      name: LIMITED.name,
      back: CONNECTOR,
      form: form(connectorEditForm, connectorEntries(LIMITED)),
      shown: [{ name: 'shown-audience', value: 'group:analysts\nemail:ada@example.com' }],
      meanwhile: [],
    },
  },
  'console-edit-stale': {
    view: 'console/edit',
    values: {
      console: layout('connectors'),
      name: LONG,
      back: CONNECTOR,
      form: form(connectorEditForm, { ...connectorEntries(LIMITED), expiresAt: LONG }),
      shown: [],
      meanwhile: DIFFERENCES,
      problem: 'expires',
    },
    status: 412,
  },
  'console-edit-effect': {
    view: 'console/edit-effect',
    values: {
      console: layout('connectors'),
      name: LIMITED.name,
      back: CONNECTOR,
      action: `${CONNECTOR}/edit`,
      hidden: [{ name: 'audience', value: 'group:analysts\nemail:ada@example.com' }],
      changes: DIFFERENCES,
      opens: [
        { label: 'opens', codes: ['search_orders', LONG] },
        { label: 'opens', textKey: 'console.fields.opensLater' },
        { label: 'unmatched', codes: ['drop_*'] },
      ],
      count: 52,
      isAll: false,
      affected: [
        {
          href: '/console/grants/abc',
          app: LONG,
          person: LONG,
          before: 'admin',
          after: 'operations',
        },
        {
          href: '/console/grants/def',
          app: 'Claude',
          person: 'Grace Hopper',
          before: 'admin',
          after: 'admin',
          reasonKey: 'console.reasons.not_in_audience',
        },
        {
          href: '/console/grants/ghi',
          app: 'Claude',
          person: 'Ada Lovelace',
          before: 'admin',
          after: 'operations',
          reasonKey: 'console.reasons.connector_expired',
          endsAt: 1_900_000_000,
        },
      ],
    },
  },
  'console-edit-effect-none': {
    view: 'console/edit-effect',
    values: {
      console: layout('connectors'),
      name: LIMITED.name,
      back: CONNECTOR,
      action: `${CONNECTOR}/edit`,
      hidden: [],
      changes: DIFFERENCES.slice(0, 1),
      opens: [],
      count: 0,
      isAll: true,
      affected: [],
    },
  },
  'console-connector': {
    view: 'console/connector',
    values: {
      console: layout('connectors'),
      connector: connectorValues(LIMITED),
      instructions: INSTRUCTIONS,
      account: 'https://auth.example.com/account',
      audit: '/console/audit?connector=4qR8sT1vWxYz2aBcD3eFgH',
      connections: [CONNECTOR_CONNECTION],
      ended: [],
      allConnections: '/console/grants?connector=4qR8sT1vWxYz2aBcD3eFgH',
      revoke: `${CONNECTOR}/revoke`,
      newMachine: `${CONNECTOR}/machine`,
      edit: `${CONNECTOR}/edit`,
      createSame: `/console/connectors/new?from=${LIMITED.id}`,
    },
  },
  'console-connector-revoked': {
    view: 'console/connector',
    values: {
      console: layout('connectors', { done: 'revoked' }),
      connector: connectorValues({ ...UNLIMITED, state: 'revoked' }),
      instructions: [],
      account: 'https://auth.example.com/account',
      audit: '/console/audit?connector=4qR8sT1vWxYz2aBcD3eFgH',
      connections: [],
      ended: [
        {
          ...ENDED_OF_CONNECTOR,
          person: CONNECTION.person,
          isOk: true,
          reason: {
            code: 'connector_revoked',
            textKey: 'console.reasons.connector_revoked',
            advice: ['newLink'],
          },
        },
      ],
      delete: `${CONNECTOR}/delete`,
      createSame: `/console/connectors/new?from=${LIMITED.id}`,
    },
  },
  ...LIST_SAMPLES,
  'console-block': {
    view: 'console/block',
    values: {
      console: layout('rules'),
      action: '/console/rules/block',
      subject: { field: 'host', value: 'example.net' },
      clients: 14,
      connections: 31,
      isAll: false,
      names: [
        { name: LONG, connections: 17, href: '/console/clients?q=long' },
        { name: 'Claude Code', connections: 1, href: '/console/clients?q=Claude+Code' },
      ],
      moreNames: 2,
      back: '/console/rules',
    },
  },
  'console-block-nothing': {
    view: 'console/block',
    values: {
      console: layout('clients'),
      action: '/console/rules/block',
      subject: { field: 'name', value: LONG },
      clients: 0,
      connections: 0,
      isAll: true,
      names: [],
      moreNames: 0,
      returnTo: '/console/clients/abc',
      back: '/console/clients/abc',
    },
  },
  'console-audit': {
    view: 'console/audit',
    values: {
      console: layout('audit'),
      events: EVENTS,
      action: '/console/audit',
      filters: [
        {
          name: 'since',
          value: '',
          choiceTexts: 'console.choices',
          choices: ['hour', 'day', 'week'],
        },
        { name: 'from', value: '2030-01-31', input: 'date' },
        { name: 'to', value: '', input: 'date' },
        {
          name: 'event',
          value: '',
          choiceTexts: 'console.events',
          choices: ['connector_created', 'grant_vouched', 'unheard_of'],
        },
        {
          name: 'outcome',
          value: '',
          choiceTexts: 'console.outcomes',
          choices: ['answered', 'failed', 'refused'],
        },
        { name: 'tool', value: LONG, input: 'text' },
      ],
      q: 'Grace',
      found: { count: EVENTS.length, isAll: true },
      searched: 10_000,
      export: {
        action: '/console/audit/export',
        fields: [{ name: 'from', value: '2030-01-31' }],
        ignoresWords: true,
      },
      checkedAt: 1_900_000_000,
      problems: 2,
      deliveries: [
        { id: 'siem', state: 'refused', isOk: false, backlog: 12, rejected: 1, lost: 0 },
        { id: 'archive', state: 'delivering', isOk: true, backlog: 0, rejected: 0, lost: 0 },
      ],
    },
  },
  'console-person': {
    view: 'console/record',
    values: {
      console: layout('accounts', {
        done: 'ended',
        doneValues: { app: 'Claude', person: 'Grace Hopper', connector: 'Orders' },
      }),
      title: 'Grace Hopper',
      back: '/console/accounts',
      state: 'active',
      isOk: true,
      meaning: 'personActive',
      fields: [
        { label: 'email', text: 'grace@example.com' },
        { label: 'provider', code: 'https://login.example.com' },
        { label: 'signedIn', time: NOON },
        { label: 'id', code: PERSON },
      ],
      connections: [
        PERSON_CONNECTION,
        {
          ...PERSON_CONNECTION,
          app: { name: LONG, href: '/console/clients/long' },
          connector: { name: 'Tickets', href: '/console/connectors/tickets' },
          state: 'refused',
          isOk: false,
          actions: PERSON_CONNECTION.actions.map((action) => ({ ...action, name: 'endPaused' })),
          reason: {
            code: 'not_entitled',
            textKey: 'console.reasons.not_entitled',
            advice: ['entitle'],
          },
        },
      ],
      ended: [
        {
          ...ENDED_OF_PERSON,
          app: { name: 'Claude', href: '/console/clients/claude' },
          connector: { name: 'Orders', href: '/console/connectors/orders' },
          isOk: true,
          reason: {
            code: 'revoked_by_administrator',
            textKey: 'console.reasons.revoked_by_administrator',
            advice: ['reconnect'],
          },
        },
        ENDED_OF_PERSON,
      ],
      allConnections: `/console/grants?account=${PERSON}`,
      access: [
        {
          title: 'Orders',
          href: '/console/connectors/orders',
          facts: [
            { label: 'level', level: 'operations' },
            { label: 'rule', code: 'entitlements[1]' },
          ],
          fields: [],
          actions: [],
        },
        {
          title: 'Tickets',
          href: '/console/connectors/tickets',
          facts: [{ label: 'reason', code: 'no_rule', textKey: 'console.reasons.no_rule' }],
          fields: [],
          actions: [],
        },
      ],
      created: { items: CREATED, isAll: false },
      actions: [personAction('disable', PERSON_PATH), personAction('forget')],
      history: HISTORY,
      allHistory: `/console/audit?account=${PERSON}`,
    },
  },
  'console-person-own': {
    view: 'console/record',
    values: {
      console: layout('accounts'),
      title: 'Ada Lovelace',
      isYou: true,
      back: '/console/accounts',
      state: 'active',
      isOk: true,
      meaning: 'personActive',
      fields: [
        { label: 'email', text: 'ada@example.com' },
        { label: 'provider', code: 'https://login.example.com' },
        { label: 'signedIn', time: NOON },
        { label: 'id', code: PERSON },
      ],
      connections: [],
      ended: [],
      created: { items: [], isAll: true },
      actions: [personAction('disable', PERSON_PATH), personAction('forget')],
      history: [],
      allHistory: `/console/audit?account=${PERSON}`,
    },
  },
  'console-person-deleted': {
    view: 'console/record',
    values: {
      console: layout('accounts'),
      back: '/console/accounts',
      state: 'deleted',
      isOk: false,
      meaning: 'personDeleted',
      stateSince: NOON,
      fields: [
        { label: 'forgotten', time: NOON },
        { label: 'id', code: PERSON },
      ],
      connections: [],
      ended: [],
      created: { items: CREATED, isAll: true },
      actions: [{ ...personAction('enable', PERSON_PATH), name: 'enableDeleted' }],
      history: [sampleEvent('account_forgotten', { values: { person: 'deleted' } })],
      allHistory: `/console/audit?account=${PERSON}`,
    },
  },
  'console-app': {
    view: 'console/record',
    values: {
      console: layout('clients'),
      title: 'Claude Code',
      back: '/console/clients',
      state: 'allowed',
      isOk: true,
      meaning: 'appAllowed',
      fields: [
        {
          label: 'kind',
          code: 'self-registered',
          textKey: 'console.appKinds.self-registered',
        },
        { label: 'redirect', code: 'http://localhost/callback' },
        { label: 'redirect', code: 'http://127.0.0.1/callback' },
        { label: 'lastUsed', time: NOON },
        { label: 'id', code: 'Wm1xQ0p7Zr8kT2mQp1VxWm1xQ0p7Zr8k' },
      ],
      connections: [CONNECTION],
      ended: [ENDED_OF_APP],
      actions: [
        {
          name: 'revokeClient',
          action: '/console/clients/revoke',
          id: 'abc',
          returnTo: '/console/clients/abc',
        },
      ],
      block: {
        action: '/console/rules/block',
        name: 'Claude Code',
        returnTo: '/console/clients/abc',
      },
      history: HISTORY,
      allHistory: '/console/audit?client=abc',
    },
  },
  'console-grant': {
    view: 'console/record',
    values: {
      console: layout('grants'),
      title: 'Claude Code',
      owner: 'grace@example.com',
      back: '/console/grants',
      state: 'ended',
      isOk: false,
      meaning: 'connectionEnded',
      stateSince: NOON,
      fields: [{ label: 'redirectHost', code: 'localhost' }],
      connections: [
        {
          ...ENDED_CONNECTION,
          person: CONNECTION.person,
          connector: CONNECTION.connector,
          reason: REPLAY,
        },
      ],
      actions: [],
      refusals: [
        {
          time: NOON,
          reason: { code: 'not_entitled', textKey: 'console.reasons.not_entitled', advice: [] },
        },
      ],
      history: HISTORY_OF_ENDED,
      allHistory: '/console/audit?grant=abc',
    },
  },
  'console-machines': list(
    'machines',
    [
      {
        title: 'Nightly job',
        href: '/console/clients/abc',
        state: 'allowed',
        isOk: true,
        facts: [
          {
            label: 'connector',
            text: 'Numbers of the whole club',
            href: '/console/connectors/abc',
          },
          { label: 'granted', level: 'operations' },
          { label: 'lastConnected', time: NOON },
          { label: 'expires', time: NOON + 90 * DAY },
        ],
        fields: [{ label: 'id', code: 'QmZ8cT2mQp1VxWm1xQ0p7Z' }],
        actions: [{ name: 'revokeClient', action: '/console/machines/revoke', id: 'abc' }],
      },
    ],
    { create: '/console/machines/new', q: '', filters: [stateFilter(['allowed', 'revoked'])] },
  ),
  'console-machines-none': list('machines', [], { create: '/console/machines/new', q: '' }),
  'console-workloads': list('workloads', [
    {
      title: 'token.actions.githubusercontent.com:deploy',
      state: 'workload-active',
      isOk: true,
      facts: [
        { label: 'connector', text: 'Numbers of the whole club' },
        { label: 'granted', level: 'operations' },
        { label: 'lastUsed', time: NOON },
      ],
      fields: [
        { label: 'issuer', code: 'token.actions.githubusercontent.com' },
        {
          label: 'subjects',
          codes: [
            'repo:example/analytics:ref:refs/heads/main',
            'repo:example/analytics:ref:refs/tags/v1',
          ],
        },
      ],
      actions: [
        { name: 'pauseWorkload', action: '/console/workloads/pause', id: 'abc' },
        { name: 'endWorkload', action: '/console/workloads/end', id: 'abc' },
      ],
    },
    {
      title: 'cluster-one:nightly-report-of-the-warehouse',
      state: 'workload-paused',
      isOk: false,
      facts: [
        { label: 'connector', text: 'Tickets' },
        { label: 'granted', level: 'analytics' },
        { label: 'lastUsed', textKey: 'console.fields.neverUsed' },
      ],
      fields: [{ label: 'issuer', code: 'cluster-one' }],
      actions: [{ name: 'resumeWorkload', action: '/console/workloads/resume', id: 'def' }],
    },
  ]),
  'console-workloads-none': list('workloads', []),
  'console-tokens': list(
    'tokens',
    [
      {
        title: 'Editor',
        state: 'active',
        isOk: true,
        facts: [
          { label: 'granted', level: 'full' },
          { label: 'upstream', code: 'orders' },
          { label: 'lastUsed', textKey: 'console.fields.neverUsed' },
          { label: 'expires', time: NOON + 90 * DAY },
        ],
        fields: tokenFields('dXJl', '019b5f2c7a3e4d1f8c6b0a9e8d7c6b5a'),
        actions: [{ name: 'revokeToken', action: '/console/tokens/revoke', id: 'abc' }],
      },
      {
        title: 'Nightly report',
        state: 'active',
        isOk: true,
        facts: [
          { label: 'granted', level: 'analytics' },
          { label: 'upstream', code: 'orders' },
          { label: 'lastUsed', time: NOON },
          { label: 'expires', time: NOON + 5 * DAY },
        ],
        fields: tokenFields('x7Kq', '019a1c0d4e2b7f6a9c8d1e0f3b5a7c9d'),
        actions: [{ name: 'revokeToken', action: '/console/tokens/revoke', id: 'def' }],
      },
    ],
    {
      create: '/console/tokens/new',
      ...SEARCH,
      filters: [
        {
          name: 'state',
          value: '',
          choiceTexts: 'console.states',
          choices: ['active', 'keyReplaced'],
        },
      ],
      minted: {
        name: 'Editor',
        token: TOKEN,
        url: 'https://mcp.example.com/mcp',
        example: `{\n  "mcpServers": {\n    "gatehouse": {\n      "type": "http",\n      "url": "https://mcp.example.com/mcp",\n      "headers": { "Authorization": "Bearer ${TOKEN}" }\n    }\n  }\n}`,
      },
    },
  ),
  'console-search': {
    view: 'console/search',
    values: {
      console: layout('search', { search: 'claude' }),
      q: 'claude',
      sections: [
        {
          section: 'grants',
          columns: columnsOf([ITEM, ENDED]),
          items: [ITEM, ENDED],
          all: '/console/grants?q=claude',
        },
        {
          section: 'servers',
          items: [{ title: LONG, href: '/console/servers', fields: [], actions: [] }],
        },
      ],
      unread: [],
    },
  },
  'console-search-none': {
    view: 'console/search',
    values: {
      console: layout('search', { search: LONG }),
      q: LONG,
      sections: [],
      unread: ['accounts', 'grants', 'clients'].map((section) => ({
        section,
        href: `/console/${section}?q=claude`,
      })),
    },
  },
  'console-several': {
    view: 'console/several',
    values: {
      console: layout('grants'),
      action: '/console/grants/several',
      ids: 'abc def',
      place: 'q=claude',
      count: 22,
      connections: 22,
      people: 9,
      isAll: true,
      names: Array.from({ length: 22 }, (_, n) => ({
        name: n === 0 ? LONG : 'Claude',
        person: 'ada@example.com',
        connector: `Numbers of ${2001 + n}`,
        href: `/console/grants/abc${n}`,
      })),
      back: '/console/grants?q=claude',
    },
  },
  'console-new-token': {
    view: 'console/new-token',
    values: { console: layout('tokens'), form: form(tokenForm) },
  },
  'console-pick-connector': {
    view: 'console/pick-connector',
    values: {
      console: layout('machines'),
      action: '/console/machines/new',
      q: '',
      columns: columnsIn([PICKED]),
      items: [PICKED, { ...PICKED, title: LONG }],
      most: 20,
    },
  },
  'console-pick-connector-none': {
    view: 'console/pick-connector',
    values: {
      console: layout('machines'),
      action: '/console/machines/new',
      q: LONG,
      columns: [],
      items: [],
      found: { count: 0, isAll: true },
    },
  },
  'console-new-machine': {
    view: 'console/new-machine',
    values: {
      console: layout('machines', { problem: 'keys' }),
      connector: { name: 'Club numbers', href: '/console/connectors/x' },
      form: form(machineForm, { name: 'Nightly job', keys: 'http://x' }),
    },
  },
  'console-machine': {
    view: 'console/machine',
    values: {
      console: layout('machines'),
      done: 'created',
      machine: {
        id: 'QmZ8cT2mQp1VxWm1xQ0p7Z',
        name: LONG,
        link: 'https://mcp.example.com/connect/x/mcp',
        level: 'operations',
        expiresAt: NOON + 90 * DAY,
        href: '/console/clients/x',
        secret: 'Ue7R0m4Yc1pQ9x2Zt6Vb3Ns8Lw5Kd0HjUe7R0m4Yc1p',
      },
      example:
        'read -rs MCP_CLIENT_SECRET && export MCP_CLIENT_SECRET && npx -y -p mcp-remote mcp-remote-client https://mcp.example.com/connect/x/mcp --client-credentials --static-oauth-client-info \'{"client_id":"QmZ8cT2mQp1VxWm1xQ0p7Z","client_secret":"${MCP_CLIENT_SECRET}"}\'',
      back: '/console/clients',
    },
  },
  'console-overview': {
    view: 'console/overview',
    values: {
      console: layout('overview'),
      attention: [
        { name: 'tampered', count: 2, href: '/console/audit#integrity' },
        { name: 'health', count: 1, href: '/console/health' },
        { name: 'waiting', count: 1, href: '/console/clients?state=waiting' },
        { name: 'waitingAtLeast', count: 1000, href: '/console/clients?state=waiting' },
        { name: 'servers', count: 1, href: '/console/servers' },
        { name: 'changed', count: 2, href: '/console/servers/orders/review' },
        { name: 'ending.connector', count: 2, href: '/console/connectors' },
        { name: 'ending.token', count: 1, href: '/console/tokens' },
        { name: 'ending.machine', count: 1, href: '/console/machines' },
        { name: 'ending.signing_key', count: 1, href: '/console/health' },
        { name: 'ending.client_secret', count: 1, href: '/console/settings' },
        { name: 'delivery', count: 1, href: '/console/health' },
      ],
      create: '/console/connectors/new',
      connections: CONNECTION_CHART,
      calls: CALL_CHART,
      levels: [
        { level: 'analytics', counts: [1200, 3, 0] },
        { level: 'full', counts: [40, 12, 2] },
        { level: 'other', counts: [1, 0, 0] },
      ],
      reasons: [
        { reason: 'invalid_token', count: 40, width: 100 },
        { reason: 'insufficient_scope', count: 10, width: 25 },
      ],
      refused: { count: 3, href: '/console/attempts?end=refused' },
    },
  },
  'console-settings': {
    view: 'console/settings',
    values: {
      console: layout('settings'),
      changed: ['entitlements', 'resourceServer.upstreams.orders.headers.authorization'],
      notReloadable: ['GATEHOUSE_MANAGEMENT_KEY'],
      unanswered: ['gatehouse-2:17'],
      tokens: ['Nightly report'],
      count: 1,
      isAll: true,
      affected: [
        {
          href: '/console/grants/QmZ8cT2mQp1VxWm1xQ0p7Z',
          app: 'Claude',
          person: 'Ada Lovelace',
          before: 'full',
          after: 'operations',
        },
      ],
      action: '/console/settings',
      back: '/console/health',
    },
  },
  'console-settings-refused': {
    view: 'console/settings',
    values: {
      console: layout('settings'),
      changed: [],
      notReloadable: [],
      unanswered: [],
      tokens: [],
      count: 0,
      isAll: true,
      affected: [],
      problem: {
        kind: 'invalid_settings',
        lines: [
          'The settings have an error:',
          '  lifetimes.accessToken: given "soon"; expected a duration such as 30m',
        ],
      },
      action: '/console/settings',
      back: '/console/health',
    },
  },
  'console-health': {
    view: 'console/health',
    values: {
      console: layout('health'),
      version: '1.0.0',
      settings: '/console/settings',
      differing: ['gatehouse-2:17'],
      checks: [
        { name: 'store', url: '', isOk: true },
        { name: 'auth', url: 'https://auth.example.com/readyz', isOk: true },
        { name: 'resource', url: 'https://mcp.example.com/readyz', isOk: false },
      ],
      calls: { isOk: false, reach: 3 * DAY, items: 1_000_000, room: 2_345_678 },
      deliveries: [
        {
          id: 'siem',
          state: 'refused',
          isOk: false,
          backlog: 12_345,
          rejected: 1,
          lost: 0,
          fields: [
            { label: 'receiver', code: 'https://siem.example.com/services/collector/events' },
            { label: 'reason', text: 'HTTP 401: the token <b>has expired</b>' },
            { label: 'oldest', time: NOON - DAY },
            { label: 'failedAt', time: NOON },
          ],
        },
        {
          id: 'collector',
          state: 'delivering',
          isOk: true,
          backlog: 0,
          rejected: 0,
          lost: 0,
          fields: [{ label: 'receiver', code: 'http://collector.internal:4318/v1/logs' }],
        },
      ],
      items: [
        {
          title: 'QmZ8cT2mQp1VxWm1xQ0p7Z',
          state: 'signing',
          isOk: true,
          fields: [{ label: 'signsFrom', time: NOON }],
          actions: [],
        },
        {
          title: 'Zt6Vb3Ns8Lw5Kd0HjUe7R0',
          state: 'retiring',
          isOk: true,
          fields: [
            { label: 'signsFrom', time: NOON - 90 * DAY },
            { label: 'removed', time: NOON + DAY },
          ],
          actions: [],
        },
      ],
    },
  },
  'console-servers': {
    view: 'console/servers',
    values: {
      console: layout('servers'),
      servers: [
        {
          id: 'orders',
          review: '/console/servers/orders/review',
          changes: 2,
          name: 'Orders',
          url: 'https://orders.example.com/mcp',
          state: 'answers',
          seenAt: NOON,
          levels: [
            { level: 'analytics', tools: 1, connectors: 12, tokens: 1 },
            { level: 'operations', tools: 1, connectors: 3, tokens: 0 },
            { level: 'admin', tools: 1, connectors: 0, tokens: 0 },
            { level: 'full', tools: 2, connectors: 1, tokens: 1 },
          ],
          empty: [],
          missing: ['export_cards'],
          credential: {
            kind: 'oauth',
            redirectUri: 'https://auth.example.com/credentials/callback',
            readSince: NOON,
            isNeeded: true,
            connect: '/console/servers/orders/connect',
          },
          tools: [
            {
              name: 'search_orders',
              title: LONG,
              level: 'analytics',
              from: 'annotations',
              isMissed: false,
              isNoObject: false,
              reach: '/console/servers/orders/tools?tool=search_orders',
            },
            {
              name: 'cancel_order',
              level: 'full',
              from: 'default',
              held: 'changed',
              schemaFault: LONG,
              isMissed: true,
              isNoObject: true,
              reach: '/console/servers/orders/tools?tool=cancel_order',
            },
            {
              name: 'Search_orders',
              from: 'default',
              isMissed: false,
              isNoObject: false,
              reach: '/console/servers/orders/tools?tool=Search_orders',
            },
          ],
        },
        {
          id: 'tickets',
          review: '/console/servers/tickets/review',
          changes: 0,
          name: LONG,
          url: `https://tickets.example.com/${'path/'.repeat(20)}mcp`,
          state: 'fails',
          seenAt: NOON - DAY,
          error: { fault: 'unreachable', message: 'connection refused' },
          levels: [
            { level: 'analytics', tools: 1, connectors: 2, tokens: 0 },
            { level: 'operations', tools: 1, connectors: 0, tokens: 0 },
            { level: 'admin', tools: 1, connectors: 0, tokens: 0 },
            { level: 'full', tools: 1, connectors: 0, tokens: 0 },
          ],
          empty: [],
          missing: [],
          tools: [
            {
              name: 'find_tickets',
              level: 'analytics',
              from: 'settings',
              isMissed: false,
              isNoObject: false,
              reach: '/console/servers/tickets/tools?tool=find_tickets',
            },
          ],
        },
        {
          id: 'mail',
          review: '/console/servers/mail/review',
          changes: 0,
          name: 'Mail',
          url: 'https://mail.example.com/mcp',
          state: 'untried',
          levels: NO_TOOLS,
          empty: [],
          missing: [],
          tools: [],
        },
      ],
    },
  },
  'console-review': {
    view: 'console/review',
    values: {
      console: layout('servers'),
      server: LONG,
      isHeld: true,
      mayApprove: true,
      changes: [
        {
          change: 'changed',
          isAlert: true,
          similarTo: [],
          isTwice: false,
          differences: [{ path: '', before: 'Be kind.', after: LONG }],
          approval: '{}',
        },
        {
          name: LONG,
          change: 'new',
          since: NOON,
          tool: {
            name: LONG,
            level: 'analytics',
            from: 'default',
            isMissed: false,
            isNoObject: false,
            reach: '/console/servers/orders/tools?tool=long',
          },
          isAlert: true,
          similarTo: ['read_file'],
          isTwice: true,
          differences: [
            { path: '/description', after: LONG, suspicion: 'hidden_characters' },
            { path: '/annotations/readOnlyHint', before: 'false', after: 'true' },
          ],
          approval: '{}',
        },
        {
          name: 'gone',
          change: 'removed',
          isAlert: false,
          similarTo: [],
          isTwice: false,
          differences: [],
          approval: '{}',
        },
      ],
      more: 3,
      all: '{}',
      action: '/console/servers/orders/review',
      back: '/console/servers',
    },
  },
  'console-person-tools': {
    view: 'console/tool-access',
    values: {
      console: layout('accounts'),
      back: { href: '/console/accounts/grace', text: 'Grace Hopper' },
      question: 'person',
      names: { person: 'Grace Hopper', connector: 'Orders' },
      level: 'operations',
      readAt: NOON,
      sections: [
        {
          of: 'tools',
          items: (
            [
              ['search_orders', 'allowed'],
              [LONG, 'connector'],
              ['delete_order', 'held'],
            ] as const
          ).map(([title, decided]) => ({
            title,
            facts: [
              { label: 'result', code: decided, textKey: `console.toolAccess.decided.${decided}` },
              { label: 'accessNeeded', level: 'analytics' },
            ],
            fields: [],
            actions: [],
          })),
        },
        {
          of: 'rules',
          items: [RULE],
          most: 500,
        },
      ],
    },
  },
  'console-tool-reach': {
    view: 'console/tool-access',
    values: {
      console: layout('servers'),
      back: { href: '/console/servers', text: 'Orders' },
      question: 'tool',
      names: { tool: LONG, server: 'Orders' },
      level: 'operations',
      sections: [
        {
          of: 'rules',
          items: [RULE],
        },
        {
          of: 'connectors',
          items: [
            {
              title: 'Orders',
              href: '/console/connectors/orders',
              facts: [
                { label: 'level', level: 'operations' },
                {
                  label: 'connected',
                  textKey: 'console.toolAccess.people',
                  textValues: { count: 3 },
                },
              ],
              fields: [],
              actions: [],
            },
          ],
        },
        { of: 'tokens', items: [] },
        { of: 'machines', items: [] },
      ],
    },
  },
  'console-tool-held': {
    view: 'console/tool-access',
    values: {
      console: layout('servers'),
      back: { href: '/console/servers', text: 'Orders' },
      question: 'tool',
      names: { tool: LONG, server: 'Orders' },
      noLevel: 'console.review.held.changed',
      review: '/console/servers/orders/review',
      sections: [],
    },
  },
  'console-review-none': {
    view: 'console/review',
    values: {
      console: layout('servers'),
      server: 'Orders',
      isHeld: false,
      mayApprove: false,
      changes: [],
      more: 0,
      action: '/console/servers/orders/review',
      back: '/console/servers',
    },
  },
  'console-servers-none': {
    view: 'console/servers',
    values: { console: layout('servers'), servers: [] },
  },
  'console-sign-in': {
    view: 'console/sign-in',
    values: {
      providers: [
        { name: 'Example Corp', href: '/console/sign-in/corp' },
        { name: 'GitHub', href: '/console/sign-in/github' },
      ],
    },
  },
  'console-signed-out': {
    view: 'console/signed-out',
    values: { reason: 'signed-out', signIn: '/console/sign-in' },
  },
  'console-not-administrator': {
    view: 'console/signed-out',
    values: {
      reason: 'not-administrator',
      person: 'grace@example.com',
      account: 'https://auth.example.com/account',
      signIn: '/console/sign-in',
    },
    status: 403,
  },
};
