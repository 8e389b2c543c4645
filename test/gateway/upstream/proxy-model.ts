// A world of two careless upstreams and their callers, with a model of what each caller may see, written from the contract.
//
// Everything that an upstream sends contains canaries. The model decides about each canary when it is made; `expectAllowed` finds those that
// a caller received. The upstreams send every list, task and notification to everybody, so that only the proxy protects them.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { decodeJwt, type JWTPayload } from 'jose';
import { LEVELS } from '../../support/levels.ts';
import { IDS, type UpstreamId } from '../../support/upstream/two-upstreams.ts';

type Level = (typeof LEVELS)[number];

/** Names that people or servers could confuse are in one row: at most one server reads them as different names. */
export const NAMES = [
  ['read', 'READ', 'ｒｅａｄ', 're\u200Bad', 'read '],
  ['save', 'ſave', 'SAVE'],
  ['straße', 'STRASSE', 'strasse'],
  ['kin', '\u212Ain', 'KIN'],
  ['__proto__'],
  ['constructor'],
  ['toString'],
  ['export/all'],
] as const;
const ALL_NAMES = NAMES.flat();
const rowOf = (name: string) => NAMES.find((row) => (row as readonly string[]).includes(name));

/** A server could read the first three as one, and resolve those with dot segments to the last. */
export const URIS = [
  'x://a',
  'X://A',
  'x://%61',
  'x://a/b',
  'x://a/../c',
  'x://a/%2E%2e/c',
  'x://c',
] as const;
export const PROMPTS = ['brief', 'BRIEF', 'report', 'report_all'] as const;

export type Hints = { readOnlyHint?: boolean; destructiveHint?: boolean };

/** The settings of an upstream and the tools that it lists. */
export type Catalog = {
  /** `calls` is the number of calls in a day. */
  declared: { name: string; level: Level; calls?: number }[];
  defaultLevel: Level;
  toolLevels: 'declared' | 'annotations';
  toolChanges: 'follow' | 'hold';
  /** `isLater`: not in the first reading. */
  listed: { name: string; hints: Hints; isLater: boolean }[];
  resources: { uri: string; level: Level }[];
  prompts: { name: string; level: Level }[];
};

/** Patterns; everything is open without. */
export type List = readonly string[] | undefined;
export type Rule = { level: Level; tools: List };

/** A connector or a minted token. `calls` is the number of calls in a day. */
export type Link = { id: string; level: Level; tools: List; calls: number | undefined };

export type Caller = {
  name: string;
  link: Link;
  /** Those of the person; undefined for a minted token. */
  rules: readonly Rule[] | undefined;
  upstream: UpstreamId;
  address: string;
  token: string;
  account: string;
  client: string;
  /** The id of the connector; undefined for a minted token. */
  connector: string | undefined;
  level: Level;
  /** The highest level that can be granted here. */
  ceiling: Level;
  /** After a revocation. */
  isEnded: boolean;
};

type Handle = { upstream: UpstreamId; owner: string; level: Level };
/** The kinds of ids that a client gets and can send back. */
export const HANDLES = ['session', 'event', 'task', 'state'] as const;
export type HandleKind = (typeof HANDLES)[number];

/** How an upstream sends its response. */
export const MANNERS = [
  'json',
  'stream',
  'split-stream',
  'batch',
  'batch-stream',
  'foreign-task',
  'create-task',
  'state',
  'duplicate-members',
  'duplicate-members-stream',
  'deep',
  'error',
  'fault',
  'redirect',
  'text',
  'huge',
  'not-json-rpc',
  'broken-json',
] as const;
export type Manner = (typeof MANNERS)[number];

const RELATED = 'io.modelcontextprotocol/related-task';
export const MAX_ANSWER_BYTES = 131_072;
/** Makes a message large: its other values are then read without it. */
const PADDING = { structuredContent: { padding: 'x'.repeat(17_000) } };
const DEEP = '['.repeat(12_000) + ']'.repeat(12_000);

const rank = (level: Level) => LEVELS.indexOf(level);
const may = (held: Level, needed: Level) => rank(held) >= rank(needed);
/** A connection: who, with which app, through which link. */
const ownerOf = ({ account, client, connector = '' }: Caller) =>
  `${account} ${client} ${connector}`;

