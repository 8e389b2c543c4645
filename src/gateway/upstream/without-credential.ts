// Calls of a person to an upstream that wants a credential of each person: found, asked for, renewed, and what is answered without one.
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type {
  CredentialInUse,
  CredentialProblem,
  StoredCredential,
} from '../../credentials/use.ts';
import { isObject } from '../../json-values.ts';
import { selectionChanged } from '../active-requests.ts';
import type { Caller } from '../authenticate.ts';
import type { AuthenticatedCall } from '../call.ts';
import type { Hold } from '../held-bytes.ts';
import { InBandError } from '../in-band-error.ts';
import type { Message } from '../json-rpc.ts';
import type { ExchangeOptions } from './exchange.ts';
import { sendWithCredential } from './forward.ts';
import { badGateway } from './gateway-errors.ts';
import { Lifetime, startLifetime, TOOLS_CHANGED } from './lifetime.ts';
import {
  answersWithoutCredential,
  type Asked,
  attachCredentials,
  CONNECT_STATE,
  isPerson,
  type PersonCredentialRules,
  withoutConnectState,
  wordsFor,
} from './person-credential.ts';
import { EventReader, isResponse, UNREPORTED } from './messages.ts';
import type { Proxy } from './proxy.ts';
import { type OpenSession, OLDER_REVISION } from './headers.ts';
import type { OutboundRequest } from './send.ts';
import { beginEventStream } from './stream.ts';
import type { WaitingSession } from './waiting-sessions.ts';

/** Undefined for an upstream that needs none, and for callers who are no persons. */
export async function findCredentialOf({ credentials, upstream }: Proxy, caller: Caller) {
  if (!credentials) return undefined;
  if (isPerson(caller)) return credentials.of(caller);
  if (Object.keys(upstream.headers).length > 0) return undefined;
  throw new InBandError(403, 'credential_required', NO_PERSON);
}

const NO_PERSON =
  'nothing was done: this server acts with the own account of a person, and this token belongs to none';

/** Returns undefined if a stream has begun. */
export async function answerWithoutCredential(
  proxy: Proxy,
  call: AuthenticatedCall,
  {
    messages,
    problem,
    waiting,
  }: {
    messages: readonly Message[];
    problem: CredentialProblem;
    waiting: WaitingSession | undefined;
  },
): Promise<object[] | undefined> {
  const { ctx } = call;
  if (ctx.method === 'GET' && proxy.credentials) {
    listenForCredential(proxy, proxy.credentials, call);
    return undefined;
  }
  // Nothing of the upstream is to be ended.
  if (ctx.method === 'DELETE') return [];
  const initialize = messages.find((message) => message.method === 'initialize');
  const asked = askedOf(proxy, call, problem, waiting?.params ?? initialize?.params);
  const answers = answersWithoutCredential(asked, messages);
  if (initialize)
    ctx.set('Mcp-Session-Id', await proxy.waiting.begin(call.caller, initialize.params));
  return answers;
}

/** A stream of a person without a credential: says when the tools can be listed anew, and ends. */
function listenForCredential(
  proxy: Proxy,
  credentials: PersonCredentialRules,
  call: AuthenticatedCall,
): void {
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
    stop();
    res.end(text);
  };
  const stop = watchCredential(credentials, caller, (stored) => {
    if (stored && !stored.isExpired)
      finish(`event: message\ndata: ${JSON.stringify(TOOLS_CHANGED)}\n\n`);
  });
  // Also when the client is gone.
  lifetime.onAbort({ abort: () => finish() });
  lifetime.restartTimer(proxy.upstream.silence);
}

export function withoutOwnState(
  { ids }: Proxy,
  { caller }: AuthenticatedCall,
  messages: readonly Message[],
): Message[] {
  const isOwn = (state: string) => ids.unbind('state', caller, state) === CONNECT_STATE;
  return messages.map((message) => withoutConnectState(message, isOwn));
}

