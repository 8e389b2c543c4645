// Proxies MCP requests to the operator's own MCP server. Replaces the access token by a signed header that says who calls.
import type { IncomingMessage } from 'node:http';
import type Koa from 'koa';
import { HttpError, methodNotAllowed } from '../../http/errors.ts';
import { outcomeOf } from '../../http/request-context.ts';
import { upstreamFaults } from '../../observability/labels.ts';
import type { Levels } from '../../permission-levels.ts';
import { callerClaims } from '../../people/caller-claims.ts';
import type { Services } from '../../services.ts';
import type { Upstream } from '../../settings/upstreams.ts';
import { isSameSelection } from '../../upstreams/tool-access.ts';
import { type CatalogTool, usableTools } from '../../upstreams/tool-catalog.ts';
import { levelRules, type LevelRules } from '../../upstreams/tool-levels.ts';
import type { Settings } from '../../settings/settings.ts';
import {
  type ActiveRequests,
  type RequestKind,
  selectionChanged,
  trackActiveRequests,
} from '../active-requests.ts';
import type { Caller } from '../authenticate.ts';
import type { AuthenticatedCall } from '../call.ts';
import { type CallAudit, noteAnswer, noteRefusals, noteSuspension } from '../call-audit.ts';
import { authorizationExtensions, type Extensions } from '../extensions.ts';
import { isObject, membersOf } from '../../json-values.ts';
import type { Hold } from '../held-bytes.ts';
import type { ExchangeOptions } from './exchange.ts';
import { badGateway } from './gateway-errors.ts';
import { type WaitingSession, type WaitingSessions, waitingSessions } from './waiting-sessions.ts';
import {
  isRequest,
  isSubscription,
  type Message,
  MISSING_CLIENT_CAPABILITY,
  requireMessages,
  traceLinksIn,
  withTraceparent,
} from '../json-rpc.ts';
import type { McpHandler } from '../mcp-handler.ts';
import type { RecordCache } from '../record-cache.ts';
import { recordCalls } from '../record-calls.ts';
import {
  idBinder,
  namesTask,
  NO_TASKS,
  taskOwnership,
  withoutForeignTask,
  withUnboundState,
} from './bound-ids.ts';
import { type CheckArguments, openArgumentCheck, validation } from './check-arguments.ts';
import { CALLER_HEADER, callerHeaders } from './caller-header.ts';
import { concurrencyLimiter, type ConcurrencyLimiter } from './concurrency-limit.ts';
import { outboundHeaders, parameterHeaders } from './headers.ts';
import type { OpenCalls } from './open-calls.ts';
import {
  answersWithoutCredential,
  type Asked,
  boundCaller,
  CONNECT_STATE,
  isPerson,
  openCredentialRules,
  type PersonCredentialRules,
  withCredential,
  withoutConnectState,
  wordsFor,
} from './person-credential.ts';
import type { CredentialInUse, CredentialProblem } from '../../credentials/use.ts';
import { InBandError } from '../in-band-error.ts';
import { shownUrl } from './quoting.ts';
import type { ToolDiscovery } from './tool-discovery.ts';
import { toolHolds, type ToolHolds } from './tool-holds.ts';
import { refuseMessages, requiredBy } from './levels.ts';
import { filterMessage, type FilterOptions, isReachable } from './filter.ts';
import { forward, sendWithCredential } from './forward.ts';
import { Lifetime } from './lifetime.ts';
import {
  type Connections,
  openConnections,
  type OutboundRequest,
  type Send,
  senderTo,
} from './send.ts';
import { beginEventStream, type EventStreamOptions } from './stream.ts';

export type UpstreamProxy = McpHandler & {
  /** Resolves after the first attempt to read the tools. */
  discover(signal: AbortSignal): Promise<void>;
};

export type UpstreamProxyOptions = {
  upstream: Upstream;
  discovery: ToolDiscovery;
  /** Reports the ids of changed records. */
  onChange: RecordCache['onChange'];
  /** Shared by all upstreams. */
  openCalls: OpenCalls;
  audit: CallAudit;
};