/** What requests name in their params. */
type Named = {
  ref?: { uri?: string; name?: string };
  notifications?: { resourceSubscriptions?: string[] };
  uri?: string;
  name?: string;
};

/** What a list can open. */
type Item = { kind: 'tool' | 'resource' | 'prompt' | 'method'; name: string; needed: Level };

type Message = { id?: unknown; method?: string; params?: Record<string, unknown> };

export type World = ReturnType<typeof createWorld>;

export function createWorld(
  catalogs: Record<UpstreamId, Catalog>,
  callsOfConnection: number | undefined,
  entitlements: readonly Rule[],
) {
  const callers: Caller[] = [];
  const texts = toolTexts(catalogs);
  const windows = callWindows(callsOfConnection, catalogs);
  const canaries = new Map<string, { what: string; isFor: (caller: Caller) => boolean }>();
  const handles: Record<HandleKind, Map<string, Handle>> = {
    session: new Map(),
    event: new Map(),
    task: new Map(),
    state: new Map(),
  };
  /** What clients received, in their form, and can send back or steal. */
  const known: Record<HandleKind, string[]> = { session: [], event: [], task: [], state: [] };
  const faults: string[] = [];
  let serial = 0;
  let current: { caller: Caller; place: Caller; manner: Manner; split: number } | undefined;
  let forwarded = 0;

  const canary = (what: string, isFor: (caller: Caller) => boolean) => {
    serial += 1;
    const name = `canary-${serial}-`;
    canaries.set(name, { what, isFor });
    return name;
  };
  const issue = (kind: HandleKind, upstream: UpstreamId, { level, ...caller }: Caller) => {
    serial += 1;
    const id = `${kind}-${serial}-x`;
    handles[kind].set(id, { upstream, owner: ownerOf({ level, ...caller }), level });
    return id;
  };

  /** The level that a tool needs; undefined if nobody may call or see it. */
  function neededFor(upstream: UpstreamId, name: string): Level | undefined {
    const { declared, defaultLevel, toolLevels } = catalogs[upstream];
    const listed = texts.listed(upstream);
    const entry = declared.find((tool) => tool.name === name);
    if (entry) return entry.level;
    const row: readonly string[] = rowOf(name) ?? [name];
    if (declared.some((tool) => row.includes(tool.name))) return undefined;
    if (toolLevels === 'declared') return defaultLevel;
    const alike = listed.filter((tool) => row.includes(tool.name));
    if (!alike.some((tool) => tool.name === name)) return 'full';
    const levels = alike.map(({ hints }): Level => {
      if (hints.readOnlyHint === true) return 'analytics';
      return hints.readOnlyHint === false && hints.destructiveHint === false
        ? 'operations'
        : 'full';
    });
    return levels.reduce((high, level) => (may(high, level) ? high : level));
  }

  /** The level of a resource or prompt, whose entry may have `*`. */
  function neededByEntries(
    upstream: UpstreamId,
    given: string,
    entries: readonly (readonly [pattern: string, level: Level])[],
  ): Level {
    const { defaultLevel } = catalogs[upstream];
    if (entries.length === 0) return defaultLevel;
    if (/\/\.|%2e/i.test(given)) return 'full';
    const exact = entries.find(([pattern]) => pattern === given);
    if (exact) return exact[1];
    const levelsFor = (fold: (text: string) => string) =>
      entries.filter(([pattern]) => isMatch(fold(pattern), fold(given))).map(([, level]) => level);
    const own = levelsFor((text) => text);
    const alike = levelsFor((text) => text.replaceAll('%61', 'a').toLowerCase());
    return [...(own.length > 0 ? own : [defaultLevel]), ...alike].reduce((high, level) =>
      may(high, level) ? high : level,
    );
  }
  const neededForResource = (upstream: UpstreamId, uri: string) => {
    const entries = catalogs[upstream].resources.map(
      ({ uri: text, level }) => [text, level] as const,
    );
    return neededByEntries(upstream, uri, entries);
  };
  const neededForPrompt = (upstream: UpstreamId, name: string) => {
    const entries = catalogs[upstream].prompts.map(
      ({ name: text, level }) => [text, level] as const,
    );
    return neededByEntries(upstream, name, entries);
  };

  /** What a request other than of tools and tasks needs; undefined if nothing. */
  function neededByMethod(upstream: UpstreamId, { method = '', params = {} }: Message) {
    const { ref, notifications, uri, name } = params as Named;
    if (method === 'resources/read' || method === 'resources/subscribe')
      return neededForResource(upstream, String(uri));
    if (method === 'prompts/get') return neededForPrompt(upstream, String(name));
    if (method === 'completion/complete')
      return ref?.uri === undefined
        ? neededForPrompt(upstream, String(ref?.name))
        : neededForResource(upstream, ref.uri);
    if (method === 'x/unknown') return catalogs[upstream].defaultLevel;
    const subscribed = notifications?.resourceSubscriptions?.map((each) =>
      neededForResource(upstream, each),
    );
    return subscribed?.reduce((high, level) => (may(high, level) ? high : level));
  }

  /** Whether the caller may see the tool, or call it with the level that it has. */
  function opensTool(caller: Caller, name: string, held: 'level' | 'ceiling'): boolean {
    const { upstream } = caller;
    const needed = neededFor(upstream, name);
    if (needed === undefined || !may(caller[held], needed)) return false;
    return isOpen(caller, { kind: 'tool', name, needed }) && !texts.isHeld(upstream, name);
  }

  /** What a request other than of tools and tasks is about. */
  function itemsOf(upstream: UpstreamId, { method = '', params = {} }: Message): Item[] {
    const { ref, notifications, uri, name } = params as Named;
    const resource = (given: string): Item => ({
      kind: 'resource',
      name: given,
      needed: neededForResource(upstream, given),
    });
    const prompt = (given: string): Item => ({
      kind: 'prompt',
      name: given,
      needed: neededForPrompt(upstream, given),
    });
    if (method === 'resources/read' || method === 'resources/subscribe')
      return [resource(String(uri))];
    if (method === 'prompts/get') return [prompt(String(name))];
    if (method === 'completion/complete')
      return [ref?.uri === undefined ? prompt(String(ref?.name)) : resource(ref.uri)];
    if (method === 'x/unknown')
      return [{ kind: 'method', name: '', needed: catalogs[upstream].defaultLevel }];
    return (notifications?.resourceSubscriptions ?? []).map(resource);
  }

  const isUsable = (upstream: UpstreamId) => (caller: Caller) =>
    !caller.isEnded && caller.upstream === upstream;
  const isOwner =
    (kind: HandleKind, id: string) =>
    (caller: Caller): boolean => {
      const handle = handles[kind].get(id);
      if (!handle || !isUsable(handle.upstream)(caller)) return false;
      const isHighEnough = kind === 'session' || may(caller.level, handle.level);
      return handle.owner === ownerOf(caller) && isHighEnough;
    };

  // What reaches an upstream

  /** Records a fault unless the caller may send the message there. */
  function requireAllowed(upstream: UpstreamId, message: Message, header: JWTPayload): void {
    forwarded += 1;
    const fault = (what: string) =>
      void faults.push(`${upstream} received ${what}: ${JSON.stringify(message)}`);
    if (!current) return fault('a message that nobody sent');
    const { caller, place } = current;
    if (caller.isEnded) fault('a message after the end');
    if (caller.upstream !== upstream || caller.address !== place.address)
      fault(`a message of ${caller.name} at ${place.name}`);
    const { sub, client_id: client, connector, level } = header;
    const stated = JSON.stringify([sub, client, connector, level]);
    const actual = JSON.stringify([caller.account, caller.client, caller.connector, caller.level]);
    if (stated !== actual) fault(`the caller ${stated} for ${actual}`);
    const { method = '', params = {} } = message;
    const task = params['taskId'];
    for (const window of windows.of(caller, message)) {
      window.forwarded += 1;
      if (window.forwarded > window.limit) fault(`more calls than ${window.limit}`);
    }
    if (method === 'tools/call') {
      const name = String(params['name']);
      if (!opensTool(caller, name, 'level'))
        fault(`a call that needs ${neededFor(upstream, name) ?? 'more'}, or is not open`);
    } else if (method.startsWith('tasks/') && method !== 'tasks/list') {
      if (!isOwner('task', String(task))(caller)) fault('the task of somebody else');
    } else {
      const needed = neededByMethod(upstream, message);
      if (needed && !may(caller.level, needed)) fault(`a request that needs ${needed}`);
      const closed = itemsOf(upstream, message).filter((item) => !isOpen(caller, item));
      for (const { kind, name } of closed)
        fault(`a request about ${kind} ${name}, which is closed`);
    }
    const related = (params['_meta'] as Record<string, { taskId?: string }> | undefined)?.[RELATED];
    if (related && !isOwner('task', String(related.taskId))(caller))
      fault('the related task of somebody else');
    const state = params['requestState'];
    if (state !== undefined && !isOwner('state', String(state))(caller))
      fault('the state of somebody else');
  }

  function requireOwnIds(upstream: UpstreamId, { headers }: IncomingMessage): void {
    if (!current) return;
    const { 'mcp-session-id': session, 'last-event-id': event } = headers;
    const fault = (what: string) => void faults.push(`${upstream} received ${what}`);
    if (session !== undefined && !isOwner('session', String(session))(current.caller))
      fault('the session of somebody else');
    if (event !== undefined && !isOwner('event', String(event))(current.caller))
      fault('the event of somebody else');
    if (JSON.stringify(headers).includes(current.caller.token)) fault('the token of the caller');
  }

  // What an upstream sends

  function toolsOf(upstream: UpstreamId): object[] {
    return texts.listed(upstream).map(({ name, hints }) => {
      if (current && texts.isHeld(upstream, name)) texts.noteSeen(current.caller, name);
      const text = texts.of(upstream, name);
      if (!canaries.has(text))
        canaries.set(text, {
          what: `the tool ${JSON.stringify(name)} of ${upstream}`,
          isFor: (caller) => isUsable(upstream)(caller) && opensTool(caller, name, 'ceiling'),
        });
      return { name, description: text, inputSchema: { type: 'object' }, annotations: hints };
    });
  }

  /** Of a resource or prompt. */
  function ofItem(upstream: UpstreamId, what: string, held: 'level' | 'ceiling', item: Item) {
    return canary(
      `${what} of ${upstream}`,
      (caller) =>
        isUsable(upstream)(caller) && may(caller[held], item.needed) && isOpen(caller, item),
    );
  }

  /** `needed` are levels one of which is enough. */
  function ofLevel(
    upstream: UpstreamId,
    what: string,
    held: 'level' | 'ceiling',
    ...needed: Level[]
  ): string {
    return canary(
      `${what} of ${upstream}`,
      (caller) => isUsable(upstream)(caller) && needed.some((level) => may(caller[held], level)),
    );
  }

  const stateOfTask = (id: string) => ({
    taskId: id,
    status: 'working',
    statusMessage: canary(`the task ${id}`, isOwner('task', id)),
  });
  const tasksOf = (upstream: UpstreamId) =>
    [...handles.task].filter(([, task]) => task.upstream === upstream).slice(-6);

  /** Notifications about everything, for everybody. */
  function notifications(upstream: UpstreamId): object[] {
    const notify = (method: string, params: object) => ({ jsonrpc: '2.0', method, params });
    const { defaultLevel, resources } = catalogs[upstream];
    const anyLevel = [defaultLevel, ...resources.map(({ level }) => level)];
    return [
      ...URIS.map((uri) =>
        notify('notifications/resources/updated', {
          uri,
          note: ofItem(upstream, `the update of ${uri}`, 'level', {
            kind: 'resource',
            name: uri,
            needed: neededForResource(upstream, uri),
          }),
        }),
      ),
      notify('notifications/resources/list_changed', {
        note: ofLevel(upstream, 'the change of the resources', 'ceiling', ...anyLevel),
      }),
      ...tasksOf(upstream).flatMap(([id]) => [
        notify('notifications/tasks/status', stateOfTask(id)),
        notify('notifications/message', {
          level: 'info',
          data: canary(`a message of the task ${id}`, isOwner('task', id)),
          _meta: { [RELATED]: { taskId: id } },
        }),
      ]),
    ];
  }

  const resourcesOf = (upstream: UpstreamId) =>
    URIS.map((uri) => ({
      uri,
      name: ofItem(upstream, uri, 'ceiling', {
        kind: 'resource',
        name: uri,
        needed: neededForResource(upstream, uri),
      }),
    }));
  const promptsOf = (upstream: UpstreamId) =>
    PROMPTS.map((name) => ({
      name,
      title: ofItem(upstream, name, 'ceiling', {
        kind: 'prompt',
        name,
        needed: neededForPrompt(upstream, name),
      }),
    }));

  function resultOf(
    upstream: UpstreamId,
    { method, params = {} }: Message,
    caller: Caller,
  ): object {
    const mine = () => canary(`a result for ${caller.name}`, (reader) => reader === caller);
    if (method === 'tools/list') return { tools: toolsOf(upstream), cacheScope: 'public' };
    if (method === 'resources/list') return { resources: resourcesOf(upstream) };
    if (method === 'resources/templates/list')
      return {
        resourceTemplates: resourcesOf(upstream).map(({ uri, name }) => ({
          uriTemplate: uri,
          name,
        })),
      };
    if (method === 'prompts/list') return { prompts: promptsOf(upstream) };
    if (method === 'tasks/list') return { tasks: tasksOf(upstream).map(([id]) => stateOfTask(id)) };
    if (method === 'tasks/get' || method === 'tasks/cancel')
      return stateOfTask(String(params['taskId']));
    return { content: [{ type: 'text', text: mine() }] };
  }

  /** Lists and tasks that nobody asked for, under the ids of other requests. */
  function unasked(upstream: UpstreamId): object[] {
    const under = (id: unknown, result: object) => ({ jsonrpc: '2.0', id, result });
    return [
      under(999, {
        tools: toolsOf(upstream),
        tasks: tasksOf(upstream).map(([id]) => stateOfTask(id)),
      }),
      under('other', {
        resources: resourcesOf(upstream),
        prompts: promptsOf(upstream),
      }),
      ...tasksOf(upstream).map(([id]) => under(null, stateOfTask(id))),
      ...notifications(upstream),
    ];
  }

  function answer(upstream: UpstreamId, message: Message, caller: Caller, manner: Manner): object {
    const result = resultOf(upstream, message, caller);
    const isLarge = (current?.split ?? 0) % 4 === 1;
    const under = (more: object) => ({
      jsonrpc: '2.0',
      id: message.id,
      result: { ...(isLarge ? PADDING : {}), ...result, ...more },
    });
    if (manner === 'create-task' && message.method === 'tools/call')
      return under({ task: { taskId: issue('task', upstream, caller), status: 'working' } });
    if (manner === 'state') return under({ requestState: issue('state', upstream, caller) });
    if (manner === 'foreign-task') {
      const [id = 'none'] = tasksOf(upstream).at(0) ?? [];
      const note = canary(`a result of the task ${id}`, isOwner('task', id));
      return under({ note, _meta: { [RELATED]: { taskId: id } } });
    }
    return under({});
  }

  /** JSON whose first `result` differs from its last, which JSON.parse returns. */
  function withDuplicates(upstream: UpstreamId, value: unknown): string {
    const hidden = JSON.stringify({ tools: toolsOf(upstream) });
    return (JSON.stringify(value) ?? '').replace('"result":', `"result":${hidden},"result":`);
  }

  const nobodys = (what: string) => canary(what, () => false);

  function respond(upstream: UpstreamId, req: IncomingMessage, res: ServerResponse, body: unknown) {
    if (!current) return res.writeHead(500).end();
    const { caller, manner, split } = current;
    const messages = [body ?? []].flat() as Message[];
    const requests = messages.filter(({ id, method }) => id !== undefined && method !== undefined);
    res.setHeader('x-internal', nobodys('a header of the upstream'));
    res.setHeader('set-cookie', nobodys('a cookie of the upstream'));
    if (messages.some(({ method }) => method === 'initialize'))
      res.setHeader('mcp-session-id', issue('session', upstream, caller));
    if (req.method === 'DELETE') return res.writeHead(200).end(nobodys('the response to DELETE'));
    const answers = requests.map((message) => answer(upstream, message, caller, manner));
    const send = (status: number, type: string, text: string) =>
      void res.writeHead(status, { 'content-type': type }).end(text);
    const asJson = (value: unknown) => send(200, 'application/json', JSON.stringify(value));
    if (manner === 'fault')
      return send(500, 'application/json', JSON.stringify({ error: nobodys('a fault') }));
    if (manner === 'redirect')
      return void res
        .writeHead(302, { location: `http://127.0.0.1:1/${nobodys('a redirect')}` })
        .end();
    if (manner === 'text') return send(200, 'text/html', nobodys('a page'));
    if (manner === 'huge')
      return send(
        200,
        'application/json',
        JSON.stringify([nobodys('much'), 'x'.repeat(MAX_ANSWER_BYTES)]),
      );
    if (manner === 'not-json-rpc')
      return asJson([{ jsonrpc: '2.0', secret: nobodys('no message') }]);
    if (manner === 'broken-json')
      return send(200, 'application/json', `{"x":"${nobodys('no JSON')}`);
    if (manner === 'error') {
      const error = { code: -32_000, message: 'refused', data: nobodys('a text after the error') };
      return send(404, 'text/plain', JSON.stringify({ error }));
    }
    const isStream = req.method === 'GET' || /stream/.test(manner) || messages.some(isListening);
    if (isStream) {
      const extra = manner === 'batch-stream' ? [unasked(upstream)] : notifications(upstream);
      const events = [...extra, ...(manner === 'batch-stream' ? [answers] : answers)];
      const newline = split % 2 === 0 ? '\n' : '\r\n';
      const text = events
        .map((data) => {
          const id = split % 3 === 0 ? `id: ${issue('event', upstream, caller)}${newline}` : '';
          return `:${nobodys('a comment')}${newline}${id}data: ${manner === 'duplicate-members-stream' ? withDuplicates(upstream, data) : JSON.stringify(data)}${newline}${newline}`;
        })
        .join('');
      const other = `event: other${newline}data: ${nobodys('an event of another type')}${newline}${newline}`;
      return sendInPieces(res, other + text, manner === 'split-stream' ? split : 0);
    }
    if (requests.length === 0)
      return void res.writeHead(202).end(nobodys('a body for notifications'));
    if (manner === 'batch') return asJson([...unasked(upstream), ...answers]);
    if (manner === 'duplicate-members')
      return send(
        200,
        'application/json',
        withDuplicates(upstream, Array.isArray(body) ? answers : answers[0]),
      );
    if (manner === 'deep')
      return send(200, 'application/json', `{"jsonrpc":"2.0","id":1,"result":${DEEP}}`);
    return asJson(Array.isArray(body) ? answers : answers[0]);
  }

  /** What a client reads. Its own handles are kept, because it may send them back or lose them. */
  function expectAllowed(caller: Caller, headers: Headers, text: string): number {
    const all = `${JSON.stringify([...headers])}\n${text}`;
    const found = new Set(all.match(/canary-\d+-/g) ?? []);
    for (const name of found) {
      const { what, isFor } = canaries.get(name) ?? { what: 'unknown', isFor: () => false };
      if (!isFor(caller)) faults.push(`${caller.name} received ${what}`);
    }
    for (const id of all.match(/\btask-\d+-x/g) ?? [])
      if (isOwner('task', id)(caller)) remember('task', id);
    const session = headers.get('mcp-session-id');
    if (session) remember('session', session);
    for (const [, id = ''] of text.matchAll(/^id: (\S+)$/gm)) remember('event', id);
    for (const [, id = ''] of text.matchAll(/"requestState":"([^"]+)"/g)) remember('state', id);
    if (faults.length > 0) throw new Error(faults.splice(0).join('\n'));
    return found.size;
  }

  function remember(kind: HandleKind, id: string) {
    if (known[kind].includes(id)) return;
    known[kind].push(id);
    if (known[kind].length > 12) known[kind].shift();
  }

  return {
    callers,
    known,
    /** Of what the servers list. */
    changes: 0,
    neededFor,
    opensTool,
    texts,
    windows,
    /** Whether anybody reaches the tool through the link or token of a caller. */
    isReachedThrough({ upstream, link, connector }: Caller, name: string): boolean {
      const needed = neededFor(upstream, name);
      if (needed === undefined || texts.isHeld(upstream, name)) return false;
      const item: Item = { kind: 'tool', name, needed };
      if (!may(link.level, needed) || !opens(link.tools, item)) return false;
      return (
        connector === undefined ||
        entitlements.some(({ level, tools }) => may(level, needed) && opens(tools, item))
      );
    },
    /** What a call of the tool would do: undefined if that depends on what was refused or shown before. */
    isCallMade(caller: Caller, name: string): boolean | undefined {
      const { upstream } = caller;
      if (!opensTool(caller, name, 'level') || !texts.isKnown(upstream, name)) return false;
      if (texts.wasSeenHeld(caller, name)) return undefined;
      const own = windows.of(caller, { method: 'tools/call', params: { name } });
      if (own.some(({ forwarded: made, limit }) => made >= limit)) return false;
      return own.every(({ sent, limit }) => sent < limit) ? true : undefined;
    },
    forwarded: () => forwarded,
    /** Handles a request of the proxy at an upstream. */
    handle(
      upstream: UpstreamId,
      req: IncomingMessage,
      res: ServerResponse,
      body: unknown,
      header: JWTPayload,
    ) {
      const messages = [body ?? []].flat() as Message[];
      for (const message of messages) requireAllowed(upstream, message, header);
      requireOwnIds(upstream, req);
      return respond(upstream, req, res, body);
    },
    discoveredTools: (upstream: UpstreamId) => toolsOf(upstream),
    expectAllowed,
    during<Value>(
      exchange: NonNullable<typeof current>,
      run: () => Promise<Value>,
    ): Promise<Value> {
      current = exchange;
      return run().finally(() => (current = undefined));
    },
    isOwner,
    /** Canaries of earlier sequences cannot be received any more. */
    forget: () => canaries.clear(),
  };
}

