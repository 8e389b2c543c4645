// Sample values for the console's lists, and what is around every page of the console.
import type { ConsoleFrame, ConsoleItem, ConsoleValues } from './console-values.ts';

export type ListSample = { view: 'console/list'; values: ConsoleValues['console/list'] };

const NAMES = ['connectors', 'tokens', 'clients', 'grants', 'accounts', 'audit', 'health'];
const SECTIONS = NAMES.map((name) => ({ name, href: `/console/${name}` }));
export const NOON = 1_893_500_000;
export const LONG = 'Rechtsschutzversicherungsgesellschaften'.repeat(2);

export function frame(section: string, more: Partial<ConsoleFrame> = {}): ConsoleFrame {
  const token = 'form-token';
  return { section, sections: SECTIONS, administrator: 'Ada Lovelace', token, ...more };
}

export const ITEM: ConsoleItem = {
  title: 'Claude Code',
  state: 'active',
  isWell: true,
  facts: [
    { label: 'person', text: 'ada@example.com' },
    { label: 'granted', level: 'operations' },
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

function list(section: string, items: ConsoleItem[], more: object = {}): ListSample {
  const console = frame(section);
  const values = { console, items, filters: [], action: `/console/${section}`, ...more };
  return { view: 'console/list', values };
}

export const LIST_SAMPLES: Record<string, ListSample> = {
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
  'console-clients': list('clients', [
    {
      title: LONG,
      state: 'allowed',
      isWell: true,
      facts: [
        { label: 'id', code: 'https://claude.ai/oauth/mcp-oauth-client-metadata' },
        { label: 'kind', code: 'metadata-document', said: 'consent.appAddress' },
        { label: 'redirect', code: `https://${LONG}.example.com/callback` },
      ],
      actions: [{ name: 'revokeClient', action: '/console/clients/revoke', id: 'abc' }],
    },
    {
      title: 'Claude Code',
      state: 'revoked',
      isWell: false,
      facts: [{ label: 'kind', code: 'self-registered', said: 'consent.appUnverified' }],
      actions: [{ name: 'allowClient', action: '/console/clients/allow', id: 'def' }],
    },
  ]),
  'console-audit': list(
    'audit',
    [
      {
        title: 'connector_created',
        said: 'console.events.connector_created',
        facts: [
          { label: 'time', code: '2030-01-01T12:00:00.000Z' },
          { label: 'outcome', code: 'done', said: 'console.outcomes.done' },
          { label: 'by', code: 'Ikh5AnYxuNnXX_7k2joIiz_pE1R', called: 'ada@example.com' },
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
  'console-accounts': list('accounts', [
    {
      title: 'Ada Lovelace',
      state: 'disabled',
      isWell: false,
      facts: [{ label: 'emailUnverified', text: `${LONG}@example.com` }, ...ITEM.facts.slice(2)],
      actions: [
        { name: 'enable', action: '/console/accounts/enable', id: 'abc' },
        { name: 'forget', action: '/console/accounts/forget', id: 'abc' },
      ],
    },
    {
      title: 'Ikh5AnYxuNnXX_7k2joIiz_pE1R',
      state: 'disabled',
      isWell: false,
      facts: [
        { label: 'forgotten', time: NOON },
        { label: 'id', code: 'Ikh5AnYxuNnXX_7k2joIiz_pE1R' },
      ],
      actions: [{ name: 'enable', action: '/console/accounts/enable', id: 'def' }],
    },
  ]),
  'console-nobody': list('accounts', []),
};
