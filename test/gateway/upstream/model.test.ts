// Random callers, links, ids and responses against a model of what each caller may see. `npm run fuzz` runs it for longer.
import type { ServerResponse } from 'node:http';
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import * as fc from 'fast-check';
import { addressOf, mint, revoke } from '../../links/minted-tokens/minting.ts';
import { restoreClock } from '../../support/clock.ts';
import { connect } from '../../support/connection.ts';
import { LEVELS } from '../../support/levels.ts';
import {
  type Connector,
  createConnector,
  requestManagement,
} from '../../support/management-api.ts';
import { checkModel, FUZZ_SECONDS, MODEL_TIMEOUT_MS, seedIn } from '../../support/model-run.ts';
import { createDeployment, startDeployment, type System } from '../../support/system.ts';
import { until } from '../../support/until.ts';
import { IDS, type UpstreamId } from '../../support/upstream/two-upstreams.ts';
import { json } from '../../support/upstream/scripted-upstream.ts';
import { readAgain } from '../../support/upstream/read-again.ts';
import { startUpstream } from '../../support/upstream/upstream-server.ts';
import {
  accountOf,
  ALL_NAMES,
  type Caller,
  type Catalog,
  createWorld,
  type Link,
  type List,
  type Rule,
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
const RUNS = 8;
const COMMANDS = 16;
/** Each world has other catalogs. */
const WORLD_SECONDS = 60;
/** Each reading takes the clock further, and access tokens expire. */
const MAX_CHANGES = FUZZ_SECONDS > 0 ? 8 : 2;

const level = fc.constantFrom(...LEVELS);
/** Most is open to most. */
const lowLevel = fc.constantFrom(LEVELS[0], LEVELS[0], ...LEVELS);
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
  declared: fc.uniqueArray(
    fc.record(
      { name: names, level: lowLevel, calls: fc.integer({ min: 1, max: 3 }) },
      { requiredKeys: ['name', 'level'] },
    ),
    { selector: ({ name }) => name, maxLength: 6 },
  ),
  defaultLevel: lowLevel,
  toolLevels: fc.constantFrom('declared', 'annotations'),
  toolChanges: fc.constantFrom('follow', 'hold'),
  listed: fc.uniqueArray(
    fc.record({
      name: names,
      hints: fc.record(
        { readOnlyHint: fc.boolean(), destructiveHint: fc.boolean() },
        { requiredKeys: [] },
      ),
      isLater: fc.nat(5).map((n) => n === 0),
    }),
    { selector: ({ name }) => name, minLength: 8, maxLength: 14 },
  ),
});

const pattern = fc
  .tuple(
    fc.constantFrom('', '', '', '!'),
    fc.oneof(
      names.filter((name) => !/[\p{Cf}\s]/u.test(name)),
      fc.constantFrom(
        '*',
        '*',
        '*e*',
        're*',
        's*',
        '*n',
        'none',
        'prompt:*',
        'prompt:b*',
        'prompt:report',
      ),
      fc.constantFrom('resource:*', 'resource:x://a*', 'resource:x://c', 'resource:*/b'),
    ),
  )
  .map(([exclusion, text]) => exclusion + text);
/** Half of them are missing. */
const list: fc.Arbitrary<List> = fc
  .tuple(fc.boolean(), fc.uniqueArray(pattern, { minLength: 1, maxLength: 4 }))
  .map(([isGiven, patterns]) => (isGiven ? patterns : undefined));
const callsADay = fc
  .tuple(fc.boolean(), fc.integer({ min: 1, max: 12 }))
  .map(([isLimited, count]) => (isLimited ? count : undefined));
const link = fc.record({ tools: list, calls: callsADay });
const links = fc.record({ full: link, low: link, token: link });

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