/** Whether the lists of a caller open it, whatever the level of the caller. */
function isOpen({ link, rules }: Caller, item: Item): boolean {
  const opensIt = (list: List) => opens(list, item);
  if (!opensIt(link.tools)) return false;
  return !rules || rules.some(({ level, tools }) => may(level, item.needed) && opensIt(tools));
}

function opens(list: List, { kind, name }: Pick<Item, 'kind' | 'name'>): boolean {
  if (!list) return true;
  const named = list.filter((pattern) => !pattern.startsWith('!'));
  if (kind === 'method') return named.length === 0;
  if (kind === 'resource' && /\/\.|%2e/i.test(name)) return false;
  const matches = (pattern: string) => {
    const [, prefix = 'tool', text = ''] = /^(?:(resource|prompt):)?(.*)$/s.exec(pattern) ?? [];
    return prefix === kind && isMatch(text, name);
  };
  const takenOut = list.filter((pattern) => pattern.startsWith('!')).map((text) => text.slice(1));
  return (named.length === 0 || named.some(matches)) && !takenOut.some(matches);
}

type ToolState = { n: number; version: number; isListed: boolean; approved: Set<number> };

/** Which text each upstream lists of each tool, and which of them are approved. */
function toolTexts(catalogs: Record<UpstreamId, Catalog>) {
  const states = new Map<string, ToolState>(
    IDS.flatMap((id) => {
      const first = catalogs[id].listed.filter(({ isLater }) => !isLater);
      return catalogs[id].listed.map(({ name, isLater }, n) => {
        const isTwin = first.some((other) => other.name !== name && areTwins(other.name, name));
        const approved = new Set(isLater || isTwin ? [] : [0]);
        return [`${id} ${name}`, { n, version: 0, isListed: !isLater, approved }] as const;
      });
    }),
  );
  const seenHeld = new Set<string>();
  const stateOf = (id: UpstreamId, name: string) => states.get(`${id} ${name}`);
  const seenBy = (caller: Caller, name: string) =>
    `${ownerOf(caller)} ${caller.level} ${caller.upstream} ${name}`;
  const isHeld = (id: UpstreamId, name: string) => {
    const state = stateOf(id, name);
    if (catalogs[id].toolChanges === 'follow') return false;
    return !state?.isListed || !state.approved.has(state.version);
  };
  const listed = (id: UpstreamId) =>
    catalogs[id].listed.filter(({ name }) => stateOf(id, name)?.isListed);
  return {
    listed,
    isHeld,
    held: (id: UpstreamId) =>
      listed(id)
        .map(({ name }) => name)
        .filter((name) => isHeld(id, name)),
    of(id: UpstreamId, name: string): string {
      const { n = 0, version = 0 } = stateOf(id, name) ?? {};
      return `canary-${7_000_000 + IDS.indexOf(id) * 1000 + n * 10 + version}-`;
    },
    /** With settings for a tool, the server may have it without listing it. */
    isKnown: (id: UpstreamId, name: string) =>
      stateOf(id, name)?.isListed === true ||
      catalogs[id].declared.some((entry) => entry.name === name),
    change(id: UpstreamId, nth: number, version: number): void {
      const { name } = catalogs[id].listed[nth % catalogs[id].listed.length] ?? {};
      const state = name === undefined ? undefined : stateOf(id, name);
      if (!state) return;
      state.version = state.isListed ? version : state.version;
      state.isListed = true;
    },
    approveAll(id: UpstreamId): void {
      for (const { name } of listed(id)) {
        const state = stateOf(id, name);
        state?.approved.add(state.version);
      }
    },
    /** A text that waits for an operator was in a list for the caller, and may be in the last one. */
    noteSeen: (caller: Caller, name: string) => void seenHeld.add(seenBy(caller, name)),
    wasSeenHeld: (caller: Caller, name: string) => seenHeld.has(seenBy(caller, name)),
  };
}