/** Sends the app's own `initialize`, unless the session is open for this credential already. */
export async function openWaiting(
  proxy: Proxy,
  call: AuthenticatedCall,
  {
    waiting,
    caller,
    personal,
  }: { waiting: WaitingSession; caller: Caller; personal: CredentialInUse },
): Promise<OpenSession> {
  const { opened } = waiting;
  if (opened?.epoch === personal.epoch) return { id: opened.session, revision: opened.revision };
  const lifetime = new Lifetime(call.ctx, proxy.upstream.timeout, () => undefined);
  const renewed = proxy.credentials ? renewal(proxy, proxy.credentials, call, personal) : undefined;
  const send = async (message: Message, options: ExchangeOptions, id?: string) => {
    const headers = await attachCredentials(proxy, call, {
      req: NO_REQUEST,
      messages: [message],
      caller,
      personal,
      session: { id },
    });
    const body = () => JSON.stringify(message);
    const request: OutboundRequest = { method: 'POST', headers, body, links: [], hold: NO_HOLD };
    return sendWithCredential(proxy, { ...request, renewal: renewed }, options, lifetime);
  };
  try {
    const params = isObject(waiting.params) ? waiting.params : {};
    const initialize = async (more: object = {}) => {
      const { options, end } = untilAnswered();
      const message: Message = {
        jsonrpc: '2.0',
        id: 0,
        method: 'initialize',
        params: { ...params, ...more },
      };
      const response = await send(message, options);
      const answer = response.isStream ? { ...response, headers: await end } : response;
      lifetime.requireActive();
      return answer;
    };
    const first = await initialize();
    const revision = first.status === 400 ? OLDER_REVISION : undefined;
    const { status, headers } = revision ? await initialize({ protocolVersion: revision }) : first;
    if (status === 401 && renewed) throw renewed.refused();
    if (status !== 200)
      throw badGateway(new Error(`the upstream answered ${status} to initialize`));
    const issued = headers['mcp-session-id'];
    const id = typeof issued === 'string' && issued !== '' ? issued : undefined;
    await send({ jsonrpc: '2.0', method: 'notifications/initialized' }, UNREAD, id);
    await proxy.waiting.open(waiting, {
      epoch: personal.epoch,
      ...(id === undefined ? {} : { session: id }),
      ...(revision ? { revision } : {}),
    });
    return { id, revision };
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
  holdBytes: () => undefined,
  openStream: () => ({ read: () => undefined, end: () => undefined, fail: () => undefined }),
};

/** A server may end its work when the connection closes, so a stream is read until it has the response. `end`: it has, or it ended. It resolves to the headers of the stream. */
function untilAnswered(): { options: ExchangeOptions; end: Promise<IncomingHttpHeaders> } {
  const { promise: end, resolve } = Promise.withResolvers<IncomingHttpHeaders>();
  const openStream = (headers: IncomingHttpHeaders) => {
    const answered = () => resolve(headers);
    const reader = new EventReader(UNREAD.maxBytes, UNREPORTED);
    const read = (chunk: Buffer) => {
      for (const event of reader.read(chunk))
        if (event !== 'comment' && reader.messagesIn(event)?.messages.some(isResponse)) answered();
    };
    return { read, end: answered, fail: answered };
  };
  return { options: { ...UNREAD, openStream }, end };
}

function askedOf(
  { credentials, ids, knownTools: tools, knownRevision, upstream }: Proxy,
  { caller, connector }: AuthenticatedCall,
  problem: CredentialProblem,
  initialize?: unknown,
): Asked {
  if (!credentials) throw new Error('the upstream needs no credential');
  return {
    service: upstream.isNamed ? upstream.name : (connector?.name ?? upstream.name),
    address: credentials.addressFor(caller),
    kind: credentials.kind,
    problem,
    initialize,
    elicitationId: `${upstream.id}-${caller.accountId}`,
    state: ids.bind('state', caller, CONNECT_STATE),
    knownTools: () => tools(caller),
    revision: knownRevision(),
  };
}

/** A stream that was opened with one credential of the person is used with no other. Throws if it has ended already. */
export function endWithCredential(
  { credentials }: Proxy,
  { ctx, caller }: AuthenticatedCall,
  { epoch }: CredentialInUse,
  lifetime: Lifetime,
): void {
  if (!credentials) return;
  // After the end, no `close` would end the watch.
  lifetime.requireActive();
  const stop = watchCredential(credentials, caller, (stored) => {
    if (stored?.epoch !== epoch) lifetime.abort(selectionChanged(TOOLS_CHANGED));
  });
  ctx.res.once('close', stop);
}

const WATCH_MS = 10_000;

/**
 * Calls `check` when the stored credential changes, until the returned function is called. Also at once and later, because it may change before
 * somebody listens, and messages may be lost.
 */
function watchCredential(
  credentials: PersonCredentialRules,
  caller: Caller,
  check: (stored: StoredCredential | undefined) => void,
): () => void {
  // Without the store, the call ends as others do.
  const run = () => void credentials.stored(caller).then(check, () => undefined);
  const timer = setInterval(run, WATCH_MS).unref();
  const stop = credentials.onChange(caller, run);
  run();
  return () => {
    clearInterval(timer);
    stop();
  };
}

/** What follows when the upstream refuses the credential of a person. */
export type Renewal = {
  /** The one in the last request. */
  token(): string;
  /** After 401: returns the header of another token of the same credential. Rejects with an InBandError if there is none. */
  renew(): Promise<Record<string, string>>;
  /** After 403 with this challenge. Rejects with an InBandError if the person can give more. */
  forbidden(challenge: string): Promise<void>;
  /** The error after a second 401. */
  refused(): InBandError;
};

export function renewal(
  proxy: Proxy,
  credentials: PersonCredentialRules,
  call: AuthenticatedCall,
  used: CredentialInUse,
): Renewal {
  const refused = (problem: CredentialProblem) =>
    new InBandError(403, 'credential_required', wordsFor(askedOf(proxy, call, problem)));
  let { token } = used;
  return {
    token: () => token,
    async renew() {
      const found = await credentials.renewed(call.caller, used.token);
      if (!('header' in found)) throw refused(found);
      if (found.epoch !== used.epoch || found.token === used.token)
        throw refused({ missing: true });
      ({ token } = found);
      return { [found.header.name]: found.header.value };
    },
    async forbidden(challenge: string) {
      const isAsked = await credentials.lacks(call.caller, challenge);
      if (isAsked) throw refused({ missing: true, isScope: true });
    },
    // A new sign-in would give the same token.
    refused: () =>
      refused(credentials.kind === 'exchange' ? { unavailable: 'not_set_up' } : { missing: true }),
  };
}
