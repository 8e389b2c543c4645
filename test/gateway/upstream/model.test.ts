// Random callers, links, ids and responses against a model of what each caller may see. `npm run fuzz` runs it for longer.
import type { ServerResponse } from 'node:http';
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import * as fc from 'fast-check';
import { addressOf, mint, revoke } from '../../links/minted-tokens/minting.ts';
import { connect } from '../../support/connection.ts';
import { LEVELS } from '../../support/levels.ts';
import { createConnector, requestManagement } from '../../support/management-api.ts';
import { checkModel, FUZZ_SECONDS, MODEL_TIMEOUT_MS, seedIn } from '../../support/model-run.ts';
import { createDeployment, startDeployment, type System } from '../../support/system.ts';
import { until } from '../../support/until.ts';
import { IDS, type UpstreamId } from '../../support/upstream/two-upstreams.ts';
import { json } from '../../support/upstream/scripted-upstream.ts';
import { startUpstream } from '../../support/upstream/upstream-server.ts';
import {
  accountOf,
  ALL_NAMES,
  type Caller,
  type Catalog,
  createWorld,
  HANDLES,
  type HandleKind,
  type Manner,
  MANNERS,
  MAX_ANSWER_BYTES,
  PROMPTS,
  URIS,
  type World,
} from './proxy-model.ts';

/** Sequences of the short form. */
const RUNS = 6;
const COMMANDS = 14;
/** Each world has other catalogs. */
const WORLD_SECONDS = 60;

const level = fc.constantFrom(...LEVELS);
const names = fc.constantFrom<string>(...ALL_NAMES);
const uris = fc.constantFrom<string>(...URIS);
const prompts = fc.constantFrom<string>(...PROMPTS);
const catalog: fc.Arbitrary<Catalog> = fc.record({
  resources: fc.uniqueArray(
    fc.record({ uri: fc.oneof(uris, fc.constantFrom('x://*', 'x://a*', '*/b', '*')), level }),
    { selector: ({ uri }) => uri, minLength: 2, maxLength: 5 },
  ),
  prompts: fc.uniqueArray(
    fc.record({ name: fc.oneof(prompts, fc.constantFrom('report*', '*', 'b*f')), level }),
    { selector: ({ name }) => name, minLength: 1, maxLength: 4 },
  ),
  declared: fc.uniqueArray(fc.record({ name: names, level }), {
    selector: ({ name }) => name,
    maxLength: 6,
  }),
  defaultLevel: level,
  toolLevels: fc.constantFrom('declared', 'annotations'),
  listed: fc.uniqueArray(
    fc.record({
      name: names,
      hints: fc.record(
        { readOnlyHint: fc.boolean(), destructiveHint: fc.boolean() },
        { requiredKeys: [] },
      ),
    }),
    { selector: ({ name }) => name, minLength: 4, maxLength: 14 },
  ),
});

const METHODS = [
  'tools/call',
  'tools/call',
  'tools/call',
  'tools/list',
  'initialize',
  'resources/list',
  'resources/templates/list',
  'resources/read',
  'resources/read',
  'resources/subscribe',
  'prompts/list',
  'prompts/get',
  'completion/complete',
  'tasks/list',
  'tasks/get',
  'tasks/get',
  'tasks/result',
  'tasks/cancel',
  'subscriptions/listen',
  'subscriptions/listen resources',
  'notifications/progress',
  'x/unknown',
] as const;
type Sent = {
  methods: readonly (typeof METHODS)[number][];
  tool: string;
  uri: string;
  prompt: string;
  isBatch: boolean;
  /** The number of the caller, and of the caller whose address is used. */
  by: number;
  at: number | undefined;
  /** Ids that any caller got before, sent along. */
  with: readonly HandleKind[];
  nth: number;
  verb: 'POST' | 'GET' | 'DELETE';
  manner: Manner;
  split: number;
};

