import { expect } from 'chai';
import { addressOf, mint } from '../../links/minted-tokens/minting.ts';
import { connect } from '../../support/connection.ts';
import {
  type ConnectorOptions,
  createConnector,
  requestManagement,
} from '../../support/management-api.ts';
import { call, callTool, type RpcResponse } from '../../support/mcp.ts';
import {
  echo,
  json,
  resultFor,
  startScriptedUpstream,
} from '../../support/upstream/scripted-upstream.ts';
import { useUpstream } from '../../support/upstream/system.ts';
import type { UpstreamHandler } from '../../support/upstream/upstream-server.ts';

const NAMES = ['search_orders', 'search_people', 'delete_order', 'export_people'];
const URIS = ['docs://a/start', 'docs://a/secret/one'];
const PROMPTS = ['summarize', 'payroll'];
const LISTS = {
  tools: NAMES.map((name) => ({ name, inputSchema: { type: 'object' } })),
  resources: URIS.map((uri) => ({ uri, name: uri })),
  resourceTemplates: [{ uriTemplate: 'docs://a/{page}', name: 'page' }],
  prompts: PROMPTS.map((name) => ({ name })),
};
type Lists = typeof LISTS;

/** Answers every list with everything. */
const answer: UpstreamHandler = (req, res, body, caller) => {
  const { id, method = '' } = body as { id?: unknown; method?: string };
  if (!method.endsWith('/list')) return echo(req, res, body, caller);
  return json(res, resultFor({ id }, LISTS));
};

const ask = (method: string, params: object = {}) => ({ jsonrpc: '2.0', id: 1, method, params });