export async function openUpstreamProxy(
  settings: Settings,
  services: Services,
  { upstream, discovery, onChange, openCalls, audit }: UpstreamProxyOptions,
): Promise<UpstreamProxy> {
  const { store, keys, now } = services;
  const { levels } = settings;
  const { url } = upstream;
  if (!keys.signing) throw new Error('the proxy signs caller headers and needs the signing keys');
  const signingKey = keys.signing.current;
  const connections = await services.keep(`connections ${upstream.id} ${url}`, ({ resources }) => {
    const opened = openConnections(url, settings.forwardProxy);
    resources.defer(opened.destroy);
    return opened;
  });
  services.metrics.watchUpstream(upstream.id);
  const activeRequests = trackActiveRequests(onChange);
  const ids = idBinder(store.keyRing('handles of the upstream'), levels, url);
  let inForce: RuleSettings = { levels, upstream };
  const proxy: Proxy = {
    upstream,
    productName: settings.productName,
    heartbeat: settings.resourceServer.heartbeat,
    services,
    send: senderTo(url, connections, services.traces !== undefined),
    connections,
    audit,
    activeRequests,
    concurrency: concurrencyLimiter(upstream.id, upstream.openCalls, openCalls),
    rules: currentRules(() => inForce, discovery, now),
    ids,
    waiting: waitingSessions(store, ids),
    tasks: taskOwnership(store, levels, url, now),
    parameterHeaders: parameterHeaders(),
    extensions: authorizationExtensions(settings),
    credentials: await openCredentialRules(settings, services, upstream),
    knownTools: (caller) => knownTools(proxy, discovery, caller),
    onToolsChanged: discovery.refresh,
    onToolsListed: discovery.observe,
    holds: toolHolds(discovery),
    supportContact: settings.supportContact,
    checkArguments: await openArgumentCheck(services, upstream, discovery.pinning),
    onSkipped: skippedEvents(services, upstream),
    callerHeaders: callerHeaders({
      issuer: settings.authUrl,
      audience: url,
      headers: upstream.caller.headers,
      // Of a connection from before a claim was in the settings, the person was not told.
      claimsOf: ({ account, via, shown }) =>
        callerClaims(
          settings,
          account,
          via,
          upstream.caller.claims.filter((claim) => shown.includes(claim)),
        ),
      signingKey,
      now,
    }),
  };
  return {
    requiredBy: (message) => requiredBy(proxy.rules(), message),
    refusesRepeated: () => validation(upstream) !== false,
    acquire: (caller, kind) => proxy.concurrency.acquire(caller, kind),
    knownTools: proxy.knownTools,
    handle: (call) => {
      watchFailure(proxy, call, discovery);
      return proxyCall(proxy, call);
    },
    discover: discovery.start,
    end: (kind) => activeRequests.end(kind),
    follow(next) {
      const same = next.upstreams.find(({ id }) => id === upstream.id);
      if (same) inForce = { levels: next.levels, upstream: same };
      if (discoveryKey(next, same) !== discoveryKey(settings, upstream))
        void discovery.close().catch(() => undefined);
    },
    renewStreams: activeRequests.renew,
    async close() {
      activeRequests.close();
    },
  };
}

function knownTools({ rules, holds }: Proxy, discovery: ToolDiscovery, caller: Caller): object[] {
  return (discovery.catalog()?.tools ?? [])
    .filter(({ name }) => isReachable(rules(), caller, name) && !holds.reason(name, caller))
    .map(listedTool);
}

/** As `tools/list` has it. The schema of its arguments is not in the catalog. */
function listedTool({ name, title, hints }: CatalogTool): object {
  return {
    name,
    ...(title === undefined ? {} : { title }),
    inputSchema: { type: 'object' },
    ...(hints ? { annotations: hints } : {}),
  };
}

