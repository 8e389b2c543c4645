// Tool calls per second compared with the same MCP server without authorization, of the sample and through the proxy, and verified tokens per second compared with jose.
import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { createLocalJWKSet, exportJWK, generateKeyPair, jwtVerify, SignJWT } from 'jose';
import { parse, stringify } from 'yaml';
import { tokenVerifier } from '../../src/gateway/authenticate.ts';
import { freePorts } from '../support/free-ports.ts';
import { openClient } from './client.ts';
import { cpuTime, startProcess, untilAnswered } from './server-process.ts';
import {
  NAMES,
  type Place,
  startGatehouse,
  type StartedGatehouse,
  type StoreKind,
  STORES,
} from './subjects.ts';
import { type Rates, ratioLine, ratioOf, alternate } from './alternate.ts';
import type { Part } from './part.ts';
import { atLeast } from './targets.ts';
import { timeOf } from './timing.ts';

const MIN_CALLS_RATIO = 0.9;
const MIN_NEW_TOKENS_RATIO = 0.8;
const MIN_ANNOTATIONS_RATIO = 0.95;
const MIN_AUDITED_RATIO = 0.95;
const MIN_LIMITED_RATIO = 0.9;
const FULL = {
  rounds: 12,
  turnMs: 250,
  newTokens: 100,
  longRounds: 6,
  longMs: 2000,
  warmCalls: 40_000,
};
const QUICK = { rounds: 1, turnMs: 50, newTokens: 5, longRounds: 1, longMs: 50, warmCalls: 50 };
type Effort = typeof FULL;

const CONCURRENCY = 16;

export type Target = { url: string; agent: Agent; token?: string };

/** A tool with minimal work, so that the measurement shows what precedes it. */
export const TOOL_CALL = {
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name: 'member_visits', arguments: { memberId: 'M0600' } },
};
const CALL = JSON.stringify(TOOL_CALL);

const UNPROTECTED_SERVER = 'test/bench/unprotected-server.ts';

const PHASES = {
  sample: 'tool calls of the included server',
  proxied: 'tool calls through the proxy',
  limited: 'tool calls with limits and lists of tools',
  tokens: 'new tokens',
};

export const calls: Part = {
  phases: ({ quick }) => [
    [PHASES.sample, quick ? 1 : 8],
    [PHASES.proxied, quick ? 4 : 115],
    [PHASES.limited, quick ? 8 : 210],
    [PHASES.tokens, quick ? 1 : 2],
  ],
  async measure(place, begin) {
    const effort = place.quick ? QUICK : FULL;
    begin(PHASES.sample);
    const included = await ratesOfCalls(place, effort);
    begin(PHASES.proxied);
    const { proxied, annotated, audited } = await ratesOfProxiedCalls(place, effort);
    begin(PHASES.limited);
    const limited = {
      redis: await ratesOfLimitedCalls('redis', place, effort),
      sqlite: await ratesOfLimitedCalls('sqlite', place, effort),
    };
    begin(PHASES.tokens);
    const fresh = await ratesOfNewTokens(effort);
    return {
      text: [
        `Tool calls with a cached token at ${CONCURRENCY} connections, and verification of new tokens (medians of ${effort.rounds} rounds)`,
        ratioLine('calls per second compared with the same server without authorization', included),
        ratioLine(
          'calls per second through the proxy compared with the same calls without Gatehouse',
          proxied,
        ),
        ratioLine(
          'proxied calls per second with levels from the tools that were read compared with levels from the settings',
          annotated,
        ),
        ratioLine(
          'proxied calls per second with every call in the audit log compared with none (audit.calls)',
          audited.perSecond,
        ),
        ratioLine(
          'the same calls per second of processor time, with what is stored later',
          audited.perCpu,
        ),
        ...STORES.flatMap((store) => [
          ratioLine(
            `proxied calls per second with four limits and three lists of tools compared with none, ${NAMES[store]}`,
            limited[store].perSecond,
          ),
          ratioLine('the same calls per second of processor time', limited[store].perCpu),
        ]),
        ratioLine('new tokens verified per second compared with jose alone', fresh),
      ].join('\n'),
      targets: [
        atLeast(
          'calls of the included server ÷ the same without authorization',
          MIN_CALLS_RATIO,
          ratioOf(included),
        ),
        atLeast(
          'calls with levels from the tools ÷ levels from the settings',
          MIN_ANNOTATIONS_RATIO,
          ratioOf(annotated),
        ),
        atLeast(
          'calls with every call in the audit log ÷ without',
          MIN_AUDITED_RATIO,
          ratioOf(audited.perSecond),
        ),
        ...STORES.map((store) =>
          atLeast(
            `calls with four limits and three lists of tools ÷ without, ${NAMES[store]}`,
            MIN_LIMITED_RATIO,
            ratioOf(limited[store].perSecond),
          ),
        ),
        atLeast('new tokens verified ÷ jose alone', MIN_NEW_TOKENS_RATIO, ratioOf(fresh)),
      ],
    };
  },
};

