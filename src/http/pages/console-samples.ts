// Sample values for the pages of the console.
import type {
  ConsoleConnector,
  ConsoleFrame,
  ConsoleItem,
  ConsoleValues,
} from './console-values.ts';

type ConsoleSample = {
  [Name in keyof ConsoleValues]: { view: Name; values: ConsoleValues[Name]; status?: number };
}[keyof ConsoleValues];

const NAMES = ['connectors', 'tokens', 'clients', 'grants', 'accounts', 'audit', 'health'];
const SECTIONS = NAMES.map((name) => ({ name, href: `/console/${name}` }));
const DAY = 86_400;
const NOON = 1_893_500_000;
const LONG = 'Rechtsschutzversicherungsgesellschaften'.repeat(2);

function frame(section: string, more: Partial<ConsoleFrame> = {}): ConsoleFrame {
  const token = 'form-token';
  return { section, sections: SECTIONS, administrator: 'Ada Lovelace', token, ...more };
}

const ACTIVE: ConsoleConnector & { link: string } = {
  id: '4qR8sT1vWxYz2aBcD3eFgH',
  name: 'Club numbers',
  level: 'operations',
  state: 'active',
  href: '/console/connectors/4qR8sT1vWxYz2aBcD3eFgH',
  link: 'https://mcp.example.com/connect/4qR8sT1vWxYz2aBcD3eFgH/mcp',
  createdAt: NOON,
  expiresAt: NOON + 30 * DAY,
  uses: 2,
  left: 3,
  maxUses: 5,
};
const { left: _left, maxUses: _most, expiresAt: _end, link: _link, ...UNLIMITED } = ACTIVE;

const INSTRUCTIONS = ['claude', 'claude-code', 'vs-code', 'cursor', 'mcp-remote'].map((client) => {
  const command = `claude mcp add --transport http club-numbers ${ACTIVE.link}`;
  return { client, text: client === 'claude-code' ? command : ACTIVE.link };
});

const FORM = {
  action: '/console/connectors',
  once: 'once',
  levels: ['analytics', 'operations', 'admin', 'full'],
  name: '',
  level: 'analytics',
  days: '',
};

const ITEM: ConsoleItem = {
  title: 'Claude Code',
  state: 'active',
  isWell: true,
  facts: [
    { label: 'person', text: 'ada@example.com' },
    { label: 'level', level: 'operations' },
    { label: 'since', time: NOON },
    { label: 'id', code: 'Wm1xQ0p7Zr8kT2mQp1VxWm1xQ0p7Zr8k' },
  ],
  actions: [{ name: 'endGrant', action: '/console/grants/end', id: 'Wm1xQ0p7Zr8kT2mQp1VxWm1x' }],
};
const ENDED: ConsoleItem = {
  title: LONG,
  state: 'ended',
  isWell: false,
  facts: [{ label: 'reason', code: 'disconnected', said: 'console.reasons.disconnected' }],
  actions: [],
};

const EVERY_FACT = { label: 'id', text: '', code: '', said: '', time: 0, level: '' };

/** All that there may be on a page, around it and of an item in a list. */
export const CONSOLE_SHARED = {
  console: frame('connectors', { done: 'created', problem: 'other' }),
  items: [{ ...ITEM, said: '', facts: [EVERY_FACT] }],
  next: '',
};

function list(section: string, items: ConsoleItem[], more: object = {}): ConsoleSample {
  const console = frame(section);
  const values = { console, items, filters: [], action: `/console/${section}`, ...more };
  return { view: 'console/list', values };
}