type Running = {
  system: System;
  world: World;
  /** Lets Gatehouse read the tools again. */
  readTools: () => Promise<void>;
  stop: () => Promise<void>;
};
type Real = Running & { seen: Seen };
type Seen = {
  canaries: number;
  calls: number;
  refusals: number;
  explanations: number;
  changes: number;
};
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
    if (verb === 'POST') world.windows.noteSent(caller, isBatch ? messages : messages.slice(0, 1));
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
  }

  private handle(world: World, kind: HandleKind): string | undefined {
    if (!this.what.with.includes(kind)) return undefined;
    return world.known[kind][this.what.nth % Math.max(world.known[kind].length, 1)];
  }

  private reference(): object {
    const { uri, prompt, nth } = this.what;
    return nth % 2 === 0 ? { type: 'ref/prompt', name: prompt } : { type: 'ref/resource', uri };
  }

  private headers(world: World, caller: Caller): Record<string, string> {
    const [session, event] = [this.handle(world, 'session'), this.handle(world, 'event')];
    return {
      ...headersOf(caller),
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

/** A call, to which the upstream responds as it should. It is made exactly if the model says so. */
class Call implements fc.AsyncCommand<Model, Real> {
  readonly by: number;
  /** A name, or the number of a tool that the server lists. */
  readonly about: string | number;
  constructor(by: number, about: string | number) {
    this.by = by;
    this.about = about;
  }
  check = () => true;
  toString = () => `call ${this.about} by ${this.by}`;

  async run(model: Model, { world, seen }: Real): Promise<void> {
    const caller = world.callers[this.by % world.callers.length] as Caller;
    const listed = world.texts.listed(caller.upstream);
    const { about } = this;
    const tool = typeof about === 'string' ? about : listed[about % listed.length]?.name;
    if (tool === undefined) return;
    const isMade = caller.isEnded ? false : world.isCallMade(caller, tool);
    const message = {
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name: tool, arguments: { amount: 1 } },
    };
    world.windows.noteSent(caller, [message]);
    const exchange = { caller, place: caller, manner: 'json', split: 0 } as const;
    const response = await world.during(exchange, async () => {
      const answer = await fetch(caller.address, {
        method: 'POST',
        headers: headersOf(caller),
        body: JSON.stringify(message),
      });
      return { headers: answer.headers, text: await answer.text() };
    });
    model.sent += 1;
    const canaries = world.expectAllowed(caller, response.headers, response.text);
    if (isMade === undefined) return;
    expect(canaries, `${caller.name}: ${response.text}`).to.equal(isMade ? 1 : 0);
    if (isMade) seen.calls += 1;
    else seen.refusals += 1;
  }
}

/** What the explanations say is what lists show: both are compared with the model. */
class Explain implements fc.AsyncCommand<Model, Real> {
  readonly by: number;
  constructor(by: number) {
    this.by = by;
  }
  check = () => true;
  toString = () => `explain ${this.by}`;

  async run(_model: Model, { system, world, seen }: Real): Promise<void> {
    const caller = world.callers[this.by % world.callers.length] as Caller;
    if (caller.isEnded) return;
    const { upstream, account, connector, link: opened } = caller;
    const names = world.texts.listed(upstream).map(({ name }) => name);
    const open = names.filter((name) => world.opensTool(caller, name, 'ceiling'));
    if (connector !== undefined) {
      const query = new URLSearchParams({ account, connector });
      const explained = (await requestManagement(system, 'GET', `/access?${query}`)) as Explained;
      const allowed = explained.tools.filter((tool) => tool.allowed).map(({ name }) => name);
      expect(allowed, `explain to ${caller.name}`).to.deep.equal(open);
    }
    for (const tool of names.slice(0, 4)) {
      const query = new URLSearchParams({ tool, upstream });
      const who = (await requestManagement(system, 'GET', `/access/who?${query}`)) as Who;
      const reached = connector === undefined ? who.tokens : who.connectors;
      const isReached = reached.some(({ id }) => id === opened.id);
      expect(isReached, `who reaches ${tool}: ${caller.name}`).to.equal(
        world.isReachedThrough(caller, tool),
      );
    }
    const shown = await listedTo(caller, world);
    const isSure = names.every((name) => !world.texts.wasSeenHeld(caller, name));
    if (isSure) expect(shown, `the list of ${caller.name}`).to.deep.equal(open);
    seen.explanations += 1;
  }
}

type Explained = { tools: { name: string; allowed: boolean }[] };
type Who = Record<'connectors' | 'tokens', { id: string }[]>;

async function listedTo(caller: Caller, world: World): Promise<string[]> {
  const exchange = { caller, place: caller, manner: 'json', split: 0 } as const;
  return world.during(exchange, async () => {
    const answer = await fetch(caller.address, {
      method: 'POST',
      headers: headersOf(caller),
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} }),
    });
    const text = await answer.text();
    world.expectAllowed(caller, answer.headers, text);
    const { result } = JSON.parse(text) as { result: { tools: { name: string }[] } };
    return result.tools.map(({ name }) => name);
  });
}

/** Another list of the connector, or token, of a caller. */
class Choose implements fc.AsyncCommand<Model, Real> {
  readonly by: number;
  readonly tools: List;
  constructor(by: number, tools: List) {
    this.by = by;
    this.tools = tools;
  }
  check = () => true;
  toString = () => `choose ${JSON.stringify(this.tools)} for ${this.by}`;

