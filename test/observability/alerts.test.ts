import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'chai';
import { Redis } from 'ioredis';
import { parse } from 'yaml';
import { z } from 'zod';
import { auditIndex, lastAuditNumber } from '../../src/audit/audit-log.ts';
import { type AuditReceiver, type Reply, startAuditReceiver } from '../support/audit-receiver.ts';
import { openStore } from '../../src/store/open.ts';
import { until } from '../support/until.ts';
import {
  createConnector,
  readAudit,
  requestManagement,
  revokeConnector,
} from '../support/management-api.ts';
import { addressOf, mint } from '../links/minted-tokens/minting.ts';
import { openBrowser } from '../support/browser.ts';
import { advanceClock, restoreClock } from '../support/clock.ts';
import { connect, obtainCode, openConsent, redeem, REDIRECT_URI } from '../support/connection.ts';
import { type RedisProxy, startRedisProxy } from '../support/faults/redis-proxy.ts';
import { call, callTool } from '../support/mcp.ts';
import { readMetrics, readMetricsText, type Sample, sumOf } from '../support/metrics.ts';
import { refresh, register } from '../support/oauth.ts';
import { startRedis } from '../support/redis-server.ts';
import { changeSettings } from '../support/settings-file.ts';
import { startSystem, type System } from '../support/system.ts';
import {
  echo,
  json,
  PING,
  resultFor,
  type ScriptedUpstream,
  startScriptedUpstream,
} from '../support/upstream/scripted-upstream.ts';
import { readAgain } from '../support/upstream/read-again.ts';
import { connectPerson, type ConnectedPerson } from '../support/upstream/system.ts';
import { evaluate, type Readings } from './promql.ts';
import { PATIENT_TIMEOUTS } from '../support/scale-out/patient-timeouts.ts';

const SECRET = 'secret-of-two-processes-0123456789';
const CONFIG = join(import.meta.dirname, '../../config');

const rule = z.strictObject({
  alert: z.string().regex(/^Gatehouse[A-Z]/),
  expr: z.string(),
  for: z
    .string()
    .regex(/^\d+m$/)
    .optional(),
  labels: z.strictObject({ severity: z.enum(['page', 'ticket']) }),
  annotations: z.strictObject({ summary: z.string(), action: z.string() }),
});
const groups = z.object({ groups: z.array(z.object({ name: z.string(), rules: z.array(rule) })) });
const RULES = groups
  .parse(parse(readFileSync(join(CONFIG, 'alerts.yaml'), 'utf8')))
  .groups.flatMap(({ rules }) => rules);

const dashboard = z.object({
  panels: z.array(
    z.object({ title: z.string(), targets: z.array(z.object({ expr: z.string() })) }),
  ),
});
const SHOWN = dashboard
  .parse(JSON.parse(readFileSync(join(CONFIG, 'grafana-dashboard.json'), 'utf8')))
  .panels.flatMap(({ targets }) => targets.map(({ expr }) => expr));

type Scene = {
  system: System;
  /** On the same store, without a fault between. */
  other: System;
  proxy: RedisProxy;
  redis: { url: string };
  upstream: ScriptedUpstream;
  receiver: AuditReceiver;
  person: ConnectedPerson;
};

const ping = ({ person }: Scene) => call(person.link, person.token, PING);
const goOn = ({ person: { connection } }: Scene) =>
  refresh(connection.server, connection.client, connection.refreshToken);

/** A list with this tool passes through to the person. */
async function listTools({ person, upstream }: Scene, tool: object): Promise<void> {
  upstream.respondWith((_req, res, body) =>
    json(res, resultFor(Object(body), { tools: [{ inputSchema: { type: 'object' }, ...tool }] })),
  );
  await call(person.link, person.token, { jsonrpc: '2.0', id: 1, method: 'tools/list' });
  upstream.respondWith(echo);
}

/** Lets Gatehouse read a tool with this description. */
async function readTool({ system, upstream }: Scene, description: string): Promise<void> {
  const results: Record<string, object> = {
    initialize: {
      protocolVersion: '2025-11-25',
      capabilities: { tools: {} },
      serverInfo: { name: 'tools', version: '1' },
    },
    'tools/list': { tools: [{ name: 'search', description, inputSchema: { type: 'object' } }] },
  };
  let isRead = false;
  upstream.respondToGatehouse((req, res, body, caller) => {
    const { id, method } = Object(body) as { id?: unknown; method?: string };
    if (id === undefined) return res.writeHead(body === undefined ? 405 : 202).end();
    isRead ||= method === 'tools/list';
    const result = results[String(method)];
    return result ? json(res, resultFor(Object(body), result)) : echo(req, res, body, caller);
  });
  const { seenAt: before } = await shownUpstream(system);
  await readAgain(async () => {
    const { seenAt } = await shownUpstream(system);
    return isRead && seenAt !== undefined && seenAt !== before;
  });
  upstream.respondToGatehouse(echo);
}