/** Whether a model takes the names for one. White space counts as a character. */
function areTwins(one: string, other: string): boolean {
  const isSpaced = (name: string) => name.endsWith(' ');
  return rowOf(one) === rowOf(other) && isSpaced(one) === isSpaced(other);
}

type CallWindow = { limit: number; forwarded: number; sent: number };

/** How many calls arrived in each window, and how many were sent that may have counted. */
function callWindows(ofConnection: number | undefined, catalogs: Record<UpstreamId, Catalog>) {
  const windows = new Map<string, CallWindow>();
  const windowOf = (name: string, limit: number | undefined) => {
    if (limit === undefined) return [];
    const window = windows.get(name) ?? { limit, forwarded: 0, sent: 0 };
    windows.set(name, window);
    return [window];
  };
  function of(caller: Caller, { method = '', params = {} }: Message): CallWindow[] {
    if (!isCounted(method, params)) return [];
    const { link, upstream } = caller;
    const connection = `${ownerOf(caller)} ${caller.level}`;
    const { name = '' } = params as Named;
    const entry = catalogs[upstream].declared.find((tool) => tool.name === name);
    return [
      ...windowOf(`link ${link.id}`, link.calls),
      ...windowOf(`connection ${connection}`, ofConnection),
      ...windowOf(`tool ${upstream} ${connection} ${name}`, entry?.calls),
    ];
  }
  return {
    of,
    noteSent(caller: Caller, messages: readonly Message[]): void {
      for (const message of messages) for (const window of of(caller, message)) window.sent += 1;
    },
  };
}