  async run(_model: Model, { system, world }: Real): Promise<void> {
    const caller = world.callers[this.by % world.callers.length] as Caller;
    if (caller.isEnded) return;
    const { link: opened, connector } = caller;
    const path = `/${connector === undefined ? 'tokens' : 'connectors'}/${opened.id}`;
    await requestManagement(system, 'PATCH', path, { tools: this.tools ?? null });
    opened.tools = this.tools;
  }
}

/** A server lists another text of a tool, or a new tool. */
class Change implements fc.AsyncCommand<Model, Real> {
  readonly upstream: UpstreamId;
  readonly nth: number;
  readonly version: number;
  constructor(upstream: UpstreamId, nth: number, version: number) {
    this.upstream = upstream;
    this.nth = nth;
    this.version = version;
  }
  /** Each reading takes the clock further. */
  check = () => true;
  toString = () => `change ${this.upstream} ${this.nth} to ${this.version}`;

  async run(_model: Model, { world, readTools, seen }: Real): Promise<void> {
    if (world.changes >= MAX_CHANGES) return;
    world.texts.change(this.upstream, this.nth, this.version);
    await readTools();
    world.changes += 1;
    seen.changes += 1;
  }
}

/** An operator approves all that waits. */
class Approve implements fc.AsyncCommand<Model, Real> {
  readonly upstream: UpstreamId;
  constructor(upstream: UpstreamId) {
    this.upstream = upstream;
  }
  check = () => true;
  toString = () => `approve ${this.upstream}`;

  async run(_model: Model, { system, world }: Real): Promise<void> {
    const path = `/upstreams/${this.upstream}`;
    const { tools } = (await requestManagement(system, 'GET', `${path}/review`)) as Review;
    if (tools.length === 0) return;
    const approved = tools.map(({ name, digest }) => ({ name, digest }));
    await requestManagement(system, 'POST', `${path}/approve`, { tools: approved });
    world.texts.approveAll(this.upstream);
  }
}

type Review = { tools: { name: string; digest: string; change: string }[] };

function headersOf({ token }: Caller): Record<string, string> {
  return {
    authorization: `Bearer ${token}`,
    accept: 'application/json, text/event-stream',
    'content-type': 'application/json',
    'mcp-protocol-version': '2025-11-25',
  };
}

/** Revokes a minted token, whose holder may see nothing any more, and mints another. */
class Replace implements fc.AsyncCommand<Model, Real> {
  readonly upstream: UpstreamId;
  readonly level: (typeof LEVELS)[number];
  readonly link: WantedLink;
  constructor(upstream: UpstreamId, next: (typeof LEVELS)[number], wanted: WantedLink) {
    this.upstream = upstream;
    this.level = next;
    this.link = wanted;
  }
  check = () => true;
  toString = () => `replace ${this.upstream} ${this.level} ${JSON.stringify(this.link)}`;

  async run(_model: Model, { system, world }: Real): Promise<void> {
    const { callers } = world;
    const old = callers.find(
      (caller) => caller.upstream === this.upstream && !caller.connector && !caller.isEnded,
    );
    if (old) {
      await revoke(system, old.account.replace('minted:', ''));
      old.isEnded = true;
    }
    callers.push(await minted(system, this.upstream, this.level, this.link));
    // The last ended one of each upstream stays.
    const ended = callers.filter((caller) => caller.isEnded);
    if (ended.length > 2) callers.splice(callers.indexOf(ended[0] as Caller), 1);
  }
}

type WantedLink = Pick<Link, 'tools' | 'calls'>;

/** As requests have it. */
function wantedMembers({ tools, calls }: WantedLink): { tools?: string[]; calls?: string } {
  return {
    ...(tools ? { tools: [...tools] } : {}),
    ...(calls === undefined ? {} : { calls: `${calls}/1d` }),
  };
}

