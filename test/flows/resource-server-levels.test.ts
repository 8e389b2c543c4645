// MCP authorization, RFC 6750 section 3.1.
import { expect } from 'chai';
import { type Level } from '../../src/permission-levels.ts';
import { LEVELS } from '../support/levels.ts';
import { restoreClock } from '../support/clock.ts';
import { createConnector, readAllAudit } from '../support/management-api.ts';
import { connect } from '../support/connection.ts';
import { call, callTool, type RpcResponse } from '../support/mcp.ts';
import { useSystem } from '../support/system.ts';
import { until } from '../support/until.ts';

const PERSONAL = ['name', 'email', 'phone', 'iban', 'card'];
const SEEN: Record<(typeof LEVELS)[number], string[]> = {
  analytics: [],
  operations: ['name'],
  admin: ['name', 'email', 'phone'],
  full: PERSONAL,
};

/** Every member name anywhere in a JSON value. */
function namesIn(value: unknown): Set<string> {
  const names = new Set<string>();
  JSON.stringify(value, (name, member) => {
    names.add(name);
    return member;
  });
  return names;
}

function structured({ status, rpc, text }: RpcResponse): Record<string, unknown> {
  if (status === 200 && rpc?.result?.structuredContent) return rpc.result.structuredContent;
  throw new Error(`${status} ${text}`);
}

