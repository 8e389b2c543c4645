import { expect } from 'chai';
import type { Level } from '../../../src/permission-levels.ts';
import { addressOf, mint } from '../../links/minted-tokens/minting.ts';
import { call, callTool, postBody } from '../../support/mcp.ts';
import type { UpstreamHandler } from '../../support/upstream/upstream-server.ts';
import {
  resultFor,
  echo,
  event,
  json,
  startScriptedUpstream,
  stream,
  toolCall,
} from '../../support/upstream/scripted-upstream.ts';
import { useUpstream } from '../../support/upstream/system.ts';
import { LISTED } from '../../support/upstream/upstream-tools.ts';

const LISTS = {
  tools: LISTED,
  resources: [{ uri: 'file:///report', name: 'report' }],
  resourceTemplates: [{ uriTemplate: 'file:///{name}', name: 'any' }],
  prompts: [{ name: 'brief' }],
};

const MACHINES = 'io.modelcontextprotocol/oauth-client-credentials';

function ask(method: string, params: object = {}, id: unknown = 1) {
  return { jsonrpc: '2.0', id, method, params };
}

function namesIn(text: string): string[] {
  return [...text.matchAll(/"description":"The tool (\w+)"/g)].map(([, name = '']) => name);
}

describe('Levels in front of an upstream', () => {
  const behind = useUpstream(startScriptedUpstream);
  afterEach(() => behind().upstream.respondWith(echo));

  const sent = () => behind().upstream.received.length;

  async function attempt(level: Level, ceiling: Level, message: object) {
    const { link, token } = await behind().connected(level, ceiling);
    return call(link, token, message);
  }

  it('RSV-04 a call below the required level is challenged and not forwarded', async () => {
    const before = sent();
    const { connector } = await behind().connected('analytics', 'full');
    for (const [tool, needed] of [
      ['contacts', 'admin'],
      ['cards', 'full'],
      ['undeclared', 'full'],
    ]) {
      const { status, headers } = await attempt('analytics', 'full', toolCall(tool));
      expect(status).to.equal(403);
      const challenge = headers.get('www-authenticate');
      expect(challenge).to.include('error="insufficient_scope"').and.include(`scope="${needed}"`);
      expect(challenge).to.include(`/connect/${connector.id}/mcp"`);
    }
    expect(sent()).to.equal(before);
  });

  it("a call above the connect link's level is a tool error and not forwarded", async () => {
    const before = sent();
    const { status, headers, rpc } = await attempt('operations', 'operations', toolCall('cards'));
    expect([status, headers.has('www-authenticate')]).to.deep.equal([200, false]);
    expect(rpc?.result?.isError).to.equal(true);
    expect(rpc?.result?.content?.[0]?.text).to.match(/needs the permission level full/);
    expect(sent()).to.equal(before);
  });

  it('a minted token never gets more than its level', async () => {
    const { token } = await mint(behind().system, { level: 'operations' });
    const link = addressOf(behind().system);
    const before = sent();
    expect((await callTool(link, token, 'contacts')).rpc?.result?.isError).to.equal(true);
    expect(sent()).to.equal(before);
    expect((await callTool(link, token, 'whoami')).status).to.equal(200);
    const { caller } = behind().upstream.received.at(-1) ?? {};
    expect(caller).to.include({ level: 'operations' }).and.not.have.property('connector');
    expect(caller?.sub)
      .to.match(/^minted:/)
      .and.to.equal(caller?.['client_id']);
  });

  it('requests other than tool calls require the default level', async () => {
    const before = sent();
    for (const message of [
      ask('resources/read', { uri: 'file:///report' }),
      ask('resources/subscribe', { uri: 'file:///report' }),
      ask('prompts/get', { name: 'brief' }),
      ask('completion/complete'),
      ask('something/new'),
      ask('notifications/that/asks'),
    ]) {
      expect((await attempt('analytics', 'full', message)).status, message.method).to.equal(403);
      const never = await attempt('operations', 'operations', message);
      expect(never.status, message.method).to.equal(200);
      expect(never.rpc?.error?.message).to.match(/needs the permission level full/);
    }
    expect(sent()).to.equal(before);
  });

  const LOOKALIKES = [
    'Tools/Call',
    'TOOLS/CALL',
    ' tools/call',
    'tools/call ',
    'tools//call',
    'tools/call/',
  ]
    .concat('tools_call', 'tools/call\u0000', 'tools/call\u200b', 'toolſ/call', 'ｔools/call')
    .concat('TASKS/RESULT', 'Initialize', 'Notifications/Initialized', `x/${'y'.repeat(300)}`);
  for (const method of LOOKALIKES)
    it(`UPS-20 a method that is not spelled as a known one is refused at every level: ${JSON.stringify(method).slice(0, 40)}`, async () => {
      const before = sent();
      for (const level of ['analytics', 'full'] as const) {
        const message = ask(method, { name: 'cards', taskId: 'foreign' });
        const { status, rpc } = await attempt(level, 'full', message);
        expect([status, rpc?.error?.code]).to.deep.equal([400, -32_601]);
      }
      expect(sent()).to.equal(before);
    });

  it('a method of an extension is forwarded', async () => {
    for (const method of ['com.example/search', 'tools/describe', '$/setTrace'])
      expect((await attempt('full', 'full', ask(method))).status, method).to.equal(200);
  });

  it('initializing, listing and notifications require no level', async () => {
    const before = sent();
    const free = [
      ask('initialize'),
      ask('server/discover'),
      ask('ping'),
      ask('tools/list'),
      ask('resources/list'),
      ask('prompts/list'),
      ask('logging/setLevel'),
      { jsonrpc: '2.0', method: 'notifications/initialized' },
      { jsonrpc: '2.0', id: 7, result: {} },
    ];
    for (const message of free)
      expect((await attempt('analytics', 'full', message)).status).to.be.oneOf([200, 202]);
    expect(sent()).to.equal(before + free.length);
  });

  it('DIS-02 server/discover advertises the authorization extensions, besides those of the MCP server', async () => {
    const extensions = { 'com.example/own': { a: 1 }, [MACHINES]: { upstream: true } };
    const result = { supportedVersions: ['2026-07-28'], capabilities: { tools: {}, extensions } };
    behind().upstream.respondWith((_req, res, body) =>
      json(res, resultFor(body as Parameters<typeof resultFor>[0], result)),
    );
    const { rpc } = await attempt('analytics', 'analytics', ask('server/discover'));
    expect(rpc?.result).to.deep.equal({
      ...result,
      capabilities: { tools: {}, extensions: { 'com.example/own': { a: 1 }, [MACHINES]: {} } },
    });
  });

  it('RSV-04 a batch requires the highest level of its calls, in any order', async () => {
    const before = sent();
    const calls = [toolCall('whoami', 1), toolCall('contacts', 2), toolCall('wait', 3)];
    expect((await attempt('analytics', 'full', calls)).status).to.equal(403);
    expect((await attempt('analytics', 'full', calls.toReversed())).status).to.equal(403);
    expect(sent()).to.equal(before);
    expect((await attempt('admin', 'admin', calls)).status).to.equal(200);
    expect(sent()).to.equal(before + 1);
  });

  it("a batch with a call above the connect link's level is refused as a whole", async () => {
    const before = sent();
    const calls = [toolCall('whoami', 'a'), toolCall('cards', 'b'), toolCall('undeclared', 'c')];
    const { status, text } = await attempt('operations', 'operations', calls);
    expect(status).to.equal(200);
    const [first, second, third] = JSON.parse(text);
    expect(first).to.deep.include({ id: 'a' }).and.have.property('error');
    expect(second).to.deep.include({ id: 'b' }).and.nested.include({ 'result.isError': true });
    expect(third).to.deep.include({ id: 'c' }).and.nested.include({ 'result.isError': true });
    expect(sent()).to.equal(before);
  });

  it('RSV-08 a body that is not a JSON-RPC message is refused', async () => {
    const before = sent();
    const { link, token } = await behind().connected('full');
    const bodies = ['', '{', 'null', '7', '[]', '{}', '[[]]', '{"jsonrpc":"2.0","id":1}']
      .concat('{"jsonrpc":"1.0","id":1,"method":"ping"}', '{"jsonrpc":"2.0","method":7,"id":1}')
      .concat('{"jsonrpc":"2.0","id":{},"method":"ping"}', '{"jsonrpc":"2.0","id":1,"method":""}')
      .concat('{"jsonrpc":"2.0","id":1,"method":"tools/call","params":["whoami"]}');
    for (const body of bodies) {
      const response = await postBody(link, token, body);
      expect(response.status, body).to.equal(400);
      expect(await response.text(), body).to.match(/"code":-32(700|600)/);
    }
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'text/plain' };
    const body = JSON.stringify(toolCall('whoami'));
    expect((await fetch(link, { method: 'POST', headers, body })).status).to.equal(415);
    expect((await fetch(link, { method: 'PUT', headers, body })).status).to.equal(405);
    expect(sent()).to.equal(before);
  });

  const WAYS: Record<string, UpstreamHandler> = {
    'as JSON': (_req, res) => json(res, resultFor({ id: 1 }, LISTS)),
    'as a stream': (_req, res) => {
      stream(res, event(resultFor({ id: 1 }, LISTS)));
      res.end();
    },
    'in pieces of a byte': (_req, res) => {
      stream(res);
      for (const byte of Buffer.from(event(resultFor({ id: 1 }, LISTS))))
        res.write(Buffer.of(byte));
      res.end();
    },
    'with CRLF line endings': (_req, res) => {
      stream(res, `data: ${JSON.stringify(resultFor({ id: 1 }, LISTS))}\r\n\r\n`);
      res.end();
    },
    'as an event of several lines': (_req, res) => {
      const lines = JSON.stringify(resultFor({ id: 1 }, LISTS), null, 1).split('\n');
      stream(res, `${lines.map((line) => `data: ${line}`).join('\n')}\n\n`);
      res.end();
    },
    'with a method': (_req, res) =>
      json(res, { ...resultFor({ id: 1 }, LISTS), method: 'notifications/message' }),
    'with a method that is null': (_req, res) => {
      stream(res, event({ ...resultFor({ id: 1 }, LISTS), method: null }));
      res.end();
    },
    'in a batch': (_req, res) =>
      json(res, [
        resultFor({ id: 1 }, LISTS),
        { jsonrpc: '2.0', method: 'notifications/message', params: {} },
      ]),
  };
  for (const [way, handle] of Object.entries(WAYS)) {
    it(`lists are filtered by level when they come ${way}`, async () => {
      behind().upstream.respondWith(handle);
      const low = await attempt('analytics', 'analytics', ask('tools/list'));
      expect(namesIn(low.text)).to.deep.equal(['whoami', 'wait']);
      expect(low.text).to.not.include('report');
      expect(low.text).to.not.include('brief');
      const all = await attempt('analytics', 'full', ask('tools/list'));
      expect(namesIn(all.text)).to.have.length(5);
      expect(all.text).to.include('report').and.include('brief');
    });
  }

  it('lists are filtered on a resumed stream too', async () => {
    behind().upstream.respondWith(WAYS['as a stream'] ?? echo);
    const { link, token } = await behind().connected('analytics');
    const headers = { authorization: `Bearer ${token}`, accept: 'text/event-stream' };
    const text = await (await fetch(link, { headers })).text();
    expect(namesIn(text)).to.deep.equal(['whoami', 'wait']);
  });

  for (const [what, result] of Object.entries({
    'a list of tools': { tools: [] },
    'a list of resources': { resources: [] },
    'a list of prompts': { prompts: [] },
    'the result of server/discover': { supportedVersions: ['2026-07-28'], capabilities: {} },
  }))
    it(`${what} is cached for at most 5 s, and by no shared cache`, async () => {
      const cachingOf = async (stated: object) => {
        behind().upstream.respondWith((_req, res) =>
          json(res, resultFor({ id: 1 }, { ...result, ...stated })),
        );
        const { text } = await attempt('full', 'full', ask('tools/list'));
        const { ttlMs, cacheScope } = JSON.parse(text).result;
        return { ttlMs, cacheScope };
      };
      for (const [ttlMs, expected] of [
        [3_600_000, 5000],
        ['soon', 5000],
        [100, 100],
      ])
        expect(await cachingOf({ ttlMs, cacheScope: 'public' })).to.deep.equal({
          ttlMs: expected,
          cacheScope: 'private',
        });
      expect(await cachingOf({})).to.deep.equal({ ttlMs: undefined, cacheScope: undefined });
    });

  /** The response to a call, as JSON and as the data of an event. */
  async function responsesTo(body: string): Promise<string[]> {
    behind().upstream.respondWith((_req, res) =>
      res.writeHead(200, { 'content-type': 'application/json; charset=utf-8' }).end(body),
    );
    const whole = await attempt('analytics', 'analytics', toolCall('whoami'));
    behind().upstream.respondWith((_req, res) => {
      stream(res, `data: ${body}\n\n`);
      res.end();
    });
    const streamed = await attempt('analytics', 'analytics', toolCall('whoami'));
    return [whole.text, streamed.text.replace(/^data: |\n+$/g, '')];
  }

  it('every other response is forwarded with each value, also integers of any size', async () => {
    const body = '{"jsonrpc":"2.0","id":1,"result":{"big":12345678901234567890,"content":[]}}';
    expect(await responsesTo(body)).to.deep.equal([body, body]);
  });

  it('UPS-15 a result that occurs twice in a response shows no client what the filter did not see', async () => {
    const hidden = JSON.stringify({ tools: [{ name: 'cards' }] });
    const body = `{"jsonrpc":"2.0","id":1,"result":${hidden},"result":{"content":[]}}`;
    const filtered = '{"jsonrpc":"2.0","id":1,"result":{"content":[]}}';
    expect(await responsesTo(body)).to.deep.equal([filtered, filtered]);
  });
});

