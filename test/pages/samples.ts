// Sample values for every page, for the tests and the screenshots.
import {
  DEFAULT_LEVELS,
  isRecorded,
  type Level,
  levelsUpTo,
  preselectedLevel,
} from '../../src/permission-levels.ts';
import { CONSOLE_SAMPLES } from './console-samples.ts';
import { INSTRUCTIONS } from './instruction-samples.ts';
import type { Account, Connector, ViewName, ViewValues } from '../../src/pages/values.ts';

export type Sample = {
  [Name in ViewName]: { view: Name; values: ViewValues[Name]; status?: number };
}[ViewName];

const LINK = 'https://mcp.example.com/connect/4qR8sT1vWxYz2aBcD3eFgH/mcp';
const CONNECTOR: Connector = { name: 'Club numbers', link: LINK };
const ACCOUNT: Account = { name: 'Ada Lovelace', email: 'ada@example.com' };
const COMPANY_ACCOUNT: Account = {
  name: 'Grace Hopper',
  unverifiedEmail: 'grace@example.com',
  provider: 'Example Corp',
};
const LONG = 'Donaudampfschifffahrtsgesellschaftskapitän'.repeat(6);
/** As long as the name of an app or connector can be. */
const NAME = LONG.slice(0, 80);

export function levelChoices(highest: Level): ViewValues['consent']['levels'] {
  const levels = levelsUpTo(DEFAULT_LEVELS, highest);
  const selected = preselectedLevel(DEFAULT_LEVELS, levels, highest);
  return levels.map((level) => ({
    level,
    selected: level === selected,
    ...(isRecorded(DEFAULT_LEVELS, level)
      ? { recorded: true as const, recordsArguments: true as const }
      : {}),
  }));
}

/** A desktop app that registered itself and has a loopback redirect URI. */
export const CONSENT: ViewValues['consent'] = {
  action: '/interaction/abc',
  token: 'form-token',
  client: { name: 'Claude Code', kind: 'self-registered' },
  redirect: { destination: 'localhost:53682', kind: 'this-computer' },
  connector: CONNECTOR,
  levels: levelChoices('operations'),
  account: ACCOUNT,
  stay: { checked: true, lifetime: 7_776_000 },
  accessLifetime: 3600,
  accountPage: 'https://auth.example.com/account',
  describesSample: true,
  recordsUse: true,
};

export const NO_ACCESS: ViewValues['no-access'] = {
  action: '/interaction/abc',
  token: 'form-token',
  account: { ...ACCOUNT, name: 'Alan Turing', email: 'alan@example.com' },
  connector: CONNECTOR,
  reason: 'not-entitled',
  reference: 'Zr8kT2mQp1Vx',
};

const CREDENTIAL: ViewValues['credential'] = {
  account: ACCOUNT,
  action: '/interaction/2kwBqmQy2l0m8K9',
  fields: [{ name: 'decision', value: 'approve' }],
  service: 'Atlas wiki',
  kind: 'oauth',
  scopes: ['read:page', 'offline_access'],
};

const WAITING: ViewValues['waiting'] = {
  client: { id: 'q1W2e3R4t5Y6u7I8o9P0aA', name: 'Claude Code' },
  again: '/interaction/abc',
};

export const ERROR: ViewValues['error'] = {
  about: 'invalid_target',
  reference: 'Zr8kT2mQp1Vx',
  returnTo: { href: 'http://localhost:53682/callback', host: 'localhost:53682' },
};

const APRIL = 1_775_000_000;

export const DONE: ViewValues['done'] = {
  decision: 'approved',
  destination: 'claude.ai',
  accountPage: 'https://auth.example.com/account',
};

const DEVICE: ViewValues['device'] = { action: '/device', token: 'form-token' };