async function shownUpstream(system: System): Promise<{ seenAt?: string }> {
  return (await requestManagement(system, 'GET', '/upstreams/default')) as { seenAt?: string };
}

/** Calls `act` when the receiver of the audit log has answered so to a new item. */
async function whileDelivering(scene: Scene, reply: Reply, act: () => unknown): Promise<void> {
  // Items of tests before may have times after the present one of this test.
  await until('the earlier items to be delivered', async () => {
    advanceClock(60);
    const { now } = await readNow(scene);
    return now.some(
      ({ name, value }) => name === 'gatehouse_audit_delivery_backlog' && value === 0,
    );
  });
  const { other, receiver } = scene;
  const before = receiver.deliveries.length;
  receiver.answerWith(() => reply);
  await createConnector(other);
  // A failure before may hold the next attempt.
  await until('the attempt', () => {
    advanceClock(60);
    return receiver.deliveries.length > before;
  });
  await act();
}

async function whileSevered(scene: Scene, act: (scene: Scene) => Promise<unknown>): Promise<void> {
  scene.proxy.disconnect();
  await act(scene).finally(scene.proxy.allowConnections);
}

async function whileSlow({ proxy }: Scene, late: number, act: () => Promise<unknown>) {
  proxy.delayReplies(late);
  await act().finally(() => proxy.delayReplies(0));
}

/** Until the process has noticed it, and during `act`. */
async function whileNearlyFull(scene: Scene, act: () => Promise<unknown>): Promise<void> {
  const redis = new Redis(scene.redis.url);
  const [, used] = /^used_memory:(\d+)/m.exec(await redis.info('memory')) ?? [];
  await redis.config('SET', 'maxmemory', Math.floor(Number(used) * 1.05));
  try {
    await until('the process to notice', async () =>
      (await readNow(scene)).now.some(
        ({ name, value }) => name === 'gatehouse_audit_calls_reach_seconds' && value < 604_800,
      ),
    );
    await act();
  } finally {
    await redis.config('SET', 'maxmemory', 0);
    redis.disconnect();
  }
}

