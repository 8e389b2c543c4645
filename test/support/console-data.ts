// A company in the console: people with their apps, connectors, a machine, tokens, rules and attempts, all made as people and programs make them.
import type { Person } from './browser.ts';
import { connect, type Connection } from './connection.ts';
import { type Connector, createConnector, requestManagement } from './management-api.ts';
import { callTool } from './mcp.ts';
import { NO_LIMITS } from './no-limits.ts';
import { discover, register } from './oauth.ts';
import { createDeployment, startDeployment, type System, type SystemOptions } from './system.ts';
import { until } from './until.ts';
import { startChangingV2 } from './upstream/changing-upstream.ts';

const NAMES = [
  'Ada Lovelace',
  'Grace Hopper',
  'Alan Turing',
  'Katherine Johnson',
  'Edsger Dijkstra',
  'Barbara Liskov',
  'Tim Berners-Lee',
  'Radia Perlman',
  'Dennis Ritchie',
  'Frances Allen',
  'Ken Thompson',
  'Margaret Hamilton',
  'Niklaus Wirth',
  'Shafi Goldwasser',
  'Donald Knuth',
  'Karen Spärck Jones',
  'Tony Hoare',
  'Annie Easley',
  'Claude Shannon',
  'Sophie Wilson',
  'John Backus',
  'Lynn Conway',
  'Vint Cerf',
  'Adele Goldberg',
];

const PEOPLE = NAMES.map((name, n) => {
  const [first = '', last = ''] = name.toLowerCase().split(' ');
  const plain = last.normalize('NFD').replaceAll(/[^a-z-]/g, '');
  return {
    id: first,
    name,
    email: `${first}.${plain}@example.com`,
    ...(n === 2 ? {} : { groups: [n % 3 === 0 ? 'finance' : 'operations', 'staff'] }),
  };
});

const TOOLS = [
  { name: 'search_orders' },
  { name: 'order_totals' },
  { name: 'cancel_order' },
  { name: 'season_report' },
];

/** What the server offers later. */
const LATER_TOOLS = [...TOOLS, { name: 'refund_order' }].map((tool) =>
  tool.name === 'order_totals' ? { ...tool, title: 'Totals of all orders' } : tool,
);

const settings = (upstream: string): SystemOptions['file'] => ({
  developmentIdp: { url: 'http://localhost:4003', people: PEOPLE },
  management: { administrators: [{ subject: 'ada' }, { subject: 'grace', role: 'operator' }] },
  entitlements: [
    { match: { subject: 'ada' }, level: 'full' },
    { match: { group: 'finance' }, level: 'admin' },
    { match: { group: 'staff' }, level: 'operations' },
  ],
  limits: NO_LIMITS,
  resourceServer: {
    upstreams: [
      {
        id: 'orders',
        name: 'Orders',
        url: upstream,
        tools: [{ name: 'cancel_order', level: 'operations' }],
        defaultLevel: 'analytics',
      },
    ],
  },
});

const APPS = [
  { name: 'Claude Code', uri: 'http://127.0.0.1:7070/callback' },
  { name: 'Cursor', uri: 'http://127.0.0.1:7071/callback' },
  { name: 'Visual Studio Code', uri: 'http://127.0.0.1:7072/callback' },
  { name: 'Claude Code', uri: 'http://127.0.0.1:7073/callback' },
];

export type Company = {
  system: System;
  connectors: Connector[];
  connections: Connection[];
  stop(): Promise<void>;
};

/** The first `people` have a connection each, except Alan, who has no entitlement. */
export async function startCompany(people = NAMES.length): Promise<Company> {
  const upstream = await startChangingV2(TOOLS);
  const place = await createDeployment({ file: settings(upstream.url) });
  upstream.trustIssuer(place.facts.auth);
  const system = await startDeployment(place);
  await until('the tools to be read', async () => {
    const read = await requestManagement(system, 'GET', '/upstreams/orders');
    return (read as { tools: object[] }).tools.length === TOOLS.length;
  });
  const filled = await fill(system, people);
  await upstream.setTools(LATER_TOOLS);
  await until('the changed tools to be read', async () => {
    const read = await requestManagement(system, 'GET', '/upstreams/orders');
    return (read as { tools: object[] }).tools.length === LATER_TOOLS.length;
  });
  const stop = async () => {
    await system.stop();
    await place.release();
    await upstream.close();
  };
  return { system, ...filled, stop };
}

async function fill(
  system: System,
  people: number,
): Promise<Pick<Company, 'connectors' | 'connections'>> {
  const connectors = [
    await createConnector(system, { name: 'Finance reports', level: 'admin' }),
    await createConnector(system, { name: 'Operations', level: 'operations' }),
    await createConnector(system, {
      name: 'Analysts',
      level: 'analytics',
      audience: [{ group: 'finance' }, { group: 'operations' }],
      maxUses: 40,
    }),
  ];
  for (const name of ['Board meeting', 'Trial of June', 'Warehouse', 'Season tickets'])
    await createConnector(system, { name, level: 'analytics', maxUses: 5 });
  const connections: Connection[] = [];
  for (const [n, { id }] of PEOPLE.slice(0, people).entries()) {
    if (id === 'alan') continue;
    const connector = connectors[n % connectors.length];
    const app = APPS[n % APPS.length];
    if (!connector || !app) continue;
    const { server } = await discover(connector.link);
    const { body } = await register(server, {
      client_name: app.name,
      redirect_uris: [app.uri],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      token_endpoint_auth_method: 'none',
    });
    const client = { id: body.client_id ?? '', method: 'none' as const, redirectUri: app.uri };
    const connection = await connect(system, connector, { person: id as Person, as: { client } });
    await callTool(connector.link, connection.accessToken, 'search_orders');
    connections.push(connection);
  }
  // He has no entitlement.
  await connect(system, connectors[1] ?? { link: '' }, { person: 'alan' }).catch(() => {});
  for (const [name, level, expiresIn] of [
    ['Nightly report', 'analytics', '90d'],
    ['Spreadsheet', 'operations', '30d'],
  ] as const)
    await requestManagement(system, 'POST', '/tokens', { name, level, expiresIn });
  const [first] = connectors;
  await requestManagement(system, 'POST', '/clients', {
    connector: first?.id,
    name: 'Month-end close',
    level: 'analytics',
  });
  await requestManagement(system, 'POST', '/client-rules', { host: 'evil.example' });
  return { connectors, connections };
}
