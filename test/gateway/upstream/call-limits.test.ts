import { expect } from 'chai';
import { DEFAULT_LEVELS } from '../../../src/permission-levels.ts';
import { addressOf, mint } from '../../links/minted-tokens/minting.ts';
import type { Person } from '../../support/browser.ts';
import { advanceClock } from '../../support/clock.ts';
import { connect } from '../../support/connection.ts';
import { call, callTool, postBody, type RpcResponse } from '../../support/mcp.ts';
import {
  type AuditItem,
  createConnector,
  readAudit,
  requestManagement,
} from '../../support/management-api.ts';
import { readMetrics } from '../../support/metrics.ts';
import { until } from '../../support/until.ts';
import {
  echo,
  event,
  resultFor,
  startScriptedUpstream,
  stream,
  toolCall,
} from '../../support/upstream/scripted-upstream.ts';
import { useSystem } from '../../support/system.ts';
import { useUpstream } from '../../support/upstream/system.ts';

/** The words of a limited response, and the seconds in them. */
function limited({
  rpc,
}: Pick<RpcResponse, 'rpc'>): { words: string; seconds: number } | undefined {
  const words = rpc?.result?.isError ? rpc.result.content?.[0]?.text : rpc?.error?.message;
  const [, seconds] = /call again in (\d+) s, and not before$/.exec(words ?? '') ?? [];
  return seconds === undefined || !words ? undefined : { words, seconds: Number(seconds) };
}

const READ = { jsonrpc: '2.0', id: 7, method: 'resources/read', params: { uri: 'notes://1' } };
const LEVELS = DEFAULT_LEVELS.map((level) =>
  level.id === 'admin' ? { ...level, calls: '3/10m' } : level,
);
const TOOLS = [
  { name: 'look', level: 'analytics' },
  { name: 'costly', level: 'analytics', calls: '2/10m' },
  { name: 'secret', level: 'full' },
];
const RESOURCES = [{ uri: 'notes://*', level: 'analytics' }];

type Machine = { id: string; secret: string; link: string };
type Wanted = { level?: string; person?: Person; calls?: string };