const CONNECTED_APPS: ViewValues['connected-apps'] = {
  action: '/account',
  token: 'form-token',
  account: ACCOUNT,
  credentials: [
    {
      upstream: 'wiki',
      service: 'Atlas wiki',
      name: 'ada@example.com',
      scopes: ['read:page'],
      since: 1_780_000_000,
    },
  ],
  apps: [
    {
      grant: 'grant-of-claude-code',
      client: { name: 'Claude Code', isUnverified: true },
      destination: 'localhost:53682',
      connector: 'Club numbers',
      level: 'admin',
      lower: ['analytics', 'operations'],
      later: ['Cancel an order', LONG],
      mayRaise: true,
      isNew: true,
      since: APRIL,
      lastUsed: APRIL + 86_400,
      until: APRIL + 31 * 86_400,
    },
    {
      grant: 'grant-of-claude',
      client: { name: 'Claude', host: 'claude.ai' },
      destination: 'claude.ai',
      connector: 'Auditors',
      learned: { server: 'Auditors', claims: ['name', 'groups'] },
      level: 'analytics',
      lower: [],
      since: APRIL,
      lastUsed: APRIL,
      until: APRIL + 30 * 86_400,
      reason: 'not_entitled',
    },
  ],
  activity: [
    {
      client: { name: 'Claude', host: 'claude.ai' },
      connector: 'Club numbers',
      level: 'operations',
      at: APRIL,
      reason: 'refresh_replay',
    },
    {
      client: { name: 'Reporting Bot' },
      connector: 'Last year’s numbers',
      level: 'analytics',
      at: APRIL - 86_400,
      reason: 'connector_deleted',
    },
  ],
};

export const PEOPLE: ViewValues['development-sign-in'] = {
  action: '/interaction/def',
  people: [
    { id: 'ada', name: 'Ada Lovelace', email: 'ada@example.com', may: 'full' },
    { id: 'grace', name: 'Grace Hopper', email: 'grace@example.com', may: 'operations' },
    { id: 'alan', name: 'Alan Turing', email: 'alan@example.com', may: 'nothing' },
  ],
};

export const SIGN_IN: ViewValues['sign-in'] = {
  action: '/interaction/abc/sign-in',
  providers: [
    { id: 'example', name: 'Example Corp', isLast: true },
    { id: 'partners', name: 'Partners and suppliers', isLast: false },
    { id: 'github', name: 'GitHub', isLast: false },
  ],
};

const CONNECT_LINK: ViewValues['connect-link'] = {
  connector: CONNECTOR,
  isPaused: false,
  installs: [
    { client: 'Cursor', href: 'cursor://anysphere.cursor-deeplink/mcp/install?name=club-numbers' },
    { client: 'VS Code', href: 'vscode:mcp/install?%7B%22name%22%3A%22club-numbers%22%7D' },
    {
      client: 'VS Code Insiders',
      href: 'vscode-insiders:mcp/install?%7B%22name%22%3A%22club-numbers%22%7D',
    },
    { client: 'LM Studio', href: 'lmstudio://add_mcp?name=club-numbers' },
  ],
  instructions: INSTRUCTIONS,
  removals: [{ app: 'Claude Code', steps: 'claude mcp remove <name>' }],
};

const { redirect: _redirect, stay: _stay, ...RAISED } = CONSENT;
const RAISE: ViewValues['consent'] = {
  ...RAISED,
  raise: { level: 'analytics', since: APRIL },
  levels: levelChoices('admin').slice(1),
};

function consent(changes: Partial<ViewValues['consent']> = {}): Sample {
  return { view: 'consent', values: { ...CONSENT, ...changes } };
}

const TOOLS = [
  'Close a ticket',
  'Answer a ticket',
  'Search tickets',
  'Show a ticket',
  'List queues',
  'List agents',
];