/** What discovery depends on, which goes on for as long as it is the same. */
export function discoveryKey(
  { authUrl, levels, forwardProxy }: Settings,
  upstream: Upstream | undefined,
): string {
  return `tools ${JSON.stringify([upstream, levels, authUrl, forwardProxy])}`;
}

type RuleSettings = { levels: Levels; upstream: Upstream };

/** Computes the rules again only when the tools or the settings in force have changed, which also apply to older streams. */
function currentRules(
  inForce: () => RuleSettings,
  discovery: ToolDiscovery,
  now: () => number,
): () => LevelRules {
  const currentTools = () => usableTools(discovery.catalog(), now());
  const rulesFor = ({ levels, upstream }: RuleSettings, listed: readonly CatalogTool[]) => {
    const made = levelRules(levels, upstream, listed);
    const names = new Set(listed.map(({ name }) => name));
    // The operator knows the names in the settings, and an upstream may list more tools to a caller than to Gatehouse.
    const isListed = (name: string) =>
      names.has(name) || made.tools.has(name) || discovery.wasListed(name);
    const isHeld = (name: string) =>
      discovery.pinning.held(name, undefined, discovery.catalog()?.tools ?? []) !== undefined;
    return { ...made, isListed, isHeld, hasCatalog: names.size > 0 };
  };
  let tools = currentTools();
  let settings = inForce();
  let rules = rulesFor(settings, tools);
  return () => {
    const [nextTools, nextSettings] = [currentTools(), inForce()];
    if (nextTools !== tools || nextSettings !== settings) rules = rulesFor(nextSettings, nextTools);
    [tools, settings] = [nextTools, nextSettings];
    return rules;
  };
}

export type Proxy = {
  upstream: Upstream;
  productName: string;
  /** Seconds. */
  heartbeat: number;
  services: Services;
  connections: Connections;
  send: Send;
  audit: CallAudit;
  activeRequests: ActiveRequests;
  concurrency: ConcurrencyLimiter;
  /** Follows the catalog of the tools. */
  rules: () => LevelRules;
  /** Binds ids that the upstream issues to their callers. */
  ids: ReturnType<typeof idBinder>;
  tasks: ReturnType<typeof taskOwnership>;
  parameterHeaders: ReturnType<typeof parameterHeaders>;
  extensions: Extensions;
  callerHeaders: ReturnType<typeof callerHeaders>;
  /** Of the persons who call; undefined if the upstream needs none. */
  credentials: PersonCredentialRules | undefined;
  knownTools: (caller: Caller) => object[];
  waiting: WaitingSessions;
  /** Called when the upstream says that its list of tools changed. */
  onToolsChanged: () => void;
  onToolsListed: ToolDiscovery['observe'];
  holds: ToolHolds;
  supportContact: string | undefined;
  checkArguments: CheckArguments;
  onSkipped: EventStreamOptions['onSkipped'];
};

const TOOLS_CHANGED = { jsonrpc: '2.0', method: 'notifications/tools/list_changed' };

const METHODS = ['GET', 'POST', 'DELETE'] as const;

/** A failed call leads to an attempt to read the tools at once, so that the console and the log do not show a server that is down as available. */
function watchFailure(
  { upstream, services: { metrics } }: Pick<Proxy, 'upstream' | 'services'>,
  { ctx }: AuthenticatedCall,
  discovery: ToolDiscovery,
): void {
  ctx.res.once('close', () => {
    const { reason } = outcomeOf(ctx);
    const fault = upstreamFaults.find((known) => known === reason);
    if (!fault) return;
    metrics.upstreamError(upstream.id, fault);
    if (fault !== 'response_too_large') discovery.refresh();
  });
}