const sent: fc.Arbitrary<Sent> = fc.record({
  methods: fc.array(fc.constantFrom(...METHODS), { minLength: 1, maxLength: 3 }),
  tool: names,
  uri: uris,
  prompt: prompts,
  isBatch: fc.boolean(),
  by: fc.nat(99),
  at: fc.option(fc.nat(99), { nil: undefined, freq: 6 }),
  with: fc.subarray([...HANDLES]),
  nth: fc.nat(11),
  verb: fc.constantFrom('POST', 'POST', 'POST', 'POST', 'POST', 'GET', 'DELETE'),
  manner: fc.constantFrom(...MANNERS),
  split: fc.nat(30),
});

type Running = { system: System; world: World; stop: () => Promise<void> };
type Real = Running & { seen: { canaries: number } };
type Model = { sent: number };

class Send implements fc.AsyncCommand<Model, Real> {
  readonly what: Sent;
  constructor(what: Sent) {
    this.what = what;
  }
  check = () => true;
  toString = () => JSON.stringify(this.what);

  async run(model: Model, { world, seen }: Real): Promise<void> {
    const { by, at, verb, manner, split, isBatch } = this.what;
    const { callers } = world;
    const caller = callers[by % callers.length] as Caller;
    const place = at === undefined ? caller : (callers[at % callers.length] as Caller);
    const messages = this.messages(world);
    const body = isBatch ? messages : messages[0];
    const before = world.forwarded();
    const response = await world.during({ caller, place, manner, split }, async () => {
      const answer = await fetch(place.address, {
        method: verb,
        headers: this.headers(world, caller),
        ...(verb === 'POST' ? { body: JSON.stringify(body) } : {}),
      });
      return { status: answer.status, headers: answer.headers, text: await answer.text() };
    });
    model.sent += 1;
    const canaries = world.expectAllowed(caller, response.headers, response.text);
    seen.canaries += canaries;
    if (caller.isEnded || place.address !== caller.address) {
      expect(response.status).to.equal(401);
      expect(world.forwarded()).to.equal(before);
    }
    if (this.isPlainCall()) {
      const needed = world.neededFor(caller.upstream, this.what.tool);
      const isAllowed = needed && LEVELS.indexOf(caller.level) >= LEVELS.indexOf(needed);
      if (!caller.isEnded && place === caller)
        expect(canaries, response.text).to.equal(isAllowed ? 1 : 0);
    }
  }

  /** A call without ids of earlier responses, to which the upstream responds as it should. */
  private isPlainCall(): boolean {
    const { methods, isBatch, verb, manner, with: ids } = this.what;
    const isPlain = verb === 'POST' && manner === 'json' && !isBatch && ids.length === 0;
    return isPlain && methods[0] === 'tools/call';
  }

  private handle(world: World, kind: HandleKind): string | undefined {
    if (!this.what.with.includes(kind)) return undefined;
    return world.known[kind][this.what.nth % Math.max(world.known[kind].length, 1)];
  }

  private reference(): object {
    const { uri, prompt, nth } = this.what;
    return nth % 2 === 0 ? { type: 'ref/prompt', name: prompt } : { type: 'ref/resource', uri };
  }

  private headers(world: World, { token }: Caller): Record<string, string> {
    const [session, event] = [this.handle(world, 'session'), this.handle(world, 'event')];
    return {
      authorization: `Bearer ${token}`,
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
      'mcp-protocol-version': '2025-11-25',
      ...(session === undefined ? {} : { 'mcp-session-id': session }),
      ...(event === undefined ? {} : { 'last-event-id': event }),
    };
  }

