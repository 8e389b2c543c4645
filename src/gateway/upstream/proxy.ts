// Proxies MCP requests to the operator's own MCP server. Replaces the access token by a signed header that says who calls.
import type Koa from 'koa';
import { HttpError, methodNotAllowed } from '../../http/errors.ts';
import { outcomeOf, whenClosed } from '../../http/request-context.ts';
import { upstreamFaults } from '../../observability/labels.ts';
import type { Levels } from '../../permission-levels.ts';
import { callerClaims } from '../../people/caller-claims.ts';
import type { Services } from '../../services.ts';
import type { Upstream } from '../../settings/upstreams.ts';
import { type CatalogTool, usableTools } from '../../upstreams/tool-catalog.ts';
import { levelRules, type LevelRules } from '../../upstreams/tool-levels.ts';
import { toolUses } from '../../upstreams/tool-uses.ts';
import type { Settings } from '../../settings/settings.ts';
import { type ActiveRequests, type RequestKind, trackActiveRequests } from '../active-requests.ts';
import type { Caller } from '../authenticate.ts';
import type { AuthenticatedCall } from '../call.ts';
import { type CallAudit, noteMissingCredential, noteRefusals } from '../call-audit.ts';
import { authorizationExtensions, type Extensions } from '../extensions.ts';
import { membersOf } from '../../json-values.ts';
import { type WaitingSessions, waitingSessions } from './waiting-sessions.ts';
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
import type { RequestOutline } from '../request-outline.ts';
import {
  idBinder,
  namesTask,
  NO_TASKS,
  taskOwnership,
  withoutForeignTask,
  withUnboundState,
} from './bound-ids.ts';
import { type CheckArguments, openArgumentCheck, validation } from './check-arguments.ts';
import { callerReadings } from './caller-readings.ts';
import { callerHeaders } from './caller-header.ts';
import { concurrencyLimiter, type ConcurrencyLimiter } from './concurrency-limit.ts';
import { parameterHeaders } from './headers.ts';
import type { OpenCalls } from './open-calls.ts';
import {
  attachCredentials,
  boundCaller,
  openCredentialRules,
  type PersonCredentialRules,
} from './person-credential.ts';
import {
  answerWithoutCredential,
  endWithCredential,
  findCredentialOf,
  openWaiting,
  renewal,
  withoutOwnState,
} from './without-credential.ts';
import { shownUrl } from './quoting.ts';
import type { ToolDiscovery } from './tool-discovery.ts';
import { toolHolds, type ToolHolds } from './tool-holds.ts';
import { refuseMessages, requiredBy } from './levels.ts';
import { type FilterOptions, isReachable } from './filter.ts';
import { forward, ForwardedCall } from './forward.ts';
import { startLifetime } from './lifetime.ts';
import {
  type Connections,
  openConnections,
  type OutboundRequest,
  type Send,
  senderTo,
} from './send.ts';
import type { EventStreamOptions } from './stream.ts';

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
    knownRevision: () => discovery.catalog()?.revision,
    onToolsChanged: discovery.refresh,
    onToolsListed: discovery.observe,
    holds: toolHolds(discovery),
    supportContact: settings.supportContact,
    checkArguments: await openArgumentCheck(services, upstream, discovery.pinning),
    noteToolUse: upstream.toolChanges === 'hold' ? toolUses(store, upstream.id, now) : undefined,
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
    readToolsFor: callerReadings(proxy, discovery, services),
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
  const currentHints = () => discovery.pinning.hintsOfCallers();
  const rulesFor = ({ levels, upstream }: RuleSettings, listed: readonly CatalogTool[]) => {
    const made = levelRules(levels, upstream, listed, currentHints());
    const names = new Set(listed.map(({ name }) => name));
    // The operator knows the names in the settings, and an upstream may list more tools to a caller than to Gatehouse.
    const isListed = (name: string) =>
      names.has(name) || made.tools.has(name) || discovery.wasListed(name);
    const isHeld = (name: string) =>
      discovery.pinning.held(name, undefined, discovery.catalog()?.tools ?? []) !== undefined;
    return { ...made, isListed, isHeld, hasCatalog: names.size > 0 };
  };
  let [tools, settings, hints] = [currentTools(), inForce(), currentHints()];
  let rules = rulesFor(settings, tools);
  return () => {
    const [nextTools, nextSettings, nextHints] = [currentTools(), inForce(), currentHints()];
    if (nextTools !== tools || nextSettings !== settings || nextHints !== hints)
      rules = rulesFor(nextSettings, nextTools);
    [tools, settings, hints] = [nextTools, nextSettings, nextHints];
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
  /** Of the protocol, as negotiated when the tools were last read. */
  knownRevision: () => string | undefined;
  waiting: WaitingSessions;
  /** Called when the upstream says that its list of tools changed. */
  onToolsChanged: () => void;
  onToolsListed: ToolDiscovery['observe'];
  holds: ToolHolds;
  supportContact: string | undefined;
  checkArguments: CheckArguments;
  /** With `hold`. */
  noteToolUse: ((tool: string) => void) | undefined;
  onSkipped: EventStreamOptions['onSkipped'];
};