/** The steps of a call at the proxy, from top to bottom. */
async function proxyCall(proxy: Proxy, call: AuthenticatedCall): Promise<void> {
  const { ctx, body } = call;
  const { productName, ids, holds, supportContact } = proxy;
  const rules = proxy.rules();
  const method = requireMethod(ctx);
  call.body = undefined;
  const posted = method === 'POST' ? requirePosted(ctx, body) : [];
  const personal = await findCredentialOf(proxy, call.caller);
  const waiting = personal && (await proxy.waiting.find(call.caller, ctx.req));
  if (personal && !('header' in personal))
    return respondWithoutCredential(proxy, call, body, {
      messages: posted,
      problem: personal,
      waiting,
    });
  const caller = boundCaller(call.caller, personal);
  const messages = personal ? withoutOwnState(proxy, call, posted) : posted;
  const session = waiting && (await openWaiting(proxy, call, { waiting, caller, personal }));
  const headers = await attachCredentials(proxy, call, { messages, caller, personal, session });
  const ownTasks = messages.some(namesTask) ? await proxy.tasks.idsOf(caller) : NO_TASKS;
  const refused = refuseMessages(
    { rules, productName, supportContact, ids, ownTasks, holds },
    caller,
    messages,
  );
  if (refused) {
    noteRefusals(call, refused);
    return respondLocally(call, body, refused);
  }
  const misfits = await proxy.checkArguments(caller, messages);
  if (misfits) {
    noteRefusals(call, misfits);
    return respondLocally(call, body, misfits);
  }
  const kind = kindOf(method, messages);
  if (kind === 'listening') call.slot.listen();
  const { audit, services } = proxy;
  const recording = { audit, levels: rules.levels, logger: services.logger };
  const unrecorded = await recordCalls(recording, call, messages);
  if (unrecorded) return respondLocally(call, body, unrecorded);
  const lifetime = startLifetime(proxy, call, kind);
  if (personal && kind === 'listening') endWithCredential(proxy, call, personal, lifetime);
  const filter = filterOf(
    proxy,
    caller,
    ownTasks,
    messages,
    method === 'GET' || messages.some(isSubscription),
  );
  const sent = messages.map((message) =>
    withUnboundState(ids, caller, withoutForeignTask(ownTasks, message)),
  );
  const requests = messages.flatMap(({ id, method: name }) =>
    id === undefined || name === undefined ? [] : [{ id, method: name }],
  );
  // Not awaited here, because this function would keep the messages for as long.
  return forward(proxy, call, lifetime, {
    method,
    headers,
    ...(method === 'POST' ? { body: serializer(body, sent) } : {}),
    links: proxy.services.traces ? traceLinksIn(messages) : [],
    hold: call.hold,
    requests,
    requestIds: requests.map(({ id }) => id),
    filter: (message) => filterMessage(filter, message),
    localResponses: call.limited ?? [],
    onAnswer: (message) => noteAnswer(call, message),
    onSuspended: () => noteSuspension(call),
    secrets: secretsIn(headers, proxy.upstream),
    ...(proxy.credentials && personal ? renewal(proxy, proxy.credentials, call, personal) : {}),
    bindSession: (id) => ids.bind('session', caller, id),
    bindEvent: (id) => ids.bind('event', caller, id),
  });
}

/** Returns the headers for the upstream: the client's that it may see, who calls, and the operator's credentials. */
async function attachCredentials(
  { callerHeaders: headersOf, credentials, ids, parameterHeaders, services, upstream }: Proxy,
  call: AuthenticatedCall,
  {
    req = call.ctx.req,
    messages,
    caller,
    personal,
    session,
  }: {
    req?: IncomingMessage;
    messages: readonly Message[];
    caller: Caller;
    personal: CredentialInUse | undefined;
    session?: { id: string | undefined } | undefined;
  },
): Promise<Record<string, string>> {
  const operators = upstream.headers;
  return outboundHeaders(
    { req, messages },
    {
      ids,
      parameterHeaders,
      caller,
      session,
      callerHeaders: await headersOf(call.caller),
      credentials:
        credentials && personal ? withCredential(operators, credentials, personal) : operators,
      host: upstream.host,
      version: services.version,
    },
  );
}