  private messages(world: World): object[] {
    const task = this.handle(world, 'task') ?? 'task-0-x';
    const state = this.handle(world, 'state');
    return this.what.methods.map((given, n) => {
      const [method = '', about] = given.split(' ');
      const isAboutTask = method.startsWith('tasks/');
      const params = {
        ...(method === 'tools/call' ? { name: this.what.tool, arguments: { amount: 1 } } : {}),
        ...(/^resources\/(read|subscribe)$/.test(method) ? { uri: this.what.uri } : {}),
        ...(method === 'prompts/get' ? { name: this.what.prompt } : {}),
        ...(method === 'completion/complete' ? { ref: this.reference() } : {}),
        ...(isAboutTask && method !== 'tasks/list' ? { taskId: task } : {}),
        ...(method === 'subscriptions/listen' && about
          ? { notifications: { resourceSubscriptions: [this.what.uri, 'x://c'] } }
          : {}),
        ...(method === 'subscriptions/listen' && !about && this.what.with.includes('task')
          ? { notifications: { taskIds: [task] } }
          : {}),
        ...(state === undefined || isAboutTask ? {} : { requestState: state }),
        ...(this.what.with.includes('task') && method === 'tools/call'
          ? { _meta: { 'io.modelcontextprotocol/related-task': { taskId: task } } }
          : {}),
      };
      const isNotification = method.startsWith('notifications/');
      return { jsonrpc: '2.0', ...(isNotification ? {} : { id: n + 1 }), method, params };
    });
  }
}

/** Revokes a minted token, whose holder may see nothing any more, and mints another. */
class Replace implements fc.AsyncCommand<Model, Real> {
  readonly upstream: UpstreamId;
  readonly level: (typeof LEVELS)[number];
  constructor(upstream: UpstreamId, next: (typeof LEVELS)[number]) {
    this.upstream = upstream;
    this.level = next;
  }
  check = () => true;
  toString = () => `replace ${this.upstream} ${this.level}`;

  async run(_model: Model, { system, world }: Real): Promise<void> {
    const { callers } = world;
    const old = callers.find(
      (caller) => caller.upstream === this.upstream && !caller.connector && !caller.isEnded,
    );
    if (old) {
      await revoke(system, old.account.replace('minted:', ''));
      old.isEnded = true;
    }
    callers.push(await minted(system, this.upstream, this.level));
    // The last ended one of each upstream stays.
    const ended = callers.filter((caller) => caller.isEnded);
    if (ended.length > 2) callers.splice(callers.indexOf(ended[0] as Caller), 1);
  }
}

async function minted(
  system: System,
  upstream: UpstreamId,
  wanted: (typeof LEVELS)[number],
): Promise<Caller> {
  const { token } = await mint(system, { upstream, level: wanted });
  const account = accountOf(token);
  return {
    name: `the minted token of ${upstream} with ${wanted}`,
    upstream,
    address: addressOf(system),
    token,
    account,
    client: account,
    connector: undefined,
    level: wanted,
    ceiling: wanted,
    isEnded: false,
  };
}

const PEOPLE = { ada: 'full', grace: 'operations' } as const;

async function connected(
  system: System,
  person: keyof typeof PEOPLE,
  link: Awaited<ReturnType<typeof createConnector>>,
  wanted: (typeof LEVELS)[number],
): Promise<Caller> {
  const ceiling = link.level as Caller['ceiling'];
  const { accessToken } = await connect(system, link, { person, level: wanted });
  const { scope, sub, client_id: client } = decodeJwt(accessToken);
  expect(scope).to.equal(wanted);
  return {
    name: `${person} with ${wanted} at a link of ${link.upstream} with ${ceiling}`,
    upstream: link.upstream as UpstreamId,
    address: link.link,
    token: accessToken,
    account: String(sub),
    client: String(client),
    connector: link.id,
    level: wanted,
    ceiling,
    isEnded: false,
  };
}

