import { expect } from 'chai';
import type { Level } from '../../../src/permission-levels.ts';
import { readAudit } from '../../support/management-api.ts';
import { call } from '../../support/mcp.ts';
import {
  resultFor,
  echo,
  event,
  startScriptedUpstream,
  stream,
} from '../../support/upstream/scripted-upstream.ts';
import { useUpstream } from '../../support/upstream/system.ts';

const URI = 'db://members/M0001/payments';

const listen = (notifications: unknown, id: unknown = 1) => ({
  jsonrpc: '2.0',
  id,
  method: 'subscriptions/listen',
  params: { notifications },
});

const notice = (method: string, params: object = {}) => ({ jsonrpc: '2.0', method, params });

describe('Upstream subscriptions and notifications', () => {
  const behind = useUpstream(startScriptedUpstream, { settings: { defaultLevel: 'operations' } });
  afterEach(() => behind().upstream.respondWith(echo));

  async function attempt(level: Level, ceiling: Level, message: object) {
    const { link, token } = await behind().connected(level, ceiling);
    return call(link, token, message);
  }

  const TO_RESOURCES = [
    { resourceSubscriptions: [URI] },
    { toolsListChanged: true, resourceSubscriptions: [URI] },
    { ResourceSubscriptions: [URI] },
    { resourceSubscriptions: URI },
    { somethingNew: true },
    [{ resourceSubscriptions: [URI] }],
    URI,
  ];

  it('UPS-04 a subscription to resources requires the level of resources/subscribe', async () => {
    const before = behind().upstream.received.length;
    const subscribe = {
      jsonrpc: '2.0',
      id: 1,
      method: 'resources/subscribe',
      params: { uri: URI },
    };
    for (const message of [subscribe, ...TO_RESOURCES.map((filter) => listen(filter))]) {
      const reachable = await attempt('analytics', 'full', message);
      expect(reachable.status, JSON.stringify(message)).to.equal(403);
      expect(reachable.headers.get('www-authenticate'))
        .to.include('error="insufficient_scope"')
        .and.include('scope="operations"');
      const never = await attempt('analytics', 'analytics', message);
      expect(never.status).to.equal(200);
      expect(never.rpc?.error?.message).to.match(/needs the permission level operations/);
    }
    expect(behind().upstream.received).to.have.length(before);
    for (const message of [subscribe, listen(TO_RESOURCES[0])])
      expect((await attempt('operations', 'operations', message)).rpc?.result).to.deep.equal({});
  });

  it('UPS-04 a subscription to list changes requires no level', async () => {
    const before = behind().upstream.received.length;
    const filters = [
      { toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true },
      { toolsListChanged: true, resourceSubscriptions: [] },
      {},
    ];
    for (const filter of filters)
      expect((await attempt('analytics', 'analytics', listen(filter))).status).to.equal(200);
    expect(behind().upstream.received).to.have.length(before + filters.length);
  });

  it('UPS-04 an ambiguous subscription filter is refused', async () => {
    const params = { notifications: {}, Notifications: { resourceSubscriptions: [URI] } };
    const { status } = await attempt('analytics', 'full', { ...listen({}), params });
    expect(status).to.equal(400);
  });

  it('UPS-04 a subscription to resources above the level blocks the whole batch', async () => {
    const ping = { jsonrpc: '2.0', id: 2, method: 'ping' };
    const batch = [ping, listen({ resourceSubscriptions: [URI] })];
    expect((await attempt('analytics', 'full', batch)).status).to.equal(403);
  });

  it('UPS-04 a subscription to resources with the level full is audited', async () => {
    const params = { notifications: { resourceSubscriptions: [URI] } };
    await attempt('full', 'full', listen(params.notifications));
    const item = (await readAudit(behind().system)).findLast(({ level }) => level === 'full');
    expect(item).to.deep.include({
      event: 'call',
      method: 'subscriptions/listen',
      argumentsJson: JSON.stringify(params),
    });
  });

  const NOTICES = {
    updated: notice('notifications/resources/updated', { uri: URI }),
    resources: notice('notifications/resources/list_changed'),
    prompts: notice('notifications/prompts/list_changed'),
    tools: notice('notifications/tools/list_changed'),
    message: notice('notifications/message', { level: 'info', data: 'own' }),
    progress: notice('notifications/progress', { progressToken: 1, progress: 1 }),
    unknown: notice('notifications/orders/shipped', { order: 7 }),
  };
  type Name = keyof typeof NOTICES;

  /** The names of those `NOTICES` that arrive in a stream with all of them. */
  function heard(text: string): Name[] {
    const names = Object.keys(NOTICES) as Name[];
    return names.filter((name) => text.includes(JSON.stringify(NOTICES[name])));
  }

  const ALWAYS: Name[] = ['tools', 'message', 'progress'];
  const LISTS: Name[] = ['resources', 'prompts'];

  for (const [level, ceiling, listening, calling] of [
    ['analytics', 'analytics', ALWAYS, [...ALWAYS, 'unknown']],
    ['analytics', 'full', [...LISTS, ...ALWAYS], [...LISTS, ...ALWAYS, 'unknown']],
    ['operations', 'operations', Object.keys(NOTICES), Object.keys(NOTICES)],
  ] as [Level, Level, Name[], Name[]][]) {
    it(`UPS-05 ${level} through a link of ${ceiling} receives only permitted notifications, on every stream`, async () => {
      const { link, token } = await behind().connected(level, ceiling);
      behind().upstream.respondWith((req, res) => {
        stream(res, ...Object.values(NOTICES).map(event));
        if (req.method === 'POST') res.write(event(resultFor({ id: 1 })));
        res.end();
      });
      const headers = { authorization: `Bearer ${token}`, accept: 'text/event-stream' };
      const ofSession = await (await fetch(link, { headers })).text();
      const ofSubscription = (await call(link, token, listen({ toolsListChanged: true }))).text;
      const ofCall = (await call(link, token, { jsonrpc: '2.0', id: 1, method: 'ping' })).text;
      expect(heard(ofSession)).to.have.members(listening);
      expect(heard(ofSubscription)).to.have.members(listening);
      expect(heard(ofCall)).to.have.members(calling);
      for (const text of [ofSubscription, ofCall]) expect(text).to.include('"result":{}');
      const ping = { jsonrpc: '2.0', id: 2, method: 'ping' };
      const ofBatch = (await call(link, token, [ping, listen({ toolsListChanged: true })])).text;
      expect(heard(ofBatch)).to.have.members(listening);
    });
  }

  it('UPS-05 the ids of dropped events are kept, so that a client can resume after them', async () => {
    const { link, token } = await behind().connected('analytics');
    behind().upstream.respondWith((_req, res) => {
      stream(res, `id: seven\n${event(NOTICES.updated)}`);
      res.end();
    });
    const headers = { authorization: `Bearer ${token}`, accept: 'text/event-stream' };
    const text = await (await fetch(link, { headers })).text();
    expect(text)
      .to.match(/^id: .+\.seven$/m)
      .and.not.include(URI);
  });

  it('UPS-05 notifications that are not permitted are removed from batches', async () => {
    const { link, token } = await behind().connected('analytics');
    behind().upstream.respondWith((_req, res) => {
      stream(res, event([NOTICES.updated, NOTICES.tools, resultFor({ id: 1 })]));
      res.end();
    });
    const { text } = await call(link, token, { jsonrpc: '2.0', id: 1, method: 'ping' });
    expect(text).to.include(JSON.stringify([NOTICES.tools, resultFor({ id: 1 })]));
  });
});