describe('Lookalike tool names in front of an upstream', () => {
  const behind = useUpstream(startScriptedUpstream, { settings: { defaultLevel: 'analytics' } });
  afterEach(() => behind().upstream.respondWith(echo));

  const LOOKALIKES = [
    'Cards',
    'CARDS',
    'card\u017f',
    '\uff43ards',
    'c\u200bards',
    ' cards',
    'cards\n',
    'ca rds',
    'cards\u0000',
    'cards\u0000x',
    'cards\ud800',
    'c\u00adards',
  ];

  it('UPS-08 a call of a tool whose name resembles a declared one is refused at every level and not forwarded', async () => {
    const before = behind().upstream.received.length;
    for (const level of ['analytics', 'full'] as const) {
      const { link, token } = await behind().connected(level, 'full');
      for (const name of LOOKALIKES) {
        const { status, rpc } = await call(link, token, toolCall(name));
        expect([status, rpc?.error?.code], JSON.stringify(name)).to.deep.equal([200, -32_602]);
      }
    }
    expect(behind().upstream.received).to.have.length(before);
  });

  it('UPS-08 a tool whose name resembles a declared one is not listed', async () => {
    const tools = [...LOOKALIKES, 'cards', 'other'].map((name) => ({ name }));
    behind().upstream.respondWith((_req, res) => json(res, resultFor({ id: 1 }, { tools })));
    const { link, token } = await behind().connected('full');
    const { rpc } = await call(link, token, ask('tools/list'));
    expect(rpc?.result?.tools).to.deep.equal([{ name: 'cards' }, { name: 'other' }]);
  });

  it('an undeclared tool keeps its name, however it is written', async () => {
    const { link, token } = await behind().connected('analytics');
    for (const name of ['Other', 'other', 'ca-rds', 'cards2', '\u0441ards'])
      expect((await call(link, token, toolCall(name))).rpc?.result, name).to.deep.equal({});
  });
});

describe('The default level in front of an upstream', () => {
  const behind = useUpstream(startScriptedUpstream, { settings: { defaultLevel: 'operations' } });

  it('undeclared tools, resources and prompts require the default level', async () => {
    const { link, token } = await behind().connected('operations');
    for (const message of [toolCall('undeclared'), ask('prompts/get', { name: 'brief' })])
      expect((await call(link, token, message)).rpc?.result).to.deep.equal({});
    const low = await behind().connected('analytics', 'admin');
    const { headers } = await call(low.link, low.token, toolCall('undeclared'));
    expect(headers.get('www-authenticate')).to.include('scope="operations"');
  });
});
