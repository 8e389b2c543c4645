import { inspect } from 'node:util';
import { assert, expect } from 'chai';
import { isAtLeast, type Level } from '../../../src/permission-levels.ts';
import { DEFAULT_LEVELS, LEVELS } from '../../support/levels.ts';
import { until } from '../../support/until.ts';
import { readAudit } from '../../support/management-api.ts';
import { advanceClock } from '../../support/clock.ts';
import { call, callTool, isAccepted } from '../../support/mcp.ts';
import { onEachStore, useSystem } from '../../support/system.ts';
import { addressOf, findListed, listMinted, mint } from './minting.ts';
import { SDKS } from './sdk.ts';

/** The level that each tool of the sample requires. */
const TOOLS: Record<string, Level> = {
  club_overview: 'analytics',
  find_members: 'operations',
  member_contact: 'admin',
  payment_details: 'full',
};

describe('An SDK client with a minted token', () => {
  const system = useSystem();

  for (const [name, connect] of SDKS)
    it(`the client lists and calls tools without a sign-in (${name})`, async () => {
      const { token } = await mint(system(), { level: 'full' });
      const client = await connect(addressOf(system()), token);
      try {
        expect(await client.listTools()).to.include.members(Object.keys(TOOLS));
        const { isError, answer } = await client.callTool('club_overview');
        expect(isError).to.equal(false);
        expect(answer).to.have.property('members');
      } finally {
        await client.close();
      }
    });

  for (const [name, connect] of SDKS)
    it(`tools above the token's level are not listed, and calling them is a tool error (${name})`, async () => {
      const { token } = await mint(system(), { level: 'analytics' });
      const client = await connect(addressOf(system()), token);
      try {
        const tools = await client.listTools();
        expect(tools).to.include('club_overview');
        expect(tools).to.not.include.members(['member_contact', 'payment_details']);
        const { isError, answer } = await client.callTool('payment_details', { memberId: 'M1' });
        expect(isError).to.equal(true);
        expect(JSON.stringify(answer)).to.match(/level full.*minted/);
      } finally {
        await client.close();
      }
    });

  for (const [name, connect] of SDKS)
    it(`an invalid minted token fails without a sign-in (${name})`, async () => {
      const { token } = await mint(system());
      const refusal = await connect(addressOf(system()), `${token}x`).then(
        () => 'connected',
        (error: unknown) => inspect(error),
      );
      expect(refusal)
        .to.match(/(code|status): 401/)
        .and.include('ask an administrator for a minted token');
    });
});

describe('The level of a minted token', () => {
  const system = useSystem();

  async function someMember(): Promise<string> {
    const { token } = await mint(system());
    const { rpc } = await callTool(addressOf(system()), token, 'find_members');
    const { found } = rpc?.result?.structuredContent ?? {};
    assert(Array.isArray(found));
    return String(found[0].memberId);
  }

  for (const level of LEVELS)
    it(`a token of the level ${level} lists and runs the tools up to that level, and never steps up`, async () => {
      const { token } = await mint(system(), { level });
      const url = addressOf(system());
      const { rpc } = await call(url, token, { jsonrpc: '2.0', id: 1, method: 'tools/list' });
      const listed = rpc?.result?.tools?.map((tool) => tool.name);
      const memberId = await someMember();
      for (const [tool, needed] of Object.entries(TOOLS)) {
        const isWithin = isAtLeast(DEFAULT_LEVELS, level, needed);
        const given = /member_|payment_/.test(tool) ? { memberId } : {};
        const { status, headers, rpc: answer } = await callTool(url, token, tool, given);
        expect(status, tool).to.equal(200);
        expect(headers.has('www-authenticate'), tool).to.equal(false);
        expect(answer?.result?.isError === true, tool).to.equal(!isWithin);
        expect(listed?.includes(tool), tool).to.equal(isWithin);
      }
    });

  it('every call with the level full is audited before its response is sent', async () => {
    const { id, token } = await mint(system(), { level: 'full' });
    const client = `minted:${id}`;
    const calls = async () =>
      (await readAudit(system())).filter(
        ({ event, clientId }) => event === 'call' && clientId === client,
      );
    for (const [count, tool] of ['payment_details', 'member_visits'].entries()) {
      await callTool(addressOf(system()), token, tool, { memberId: 'M9999' });
      const items = await calls();
      expect(items).to.have.length(count + 1);
      expect(items.at(-1)).to.deep.include({
        account: client,
        tool,
        argumentsJson: '{"memberId":"M9999"}',
      });
      expect(items.at(-1)?.outcome).to.be.oneOf(['started', 'answered']);
    }
  });

  it('requests that need no level are not audited', async () => {
    const { id, token } = await mint(system(), { level: 'admin' });
    expect(await isAccepted(addressOf(system()), token)).to.equal(true);
    const events = (await readAudit(system())).filter(
      ({ clientId }) => clientId === `minted:${id}`,
    );
    expect(events.map(({ event }) => event)).to.deep.equal(['token_minted']);
  });
});

onEachStore('The last use of a minted token', (system) => {
  const lastUsed = async (id: string) => (await findListed(system(), id))?.lastUsedAt;

  it('the last use is listed after the first call, and updated at most once a minute', async () => {
    const { id, token } = await mint(system());
    expect(await lastUsed(id)).to.equal(undefined);
    const before = Date.now();
    expect(await isAccepted(addressOf(system()), token)).to.equal(true);
    const first = await until('the use to be recorded', () => lastUsed(id));
    expect(Date.parse(first)).to.be.within(before, Date.now());

    advanceClock(59);
    expect(await isAccepted(addressOf(system()), token)).to.equal(true);
    advanceClock(62);
    const later = Date.now();
    expect(await isAccepted(addressOf(system()), token)).to.equal(true);
    const second = await until('the later use to be recorded', async () => {
      const at = await lastUsed(id);
      return at !== undefined && Date.parse(at) >= later && at;
    });
    expect(Date.parse(second)).to.be.within(later, Date.now());
  });

  it('the last use is kept per token and not updated by refused calls', async () => {
    const [used, unused] = [await mint(system()), await mint(system())];
    expect(await isAccepted(addressOf(system()), `${unused.token}x`)).to.equal(false);
    expect(await isAccepted(addressOf(system()), used.token)).to.equal(true);
    await until('the use to be recorded', () => lastUsed(used.id));
    expect(await lastUsed(unused.id)).to.equal(undefined);
  });

  it('recording the last use keeps the expiry and every other member', async () => {
    const { id, token } = await mint(system(), { expiresIn: '1h' });
    const before = await findListed(system(), id);
    expect(await isAccepted(addressOf(system()), token)).to.equal(true);
    await until('the use to be recorded', () => lastUsed(id));
    const { lastUsedAt: _, ...after } = (await findListed(system(), id)) ?? {};
    expect(after).to.deep.equal(before);
    advanceClock(3601);
    expect((await listMinted(system())).map((item) => item.id)).to.not.include(id);
  });
});