/** The fault that makes each alert fire. The process is stopped last. */
const FAULTS: Record<string, (scene: Scene) => Promise<unknown>> = {
  GatehouseAuditChanged: async ({ other, redis: { url } }) => {
    await createConnector(other);
    advanceClock(60);
    // An earlier one may be older than the day that is verified.
    const signed = await until('a checkpoint of the new item', async () => {
      const newestFirst = (await readAudit(other)).toReversed();
      const made = newestFirst.findIndex(({ event }) => event === 'connector_created');
      return newestFirst.slice(0, made).find(({ event }) => event === 'checkpoint');
    });
    const redis = new Redis(url);
    const [entries = ''] = await redis.keys('entries:{audit:*');
    const before = Number(signed['number']) - 1;
    await redis.zremrangebyscore(entries, before, before);
    redis.disconnect();
    // A day after the item, so that its checkpoint is within the day that is verified, also on a busy machine.
    advanceClock(86_340);
  },
  GatehouseAuditCallsShort: (scene) => whileNearlyFull(scene, () => Promise.resolve()),
  GatehouseAuditDropped: (scene) =>
    whileNearlyFull(scene, () => callTool(scene.person.link, scene.person.token, 'contacts')),
  GatehouseStoreSlow: (scene) => whileSlow(scene, 400, () => goOn(scene)),
  GatehouseRevocationsLate: async (scene) => {
    const { id } = await createConnector(scene.other);
    const heard = async () =>
      sumOf((await readNow(scene)).now, 'gatehouse_notice_seconds_count', {
        channel: 'connectors',
      });
    const before = await heard();
    await whileSlow(scene, 1200, async () => {
      await revokeConnector(scene.other, id);
      await until('the notice', async () => (await heard()) > before);
    });
  },
  GatehouseEventLoopSlow: async () => {
    for (let i = 0; i < 4; i++) {
      const end = performance.now() + 250;
      while (performance.now() < end);
      // The delay is measured between consecutive turns, and the first turn after a reading does not count.
      await delay(20);
    }
  },
  GatehousePeopleRefused: async ({ system, person: { connector, connection } }) => {
    const as = { client: connection.client, browser: openBrowser(system.origins) };
    for (let i = 0; i < 12; i++) await openConsent(system, connector, { person: 'alan', as });
  },
  GatehouseConnectionsUnused: async ({ system, person: { connector, connection } }) => {
    const as = { client: connection.client, browser: openBrowser(system.origins) };
    for (let i = 0; i < 3; i++) await connect(system, connector, { as });
    await until('the attempts', async () => {
      const listed = await requestManagement(system, 'GET', '/attempts?limit=3');
      const { items } = listed as { items: { step: string }[] };
      return items.every(({ step }) => step === 'token');
    });
    advanceClock(121);
  },
  GatehouseReloadFailed: async ({ system }) => {
    const restore = changeSettings(system, { drain: 'never' });
    await requestManagement(system, 'POST', '/settings/reload').catch(() => undefined);
    restore();
  },
  GatehouseRateLimited: async ({ person }) => {
    const metadata = { redirect_uris: [REDIRECT_URI], token_endpoint_auth_method: 'none' };
    const { server } = person.connection;
    for (let i = 0; i < 110; i++) await register(server, metadata);
  },
  GatehouseCallLimitReached: async ({ system }) => {
    for (let i = 0; i < 22; i++) {
      const { token } = await mint(system, { level: 'full', calls: '1/1d' });
      for (let n = 0; n < 2; n++) await callTool(addressOf(system), token, 'whoami');
    }
  },
  GatehouseReplays: async ({ system, person }) => {
    for (let i = 0; i < 6; i++) {
      const code = await obtainCode(system, person.connector, { as: person.connection });
      await redeem(code);
      advanceClock(2);
      await redeem(code);
      restoreClock();
    }
  },
  GatehouseUpstreamFailing: async (scene) => {
    scene.upstream.respondWith((req) => req.socket.destroy());
    for (let i = 0; i < 6; i++) await ping(scene);
    scene.upstream.respondWith(echo);
  },
  GatehouseToolsSuspicious: async (scene) => {
    // The first list is no change.
    await listTools(scene, { name: 'search', description: 'ab' });
    await listTools(scene, { name: 'search', description: 'a\u200bb' });
  },
  GatehouseToolsHeld: async (scene) => {
    const { upstream, system } = scene;
    const restore = changeSettings(system, {
      resourceServer: { upstream: { url: upstream.url, toolChanges: 'hold' } },
    });
    await requestManagement(system, 'POST', '/settings/reload', {});
    await listTools(scene, { name: 'added' });
    restore();
  },
  GatehouseToolsMissed: async (scene) => {
    const { upstream, system } = scene;
    // An earlier fault may have left `hold`.
    await requestManagement(system, 'POST', '/settings/reload', {});
    await readTool(scene, 'Finds orders');
    const restore = changeSettings(system, {
      resourceServer: { upstream: { url: upstream.url, toolChanges: 'hold' } },
    });
    await requestManagement(system, 'POST', '/settings/reload', {});
    const { token } = await mint(system, { level: 'full' });
    await callTool(addressOf(system), token, 'search');
    await readTool(scene, 'Deletes orders');
    restore();
    // Tools are counted every five minutes.
    advanceClock(301);
  },
  GatehouseConnectorsEmpty: async (scene) => {
    await readTool(scene, 'Finds orders');
    await createConnector(scene.system, { tools: ['none'] });
    advanceClock(301);
  },
  GatehouseStoreErrors: (scene) => whileSevered(scene, goOn),
  GatehouseRequestsFailing: (scene) => whileSevered(scene, goOn),
  GatehouseFlowsFailing: (scene) => whileSevered(scene, goOn),
  GatehouseAuditDeliveryLate: async (scene) => {
    await whileDelivering(scene, { status: 500 }, () => advanceClock(1000));
  },
  GatehouseAuditDeliveryRefused: async (scene) => {
    await whileDelivering(scene, { status: 401, body: 'bad key' }, () => undefined);
  },
  GatehouseAuditDeliveryRejected: async (scene) => {
    await whileDelivering(scene, { status: 400 }, () => undefined);
  },
  GatehouseAuditDeliveryLost: async (scene) => {
    await whileDelivering(scene, { status: 500 }, async () => {
      const { storeAddress: url, dataDir } = scene.other;
      const store = await openStore(
        { kind: 'redis', url },
        { secret: SECRET, dataDir, timeouts: PATIENT_TIMEOUTS },
      );
      const last = await lastAuditNumber(store);
      await auditIndex.trim(store, { part: 'lasting', ranges: [[1, last]], blocks: [] });
      await store.close();
    });
    await createConnector(scene.other);
    advanceClock(600);
  },
  GatehouseEnding: async ({ system }) => {
    const expiresAt = new Date(Date.now() + 13 * 86_400_000).toISOString();
    await createConnector(system, { expiresAt });
    // What ends is counted every five minutes.
    advanceClock(301);
  },
  GatehouseDown: ({ system }) => system.stop(),
};