/** Undefined for an upstream that needs none, and for callers who are no persons. */
async function findCredentialOf({ credentials, upstream }: Proxy, caller: Caller) {
  if (!credentials) return undefined;
  if (isPerson(caller)) return credentials.of(caller);
  if (Object.keys(upstream.headers).length > 0) return undefined;
  throw new InBandError(403, 'credential_required', NO_PERSON);
}

const NO_PERSON =
  'nothing was done: this server acts with the own account of a person, and this token belongs to none';

async function respondWithoutCredential(
  proxy: Proxy,
  call: AuthenticatedCall,
  body: unknown,
  {
    messages,
    problem,
    waiting,
  }: {
    messages: readonly Message[];
    problem: CredentialProblem;
    waiting: WaitingSession | undefined;
  },
): Promise<void> {
  const { ctx } = call;
  if (ctx.method === 'GET' && proxy.credentials) return listenForCredential(proxy, call);
  // Nothing of the upstream is to be ended.
  if (ctx.method === 'DELETE') return respondLocally(call, body, []);
  const initialize = messages.find((message) => message.method === 'initialize');
  const asked = askedOf(proxy, call, problem, waiting?.params ?? initialize?.params);
  const answers = answersWithoutCredential(asked, messages);
  if (initialize)
    ctx.set('Mcp-Session-Id', await proxy.waiting.begin(call.caller, initialize.params));
  return respondLocally(call, body, answers);
}

/** A stream of a person without a credential: says when the tools can be listed anew, and ends. */
function listenForCredential(proxy: Proxy, call: AuthenticatedCall): void {
  const { ctx, caller } = call;
  call.slot.listen();
  const lifetime = startLifetime(proxy, call, 'listening');
  lifetime.requireActive();
  beginEventStream(ctx);
  const { res } = ctx;
  res.write(':\n\n');
  const heartbeat = setInterval(() => res.write(':\n\n'), proxy.heartbeat * 1000).unref();
  // The client may read the end late, and meanwhile the account can change again.
  const finish = (text?: string) => {
    if (res.writableEnded) return;
    clearInterval(heartbeat);
    stop?.();
    res.end(text);
  };
  const stop = proxy.credentials?.onChange(caller, () =>
    finish(`event: message\ndata: ${JSON.stringify(TOOLS_CHANGED)}\n\n`),
  );
  // Also when the client is gone.
  lifetime.onAbort({ abort: () => finish() });
  lifetime.restartTimer(proxy.upstream.silence);
}

function withoutOwnState(
  { ids }: Proxy,
  { caller }: AuthenticatedCall,
  messages: readonly Message[],
): Message[] {
  const isOwn = (state: string) => ids.unbind('state', caller, state) === CONNECT_STATE;
  return messages.map((message) => withoutConnectState(message, isOwn));
}

/** Sends the app's own `initialize`, unless the session is open for this credential already. */
async function openWaiting(
  proxy: Proxy,
  call: AuthenticatedCall,
  {
    waiting,
    caller,
    personal,
  }: { waiting: WaitingSession; caller: Caller; personal: CredentialInUse },
): Promise<{ id: string | undefined }> {
  const { opened } = waiting;
  if (opened?.epoch === personal.epoch) return { id: opened.session };
  const lifetime = new Lifetime(call.ctx.res, proxy.upstream.timeout, () => undefined);
  const renewed = proxy.credentials ? renewal(proxy, proxy.credentials, call, personal) : undefined;
  const send = async (message: Message, id?: string) => {
    const headers = await attachCredentials(proxy, call, {
      req: NO_REQUEST,
      messages: [message],
      caller,
      personal,
      session: { id },
    });
    const body = () => JSON.stringify(message);
    const request: OutboundRequest = { method: 'POST', headers, body, links: [], hold: NO_HOLD };
    return sendWithCredential(proxy, { ...request, ...renewed, secrets: {} }, UNREAD, lifetime);
  };
  try {
    const params = isObject(waiting.params) ? waiting.params : {};
    const { status, headers } = await send({ jsonrpc: '2.0', id: 0, method: 'initialize', params });
    if (status === 401 && renewed) throw renewed.refused();
    if (status !== 200)
      throw badGateway(new Error(`the upstream answered ${status} to initialize`));
    const issued = headers['mcp-session-id'];
    const id = typeof issued === 'string' && issued !== '' ? issued : undefined;
    await send({ jsonrpc: '2.0', method: 'notifications/initialized' }, id);
    const found = { epoch: personal.epoch, ...(id === undefined ? {} : { session: id }) };
    await proxy.waiting.open(waiting, found);
    return { id };
  } catch (error) {
    throw lifetime.endReason(error);
  } finally {
    lifetime.abort(new Error('the session is open'));
  }
}