async function minted(
  system: System,
  upstream: UpstreamId,
  wanted: (typeof LEVELS)[number],
  given: WantedLink,
): Promise<Caller> {
  const { id, token } = await mint(system, { upstream, level: wanted, ...wantedMembers(given) });
  const account = accountOf(token);
  return {
    name: `the minted token of ${upstream} with ${wanted}`,
    link: { id, level: wanted, ...given },
    rules: undefined,
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

/** The highest level of their rules. */
const PEOPLE = { ada: 'full', grace: 'operations' } as const;
type Lists = { ada: List; adaLow: List; grace: List };

function rulesOf({ ada, adaLow, grace }: Lists): Record<keyof typeof PEOPLE, Rule[]> {
  return {
    ada: [
      { level: 'full', tools: ada },
      { level: 'operations', tools: adaLow },
    ],
    grace: [{ level: 'operations', tools: grace }],
  };
}

async function connected(
  system: System,
  person: keyof typeof PEOPLE,
  rules: Rule[],
  { connector, link: opened }: { connector: Connector; link: Link },
  wanted: (typeof LEVELS)[number],
): Promise<Caller> {
  const { accessToken } = await connect(system, connector, { person, level: wanted });
  const { scope, sub, client_id: client } = decodeJwt(accessToken);
  expect(scope).to.equal(wanted);
  const isLower = LEVELS.indexOf(PEOPLE[person]) < LEVELS.indexOf(opened.level);
  return {
    name: `${person} with ${wanted} at a link of ${connector.upstream} with ${opened.level}`,
    link: opened,
    rules,
    upstream: connector.upstream as UpstreamId,
    address: connector.link,
    token: accessToken,
    account: String(sub),
    client: String(client),
    connector: connector.id,
    level: wanted,
    ceiling: isLower ? PEOPLE[person] : opened.level,
    isEnded: false,
  };
}

/** A system whose upstreams have these catalogs, and people who connected to both, with two apps. */
async function startWorld(wanted: WantedWorld): Promise<Running> {
  const { catalogs, lists, callsOfConnection } = wanted;
  const world = createWorld(catalogs, callsOfConnection, Object.values(rulesOf(lists)).flat());
  const readings = { orders: 0, tickets: 0 };
  const upstreams = await Promise.all(
    IDS.map((id) =>
      startUpstream(
        () => (req, res, body, header) =>
          header.sub === 'gatehouse'
            ? respondToDiscovery(world, readings, id, res, body)
            : world.handle(id, req, res, body, header),
        { recordsNothing: true },
      ),
    ),
  );
  const list = IDS.map((id, n) => {
    const { declared, listed: _, ...settings } = catalogs[id];
    const url = upstreams[n]?.url;
    const tools = declared.map(({ calls, ...entry }) => ({
      ...entry,
      ...(calls === undefined ? {} : { calls: `${calls}/1d` }),
    }));
    const common = { id, url, tools, ...settings };
    return { ...common, maxAnswerBytes: MAX_ANSWER_BYTES };
  });
  const entitlements = Object.entries(rulesOf(lists)).flatMap(([subject, rules]) =>
    rules.map(({ level: given, tools }) => ({
      match: { subject },
      level: given,
      ...(tools ? { tools } : {}),
    })),
  );
  const calls = callsOfConnection === undefined ? {} : { perConnection: `${callsOfConnection}/1d` };
  const place = await createDeployment({
    file: { resourceServer: { upstreams: list }, entitlements, limits: { calls } },
  });
  for (const upstream of upstreams) upstream.trustIssuer(place.facts.auth);
  const system = await startDeployment(place);
  const stop = async () => {
    restoreClock();
    await system.stop();
    await place.release();
    await Promise.all(upstreams.map((upstream) => upstream.close()));
  };
  try {
    const readTools = async () => {
      await readOnceMore(readings);
      for (const id of IDS) await discovered(system, world, id);
    };
    for (const id of IDS) await discovered(system, world, id);
    world.callers.push(...(await people(system, wanted)));
    return { system, world, readTools, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

type Readings = Record<UpstreamId, number>;

/** Gatehouse reads the same list as everybody. */
function respondToDiscovery(
  world: World,
  readings: Readings,
  id: UpstreamId,
  res: ServerResponse,
  body: unknown,
) {
  const { id: number, method } = (body ?? {}) as { id?: unknown; method?: string };
  if (body === undefined) return res.writeHead(405).end();
  if (number === undefined) return res.writeHead(202).end();
  if (method === 'tools/list') readings[id] += 1;
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

async function readOnceMore(readings: Readings): Promise<void> {
  const before = { ...readings };
  await readAgain(() => IDS.every((id) => readings[id] > before[id]));
}

/** Levels from annotations, and what waits, count once the tools have been read. */
async function discovered(system: System, world: World, id: UpstreamId): Promise<void> {
  const sorted = (names: string[]) => JSON.stringify(names.toSorted());
  await until(`the tools of ${id} are read`, async () => {
    const found = (await requestManagement(system, 'GET', `/upstreams/${id}`)) as {
      tools: { name: string; held?: string }[];
    };
    const listed = world.texts.listed(id).map(({ name }) => name);
    const held = found.tools.filter((tool) => tool.held).map(({ name }) => name);
    return (
      sorted(found.tools.map(({ name }) => name)) === sorted(listed) &&
      sorted(held) === sorted(world.texts.held(id))
    );
  });
}

/** Two people with two apps at two links of each upstream, and a minted token of each. */
async function people(system: System, { lists, links: wanted }: WantedWorld): Promise<Caller[]> {
  const callers: Caller[] = [];
  const rules = rulesOf(lists);
  for (const upstream of IDS) {
    const linkWith = async (opens: 'full' | 'operations', given: WantedLink) => {
      const options = { upstream, level: opens, ...wantedMembers(given) };
      const connector = await createConnector(system, options);
      return { connector, link: { id: connector.id, level: opens, ...given } };
    };
    const full = await linkWith('full', wanted[upstream].full);
    const low = await linkWith('operations', wanted[upstream].low);
    callers.push(
      await connected(system, 'ada', rules.ada, full, 'full'),
      await connected(system, 'ada', rules.ada, full, 'operations'),
      await connected(system, 'grace', rules.grace, full, 'analytics'),
      await connected(system, 'ada', rules.ada, low, 'analytics'),
      await minted(system, upstream, 'admin', wanted[upstream].token),
    );
  }
  return callers;
}

type WantedWorld = {
  catalogs: Record<UpstreamId, Catalog>;
  lists: Lists;
  links: Record<UpstreamId, Record<'full' | 'low' | 'token', WantedLink>>;
  callsOfConnection: number | undefined;
};
const worlds: fc.Arbitrary<WantedWorld> = fc.record({
  catalogs: fc.record({ orders: catalog, tickets: catalog }),
  lists: fc.record({ ada: list, adaLow: list, grace: list }),
  links: fc.record({ orders: links, tickets: links }),
  callsOfConnection: callsADay,
});
const commands = fc.commands(
  [
    sent.map((what) => new Send(what)),
    sent.map((what) => new Send(what)),
    sent.map((what) => new Send(what)),
    fc.tuple(fc.nat(99), names).map(([by, tool]) => new Call(by, tool)),
    fc.tuple(fc.nat(99), fc.nat(99)).map(([by, nth]) => new Call(by, nth)),
    fc.tuple(fc.nat(99), fc.nat(99)).map(([by, nth]) => new Call(by, nth)),
    fc.nat(99).map((by) => new Explain(by)),
    fc.tuple(fc.nat(99), list).map(([by, tools]) => new Choose(by, tools)),
    fc
      .tuple(fc.constantFrom(...IDS), fc.nat(13), fc.nat(2))
      .map(([id, nth, version]) => new Change(id, nth, version)),
    fc.constantFrom(...IDS).map((id) => new Approve(id)),
    fc
      .tuple(fc.constantFrom(...IDS), level, link)
      .map(([id, next, wanted]) => new Replace(id, next, wanted)),
  ],
  { maxCommands: COMMANDS, size: 'max' },
);

describe('The upstream proxy with random callers, catalogs and responses', function () {
  this.timeout(MODEL_TIMEOUT_MS);

  it('MOD-02 no response contains what level, upstream, lists, person or a hold do not allow, no such request reaches an upstream, none beyond a limit, and explanations agree', async () => {
    const started = performance.now();
    const seen = { canaries: 0, calls: 0, refusals: 0, explanations: 0, changes: 0 };
    const left = () => FUZZ_SECONDS - (performance.now() - started) / 1000;
    do {
      const [wanted] = fc.sample(worlds, { numRuns: 1, ...seedIn('FUZZ_WORLD') });
      const { stop, ...running } = await startWorld(wanted as WantedWorld);
      try {
        const property = fc.asyncProperty(commands, async (sequence) => {
          running.world.forget();
          const setup = () => ({ model: { sent: 0 }, real: { ...running, stop, seen } });
          await fc.asyncModelRun(setup, sequence);
        });
        await checkModel('proxy', property, RUNS, {
          seconds: Math.min(left(), WORLD_SECONDS),
          keepsState: true,
        });
        expect(running.world.forwarded()).to.be.greaterThan(0);
      } catch (error) {
        throw new Error(`with ${JSON.stringify(wanted)}:\n${(error as Error).message}`, {
          cause: error,
        });
      } finally {
        await stop();
      }
    } while (left() > 0);
    for (const [what, times] of Object.entries(seen)) expect(times, what).to.be.greaterThan(0);
  });
});