describe('Limits on calls', () => {
  const behind = useUpstream(startScriptedUpstream, {
    settings: { tools: TOOLS, resources: RESOURCES },
    file: { levels: LEVELS, limits: { calls: { perConnection: '5/10m' } } },
  });
  afterEach(() => behind().upstream.respondWith(echo));

  async function newConnection({ level = 'operations', person = 'ada', calls }: Wanted = {}) {
    const wanted = { level, ...(calls === undefined ? {} : { calls }) };
    const connector = await createConnector(behind().system, wanted);
    const connection = await connect(behind().system, connector, { person, level });
    return { link: connector.link, token: connection.accessToken, connector, connection };
  }

  const forwarded = (name: string) =>
    behind().upstream.received.filter(({ body }) => JSON.stringify(body).includes(`"${name}"`))
      .length;

  async function auditOf(connector: string, name: string): Promise<AuditItem[]> {
    const items = await readAudit(behind().system);
    return items.filter((item) => item.connector === connector && item.event === name);
  }

  it('DOS-10 a connection makes as many calls in a window as its limit allows, and the next window begins anew', async () => {
    const { link, token } = await newConnection();
    const before = forwarded('look');
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => callTool(link, token, 'look')),
    );
    const refused = answers.filter((answer) => limited(answer));
    expect(refused).to.have.length(3);
    expect(forwarded('look') - before).to.equal(5);
    for (const answer of refused) {
      const { words, seconds } = limited(answer) ?? {};
      expect(words).to.match(
        /^the limit on the calls of this connection is reached \(5\/10m\), so nothing was done: /,
      );
      expect(seconds).to.be.within(590, 600);
      expect(answer.headers.get('retry-after')).to.equal(String(seconds));
      expect([answer.status, answer.rpc?.result?.isError]).to.deep.equal([200, true]);
    }
    advanceClock(601);
    expect((await callTool(link, token, 'look')).rpc?.result).to.deep.equal({});
  });

  it('a limit answers other requests with a JSON-RPC error, and lists, pings and subscriptions do not count', async () => {
    const { link, token } = await newConnection();
    for (let n = 0; n < 5; n += 1) await callTool(link, token, 'look');
    const refused = await call(link, token, READ);
    expect(refused.status).to.equal(200);
    expect(refused.rpc?.error?.code).to.equal(-32_000);
    expect(refused.rpc?.error).to.have.nested.property(
      'data.retryAfter',
      limited(refused)?.seconds,
    );
    expect(refused.rpc?.error).to.have.nested.property('data.error', 'limit_reached');
    for (const method of ['ping', 'tools/list', 'resources/list', 'resources/subscribe']) {
      const message = { jsonrpc: '2.0', id: 1, method, params: { uri: 'notes://1' } };
      const { rpc } = await call(link, token, message);
      expect(rpc?.result, method).to.deep.equal({});
    }
  });

  it('calls that are refused for their level do not count', async () => {
    const { link, token } = await newConnection();
    for (let n = 0; n < 6; n += 1)
      expect((await callTool(link, token, 'secret')).rpc?.result?.isError).to.equal(true);
    expect(limited(await callTool(link, token, 'look'))).to.equal(undefined);
  });

  it('a limit of a tool counts the calls of the tool by each connection', async () => {
    const [one, other] = [await newConnection(), await newConnection()];
    for (let n = 0; n < 2; n += 1) await callTool(one.link, one.token, 'costly');
    const refused = limited(await callTool(one.link, one.token, 'costly'));
    expect(refused?.words).to.include('of the tool costly by this connection is reached (2/10m)');
    expect(limited(await callTool(one.link, one.token, 'look'))).to.equal(undefined);
    expect(limited(await callTool(other.link, other.token, 'costly'))).to.equal(undefined);
  });

  it('a call that one limit refuses uses nothing of the others', async () => {
    const { link, token } = await newConnection();
    for (let n = 0; n < 8; n += 1) await callTool(link, token, 'costly');
    const answers = [];
    for (let n = 0; n < 4; n += 1) answers.push(limited(await callTool(link, token, 'look')));
    expect(answers.map((answer) => answer === undefined)).to.deep.equal([true, true, true, false]);
  });

  it('a limit of a level counts the calls of each connection with the level', async () => {
    const { link, token } = await newConnection({ level: 'admin' });
    for (let n = 0; n < 3; n += 1)
      expect(limited(await callTool(link, token, 'look'))).to.equal(undefined);
    expect(limited(await callTool(link, token, 'look'))?.words).to.include('with the level admin');
  });

  it('a limit of a connector counts the calls of all its connections, and can be changed', async () => {
    const { system } = behind();
    const first = await newConnection({ calls: '3/10m' });
    const second = await connect(system, first.connector, { person: 'grace', level: 'operations' });
    for (let n = 0; n < 3; n += 1) await callTool(first.link, first.token, 'look');
    const refused = limited(await callTool(first.link, second.accessToken, 'look'));
    expect(refused?.words).to.include('for all its connections together is reached (3/10m)');
    const path = `/connectors/${first.connector.id}`;
    await requestManagement(system, 'PATCH', path, { calls: '4/10m' });
    await until(
      'the new limit',
      async () => !limited(await callTool(first.link, second.accessToken, 'look')),
    );
    await requestManagement(system, 'PATCH', path, { calls: null });
    await until(
      'no limit',
      async () => !limited(await callTool(first.link, second.accessToken, 'look')),
    );
  });

  it('limits of a minted token and of a machine count all their calls, and can be changed', async () => {
    const { system } = behind();
    const minted = await mint(system, { level: 'operations', calls: '2/10m' });
    const at = `${system.resource}/mcp`;
    for (let n = 0; n < 2; n += 1)
      expect(limited(await callTool(at, minted.token, 'look'))).to.equal(undefined);
    expect(limited(await callTool(at, minted.token, 'look'))?.words).to.include(
      'of this token is reached (2/10m)',
    );
    await requestManagement(system, 'PATCH', `/tokens/${minted.id}`, { calls: '3/10m' });
    await until('the new limit', async () => !limited(await callTool(at, minted.token, 'look')));

    const connector = await createConnector(system, { level: 'operations' });
    const wanted = { name: 'Job', connector: connector.id, level: 'operations', calls: '2/10m' };
    const machine = (await requestManagement(system, 'POST', '/clients', wanted)) as Machine;
    const response = await fetch(`${system.auth}/oauth/token`, {
      method: 'POST',
      headers: { authorization: `Basic ${btoa(`${machine.id}:${machine.secret}`)}` },
      body: new URLSearchParams({ grant_type: 'client_credentials', resource: machine.link }),
    });
    const { access_token: token } = (await response.json()) as { access_token: string };
    for (let n = 0; n < 2; n += 1)
      expect(limited(await callTool(machine.link, token, 'look'))).to.equal(undefined);
    const refused = limited(await callTool(machine.link, token, 'look'));
    expect(refused?.words).to.include('of this machine is reached (2/10m)');
    await requestManagement(system, 'PATCH', '/clients', { id: machine.id, calls: null });
    await until('no limit', async () => !limited(await callTool(machine.link, token, 'look')));
  });

  it('a batch is forwarded without the calls that a limit refuses, and each call counts', async () => {
    const { link, token } = await newConnection();
    const before = forwarded('costly');
    const batch = [
      toolCall('costly', 1),
      toolCall('costly', 2),
      toolCall('costly', 3),
      toolCall('look', 4),
    ];
    const response = await postBody(link, token, JSON.stringify(batch));
    const answers = (await response.json()) as { id: number; result: RpcResponse['rpc'] }[];
    const limitedIds = answers
      .filter((rpc) => limited({ rpc: rpc as RpcResponse['rpc'] }))
      .map(({ id }) => id);
    expect(limitedIds).to.deep.equal([3]);
    expect(answers.map(({ id }) => id).toSorted()).to.deep.equal([1, 2, 3, 4]);
    expect(forwarded('costly') - before).to.equal(1);
    const { body } = behind().upstream.received.at(-1) ?? {};
    expect((body as { id: number }[]).map(({ id }) => id)).to.deep.equal([1, 2, 4]);
    const whole = await postBody(
      link,
      token,
      JSON.stringify([toolCall('costly', 1), toolCall('costly', 2)]),
    );
    expect(whole.headers.get('retry-after')).to.match(/^\d+$/);
    expect(await whole.json()).to.have.length(2);
  });

  it('a limited call of a batch is told of its limit, also if the server refuses the others', async () => {
    const { link, token } = await newConnection();
    behind().upstream.respondWith((_req, res) => void res.writeHead(429).end());
    const batch = [1, 2, 3].map((id) => toolCall('costly', id));
    const response = await postBody(link, token, JSON.stringify(batch));
    const answers = (await response.json()) as { id: number; result: RpcResponse['rpc'] }[];
    const limitedIds = answers
      .filter((rpc) => limited({ rpc: rpc as RpcResponse['rpc'] }))
      .map(({ id }) => id);
    expect(limitedIds).to.deep.equal([3]);
    expect(answers.map(({ id }) => id).toSorted()).to.deep.equal([1, 2, 3]);
  });

  it('the responses to limited calls of a batch are also in a stream, and beside notifications', async () => {
    const { link, token } = await newConnection();
    behind().upstream.respondWith((_req, res, body) => {
      const [first] = body as { id: number }[];
      stream(res, event(resultFor(first ?? {})));
      res.end();
    });
    const batch = [toolCall('costly', 1), toolCall('costly', 2), toolCall('costly', 3)];
    await postBody(link, token, JSON.stringify(batch.slice(0, 1)));
    const streamed = await (await postBody(link, token, JSON.stringify(batch.slice(1)))).text();
    expect(streamed).to.match(/"id":3,"result".*call again in[^]*"id":2,"result":\{\}/);
    behind().upstream.respondWith(echo);
    const notification = { jsonrpc: '2.0', method: 'notifications/initialized' };
    const beside = await postBody(
      link,
      token,
      JSON.stringify([notification, toolCall('costly', 4)]),
    );
    expect(await beside.text()).to.match(/^\[\{.*"id":4.*call again in.*\}\]$/);
  });

  it('the first refusal in a window is an audit item and counts in the metrics', async () => {
    const counted = async () =>
      (await readMetrics(behind().system)).find(
        ({ name, labels }) =>
          name === 'gatehouse_call_limits_reached_total' && labels['limit'] === 'connection',
      )?.value ?? 0;
    const before = await counted();
    const { link, token, connector } = await newConnection();
    for (let n = 0; n < 9; n += 1) await callTool(link, token, 'look');
    await until('the item', async () => (await auditOf(connector.id, 'limit_reached')).length > 0);
    advanceClock(601);
    for (let n = 0; n < 9; n += 1) await callTool(link, token, 'look');
    await until(
      'both items',
      async () => (await auditOf(connector.id, 'limit_reached')).length > 1,
    );
    const [item, ...others] = await auditOf(connector.id, 'limit_reached');
    expect(others).to.have.length(1);
    expect(item).to.deep.include({
      outcome: 'refused',
      arguments: { limit: 'connection', calls: '5/10m' },
    });
    expect((await counted()) - before).to.equal(2);
  });

  it('resetting the limits of a grant begins its windows anew, and its page shows what was used', async () => {
    const { system } = behind();
    const { link, token, connector } = await newConnection({ calls: '100/1d' });
    for (let n = 0; n < 2; n += 1) await callTool(link, token, 'costly');
    for (let n = 0; n < 4; n += 1) await callTool(link, token, 'look');
    const [{ grantId = '' } = {}] = await auditOf(connector.id, 'consent_approved');
    const used = async () => {
      const grant = await requestManagement(system, 'GET', `/grants/${grantId}`);
      return (grant as { limits: { limit: string; of?: string; used: number }[] }).limits.map(
        ({ limit, of, used: count }) => `${limit}${of === undefined ? '' : ` ${of}`} ${count}`,
      );
    };
    expect(await used()).to.have.members(['connection 5', 'tool costly 2', 'connector 5']);
    advanceClock(5);
    await requestManagement(system, 'POST', `/grants/${grantId}/reset-limits`);
    expect(await used()).to.have.members(['connection 0', 'connector 5']);
    for (let n = 0; n < 6; n += 1) await callTool(link, token, 'look');
    await until(
      'a second item',
      async () => (await auditOf(connector.id, 'limit_reached')).length > 1,
    );
    expect(await auditOf(connector.id, 'limits_reset')).to.have.length(1);
  });
});