function isCounted(method: string, params: object): boolean {
  if (method === 'subscriptions/listen') return 'notifications' in params;
  return (
    /^(tools\/call|resources\/read|prompts\/get|completion\/complete|x\/unknown)$/.test(method) ||
    (method.startsWith('tasks/') && method !== 'tasks/list')
  );
}

/** `*` stands for any characters. */
function isMatch(pattern: string, text: string): boolean {
  const parts = pattern.split('*').map((part) => part.replaceAll(/[.?]/g, String.raw`\$&`));
  return new RegExp(`^${parts.join('.*')}$`).test(text);
}

function isListening({ method }: Message): boolean {
  return method === 'subscriptions/listen';
}

/** `size` is the number of bytes of each piece, so that characters and lines are split; 0 sends one piece. */
async function sendInPieces(res: ServerResponse, text: string, size: number): Promise<void> {
  res.writeHead(200, { 'content-type': 'text/event-stream' });
  const bytes = Buffer.from(text);
  const step = size === 0 ? bytes.length : Math.max(size * 37, Math.ceil(bytes.length / 40));
  for (let at = 0; at < bytes.length; at += step) {
    res.write(bytes.subarray(at, at + step));
    if (size > 0) await new Promise((resolve) => setImmediate(resolve));
  }
  res.end();
}

export function accountOf(token: string): string {
  return String(decodeJwt(token).sub);
}

export { ALL_NAMES, IDS };
