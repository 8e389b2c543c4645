// Sample values for the pages of the console.
import { frame, ITEM, LIST_SAMPLES, LONG, NOON } from './console-list-samples.ts';
import type { ConsoleConnector, ConsoleValues } from './console-values.ts';

type ConsoleSample = {
  [Name in keyof ConsoleValues]: { view: Name; values: ConsoleValues[Name]; status?: number };
}[keyof ConsoleValues];

const DAY = 86_400;

const ACTIVE: ConsoleConnector & { link: string } = {
  id: '4qR8sT1vWxYz2aBcD3eFgH',
  name: 'Club numbers',
  level: 'operations',
  suggestedLevel: 'analytics',
  state: 'active',
  href: '/console/connectors/4qR8sT1vWxYz2aBcD3eFgH',
  link: 'https://mcp.example.com/connect/4qR8sT1vWxYz2aBcD3eFgH/mcp',
  createdAt: NOON,
  expiresAt: NOON + 30 * DAY,
  uses: 2,
  left: 3,
  maxUses: 5,
};
const {
  left: _left,
  maxUses: _most,
  suggestedLevel: _suggested,
  expiresAt: _end,
  link: _link,
  ...UNLIMITED
} = ACTIVE;

const INSTRUCTIONS = ['claude', 'claude-code', 'vs-code', 'cursor', 'mcp-remote'].map((client) => {
  const command = `claude mcp add --transport http club-numbers ${ACTIVE.link}`;
  return {
    client,
    text: client === 'claude-code' ? command : `{\n  "${client}": "${ACTIVE.link}"\n}`,
  };
});

const FORM = {
  action: '/console/connectors',
  once: 'once',
  levels: ['analytics', 'operations', 'admin', 'full'],
  name: '',
  level: 'analytics',
  days: '',
};

const EVERY_FACT = { label: 'id', text: '', code: '', said: '', called: '', time: 0, level: '' };

/** All that there may be on a page, around it and of an item in a list. */
export const CONSOLE_SHARED = {
  console: frame('connectors', { done: 'created', problem: 'other' }),
  items: [{ ...ITEM, said: '', facts: [EVERY_FACT] }],
  next: '',
};

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
      form: { ...FORM, suggestedLevel: '', maxUses: '' },
    },
  },
  'console-connectors-wrong': {
    view: 'console/connectors',
    values: {
      console: frame('connectors', { problem: 'uses' }),
      items: [],
      form: {
        ...FORM,
        name: 'Club numbers',
        level: 'admin',
        suggestedLevel: 'operations',
        maxUses: '0',
        days: '30',
      },
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
  ...LIST_SAMPLES,
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
        example: '{\n  "mcpServers": {}\n}',
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