describe('Permission levels of tool calls', () => {
  const system = useSystem();
  afterEach(restoreClock);

  async function connectAt(level: Level, ceiling: Level = 'full') {
    return connect(system(), await createConnector(system(), { level: ceiling }), { level });
  }

  async function someMember(): Promise<string> {
    const { link, accessToken } = await connectAt('operations');
    const { found } = structured(await callTool(link, accessToken, 'find_members'));
    if (!Array.isArray(found)) throw new Error('find_members found nothing');
    return String(found[0].memberId);
  }

  for (const level of LEVELS) {
    it(`the level ${level} shows ${SEEN[level].join(', ') || 'no people'} and nothing more`, async () => {
      const { link, accessToken } = await connectAt(level);
      const memberId = await someMember();
      const calls: [string, Record<string, unknown>][] = [
        ['club_overview', {}],
        ['find_members', {}],
        ['member_contact', { memberId }],
        ['payment_details', { memberId }],
      ];
      const seen = new Set<string>();
      for (const [tool, given] of calls) {
        const answer = await callTool(link, accessToken, tool, given);
        if (answer.status !== 200) expect(answer.status).to.equal(403);
        else for (const name of namesIn(structured(answer))) seen.add(name);
      }
      expect(PERSONAL.filter((name) => seen.has(name))).to.have.members(SEEN[level]);
    });
  }

  it('RSV-04 a call below the required level is challenged with that level, and a token of that level succeeds', async () => {
    const memberId = await someMember();
    const connector = await createConnector(system(), { level: 'admin' });
    const low = await connect(system(), connector, { level: 'analytics' });
    const refused = await callTool(connector.link, low.accessToken, 'member_contact', { memberId });
    expect(refused.status).to.equal(403);
    const challenge = refused.headers.get('www-authenticate') ?? '';
    const metadata = `${system().resource}/.well-known/oauth-protected-resource/connect/${connector.id}/mcp`;
    expect(challenge).to.match(/^Bearer /);
    expect(challenge).to.include('error="insufficient_scope"').and.include('scope="admin"');
    expect(challenge).to.include(`resource_metadata="${metadata}"`);
    expect(refused.headers.get('access-control-expose-headers')).to.match(/www-authenticate/i);

    const high = await connect(system(), connector, { as: low, parameters: { scope: 'admin' } });
    const answer = await callTool(connector.link, high.accessToken, 'member_contact', { memberId });
    expect(structured(answer)).to.include.keys('email', 'phone');
  });

  it('RSV-04 a call above the level of the connect link is a tool error, not a challenge', async () => {
    const memberId = await someMember();
    const { link, accessToken } = await connectAt('operations', 'operations');
    const { status, headers, rpc } = await callTool(link, accessToken, 'payment_details', {
      memberId,
    });
    expect(status).to.equal(200);
    expect(headers.has('www-authenticate')).to.equal(false);
    expect(rpc?.result?.isError).to.equal(true);
  });

  it('tools/list has the tools that the connect link can reach', async () => {
    const { link, accessToken } = await connectAt('analytics', 'admin');
    const { rpc } = await call(link, accessToken, { jsonrpc: '2.0', id: 1, method: 'tools/list' });
    const names = rpc?.result?.tools?.map(({ name }) => name);
    expect(names).to.include.members(['club_overview', 'find_members', 'member_contact']);
    expect(names).to.not.include('payment_details');
  });

  it('every call with full is audited before its response is sent', async () => {
    const memberId = await someMember();
    const { link, accessToken, client } = await connectAt('full');
    const recorded = async () =>
      (await readAllAudit(system())).filter(
        ({ event, clientId }) => event === 'call' && clientId === client.id,
      );
    expect(await recorded()).to.have.length(0);
    const given: [string, Record<string, unknown>][] = [
      ['club_overview', {}],
      ['payment_details', { memberId }],
      ['payment_details', { memberId: 'M9999' }],
    ];
    for (const [n, [tool, sent]] of given.entries()) {
      await callTool(link, accessToken, tool, sent);
      const items = await recorded();
      expect(items).to.have.length(n + 1);
      expect(items.at(-1)).to.deep.include({ tool, argumentsJson: JSON.stringify(sent) });
      expect(items.at(-1)?.outcome).to.be.oneOf(['started', 'answered']);
      const members =
        'id epoch number time event account clientId connector grantId upstream tool level argumentsJson';
      expect(items.at(-1)).to.include.all.keys(members.split(' '));
      expect(items.at(-1)?.time).to.match(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    }
  });

  it('a refused call with full is recorded without its arguments, an allowed one with them', async () => {
    const { link, accessToken, client } = await connectAt('full');
    const recorded = async () =>
      (await readAllAudit(system())).filter(
        ({ event, clientId }) => event === 'call' && clientId === client.id,
      );
    const junk = { junk: 'x'.repeat(3000) };
    const refused = ['no_such_tool', 'payment_details'];
    for (const tool of refused) await callTool(link, accessToken, tool, junk);
    await callTool(link, accessToken, 'club_overview');
    const items = await until('the calls to be recorded with their ends', async () => {
      const found = await recorded();
      return found.length === 3 && found.every(({ outcome }) => outcome !== 'started') && found;
    });
    const shown = items.map(({ tool, outcome, reason, argumentsJson }) => ({
      tool,
      outcome,
      reason,
      argumentsJson,
    }));
    const none = { outcome: 'refused', argumentsJson: undefined };
    expect(shown).to.have.deep.members([
      { tool: 'no_such_tool', ...none, reason: 'not_found' },
      { tool: 'payment_details', ...none, reason: 'invalid_request' },
      { tool: 'club_overview', outcome: 'answered', reason: undefined, argumentsJson: '{}' },
    ]);
    for (const { arguments: given, outcome } of items)
      if (outcome === 'refused') expect(given).to.have.all.keys('bytes', 'sha256');
  });

  it('calls below full are audited within a second, without their arguments', async () => {
    const { link, accessToken, client } = await connectAt('admin');
    await callTool(link, accessToken, 'find_members', { name: 'Ada' });
    const item = await until('the call to be recorded', async () =>
      (await readAllAudit(system())).find(
        ({ event, clientId }) => event === 'call' && clientId === client.id,
      ),
    );
    expect(item).to.include({ tool: 'find_members', level: 'admin', outcome: 'answered' });
    expect(item).to.not.include.keys('argumentsJson', 'arguments');
  });
});
