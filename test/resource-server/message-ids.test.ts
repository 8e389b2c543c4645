// MCP 2025-11-25 and later: an error response has the id of its request, or no id if that could not be read.
import { expect } from 'chai';
import { connect } from '../support/connection.ts';
import { createConnector } from '../support/management-api.ts';
import { useSystem } from '../support/system.ts';
import { startScriptedUpstream } from '../support/upstream/scripted-upstream.ts';
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
});
