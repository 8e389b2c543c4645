// MCP 2025-11-25 and later: an error response has the id of its request, or no id if that could not be read.
import { expect } from 'chai';
import { connect } from '../support/connection.ts';
import { createConnector } from '../support/management-api.ts';
import { useSystem } from '../support/system.ts';
import { call, postBody } from '../support/mcp.ts';
import { echo, PING, startScriptedUpstream } from '../support/upstream/scripted-upstream.ts';
import { useUpstream } from '../support/upstream/system.ts';

type Connected = { link: string; token: string };

async function errorsOf({ link, token }: Connected) {
  const post = async (body: string, headers: Record<string, string> = {}) => {
    const response = await fetch(link, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        authorization: `Bearer ${token}`,
        ...headers,
      },
      body,
    });
    const { jsonrpc, error, ...rest } = (await response.json()) as Record<string, unknown>;
    expect([jsonrpc, typeof error], body).to.deep.equal(['2.0', 'object']);
    return rest;
  };
  const call = { jsonrpc: '2.0', method: 'tools/call', params: { name: 'find_members' } };
  const without = [
    '',
    '{',
    'null',
    '[]',
    '{"jsonrpc":"2.0","id":null}',
    '{"jsonrpc":"2.0","id":{}}',
    // Infinity, which would be written as null.
    '{"jsonrpc":"2.0","id":1e400,"method":"tools/list"}',
  ];
  for (const body of without) expect(await post(body), body).to.deep.equal({});
  for (const id of [7, 'seven', 0, '']) {
    expect(await post(JSON.stringify({ jsonrpc: '2.0', id }))).to.deep.equal({ id });
    expect(await post(JSON.stringify({ ...call, id }))).to.deep.equal({ id });
    expect(
      await post(JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/list' }), {
        'mcp-protocol-version': '2026-07-28',
        'mcp-method': 'tools/call',
      }),
    ).to.deep.equal({ id });
  }
  expect(await post('{"jsonrpc":"2.0","id":1}', { authorization: 'Bearer x' })).to.deep.equal({});
}

describe('The id of an error response', () => {
  const system = useSystem();
  const behind = useUpstream(startScriptedUpstream);

  it('is that of the request, or absent, at the sample', async () => {
    const connector = await createConnector(system(), { level: 'operations' });
    const { link, accessToken } = await connect(system(), connector, { level: 'analytics' });
    await errorsOf({ link, token: accessToken });
  });

  it('is that of the request, or absent, in front of an MCP server', async () => {
    await errorsOf(await behind().connected('analytics', 'full'));
  });

  for (const type of ['application/json', 'text/event-stream'])
    it(`is that of the request if the MCP server sends null as ${type}`, async () => {
      const { link, token } = await behind().connected('analytics', 'full');
      const error = { code: -32_700, message: 'Parse error' };
      behind().upstream.respondWith((_req, res) => {
        const text = JSON.stringify({ jsonrpc: '2.0', id: null, result: null, error });
        res.writeHead(200, { 'content-type': type });
        res.end(type === 'application/json' ? text : `data: ${text}\n\n`);
      });
      const { rpc } = await call(link, token, { jsonrpc: '2.0', id: 'x', method: 'ping' });
      behind().upstream.respondWith(echo);
      expect(rpc).to.deep.equal({ jsonrpc: '2.0', id: 'x', error });
    });
});

describe('A message of a client', () => {
  const behind = useUpstream(startScriptedUpstream);
  const system = useSystem();

  const send = async (text: string) => {
    const { link, token } = await behind().connected('analytics', 'full');
    const response = await postBody(link, token, text);
    return { status: response.status, text: await response.text() };
  };
  const lastBody = () => behind().upstream.wire().split('\n').at(-1);

  it('is forwarded without the members that are null in place of absent', async () => {
    const ping = { jsonrpc: '2.0', id: 1, method: 'ping', params: null };
    for (const message of [ping, { ...ping, result: null, error: null }]) {
      expect((await send(JSON.stringify(message))).status).to.equal(200);
      expect(lastBody()).to.equal('{"jsonrpc":"2.0","id":1,"method":"ping"}');
    }
    const notification = { jsonrpc: '2.0', method: 'notifications/initialized' };
    const sent = await send(JSON.stringify({ ...notification, id: null, params: null }));
    expect(sent.status).to.equal(202);
    expect(lastBody()).to.equal(JSON.stringify(notification));
  });

  it('that answers the MCP server keeps its error beside a null result, and its result beside a null error', async () => {
    const error = { code: -1, message: 'declined' };
    await send(JSON.stringify({ jsonrpc: '2.0', id: 7, result: null, error }));
    expect(JSON.parse(lastBody() ?? '')).to.deep.equal({ jsonrpc: '2.0', id: 7, error });
    await send(JSON.stringify({ jsonrpc: '2.0', id: 7, result: { ok: 1 }, error: null }));
    const result = { ok: 1 };
    expect(JSON.parse(lastBody() ?? '')).to.deep.equal({ jsonrpc: '2.0', id: 7, result });
  });

  it('with an id above 2^53 is forwarded and answered with every digit', async () => {
    const id = '9007199254740993';
    behind().upstream.respondWith((_req, res) =>
      res
        .writeHead(200, { 'content-type': 'application/json' })
        .end(`{"jsonrpc":"2.0","id":${id},"result":{}}`),
    );
    const { status, text } = await send(`{"jsonrpc":"2.0","id":${id},"method":"ping"}`);
    behind().upstream.respondWith(echo);
    expect([status, text]).to.deep.equal([200, `{"jsonrpc":"2.0","id":${id},"result":{}}`]);
    expect(lastBody()).to.equal(`{"jsonrpc":"2.0","id":${id},"method":"ping"}`);
    const refused = await send(`{"jsonrpc":"2.0","id":${id},"method":"ping","params":7}`);
    expect(refused.status).to.equal(400);
    expect(refused.text.startsWith(`{"jsonrpc":"2.0","id":${id},"error":`)).to.equal(true);
  });

  it('may begin with a byte order mark', async () => {
    expect((await send(`\uFEFF${JSON.stringify(PING)}`)).status).to.equal(200);
  });

  it('may have null members and a byte order mark at the sample too', async () => {
    const connector = await createConnector(system(), { level: 'analytics' });
    const { link, accessToken } = await connect(system(), connector, { level: 'analytics' });
    const message = '\uFEFF{"jsonrpc":"2.0","id":1,"method":"tools/list","params":null}';
    const response = await fetch(link, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${accessToken}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2025-11-25',
      },
      body: message,
    });
    expect(response.status).to.equal(200);
    expect(await response.text()).to.include('"tools":');
  });
});
