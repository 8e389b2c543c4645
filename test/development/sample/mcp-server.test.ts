import { expect } from 'chai';
import { isAtLeast } from '../../../src/permission-levels.ts';
import { DEFAULT_LEVELS, LEVELS } from '../../support/levels.ts';
import type { Level } from '../../../src/permission-levels.ts';
import { openDataset } from '../../../src/development/sample/dataset.ts';
import { TOOLS } from '../../../src/development/sample/tools.ts';
import type { Caller } from '../../../src/gateway/authenticate.ts';
import { JSON_HEADERS, callerWith, failureOf, post, useMcp } from './mcp-host.ts';

type JsonRpcFailure = { jsonrpc: string; id: unknown; error: { code: number } };

describe('the sample MCP server', () => {
  const { serve, connect, connectFirst } = useMcp();

  describe('protocol revisions', () => {
    it('the server speaks revision 2026-07-28 to a client that supports it', async () => {
      const client = await connect((await serve(callerWith('analytics'))).url);
      expect(client.getNegotiatedProtocolVersion()).to.equal('2026-07-28');
      const { structuredContent } = await client.callTool({ name: 'club_overview' });
      expect(structuredContent).to.have.nested.property('members.people', 600);
    });

    it('the server speaks a 2025 revision to an SDK v2 client that starts with initialize', async () => {
      const client = await connect((await serve(callerWith('analytics'))).url, 'legacy');
      expect(client.getNegotiatedProtocolVersion()).to.match(/^2025-/);
      const { structuredContent } = await client.callTool({ name: 'club_overview' });
      expect(structuredContent).to.have.nested.property('members.people', 600);
    });

    it('the server speaks a 2025 revision to an SDK v1 client', async () => {
      const client = await connectFirst((await serve(callerWith('analytics'))).url);
      const { structuredContent } = await client.callTool({ name: 'club_overview' });
      expect(structuredContent).to.have.nested.property('members.people', 600);
    });

    it("the server's instructions state the level of the caller", async () => {
      const client = await connect((await serve(callerWith('operations'))).url);
      expect(client.getInstructions()).to.include('"operations"');
    });
  });

  describe('tools/list', () => {
    async function namesFor(caller: Caller): Promise<string[]> {
      const { tools } = await (await connect((await serve(caller)).url)).listTools();
      return tools.map(({ name }) => name);
    }
    const upTo = (level: Level) =>
      TOOLS.filter((tool) => isAtLeast(DEFAULT_LEVELS, level, tool.level)).map(({ name }) => name);

    it("the list has the tools up to the level of the connector, including those above the token's", async () => {
      for (const level of LEVELS) {
        expect(await namesFor(callerWith('analytics', level)), level).to.deep.equal(upTo(level));
      }
    });

    it('the list has the tools up to its own level for a minted token', async () => {
      const caller = callerWith('operations', 'operations', true);
      expect(await namesFor(caller)).to.deep.equal(upTo('operations'));
    });

    it('clients of every revision get the same list', async () => {
      const { url } = await serve(callerWith('admin'));
      const first = await (await connectFirst(url)).listTools();
      const legacy = await (await connect(url, 'legacy')).listTools();
      const modern = await (await connect(url)).listTools();
      expect(first.tools).to.deep.equal(legacy.tools).and.to.deep.equal(modern.tools);
    });

    it('each tool is read-only, with a description and a closed input schema', async () => {
      const { tools } = await (await connect((await serve(callerWith('full'))).url)).listTools();
      expect(tools).to.have.lengthOf(TOOLS.length);
      for (const { title, description, annotations, inputSchema } of tools) {
        expect(title).to.match(/^[A-Z]/);
        expect(description?.length).to.be.above(50);
        expect(annotations).to.include({ readOnlyHint: true });
        expect(inputSchema).to.include({ type: 'object', additionalProperties: false });
      }
    });
  });

  describe('robustness', () => {
    it('a body that is not a JSON-RPC message gets a JSON-RPC error', async () => {
      const { url } = await serve(callerWith('full'));
      const bodies = [
        '',
        '{',
        'null',
        '1',
        '"x"',
        '{}',
        '[]',
        '[1, {}]',
        '[[]]',
        '{"jsonrpc":"2.0"}',
      ];
      for (const body of bodies) {
        const response = await post(url, body);
        expect(response.status, body).to.equal(400);
        const { error } = (await response.json()) as JsonRpcFailure;
        expect(error.code, body).to.be.oneOf([-32700, -32600]);
      }
    });

    it('a malformed tool call gets a JSON-RPC error', async () => {
      const { url } = await serve(callerWith('full'));
      const shapes = [
        undefined,
        null,
        [],
        {},
        { name: 7 },
        { name: 'club_overview', arguments: [] },
      ];
      for (const params of shapes) {
        const body = { jsonrpc: '2.0', id: 1, method: 'tools/call', params };
        const text = await (await post(url, body)).text();
        expect(text, JSON.stringify(params)).to.match(/"error":\{"code":-32\d{3}/);
      }
    });

    it('unsupported HTTP methods are refused, because there are no sessions', async () => {
      const { url } = await serve(callerWith('full'));
      for (const method of ['GET', 'DELETE', 'PUT']) {
        const response = await fetch(url, { method, headers: JSON_HEADERS });
        expect([response.status, response.headers.get('allow')], method).to.deep.equal([
          405,
          'POST',
        ]);
      }
    });

    it('a body with another content type is refused', async () => {
      const { url } = await serve(callerWith('full'));
      const response = await fetch(url, { method: 'POST', body: 'x=1' });
      expect(response.status).to.equal(415);
    });

    it('an internal error gets a JSON-RPC error without details', async () => {
      const unusable = openDataset();
      unusable.close();
      const { url, errors } = await serve(callerWith('admin'), { dataset: () => unusable });
      const error = await failureOf((await connect(url)).callTool({ name: 'club_overview' }));
      expect(error).to.include({ code: -32603 });
      expect(error.message)
        .to.match(/This tool failed/)
        .and.not.match(/SELECT|database/i);
      expect(errors).to.have.lengthOf(1);
    });
  });

  it('RSV-10 the server leaves no stream open that could outlive the token', async () => {
    const { url } = await serve(callerWith('full'));
    const params = {
      notifications: { toolsListChanged: true },
      _meta: {
        'io.modelcontextprotocol/protocolVersion': '2026-07-28',
        'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
        'io.modelcontextprotocol/clientCapabilities': {},
      },
    };
    const response = await fetch(url, {
      method: 'POST',
      headers: {
        ...JSON_HEADERS,
        'mcp-protocol-version': '2026-07-28',
        'mcp-method': 'subscriptions/listen',
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'subscriptions/listen', params }),
    });
    expect(await response.text())
      .to.include('"notifications":{}')
      .and.include('"resultType":"complete"');
  });
});