export const CONSOLE_SAMPLES: Record<string, ConsoleSample> = {
  'console-connectors': {
    view: 'console/connectors',
    values: {
      console: frame('connectors', { done: 'deleted' }),
      items: [
        ACTIVE,
        { ...UNLIMITED, name: LONG, level: 'full', href: '/console/connectors/second' },
        { ...UNLIMITED, state: 'revoked', href: '/console/connectors/third' },
        { ...ACTIVE, state: 'used-up', left: 0, href: '/console/connectors/fourth' },
      ],
      next: '/console/connectors?after=4qR8sT1vWxYz2aBcD3eFgH',
      form: { ...FORM, maxUses: '' },
    },
  },
  'console-connectors-wrong': {
    view: 'console/connectors',
    values: {
      console: frame('connectors', { problem: 'uses' }),
      items: [],
      form: { ...FORM, name: 'Club numbers', level: 'admin', maxUses: '0', days: '30' },
    },
    status: 400,
  },
  'console-connector': {
    view: 'console/connector',
    values: {
      console: frame('connectors', { done: 'created' }),
      connector: ACTIVE,
      instructions: INSTRUCTIONS,
      account: 'https://auth.example.com/account',
      revoke: `${ACTIVE.href}/revoke`,
    },
  },
  'console-connector-revoked': {
    view: 'console/connector',
    values: {
      console: frame('connectors', { done: 'revoked' }),
      connector: { ...UNLIMITED, link: ACTIVE.link, state: 'revoked' },
      instructions: [],
      account: 'https://auth.example.com/account',
      delete: `${ACTIVE.href}/delete`,
    },
  },
  'console-grants': list('grants', [ITEM, ENDED], {
    next: '/console/grants?after=place',
    filters: [
      {
        name: 'state',
        value: 'active',
        said: 'console.choices',
        choices: ['pending', 'active', 'refused', 'ended'],
      },
    ],
  }),
  'console-audit': list(
    'audit',
    [
      {
        title: 'connector_created',
        said: 'console.events.connector_created',
        facts: [
          { label: 'time', code: '2030-01-01T12:00:00.000Z' },
          { label: 'outcome', code: 'done', said: 'console.outcomes.done' },
        ],
        actions: [],
      },
      {
        title: 'refresh_replay',
        said: 'console.events.refresh_replay',
        facts: [
          { label: 'time', code: '2030-01-01T12:00:00.000Z' },
          { label: 'outcome', code: 'grant_ended', said: 'console.outcomes.grant_ended' },
          { label: 'reason', code: 'refresh_replay', said: 'console.reasons.refresh_replay' },
        ],
        actions: [],
      },
      { title: 'unheard_of', said: 'console.events.unheard_of', facts: [], actions: [] },
    ],
    {
      filters: [
        { name: 'since', value: 'day', said: 'console.choices', choices: ['hour', 'day', 'week'] },
        {
          name: 'event',
          value: 'unheard_of',
          said: 'console.events',
          choices: ['connector_created', 'grant_vouched', 'unheard_of'],
        },
      ],
    },
  ),
  'console-accounts': list('accounts', []),
  'console-tokens': {
    view: 'console/tokens',
    values: {
      console: frame('tokens'),
      items: [
        {
          ...ITEM,
          title: 'Nightly report',
          actions: [{ name: 'revokeToken', action: '/console/tokens/revoke', id: 'abc' }],
        },
      ],
      form: { ...FORM, action: '/console/tokens' },
      minted: {
        name: 'Editor',
        token: `eyJhbGciOiJFUzI1NiJ9.${'eyJpc3MiOiJodHRwczovL2F1dGgu'.repeat(8)}.c2lnbmF0dXJl`,
        url: 'https://mcp.example.com/mcp',
        example: '{ "mcpServers": {} }',
      },
    },
  },
  'console-health': {
    view: 'console/health',
    values: {
      console: frame('health'),
      version: '1.0.0',
      checks: [
        { name: 'store', isWell: true },
        { name: 'auth', isWell: true },
        { name: 'resource', isWell: false },
      ],
      items: [{ ...ITEM, title: 'QmZ8cT2mQp1VxWm1xQ0p7Z', state: 'signing', actions: [] }],
    },
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
    values: { reason: 'not-administrator', signIn: '/console/sign-in' },
    status: 403,
  },
};