/** A system whose upstreams have these catalogs, and people who connected to both, with two apps. */
async function startWorld(catalogs: Record<UpstreamId, Catalog>): Promise<Running> {
  const world = createWorld(catalogs);
  const upstreams = await Promise.all(
    IDS.map((id) =>
      startUpstream(
        () => (req, res, body, header) =>
          header.sub === 'gatehouse'
            ? respondToDiscovery(world, id, res, body)
            : world.handle(id, req, res, body, header),
        { recordsNothing: true },
      ),
    ),
  );
  const list = IDS.map((id, n) => {
    const { declared, listed: _, ...settings } = catalogs[id];
    const url = upstreams[n]?.url;
    const common = { id, url, tools: declared, ...settings };
    return { ...common, maxAnswerBytes: MAX_ANSWER_BYTES };
  });
  const place = await createDeployment({ file: { resourceServer: { upstreams: list } } });
  for (const upstream of upstreams) upstream.trustIssuer(place.facts.auth);
  const system = await startDeployment(place);
  const stop = async () => {
    await system.stop();
    await place.release();
    await Promise.all(upstreams.map((upstream) => upstream.close()));
  };
  try {
    for (const id of IDS) await discovered(system, id);
    world.callers.push(...(await people(system)));
    return { system, world, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Gatehouse reads the same list as everybody. */
function respondToDiscovery(world: World, id: UpstreamId, res: ServerResponse, body: unknown) {
  const { id: number, method } = (body ?? {}) as { id?: unknown; method?: string };
  if (body === undefined) return res.writeHead(405).end();
  if (number === undefined) return res.writeHead(202).end();
  const result = {
    initialize: {
      protocolVersion: '2025-11-25',
      capabilities: { tools: {} },
      serverInfo: { name: id, version: '1' },
    },
    'tools/list': { tools: world.discoveredTools(id) },
  }[String(method)];
  const error = { code: -32_601, message: 'unknown method' };
  return json(res, { jsonrpc: '2.0', id: number, ...(result ? { result } : { error }) });
}

/** Levels from annotations count once the tools have been read. */
async function discovered(system: System, id: UpstreamId): Promise<void> {
  await until(`the tools of ${id} are read`, async () => {
    const found = (await requestManagement(system, 'GET', `/upstreams/${id}`)) as {
      seenAt?: string;
    };
    return found.seenAt !== undefined;
  });
}

/** Two people with two apps at two links of each upstream, and a minted token of each. */
async function people(system: System): Promise<Caller[]> {
  const callers: Caller[] = [];
  for (const upstream of IDS) {
    const full = await createConnector(system, { upstream, level: 'full' });
    const low = await createConnector(system, { upstream, level: 'operations' });
    callers.push(
      await connected(system, 'ada', full, 'full'),
      await connected(system, 'ada', full, 'operations'),
      await connected(system, 'grace', full, 'analytics'),
      await connected(system, 'ada', low, 'analytics'),
      await minted(system, upstream, 'admin'),
    );
  }
  return callers;
}

const worlds = fc.record({ orders: catalog, tickets: catalog });
const commands = fc.commands(
  [
    sent.map((what) => new Send(what)),
    sent.map((what) => new Send(what)),
    sent.map((what) => new Send(what)),
    fc.tuple(fc.constantFrom(...IDS), level).map(([id, next]) => new Replace(id, next)),
  ],
  { maxCommands: COMMANDS, size: 'max' },
);

describe('The upstream proxy with random callers, catalogs and responses', function () {
  this.timeout(MODEL_TIMEOUT_MS);

  it('MOD-02 no response contains what level, upstream or person do not allow, and no such request reaches an upstream', async () => {
    const started = performance.now();
    const left = () => FUZZ_SECONDS - (performance.now() - started) / 1000;
    do {
      const [catalogs] = fc.sample(worlds, { numRuns: 1, ...seedIn('FUZZ_WORLD') });
      const { stop, ...running } = await startWorld(catalogs as Record<UpstreamId, Catalog>);
      const seen = { canaries: 0 };
      try {
        const property = fc.asyncProperty(commands, async (sequence) => {
          running.world.forget();
          const setup = () => ({ model: { sent: 0 }, real: { ...running, stop, seen } });
          await fc.asyncModelRun(setup, sequence);
        });
        await checkModel('proxy', property, RUNS, Math.min(left(), WORLD_SECONDS));
        expect(seen.canaries).to.be.greaterThan(0);
        expect(running.world.forwarded()).to.be.greaterThan(0);
      } catch (error) {
        throw new Error(`with ${JSON.stringify(catalogs)}:\n${(error as Error).message}`, {
          cause: error,
        });
      } finally {
        await stop();
      }
    } while (left() > 0);
  });
});