/** By the name of the sample. */
export const SAMPLES: Record<string, Sample> = {
  consent: consent(),
  'consent-every-level': consent({
    client: { name: 'Claude', kind: 'metadata-document', host: 'claude.ai' },
    redirect: { destination: 'login.example.net', kind: 'elsewhere', isOtherHost: true },
    levels: [
      ...levelChoices('admin'),
      { level: 'full', selected: false, recorded: true, needsKey: { otherwise: 'admin' } },
    ],
  }),
  'consent-step-up': consent({
    levels: [
      ...levelChoices('operations'),
      { level: 'full', selected: false, recorded: true, signsIn: true },
    ],
    stepUp: 'class',
  }),
  'consent-raise': { view: 'consent', values: RAISE },
  'consent-changed': consent({
    client: { name: 'Cursor', kind: 'pre-registered' },
    redirect: { destination: 'cursor', kind: 'app' },
    levels: levelChoices('analytics'),
    stay: undefined,
    changed: 'levels',
  }),
  'consent-tools': consent({
    connector: { name: 'Help desk', link: LINK },
    learned: { server: 'Help desk', claims: ['name', 'email'] },
    describesSample: false,
    levels: [
      { level: 'viewer', selected: true, tools: { shown: [], rest: [], unlisted: 0 } },
      {
        level: 'agent',
        selected: false,
        recorded: true,
        tools: { shown: TOOLS, rest: [LONG, 'Show an agent'], unlisted: 0 },
      },
    ],
  }),
  'consent-hostile': consent({
    client: {
      name: `Claude” from claude.ai to “\u202Eedualc ${LONG}`.slice(0, 80),
      kind: 'self-registered',
    },
    redirect: { destination: `${LONG.toLowerCase()}.example:65535`, kind: 'elsewhere' },
    connector: { name: NAME, link: LINK },
    account: { name: LONG, email: `${LONG}@example.com`, provider: NAME },
    learned: { server: NAME, claims: ['name', 'email', 'groups', 'service', 'subject'] },
    levels: levelChoices('full'),
    stay: undefined,
    renewableFor: 7_776_000,
  }),
  'consent-device': consent({
    redirect: {
      kind: 'device',
      destination: 'BCDF-GHJK',
      startedAt: APRIL,
      network: '203.0.113.9',
    },
  }),
  'consent-device-elsewhere': consent({
    client: { name: `Claude” ${LONG}`.slice(0, 80), kind: 'self-registered' },
    redirect: {
      kind: 'device',
      destination: 'WXZB-CDFG',
      startedAt: APRIL,
      network: '2001:db8:aaaa:bbbb::/64',
      isOtherNetwork: true,
    },
  }),
  device: { view: 'device', values: DEVICE },
  'device-code': { view: 'device', values: { ...DEVICE, code: 'BCDF-GHJK' } },
  'device-unknown-code': {
    view: 'device',
    values: { ...DEVICE, typed: 'WXZB-CDFX', trouble: 'unknown' },
    status: 400,
  },
  'device-approved': {
    view: 'done',
    values: {
      ...DONE,
      destination: '',
      level: 'operations',
      client: 'Claude Code',
      connector: 'Club numbers',
    },
  },
  'device-denied': { view: 'done', values: { ...DONE, destination: '', decision: 'denied' } },
  'device-withdrawn': {
    view: 'done',
    values: {
      ...DONE,
      destination: '',
      decision: 'withdrawn',
      client: 'Claude Code',
      connector: 'Club numbers',
    },
  },
  'device-expired': {
    view: 'error',
    values: { about: 'device_expired', reference: 'Zr8kT2mQp1Vx', start: 'device' },
    status: 400,
  },
  'no-access': { view: 'no-access', values: NO_ACCESS, status: 403 },
  'groups-omitted': {
    view: 'no-access',
    values: { ...NO_ACCESS, account: COMPANY_ACCOUNT, groupsOmitted: true },
    status: 403,
  },
  'not-in-audience': {
    view: 'no-access',
    values: { ...NO_ACCESS, account: COMPANY_ACCOUNT, reason: 'not-in-audience' },
    status: 403,
  },
  'used-up': {
    view: 'no-access',
    values: { ...NO_ACCESS, account: COMPANY_ACCOUNT, reason: 'used-up' },
    status: 403,
  },
  credential: { view: 'credential', values: CREDENTIAL, status: 200 },
  'credential-key': {
    view: 'credential',
    values: {
      ...CREDENTIAL,
      kind: 'key',
      scopes: [],
      label: 'Personal token',
      help: 'Find it in your profile, under Tokens.',
      trouble: 'key',
    },
    status: 400,
  },
  'credential-connected': {
    view: 'credential',
    values: {
      ...CREDENTIAL,
      isOwnPage: true,
      connected: { since: 1_780_000_000, scopes: ['read:page'], name: 'ada@example.com' },
    },
    status: 200,
  },
  waiting: { view: 'waiting', values: WAITING, status: 403 },
  'waiting-hostile': {
    view: 'waiting',
    values: {
      ...WAITING,
      client: { id: `https://${LONG.toLowerCase()}.example/client.json`, name: `\u202E${NAME}` },
    },
    status: 403,
  },
  approved: {
    view: 'done',
    values: { ...DONE, level: 'operations', client: 'Claude', connector: 'Club numbers' },
    status: 400,
  },
  denied: { view: 'done', values: { ...DONE, decision: 'denied' }, status: 400 },
  withdrawn: {
    view: 'done',
    values: { ...DONE, decision: 'withdrawn', client: 'Claude', connector: 'Club numbers' },
    status: 200,
  },
  error: { view: 'error', values: ERROR, status: 400 },
  'error-of-the-app': {
    view: 'error',
    values: { ...ERROR, about: 'other', detail: 'code_challenge_method must be S256' },
    status: 400,
  },
  'error-without-a-way-back': {
    view: 'error',
    values: { about: 'server_error', reference: 'Zr8kT2mQp1Vx', start: 'account' },
    status: 500,
  },
  'error-of-signing-in': {
    view: 'error',
    values: { about: 'sign_in_not_set_up', reference: 'Zr8kT2mQp1Vx' },
    status: 500,
  },
  'error-of-the-account-page': {
    view: 'error',
    values: { about: 'expired', reference: 'Zr8kT2mQp1Vx', start: 'account' },
    status: 400,
  },
  'error-of-another-host': {
    view: 'error',
    values: {
      about: 'misdirected_request',
      reference: 'Zr8kT2mQp1Vx',
      rightAddress: 'https://auth.example.com/account',
    },
    status: 421,
  },
  'error-of-the-console': {
    view: 'error',
    values: { about: 'temporarily_unavailable', reference: 'Zr8kT2mQp1Vx', start: 'console' },
    status: 503,
  },
  'sign-in': { view: 'sign-in', values: SIGN_IN },
  'sign-in-elsewhere': {
    view: 'sign-in',
    values: { ...SIGN_IN, trouble: { name: 'Example Corp', reason: 'unavailable' } },
    status: 503,
  },
  'sign-in-not-set-up': {
    view: 'sign-in',
    values: {
      ...SIGN_IN,
      trouble: { name: 'Example Corp', reason: 'notSetUp', reference: 'Zr8kT2mQp1Vx' },
    },
    status: 500,
  },
  'sign-in-again': {
    view: 'sign-in',
    values: {
      ...SIGN_IN,
      providers: [...SIGN_IN.providers, { id: 'long', name: LONG.slice(0, 60), isLast: false }],
      trouble: { name: LONG.slice(0, 60), reason: 'stopped' },
    },
    status: 400,
  },
  'development-sign-in': { view: 'development-sign-in', values: PEOPLE },
  'connected-apps': { view: 'connected-apps', values: CONNECTED_APPS },
  'connected-apps-after-lowering': {
    view: 'connected-apps',
    values: {
      ...CONNECTED_APPS,
      apps: CONNECTED_APPS.apps.map((app, index) =>
        index === 0 ? { ...app, level: 'operations', lower: ['analytics'] } : app,
      ),
      done: 'lowered',
      doneApp: { client: 'Claude Code', connector: 'Club numbers', level: 'operations' },
    },
  },
  'connected-apps-hostile': {
    view: 'connected-apps',
    values: {
      ...CONNECTED_APPS,
      account: { name: 'Grace Hopper', provider: 'Example Corp' },
      apps: CONNECTED_APPS.apps.map((app, index) => ({
        ...app,
        client: { name: `Claude\u202E ${LONG}`.slice(0, 80), isUnverified: true },
        destination: index === 0 ? app.destination : `${LONG.toLowerCase()}.example`,
        connector: NAME,
      })),
    },
  },
  'nothing-connected': {
    view: 'connected-apps',
    values: {
      ...CONNECTED_APPS,
      apps: [],
      activity: [
        ...CONNECTED_APPS.apps.map(({ client, connector, level }) => ({
          client,
          connector,
          level,
          at: APRIL + 86_400,
          reason: 'disconnected',
        })),
        ...CONNECTED_APPS.activity,
      ],
      done: 'disconnected-all',
    },
  },
  'signed-out': { view: 'signed-out', values: { signIn: '/account/sign-in' } },
  ...CONSOLE_SAMPLES,
  'connect-link': { view: 'connect-link', values: CONNECT_LINK, status: 401 },
  'connect-link-paused': {
    view: 'connect-link',
    values: { ...CONNECT_LINK, isPaused: true },
    status: 401,
  },
  'connect-link-hostile': {
    view: 'connect-link',
    values: { ...CONNECT_LINK, connector: { name: `“\u202E ${NAME}`, link: LINK } },
    status: 401,
  },
  'connect-link-revoked': {
    view: 'error',
    values: { about: 'link_revoked', reference: 'Zr8kT2mQp1Vx' },
    status: 410,
  },
  'connect-link-unknown': {
    view: 'error',
    values: { about: 'link_unknown', reference: 'Zr8kT2mQp1Vx' },
    status: 404,
  },
  home: { view: 'home', values: { resourceUrl: 'https://mcp.example.com', account: '/account' } },
  'home-in-development': {
    view: 'home',
    values: {
      resourceUrl: 'http://localhost:3001',
      account: 'http://localhost:3000/account',
      console: 'http://localhost:3002/console',
    },
  },
};