type Reading = { now: readonly Sample[]; at: number };

/** Sets `up` to whether the process answered, as Prometheus does. */
async function readNow({ system }: Scene): Promise<Reading> {
  const samples = await readMetrics(system).catch(() => undefined);
  const up = { name: 'up', labels: { job: 'gatehouse' }, value: samples ? 1 : 0 };
  return { now: [...(samples ?? []), up], at: performance.now() };
}

async function readingsSince(scene: Scene, { now: before, at: then }: Reading): Promise<Readings> {
  const { now, at } = await readNow(scene);
  return { before, now, seconds: (at - then) / 1000 };
}

const firing = (readings: Readings) =>
  RULES.filter(({ expr }) => evaluate(expr, readings).length > 0).map(({ alert }) => alert);

describe('Alert rules and dashboard', () => {
  let scene: Scene | undefined;
  const closing: (() => unknown)[] = [];
  before(async () => {
    const redis = await startRedis();
    const proxy = await startRedisProxy(redis);
    const upstream = await startScriptedUpstream();
    const receiver = await startAuditReceiver();
    const settings = {
      GATEHOUSE_SECRET: SECRET,
      SIEM_SECRET: `whsec_${Buffer.alloc(32, 'a').toString('base64')}`,
    };
    closing.push(redis.stop, proxy.close, upstream.close, receiver.stop);
    const siem = { id: 'siem', kind: 'webhook', privateNetwork: true, secretEnv: 'SIEM_SECRET' };
    const file = {
      resourceServer: { upstream: { url: upstream.url } },
      audit: { delivery: [{ ...siem, url: receiver.url }] },
      limits: { registrations: { perAddress: '4/10m' } },
    };
    const system = await startSystem({ storeAddress: proxy.url, settings, file });
    closing.push(system.stop);
    const other = await startSystem({ storeAddress: redis.url, settings });
    closing.push(other.stop);
    upstream.trustIssuer(system.auth);
    const person = await connectPerson(system, 'operations');
    // So that there is a notice before the delayed one.
    await revokeConnector(system, (await createConnector(system)).id);
    scene = { system, other, proxy, redis, upstream, receiver, person };
  });
  after(async () => {
    for (const close of closing.toReversed()) await close();
  });
  afterEach(() => {
    restoreClock();
    scene?.receiver.answerWith(undefined);
  });
  const here = () => {
    if (!scene) throw new Error('the scene is open only while a claim runs');
    return scene;
  };

  it('every metric and label in the alert rules and the dashboard exists', async () => {
    const text = await readMetricsText(here().system);
    const types = new Set([...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name));
    const samples = await readMetrics(here().system);
    for (const expr of [...SHOWN, ...RULES.map((one) => one.expr)]) {
      const names = expr.match(/\b(gatehouse|nodejs|process)_\w+/g) ?? [];
      if (!/\bup\{/.test(expr)) expect(names, expr).to.not.deep.equal([]);
      for (const name of names) expect(types, expr).to.include(name.replace(/_bucket$/, ''));
      const ofThese = samples.filter(({ name }) => names.some((known) => known === name));
      const labels = ofThese.flatMap((sample) => Object.keys(sample.labels));
      const wanted = [...expr.matchAll(/by \(([^)]*)\)/g)].flatMap(([, list = '']) =>
        list.split(', '),
      );
      if (ofThese.length > 0) expect(labels, expr).to.include.members(wanted);
    }
  });

  it('all alert rules can be evaluated, and none fires without a fault', async () => {
    const before = await readNow(here());
    await ping(here());
    const readings = await readingsSince(here(), before);
    for (const expr of SHOWN) evaluate(expr, readings);
    // A busy machine is such a fault.
    const ofBusyMachines = ['GatehouseEventLoopSlow', 'GatehouseStoreSlow'];
    const fired = firing(readings).filter((name) => !ofBusyMachines.includes(name));
    expect(fired).to.deep.equal([]);
  });

  it('there is one fault for every alert', () => {
    expect(Object.keys(FAULTS).toSorted()).to.deep.equal(
      RULES.map(({ alert }) => alert).toSorted(),
    );
  });

  for (const [alert, fault] of Object.entries(FAULTS))
    it(`the alert ${alert} fires for its fault`, async () => {
      const before = await readNow(here());
      await fault(here());
      await until(alert, async () => firing(await readingsSince(here(), before)).includes(alert));
    });
});
