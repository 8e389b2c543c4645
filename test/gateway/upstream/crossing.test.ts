// Mixes addresses, tokens and ids of two upstreams: every mix once, and in the soak random mixes under load.
import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import * as fc from 'fast-check';
import { addressOf, mint } from '../../links/minted-tokens/minting.ts';
import { connect, type Connection } from '../../support/connection.ts';
import { createConnector } from '../../support/management-api.ts';
import { call } from '../../support/mcp.ts';
import { recordSoak, SOAK } from '../../support/soak.ts';
import {
  event,
  json,
  resultFor,
  startScriptedUpstream,
  stream,
  toolCall,
} from '../../support/upstream/scripted-upstream.ts';
import { IDS, type UpstreamId, useTwoUpstreams } from '../../support/upstream/two-upstreams.ts';
import type { UpstreamHandler } from '../../support/upstream/upstream-server.ts';

const KINDS = ['session', 'event', 'task', 'related', 'listen', 'state'] as const;
type Kind = (typeof KINDS)[number];
type Issued = Record<'session' | 'event' | 'task' | 'state', string>;

/** Somebody who uses one upstream, and the ids that they got from it. */
type Holder = { name: string; upstream: UpstreamId; address: string; token: string; ids: Issued };

type Message = { id?: unknown; method?: string; params?: Record<string, unknown> };

const RELATED = 'io.modelcontextprotocol/related-task';
const RANDOM_MIXES = 20_000;
const AT_A_TIME = 16;

/** Issues ids of every kind, and trusts every id that it gets. */
function careless(upstream: UpstreamId): UpstreamHandler {
  const issue = (kind: string) => `${upstream}-${kind}-${randomUUID()}`;
  return (_req, res, body) => {
    const message = body as Message;
    const { name } = message.params ?? {};
    if (message.method === 'initialize') {
      res.setHeader('mcp-session-id', issue('session'));
      return json(res, resultFor(message));
    }
    if (message.method === undefined) return stream(res, `id: ${issue('event')}\ndata:\n\n`);
    if (name === 'task')
      return json(res, resultFor(message, { task: { taskId: issue('task'), status: 'working' } }));
    if (name === 'state')
      return json(res, resultFor(message, { content: [], requestState: issue('state') }));
    if (name === 'event')
      return res
        .writeHead(200, { 'content-type': 'text/event-stream' })
        .end(`id: ${issue('event')}\n${event(resultFor(message))}`);
    return json(res, resultFor(message, { content: [] }));
  };
}