describe('Chosen tools', () => {
  const behind = useUpstream(startScriptedUpstream, {
    settings: {
      tools: [
        { name: 'search_orders', level: 'analytics' },
        { name: 'search_people', level: 'operations' },
        { name: 'delete_order', level: 'admin' },
      ],
      defaultLevel: 'analytics',
    },
    file: {
      entitlements: [
        { match: { subject: 'ada' }, level: 'full' },
        { match: { group: 'staff' }, level: 'analytics', tools: ['search_*'] },
        {
          match: { subject: 'grace' },
          level: 'operations',
          tools: ['search_people', 'delete_order'],
        },
      ],
    },
  });
  before(() => behind().upstream.respondWith(answer));

  type Access = { link: string; token: string };

  async function connected(
    wanted: ConnectorOptions,
    options: { level?: string; person?: 'ada' | 'grace' } = {},
  ): Promise<Access & { id: string }> {
    const connector = await createConnector(behind().system, { level: 'full', ...wanted });
    const level = options.level ?? connector.level;
    const { accessToken } = await connect(behind().system, connector, { ...options, level });
    return { id: connector.id, link: connector.link, token: accessToken };
  }

  /** What the upstream got, in one word each. */
  const reach = async ({ link, token }: Access, message: object) => {
    const before = behind().upstream.received.length;
    const response = await call(link, token, message);
    return { response, isForwarded: behind().upstream.received.length > before };
  };

  async function listedTo({ link, token }: Access) {
    const { rpc } = await call(link, token, ask('tools/list'));
    const lists = rpc?.result as unknown as Lists;
    return {
      tools: lists.tools.map(({ name }) => name),
      resources: lists.resources.map(({ uri }) => uri),
      templates: lists.resourceTemplates.map(({ uriTemplate }) => uriTemplate),
      prompts: lists.prompts.map(({ name }) => name),
    };
  }

  const textOf = ({ rpc }: RpcResponse) => rpc?.result?.content?.[0]?.text;

  it('a connector without tools opens everything of its level', async () => {
    expect(await listedTo(await connected({}))).to.deep.equal({
      tools: NAMES,
      resources: URIS,
      templates: ['docs://a/{page}'],
      prompts: PROMPTS,
    });
  });

  it('RSV-14 a connector opens only the tools, resources and prompts that its patterns name', async () => {
    const access = await connected({
      tools: ['search_*', '!search_people', 'resource:docs://a/*', '!resource:docs://a/secret/*'],
    });
    expect(await listedTo(access)).to.deep.equal({
      tools: ['search_orders'],
      resources: ['docs://a/start'],
      templates: ['docs://a/{page}'],
      prompts: [],
    });
    const cases: [message: object, isForwarded: boolean][] = [
      [ask('tools/call', { name: 'search_orders' }), true],
      [ask('tools/call', { name: 'search_people' }), false],
      [ask('tools/call', { name: 'delete_order' }), false],
      [ask('tools/call', { name: ['search_orders'] }), false],
      [ask('resources/read', { uri: 'docs://a/start' }), true],
      [ask('resources/subscribe', { uri: 'docs://a/start' }), true],
      [ask('resources/read', { uri: 'docs://a/secret/one' }), false],
      [ask('resources/read', { uri: 'docs://a/%73ecret/one' }), false],
      [ask('resources/read', { uri: 'docs://a/x/../start' }), false],
      [ask('resources/read', { uri: 'docs://a/%2e%2e/b' }), false],
      [ask('resources/read', { uri: 'docs://b/start' }), false],
      [ask('prompts/get', { name: 'summarize' }), false],
      [ask('completion/complete', { ref: { type: 'ref/resource', uri: 'docs://a/{page}' } }), true],
      [ask('completion/complete', { ref: { type: 'ref/prompt', name: 'summarize' } }), false],
      [
        ask('completion/complete', { ref: { TYPE: 'ref/resource', uri: 'docs://a/{page}' } }),
        false,
      ],
      [ask('vendor/export'), false],
      [ask('ping'), true],
    ];
    for (const [message, isForwarded] of cases)
      expect((await reach(access, message)).isForwarded, JSON.stringify(message)).to.equal(
        isForwarded,
      );
  });

  it('a refused tool is a tool error that says what closes it, and asks for no higher level', async () => {
    const { link, token } = await connected({ tools: ['search_*'] }, { level: 'analytics' });
    const response = await callTool(link, token, 'delete_order');
    expect(response.status).to.equal(200);
    expect(textOf(response)).to.match(/^delete_order cannot be used here: this connect link/);
    expect((await callTool(link, token, 'search_people')).status).to.equal(403);
  });

  it('a list of exclusions alone opens everything else', async () => {
    const lists = await listedTo(await connected({ tools: ['!delete_*', '!prompt:payroll'] }));
    expect(lists.tools).to.deep.equal(['search_orders', 'search_people', 'export_people']);
    expect(lists.resources).to.deep.equal(URIS);
    expect(lists.prompts).to.deep.equal(['summarize']);
  });

  it('RSV-14 a tool that is taken out cannot be called in another spelling', async () => {
    const access = await connected({ tools: ['*', '!delete_order'] });
    for (const name of ['DELETE_ORDER', 'delete_\u200Border', ' delete_order', 'ｄelete_order'])
      expect((await reach(access, ask('tools/call', { name }))).isForwarded, name).to.equal(false);
  });

  it('a tool is open if one entitlement with a level that suffices opens it', async () => {
    const access = await connected({}, { person: 'grace', level: 'operations' });
    const { tools } = await listedTo(access);
    // delete_order needs a level that the rule which names it does not give.
    expect(tools).to.deep.equal(['search_orders', 'search_people']);
    const response = await callTool(access.link, access.token, 'export_people');
    expect(textOf(response)).to.match(/no entitlement of this person opens it/);
    const { status } = await callTool(access.link, access.token, 'delete_order');
    expect(status, 'nobody can grant it').to.equal(200);
  });

  it('a change of the tools of a connector takes effect at the next call', async () => {
    const access = await connected({ tools: ['search_*'] });
    const change = (tools: string[] | null) =>
      requestManagement(behind().system, 'PATCH', `/connectors/${access.id}`, { tools });
    await change(['delete_order']);
    expect((await listedTo(access)).tools).to.deep.equal(['delete_order']);
    expect(
      (await reach(access, ask('tools/call', { name: 'search_orders' }))).isForwarded,
    ).to.equal(false);
    await change(null);
    expect((await listedTo(access)).tools).to.deep.equal(NAMES);
  });

  it('a minted token opens what its patterns name, and a change takes effect at the next call', async () => {
    const { system } = behind();
    const { id, token } = await mint(system, { level: 'full', tools: ['search_*'] });
    const access = { link: addressOf(system), token };
    expect((await listedTo(access)).tools).to.deep.equal(['search_orders', 'search_people']);
    await requestManagement(system, 'PATCH', `/tokens/${id}`, { tools: ['!search_*'] });
    expect((await listedTo(access)).tools).to.deep.equal(['delete_order', 'export_people']);
  });

  it('a tool for widgets follows the same decision as any other', async () => {
    const ui = { visibility: ['app'] };
    const tools = NAMES.map((name) => ({ name, inputSchema: { type: 'object' }, _meta: { ui } }));
    behind().upstream.respondWith((req, res, body, caller) => {
      const { id, method } = body as { id?: unknown; method?: string };
      if (method !== 'tools/list') return echo(req, res, body, caller);
      return json(res, resultFor({ id }, { ...LISTS, tools }));
    });
    const narrow = await connected({ level: 'operations', tools: ['*_orders', 'delete_order'] });
    expect((await listedTo(narrow)).tools).to.deep.equal(['search_orders']);
    for (const name of NAMES) {
      const { isForwarded } = await reach(narrow, ask('tools/call', { name, arguments: {} }));
      expect(isForwarded, name).to.equal(name === 'search_orders');
    }
    behind().upstream.respondWith(answer);
  });

  it('an empty list is an error', async () => {
    const create = (tools: unknown) =>
      requestManagement(behind().system, 'POST', '/connectors', {
        name: 'Orders',
        level: 'full',
        tools,
      }).then(
        () => 'created',
        (error: Error) => error.message,
      );
    for (const tools of [[], [''], ['!'], ['resource:'], [' a'], ['a\u200B'], ['!!a'], 'a', [7]])
      expect(await create(tools), JSON.stringify(tools)).to.match(/400.*tools/);
  });
});