const NO_REQUEST = { headers: {} } as IncomingMessage;

const NO_HOLD: Hold = {
  set: () => undefined,
  reduce: () => undefined,
  bytes: 0,
  release: () => undefined,
};

/** Only the headers of the answer matter. */
const UNREAD: ExchangeOptions = {
  maxBytes: 1024 * 1024,
  hold: () => undefined,
  openStream: () => ({ read: () => undefined, end: () => undefined, fail: () => undefined }),
};

function askedOf(
  { credentials, ids, knownTools: tools, upstream }: Proxy,
  { caller, connector }: AuthenticatedCall,
  problem: CredentialProblem,
  initialize?: unknown,
): Asked {
  if (!credentials) throw new Error('the upstream needs no credential');
  return {
    service: upstream.isNamed ? upstream.name : (connector?.name ?? upstream.name),
    address: credentials.addressFor(caller),
    problem,
    initialize,
    elicitationId: `${upstream.id}-${caller.accountId}`,
    state: ids.bind('state', caller, CONNECT_STATE),
    knownTools: () => tools(caller),
  };
}

/** From now on, the call ends when its caller's rights end. */
function startLifetime(
  { activeRequests, upstream, holds }: Proxy,
  { ctx, caller, revalidate, slot, hold }: AuthenticatedCall,
  kind: RequestKind,
): Lifetime {
  const lifetime = new Lifetime(ctx.res, upstream.timeout, () => {
    slot.release();
    hold.release();
  });
  const { onRevoked } = lifetime;
  // Its filter knows what the caller might use when it began.
  const held = holds.state();
  const requireSame = async () => {
    const access = await revalidate();
    if (!isSameSelection(access.caller, caller) || holds.state() !== held)
      throw selectionChanged(TOOLS_CHANGED);
  };
  lifetime.track(
    activeRequests.start({
      ids: idsOf(caller),
      revalidate: kind === 'listening' ? requireSame : revalidate,
      kind,
      onRevoked,
    }),
  );
  return lifetime;
}

/** A stream that was opened with one credential of the person is used with no other. */
function endWithCredential(
  { credentials }: Proxy,
  { ctx, caller }: AuthenticatedCall,
  { epoch }: CredentialInUse,
  lifetime: Lifetime,
): void {
  const requireSame = async () => {
    const current = await credentials?.of(caller);
    if (!current || !('epoch' in current) || current.epoch !== epoch)
      lifetime.onRevoked(selectionChanged(TOOLS_CHANGED));
  };
  const stop = credentials?.onChange(
    caller,
    () => void requireSame().catch((error: unknown) => lifetime.onRevoked(error)),
  );
  ctx.res.once('close', () => stop?.());
}

function filterOf(
  proxy: Proxy,
  caller: Caller,
  ownTasks: ReadonlySet<string>,
  messages: readonly Message[],
  isListening: boolean,
): FilterOptions {
  const { tasks, ids, parameterHeaders, extensions, onToolsChanged, onToolsListed, holds } = proxy;
  return {
    // A list may arrive long after the request, under other rules, and changes them.
    get rules() {
      return proxy.rules();
    },
    caller,
    tasks,
    ownTasks,
    ids,
    parameterHeaders,
    extensions,
    onToolsChanged,
    onToolsListed,
    holds,
    isListening,
    // Without a request, a list may be of any page.
    startsLists:
      messages.length > 0 && messages.every(({ params }) => params?.['cursor'] === undefined),
  };
}