describe('Ids of two upstreams', function () {
  if (SOAK) this.timeout(600_000);
  const settings = { defaultLevel: 'analytics', tools: [], openCalls: { perCaller: 10_000 } };
  const running = useTwoUpstreams(startScriptedUpstream, {
    settings: { orders: settings, tickets: settings },
  });
  const holders: Holder[] = [];

  before(async () => {
    const { system, upstreams } = running();
    let first: Connection | undefined;
    for (const upstream of IDS) {
      upstreams[upstream].respondWith(careless(upstream));
      const connector = await createConnector(system, { upstream });
      const same = { as: first ? { client: first.client, browser: first.browser } : {} };
      const ada = await connect(system, connector, same);
      first ??= ada;
      const other = await createConnector(system, { upstream });
      const elsewhere = await connect(system, other, same);
      const { token } = await mint(system, { upstream });
      for (const [name, address, held] of [
        ['ada', connector.link, ada.accessToken],
        ['ada at another link', other.link, elsewhere.accessToken],
        ['minted', addressOf(system), token],
      ] as const)
        holders.push({
          name: `${name} of ${upstream}`,
          upstream,
          address,
          token: held,
          ids: await obtainIds(address, held),
        });
    }
  });

  async function obtainIds(address: string, token: string): Promise<Issued> {
    const initialize = { jsonrpc: '2.0', id: 1, method: 'initialize', params: {} };
    const session = (await call(address, token, initialize)).headers.get('mcp-session-id') ?? '';
    const resultOf = async (tool: string) =>
      JSON.parse((await call(address, token, toolCall(tool))).text).result;
    const events = (await call(address, token, toolCall('event'))).text;
    const ids = {
      session,
      event: /^id: ?(\S+)$/m.exec(events)?.[1] ?? '',
      task: (await resultOf('task')).task.taskId,
      state: (await resultOf('state')).requestState,
    };
    expect(Object.values(ids)).to.not.include('');
    return ids;
  }

  /** The request of `caller` at the address of `place`, with an id of `owner`. */
  function send(place: Holder, caller: Holder, owner: Holder, kind: Kind) {
    const { session, event: last, task: taskId, state } = owner.ids;
    const ask = (method: string, params: object) => ({ jsonrpc: '2.0', id: 1, method, params });
    const used = toolCall('use');
    const [message, headers]: [object, Record<string, string>] = {
      session: [used, { 'mcp-session-id': session }] as [object, Record<string, string>],
      event: [used, { 'last-event-id': last }] as [object, Record<string, string>],
      task: [ask('tasks/get', { taskId }), {}] as [object, Record<string, string>],
      related: [ask('tools/call', { name: 'use', _meta: { [RELATED]: { taskId } } }), {}] as [
        object,
        Record<string, string>,
      ],
      listen: [ask('subscriptions/listen', { notifications: { taskIds: [taskId] } }), {}] as [
        object,
        Record<string, string>,
      ],
      state: [ask('tools/call', { name: 'use', requestState: state }), {}] as [
        object,
        Record<string, string>,
      ],
    }[kind];
    return call(place.address, caller.token, message, { headers });
  }

  /** Whether the request reached an upstream. */
  async function attempt(place: Holder, caller: Holder, owner: Holder, kind: Kind) {
    const { status, rpc } = await send(place, caller, owner, kind);
    const what = `${caller.name} at the address of ${place.name} with a ${kind} of ${owner.name}`;
    if (place.address !== caller.address) {
      expect(status, what).to.equal(401);
      return false;
    }
    if (caller === owner) {
      expect([status, rpc?.error], what).to.deep.equal([200, undefined]);
      return true;
    }
    const isSessionKind = kind === 'session' || kind === 'event';
    expect(status, what).to.equal(isSessionKind ? 404 : 200);
    if (!isSessionKind) expect(rpc?.error?.code, what).to.equal(-32602);
    return false;
  }

  /** Every request that an upstream ever received is of a caller of its own, with no id of the other upstream. */
  function expectNothingCrossed(): void {
    const { upstreams } = running();
    for (const id of IDS) {
      const { received, url, wire } = upstreams[id];
      const own = holders.filter(({ upstream }) => upstream === id);
      for (const { caller } of received) expect(caller).to.include({ aud: url });
      const connectors = own.map(({ address }) => /connect\/(\w+)\//.exec(address)?.[1]);
      for (const { caller } of received) expect(connectors).to.include(caller['connector']);
      for (const other of IDS.filter((name) => name !== id))
        expect(wire()).to.not.include(`${other}-`);
    }
  }

  const receivedInAll = () =>
    IDS.reduce((sum, id) => sum + running().upstreams[id].received.length, 0);

  it('UPS-10 no id works for anybody but the caller at the upstream that issued it, in every mix of address, token and id', async () => {
    const before = receivedInAll();
    let passed = 0;
    for (const caller of holders) {
      for (const place of holders)
        if (place.address !== caller.address) await attempt(place, caller, place, 'session');
      for (const owner of holders)
        for (const kind of KINDS) if (await attempt(caller, caller, owner, kind)) passed += 1;
    }
    expect(passed).to.equal(holders.length * KINDS.length);
    expect(receivedInAll()).to.equal(before + passed);
    expectNothingCrossed();
  });

  if (SOAK)
    it('UPS-10 nothing crosses in random mixes under load', async () => {
      const oneOf = () => fc.constantFrom(...holders);
      const mixes = fc.sample(
        fc.tuple(oneOf(), oneOf(), oneOf(), fc.constantFrom(...KINDS)),
        RANDOM_MIXES,
      );
      const before = receivedInAll();
      let passed = 0;
      const work = async () => {
        for (let mix = mixes.pop(); mix; mix = mixes.pop()) if (await attempt(...mix)) passed += 1;
      };
      await Promise.all(Array.from({ length: AT_A_TIME }, work));
      expect(receivedInAll()).to.equal(before + passed);
      expectNothingCrossed();
      recordSoak({
        what: `${RANDOM_MIXES} random mixes of links, tokens and ids of two upstreams, ${AT_A_TIME} at a time`,
        held: `${passed} of the owner passed, ${RANDOM_MIXES - passed} others were refused, 0 crossed`,
      });
    });
});