const METHODS = ['GET', 'POST', 'DELETE'] as const;

/** A failed call leads to an attempt to read the tools at once, so that the console and the log do not show a server that is down as available. */
function watchFailure(
  { upstream, services: { metrics } }: Pick<Proxy, 'upstream' | 'services'>,
  { ctx }: AuthenticatedCall,
  discovery: ToolDiscovery,
): void {
  whenClosed(ctx, () => {
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
  const personal = proxy.credentials && (await findCredentialOf(proxy, call.caller));
  const waiting = personal && (await proxy.waiting.find(call.caller, ctx.req));
  if (personal && !('header' in personal)) {
    const asked = { messages: posted, problem: personal, waiting };
    const answers = await answerWithoutCredential(proxy, call, asked);
    if (!answers) return undefined;
    noteMissingCredential(call, answers);
    return respondLocally(call, body, answers);
  }
  const caller = boundCaller(call.caller, personal);
  const messages = personal ? withoutOwnState(proxy, call, posted) : posted;
  const session = waiting && (await openWaiting(proxy, call, { waiting, caller, personal }));
  const attached = attachCredentials(proxy, call, { messages, caller, personal, session });
  const headers = attached instanceof Promise ? await attached : attached;
  const ownTasks = messages.some(namesTask) ? await proxy.tasks.idsOf(caller) : NO_TASKS;
  const refusal = { rules, productName, supportContact, ids, ownTasks, holds };
  const held = holds.state();
  const forbidden = refuseMessages(refusal, caller, messages);
  const checking = forbidden ? undefined : proxy.checkArguments(caller, messages);
  const misfits = checking && (await checking);
  const refused =
    forbidden ??
    misfits ??
    // Other checks may have come first.
    (holds.state() === held ? undefined : refuseMessages(refusal, caller, messages));
  if (refused) {
    noteRefusals(call, refused, misfits ? 'invalid_arguments' : 'tool_held');
    return respondLocally(call, body, refused);
  }
  const kind = kindOf(method, messages);
  if (kind === 'listening') call.slot.listen();
  const { audit, services } = proxy;
  const recording = { audit, levels: rules.levels, logger: services.logger };
  const recorded = recordCalls(recording, call, messages);
  const unrecorded = recorded instanceof Promise ? await recorded : recorded;
  if (unrecorded) return respondLocally(call, body, unrecorded);
  const lifetime = startLifetime(proxy, call, kind);
  // From here on, the lifetime follows changes. Before it, what was waited for took its time.
  const revalidating = call.revalidateIfChanged();
  if (revalidating) await revalidating;
  if (proxy.noteToolUse) calledTools(messages).forEach(proxy.noteToolUse);
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
  const requests: RequestOutline[] = [];
  for (const { id, method: name } of messages)
    if (id !== undefined && name !== undefined) requests.push({ id, method: name });
  const forwarded = new ForwardedCall(proxy, call, lifetime, {
    caller,
    method,
    headers,
    body: method === 'POST' ? serializer(body, sent) : undefined,
    links: proxy.services.traces ? traceLinksIn(messages) : NO_LINKS,
    requests,
    filter,
    renewal:
      proxy.credentials && personal ? renewal(proxy, proxy.credentials, call, personal) : undefined,
  });
  // Not awaited here, because this function would keep the messages for as long.
  return forward(forwarded);
}

const NO_LINKS: readonly never[] = [];

function calledTools(messages: readonly Message[]): string[] {
  return messages.flatMap(({ method, params }) =>
    method === 'tools/call' ? String(params?.['name']) : [],
  );
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
    rules: proxy.rules,
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