function requireMethod(ctx: Koa.Context): (typeof METHODS)[number] {
  const method = METHODS.find((name) => name === ctx.method);
  if (method) return method;
  throw methodNotAllowed({ Allow: METHODS.join(', ') });
}

/** Requires the content type because browsers send forms of other origins without a preflight. */
function requirePosted(ctx: Koa.Context, body: unknown): Message[] {
  if (ctx.req.headers['content-type'] === 'application/json' || ctx.is('application/json'))
    return requireMessages(body);
  throw new HttpError(415, 'invalid_request', 'send JSON (application/json)');
}

function kindOf(method: string, messages: readonly Message[]): RequestKind {
  const requests = messages.filter(isRequest);
  const isWaiting = method === 'GET' || (requests.length > 0 && requests.every(isSubscription));
  return isWaiting ? 'listening' : 'working';
}

/** The records that revalidation reads. */
function idsOf({ accountId, connector, grantId, tokenId }: Caller): string[] {
  return [accountId, connector, grantId, tokenId].filter((id) => id !== undefined);
}

function respondLocally(
  { ctx, limited = [] }: AuthenticatedCall,
  body: unknown,
  refusals: readonly object[],
): void {
  const responses = [...limited, ...refusals];
  ctx.set('Cache-Control', 'no-store');
  if (responses.length > 0) {
    ctx.body = Array.isArray(body) ? responses : responses[0];
    const { code } = membersOf(membersOf(ctx.body)['error']);
    if (code === MISSING_CLIENT_CAPABILITY) ctx.status = 400;
    return;
  }
  ctx.body = null;
  ctx.status = 202;
}

/** Serializes the checked messages again: of duplicate members, the upstream's parser might read the other one. */
function serializer(
  body: unknown,
  messages: readonly Message[],
): NonNullable<OutboundRequest['body']> {
  return (traceparent) => {
    const sent = traceparent
      ? messages.map((message) => withTraceparent(message, traceparent))
      : messages;
    return JSON.stringify(Array.isArray(body) ? sent : sent[0]);
  };
}

/** After the upstream answered 401: another token of the same credential, or what the person has to do. */
function renewal(
  proxy: Proxy,
  credentials: PersonCredentialRules,
  call: AuthenticatedCall,
  used: CredentialInUse,
) {
  const refused = (problem: CredentialProblem) =>
    new InBandError(403, 'credential_required', wordsFor(askedOf(proxy, call, problem)));
  return {
    async renew() {
      const found = await credentials.renewed(call.caller, used.token);
      if (!('header' in found)) throw refused(found);
      if (found.epoch !== used.epoch || found.token === used.token)
        throw refused({ missing: true });
      return { [found.header.name]: found.header.value };
    },
    refused: () => refused({ missing: true }),
  };
}

/** The headers that authenticate Gatehouse, the caller, the person and the session. */
function secretsIn(sent: Record<string, string>, { headers, credential }: Upstream) {
  const names = [
    ...Object.keys(headers),
    ...(credential ? [credential.header.name] : []),
    CALLER_HEADER,
    'mcp-session-id',
  ];
  return Object.fromEntries(Object.entries(sent).filter(([name]) => names.includes(name)));
}

/** Logs each kind of fault once. */
function skippedEvents({ logger }: Services, { url }: Upstream): EventStreamOptions['onSkipped'] {
  const reported = new Set<string>();
  return (reason) => {
    if (reported.has(reason)) return;
    reported.add(reason);
    const details = { what: shownUrl(url), reason: `an event ${reason}` };
    logger.warn(details, 'the MCP server sends events that are skipped');
  };
}