describe('The limit on the calls of a person', () => {
  const behind = useUpstream(startScriptedUpstream, {
    settings: { tools: TOOLS },
    file: { limits: { calls: { perPerson: '4/10m' } } },
  });

  it('counts all connections of a person together', async () => {
    const { system } = behind();
    const connector = await createConnector(system, { level: 'operations' });
    const tokens = [];
    for (const person of ['ada', 'ada', 'grace'] as const)
      tokens.push((await connect(system, connector, { person, level: 'operations' })).accessToken);
    const answers = [];
    for (const token of [...tokens, ...tokens, ...tokens])
      answers.push(limited(await callTool(connector.link, token, 'look'))?.words ?? 'made');
    const refusal = 'of this person, with all their apps together is reached (4/10m)';
    expect(answers.map((words) => (words.includes(refusal) ? 'refused' : words))).to.deep.equal([
      ...Array.from({ length: 6 }, () => 'made'),
      'refused',
      'refused',
      'made',
    ]);
  });
});

describe('Limits on calls of the built-in sample', () => {
  const system = useSystem({ file: { limits: { calls: { perConnection: '3/10m' } } } });

  it('DOS-10 calls that are made count, also in a batch with a call that is refused for its level', async () => {
    const { token } = await mint(system(), { level: 'analytics' });
    const batch = [toolCall('club_overview', 1), toolCall('payment_details', 2)];
    const answers = [];
    for (let n = 0; n < 5; n += 1) {
      const response = await postBody(addressOf(system()), token, JSON.stringify(batch));
      answers.push((await response.text()).includes('of this connection is reached (3/10m)'));
    }
    expect(answers).to.deep.equal([false, false, false, true, true]);
  });
});