async function ratesOfCalls(place: Place, effort: Effort): Promise<Rates> {
  const gatehouse = await startGatehouse('sqlite', place);
  const alone = await startUnprotectedServer(place);
  try {
    const ours = await targetWithToken(gatehouse);
    const open = { url: alone.url, agent: new Agent({ keepAlive: true }) };
    return await alternate(
      effort.rounds,
      () => callsPerSecond(ours, effort),
      () => callsPerSecond(open, effort),
    );
  } finally {
    await Promise.all([alone.stop(), gatehouse.stop()]);
  }
}

/** All proxies read the tools of the server; only the levels of one depend on them. Only one has calls in its audit log. */
async function ratesOfProxiedCalls(
  place: Place,
  effort: Effort,
): Promise<{ proxied: Rates; annotated: Rates; audited: LongRates }> {
  const server = await startUnprotectedServer(place);
  const started = [
    await startProxy(place, server.url, { calls: 'all', toolLevels: 'declared' }),
    await startProxy(place, server.url, { calls: 'recorded', toolLevels: 'declared' }),
    await startProxy(place, server.url, { calls: 'recorded', toolLevels: 'annotations' }),
  ] as const;
  try {
    const open = { url: server.url, agent: new Agent({ keepAlive: true }) };
    const [all, recorded, annotations] = await Promise.all([
      targetWithToken(started[0]),
      targetWithToken(started[1]),
      targetWithToken(started[2]),
    ]);
    const rate = (target: Target) => () => callsPerSecond(target, effort);
    return {
      proxied: await alternate(effort.rounds, rate(all), rate(open)),
      annotated: await alternate(effort.rounds, rate(annotations), rate(recorded)),
      audited: await ratesOfLongTurns(all, recorded, effort),
    };
  } finally {
    await Promise.all(started.map((proxy) => proxy.stop()));
    await server.stop();
  }
}

/** A call counts in four windows, and its tool has to be open in the connector and in two entitlements. */
const RATE = '1000000/1d';
const LIMITED = {
  limits: { calls: { perPerson: RATE, perConnection: RATE } },
  entitlements: [
    { match: { subject: 'ada' }, level: 'full', tools: ['member_*', 'search_*', '!delete_*'] },
    { match: { subject: 'ada' }, level: 'operations', tools: ['export_*'] },
  ],
};

async function ratesOfLimitedCalls(
  store: StoreKind,
  place: Place,
  effort: Effort,
): Promise<LongRates> {
  const server = await startUnprotectedServer(place);
  const shared = { calls: 'recorded', toolLevels: 'declared', store } as const;
  const started = [
    await startProxy(place, server.url, { ...shared, isLimited: true }),
    await startProxy(place, server.url, shared),
  ] as const;
  try {
    await limitConnectors(started[0]);
    const [limited, unlimited] = await Promise.all([
      targetWithToken(started[0]),
      targetWithToken(started[1]),
    ]);
    return await ratesOfLongTurns(limited, unlimited, effort);
  } finally {
    await Promise.all(started.map((proxy) => proxy.stop()));
    await server.stop();
  }
}

async function limitConnectors({ management, managementKey }: StartedGatehouse): Promise<void> {
  const headers = {
    authorization: `Bearer ${managementKey}`,
    'content-type': 'application/json',
  };
  const address = `${management}/api/v1/connectors`;
  const { items } = (await (await fetch(address, { headers })).json()) as {
    items: { id: string }[];
  };
  for (const { id } of items) {
    const body = JSON.stringify({ calls: RATE, tools: ['member_*', '!drop_*'] });
    const { ok, status } = await fetch(`${address}/${id}`, { method: 'PATCH', headers, body });
    if (!ok) throw new Error(`a connector was not changed: ${status}`);
  }
}

/** A slow machine makes fewer calls until then. */
const MAX_WARM_MS = 60_000;
/** Calls are stored up to half a second later. */
const STORED_MS = 700;

/** `perCpu`: per second of processor time. */
type LongRates = { perSecond: Rates; perCpu: Rates };

/**
 * In longer turns, so that most calls are stored within the turn, and with a pause, so that none is in the turn of the other. Both are called
 * as often before: V8 compiles for so long, and the process that had fewer calls would be slower.
 */
async function ratesOfLongTurns(
  ours: ProcessTarget,
  bare: ProcessTarget,
  { longRounds, longMs: turnMs, warmCalls }: Effort,
): Promise<LongRates> {
  for (const target of [ours, bare]) await callFor(target, MAX_WARM_MS, warmCalls);
  const cpu = { ours: [] as number[], bare: [] as number[] };
  const turn = (target: ProcessTarget, perSecondOfCpu: number[]) => async () => {
    const spent = cpuTime(target.pid);
    const { answered, seconds } = await callFor(target, turnMs);
    await delay(STORED_MS);
    perSecondOfCpu.push((1000 * answered) / (cpuTime(target.pid) - spent));
    return answered / seconds;
  };
  const perSecond = await alternate(longRounds, turn(ours, cpu.ours), turn(bare, cpu.bare));
  const perCpu = cpu.ours.map((own, index) => ({ ours: own, bare: cpu.bare[index] ?? NaN }));
  return { perSecond, perCpu: perCpu.slice(1) };
}

