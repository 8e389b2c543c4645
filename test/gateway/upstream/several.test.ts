import type { ServerResponse } from 'node:http';
import { expect } from 'chai';
import { addressOf, mint } from '../../links/minted-tokens/minting.ts';
import { connect } from '../../support/connection.ts';
import { call, isLimited } from '../../support/mcp.ts';
import { createConnector, showConnector } from '../../support/management-api.ts';
import {
  echo,
  json,
  PING,
  resultFor,
  startScriptedUpstream,
  toolCall,
} from '../../support/upstream/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { IDS, useTwoUpstreams } from '../../support/upstream/two-upstreams.ts';

const CREDENTIALS = { orders: 'Bearer credential-of-orders', tickets: 'credential-of-tickets' };

describe('Several upstreams', () => {
  const running = useTwoUpstreams(startScriptedUpstream, {
    settings: {
      orders: {
        openCalls: { perCaller: 1 },
        headers: { Authorization: { env: 'ORDERS_AUTHORIZATION' }, 'X-Tenant': 'example' },
      },
      tickets: { headers: { 'X-Api-Key': CREDENTIALS.tickets } },
    },
    environment: { ORDERS_AUTHORIZATION: CREDENTIALS.orders },
  });
  afterEach(() => IDS.forEach((id) => running().upstreams[id].respondWith(echo)));

  const received = () => IDS.map((id) => running().upstreams[id].received.length);

  for (const [n, id] of IDS.entries()) {
    it(`calls through a connect link of ${id} reach ${id} alone`, async () => {
      const { system, upstreams } = running();
      const connector = await createConnector(system, { upstream: id });
      expect(connector).to.include({ upstream: id, state: 'active' });
      const { accessToken } = await connect(system, connector);
      const before = received();
      expect((await call(connector.link, accessToken, toolCall('whoami'))).status).to.equal(200);
      expect(received()).to.deep.equal(before.map((count, at) => count + (at === n ? 1 : 0)));
      const { caller } = upstreams[id].received.at(-1) ?? {};
      expect(caller).to.include({ aud: upstreams[id].url, connector: connector.id });
    });

    it(`calls with a minted token of ${id} reach ${id} alone`, async () => {
      const { system } = running();
      const { token, upstream } = await mint(system, { upstream: id });
      expect(upstream).to.equal(id);
      const before = received();
      expect((await call(addressOf(system), token, PING)).status).to.equal(200);
      expect(received()).to.deep.equal(before.map((count, at) => count + (at === n ? 1 : 0)));
    });
  }

  it('a connector and a minted token without an upstream lead to the first', async () => {
    const { system } = running();
    expect((await createConnector(system)).upstream).to.equal('orders');
    expect((await mint(system)).upstream).to.equal('orders');
  });

  it('an unknown upstream is refused with the ids of those that exist', async () => {
    const { system } = running();
    for (const create of [createConnector, mint] as const) {
      const refusal = await create(system, { upstream: 'nowhere' }).catch(String);
      expect(refusal).to.include('400').and.include('one of orders, tickets');
    }
  });

  it('UPS-13 each upstream gets its own credentials and never those of the other', async () => {
    const { system, upstreams } = running();
    for (const id of IDS) {
      const { token } = await mint(system, { upstream: id });
      const headers = { 'x-api-key': 'of the caller', 'x-tenant': 'of the caller' };
      await call(addressOf(system), token, PING, { headers });
    }
    expect(upstreams.orders.received.at(-1)?.headers).to.include({
      authorization: CREDENTIALS.orders,
      'x-tenant': 'example',
    });
    expect(upstreams.tickets.received.at(-1)?.headers).to.include({
      'x-api-key': CREDENTIALS.tickets,
    });
    expect(upstreams.orders.discoveries[0]?.headers['authorization']).to.equal(CREDENTIALS.orders);
    expect(upstreams.orders.wire()).to.not.include(CREDENTIALS.tickets);
    expect(upstreams.tickets.wire()).to.not.include(CREDENTIALS.orders);
  });

  it('UPS-06 a header that mirrors an argument is verified by the declaration of its own upstream', async () => {
    const { system, upstreams } = running();
    const mirrored = { orders: 'region', tickets: 'area' };
    const holders = [];
    for (const id of IDS) {
      const schema = {
        type: 'object',
        properties: { [mirrored[id]]: { type: 'string', 'x-mcp-header': 'Place' } },
      };
      upstreams[id].respondWith((_req, res, body) => {
        const { id: request, method } = body as { id: number; method: string };
        const tools = method === 'tools/list' ? [{ name: 'find', inputSchema: schema }] : undefined;
        json(res, resultFor({ id: request }, tools ? { tools } : { content: [] }));
      });
      const { token } = await mint(system, { upstream: id, level: 'full' });
      await call(addressOf(system), token, { jsonrpc: '2.0', id: 1, method: 'tools/list' });
      holders.push({ id, token });
    }
    const find = toolCall('find', 1, { region: 'north', area: 'south' });
    for (const { id, token } of holders) {
      const statuses = [];
      for (const place of ['north', 'south']) {
        const headers = { 'mcp-param-place': place };
        statuses.push((await call(addressOf(system), token, find, { headers })).status);
      }
      expect(statuses, id).to.deep.equal(id === 'orders' ? [200, 400] : [400, 200]);
    }
  });

  it('the open calls of one upstream leave the limit of the other alone', async () => {
    const { system, upstreams } = running();
    const [orders, tickets] = [
      await mint(system, { upstream: 'orders' }),
      await mint(system, { upstream: 'tickets' }),
    ];
    let waiting: ServerResponse | undefined;
    upstreams.orders.respondWith((_req, res) => void (waiting = res));
    const open = call(addressOf(system), orders.token, PING);
    await until('the call to wait at the upstream', () => waiting !== undefined);
    expect(isLimited(await call(addressOf(system), orders.token, PING))).to.equal(true);
    expect((await call(addressOf(system), tickets.token, PING)).rpc).to.have.property('result');
    if (waiting) json(waiting, resultFor(PING));
    expect((await open).status).to.equal(200);
  });

  it('UPS-13 the management API shows no credential', async () => {
    const { system } = running();
    const connector = await createConnector(system, { upstream: 'tickets' });
    const shown = JSON.stringify(await showConnector(system, connector.id));
    expect(shown).to.not.include(CREDENTIALS.tickets);
  });
});