const DEVELOPMENT_FILE = join(import.meta.dirname, '../../config/development.yaml');

type ProxySettings = {
  /** `audit.calls` */
  calls: 'all' | 'recorded';
  toolLevels: 'declared' | 'annotations';
  store?: StoreKind;
  isLimited?: boolean;
};

async function startProxy(
  place: Place,
  url: string,
  { calls: recording, toolLevels, store = 'sqlite', isLimited = false }: ProxySettings,
) {
  const upstream = {
    url,
    toolLevels,
    defaultLevel: 'analytics',
    // Of the two rules, only the one that is measured gives the tool its level.
    tools:
      toolLevels === 'declared'
        ? [
            {
              name: TOOL_CALL.params.name,
              level: 'analytics',
              ...(isLimited ? { calls: RATE } : {}),
            },
          ]
        : [],
  };
  const settings = {
    ...parse(await readFile(DEVELOPMENT_FILE, 'utf8')),
    ...(isLimited ? LIMITED : {}),
    resourceServer: { upstream },
    audit: { calls: recording },
  };
  const config = join(await mkdtemp(join(place.root, 'proxy-')), 'gatehouse.yaml');
  await writeFile(config, stringify(settings));
  return startGatehouse(store, place, { config });
}

type ProcessTarget = Target & { pid: number };

async function targetWithToken(gatehouse: StartedGatehouse): Promise<ProcessTarget> {
  const { accessToken: token } = await (await openClient(gatehouse)).openFamily();
  const { pid } = gatehouse.server;
  return { url: gatehouse.resource, agent: new Agent({ keepAlive: true }), token, pid };
}

export async function startUnprotectedServer({ root, logLevel }: Place) {
  const [port] = await freePorts(1);
  const directory = await mkdtemp(join(root, 'open-'));
  const args = [String(port), logLevel];
  const { stop, ...server } = startProcess(UNPROTECTED_SERVER, { args, directory });
  const url = `http://localhost:${port}`;
  await untilAnswered({ stop, ...server }, `${url}/livez`);
  return { url: `${url}/mcp`, stop };
}

async function callsPerSecond(target: Target, { turnMs }: Effort): Promise<number> {
  const { answered, seconds } = await callFor(target, turnMs);
  return answered / seconds;
}

async function callFor(target: Target, turnMs: number, most = Infinity) {
  const begun = performance.now();
  const end = begun + turnMs;
  let answered = 0;
  const connection = async () => {
    while (performance.now() < end && answered < most) {
      await call(target);
      answered += 1;
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, connection));
  return { answered, seconds: (performance.now() - begun) / 1000 };
}

/** Throws unless the call succeeded. */
export function call({ url, agent, token }: Target): Promise<void> {
  const headers = {
    accept: 'application/json, text/event-stream',
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(CALL),
    'mcp-protocol-version': '2025-11-25',
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
  };
  return new Promise((resolve, reject) => {
    const sent = request(url, { method: 'POST', agent, headers }, (response) => {
      const check = (reply: string) => {
        if (response.statusCode === 200 && reply.includes('"structuredContent"')) resolve();
        else reject(new Error(`a call was answered ${response.statusCode} ${reply}`));
      };
      text(response).then(check, reject);
    });
    sent.once('error', reject);
    sent.end(CALL);
  });
}

async function ratesOfNewTokens({ rounds, newTokens }: Effort): Promise<Rates> {
  const issuer = 'https://auth.example';
  const audience = 'https://mcp.example/connect/AAAAAAAAAAAAAAAAAAAAAA/mcp';
  const { privateKey, publicKey } = await generateKeyPair('ES256');
  const jwk = { ...(await exportJWK(publicKey)), kid: 'bench', alg: 'ES256', use: 'sig' };
  const keys = createLocalJWKSet({ keys: [jwk] });
  const now = () => Date.now() / 1000;
  const sign = (jti: string) =>
    new SignJWT({ client_id: 'client', scope: 'operations', grant_id: 'grant' })
      .setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', kid: jwk.kid })
      .setIssuer(issuer)
      .setAudience(audience)
      .setSubject('ada')
      .setJti(jti)
      .setIssuedAt()
      .setExpirationTime('1h')
      .sign(privateKey);
  const verifyToken = tokenVerifier({ issuer, verificationKeys: keys, now });
  const ours = async (token: string) => verifyToken(token, audience);
  const bare = (token: string) => jwtVerify(token, keys, { issuer, audience, typ: 'at+jwt' });
  const rates: Rates = [];
  for (let round = 0; round <= rounds; round += 1) {
    const tokens = await Promise.all(
      Array.from({ length: newTokens }, (_, index) => sign(`token-${round}-${index}`)),
    );
    const spent = { ours: 0, bare: 0 };
    // One at a time, so that other load slows both equally.
    for (const token of tokens) {
      spent.bare += await timeOf(() => bare(token));
      spent.ours += await timeOf(() => ours(token));
    }
    const perSecond = (milliseconds: number) => (newTokens * 1000) / milliseconds;
    rates.push({ ours: perSecond(spent.ours), bare: perSecond(spent.bare) });
  }
  return rates.slice(1);
}
