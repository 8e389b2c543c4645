// What the audit log says about the requests of a call that need a level: one item for each, and at recorded levels a second one when it ends.
import type { Activity } from '../audit/activity.ts';
import type { AuditBuffer } from '../audit/audit-buffer.ts';
import {
  type AuditItem,
  type AuditServices,
  auditItem,
  storeAuditDurably,
} from '../audit/audit.ts';
import { clientNetworks, recordedAddress } from '../http/client-subnet.ts';
import { clientGone } from '../http/errors.ts';
import { outcomeOf, requestContext } from '../http/request-context.ts';
import type { RateLimit } from '../http/rate-limits.ts';
import { isObject, membersOf } from '../json-values.ts';
import { parseTraceparent } from '../observability/tracing.ts';
import { lruCache } from '../lru-cache.ts';
import { isRecorded } from '../permission-levels.ts';
import type { Settings } from '../settings/settings.ts';
import { DEFAULT_UPSTREAM } from '../settings/upstreams.ts';
import { connectionOf } from './authenticate.ts';
import { authorizeRequest, type RequiredLevel } from './authorize.ts';
import type { AuthenticatedCall, Call } from './call.ts';
import { INVALID_PARAMS, isSameId } from './json-rpc.ts';

type CallOutcome = 'answered' | 'failed' | 'refused';

/** One request that needs a level, until the response has ended. */
export type CallRecord = {
  /** Of the message in the body. */
  index: number;
  messageId: unknown;
  /** Becomes the item that is stored, so nothing changes it once it has ended. It has all members from the beginning; id, time and outcome are placeholders. */
  item: AuditItem;
  isRecorded: boolean;
  /** The item that was stored before the call was made. */
  started?: AuditItem;
  /** Once it is known; by default that of the HTTP response. */
  outcome?: CallOutcome;
  reason?: string;
  toolError?: boolean;
};

/** The records of one call. */
export type CallRecords = {
  records: CallRecord[];
  /** Of the beginning: seconds since the epoch, and milliseconds of the process. */
  at: number;
  began: number;
  /** While items are stored before the calls are made. */
  storing?: Promise<void> | undefined;
  hasEnded?: true;
};

type Recorded = Pick<Call, 'recorded'>;

export type CallAudit = {
  /** Call it when the messages were read. `required` has what each of them needs. */
  begin(call: AuthenticatedCall, required: readonly (RequiredLevel | undefined)[]): void;
  /** Stores the records of recorded levels, before the calls are made. Resolves when a replica has them. */
  start(call: Recorded): Promise<void>;
  /** Call it when the response has ended. */
  end(call: Call & Partial<AuthenticatedCall>): void;
};

/** What the overview counts. */
const COUNTED = { answered: 'done', failed: 'failed', refused: 'refused' } as const;

/** Where a request names its client (MCP 2026-07-28). */
const CLIENT_INFO = 'io.modelcontextprotocol/clientInfo';
const MAX_TEXT_LENGTH = 256;
const MAX_TARGET_LENGTH = 1024;
const MAX_KNOWN_NAMES = 10_000;

export type CallAuditOptions = {
  settings: Pick<Settings, 'audit' | 'levels'>;
  services: AuditServices & { auditBuffer: AuditBuffer; activity: Pick<Activity, 'calls'> };
  /** Limits the items about requests without an account. */
  refusals: RateLimit;
};

export function callAudit({ settings, services, refusals }: CallAuditOptions): CallAudit {
  const { levels } = settings;
  const { auditBuffer: buffer, activity, now } = services;
  const { calls, addresses } = settings.audit;
  /** By connection: what its app called itself when it was initialized. */
  const clientNames = lruCache<string>(MAX_KNOWN_NAMES);

  const addressOf = ({ ctx }: Call) =>
    text(recordedAddress(requestContext(ctx).address, addresses), MAX_TEXT_LENGTH);
  const userAgentOf = ({ ctx }: Call) => text(ctx.req.headers['user-agent'], MAX_TEXT_LENGTH);
  const nameOf = (call: AuthenticatedCall, message: unknown) => {
    const { method, params } = membersOf(message);
    const { clientInfo, _meta: meta } = membersOf(params);
    const connection = connectionOf(call.caller);
    const { name } = membersOf(method === 'initialize' ? clientInfo : membersOf(meta)[CLIENT_INFO]);
    const own = text(name, MAX_TEXT_LENGTH);
    if (own !== undefined && method === 'initialize') clientNames.set(connection, own);
    return own ?? clientNames.get(connection);
  };
  const recordOf = (
    call: AuthenticatedCall,
    message: unknown,
    required: RequiredLevel | undefined,
    index: number,
  ): CallRecord => {
    const { id: messageId, method, params } = membersOf(message);
    const { caller } = call;
    const isTool = method === 'tools/call';
    const { name, uri, _meta: meta } = membersOf(params);
    const record: CallRecord = {
      index,
      messageId,
      isRecorded: isRecorded(levels, caller.level),
      item: {
        id: undefined,
        epoch: undefined,
        number: undefined,
        time: '',
        event: 'call',
        account: caller.accountId,
        clientId: caller.clientId,
        connector: caller.connector,
        grantId: caller.grantId,
        subject: caller.subject,
        upstream: (call.connector ?? call.mintedToken)?.upstream ?? DEFAULT_UPSTREAM,
        tool: isTool ? text(name, MAX_TEXT_LENGTH) : undefined,
        method: isTool ? undefined : text(method, MAX_TEXT_LENGTH),
        target: targetOf(method, name, uri),
        level: caller.level,
        bytesIn: requestContext(call.ctx).receivedBytes,
        address: addressOf(call),
        userAgent: userAgentOf(call),
        clientName: nameOf(call, message),
        traceId: traceIdOf(membersOf(meta)['traceparent'], call.ctx.req.headers['traceparent']),
        arguments: undefined,
        argumentsJson: undefined,
        outcome: '',
        reason: undefined,
        toolError: undefined,
        ms: undefined,
        bytesOut: undefined,
      },
    };
    if (authorizeRequest(levels, caller, required).decision !== 'allowed')
      Object.assign(record, { outcome: 'refused', reason: 'forbidden' });
    return record;
  };
  const endRecord = (call: Call, { at, began }: CallRecords, record: CallRecord) => {
    const { status, reason } = outcomeOf(call.ctx);
    const isNotification = record.messageId === undefined && reason === undefined;
    const outcome =
      record.outcome ?? (isNotification ? 'answered' : outcomeOfResponse(status, reason));
    const why = outcome === 'answered' ? record.reason : (reason ?? record.reason);
    const ended = {
      outcome,
      reason: why,
      toolError: record.toolError,
      ms: Math.round(performance.now() - began),
      bytesOut: requestContext(call.ctx).sentBytes ?? call.ctx.response.length,
    };
    const part = record.isRecorded ? 'lasting' : 'bulk';
    const { started, item } = record;
    activity.calls(item.level ?? '', COUNTED[outcome], 1);
    if (started) {
      const end = { event: 'call_ended', call: started.id, ...ended };
      return buffer.add({ at: now(), item: end, part, completes: started });
    }
    const whole = { at, item: Object.assign(item, ended), part } as const;
    if (outcome !== 'refused') return buffer.add(whole);
    buffer.addRefused(`${item.grantId ?? item.account} ${why}`, whole);
  };
  /** A request that was refused before its messages were read, if it would have been a call. */
  const endUnread = async (call: Call & Partial<AuthenticatedCall>): Promise<void> => {
    const { ctx, caller, connectorId } = call;
    const { reason } = outcomeOf(ctx);
    if (ctx.method !== 'POST' || reason === undefined || reason === 'client_gone') return;
    const isLogged = calls === 'all' || (caller && isRecorded(levels, caller.level));
    const isWrongToken = reason === 'invalid_token';
    if (!isLogged || (!caller && !isWrongToken)) return;
    const { address } = requestContext(ctx);
    const item = {
      event: 'call',
      ...(caller && {
        account: caller.accountId,
        clientId: caller.clientId,
        grantId: caller.grantId,
        level: caller.level,
      }),
      connector: connectorId,
      address: addressOf(call),
      userAgent: userAgentOf(call),
      outcome: outcomeOfResponse(outcomeOf(ctx).status, reason),
      reason,
    };
    if (caller) activity.calls(caller.level, COUNTED[item.outcome], 1);
    const isLasting = caller && isRecorded(levels, caller.level);
    const waiting = { at: now(), item, part: isLasting ? 'lasting' : 'bulk' } as const;
    const [network = address] = clientNetworks(address);
    const who = caller ? (caller.grantId ?? caller.accountId) : `address ${network}`;
    const key = `${who} ${reason}`;
    if (buffer.countRefused(key)) return;
    if (!caller && (await refusals.consume(address)) !== undefined) return;
    buffer.addRefused(key, waiting);
  };
  const storeStarted = async (records: readonly CallRecord[]) => {
    const stored = await storeAuditDurably(
      services,
      records.map(({ item }) => {
        const { id: _id, time: _time, ...started } = item;
        return { item: auditItem(services, { ...started, outcome: 'started' }), part: 'lasting' };
      }),
    );
    records.forEach((record, index) => {
      const started = stored[index];
      if (started) record.started = started;
    });
  };
  return {
    begin(call, required) {
      const messages: unknown[] = Array.isArray(call.body) ? call.body : [call.body];
      const isLogged = calls === 'all' || isRecorded(levels, call.caller.level);
      const records: CallRecord[] = [];
      for (const [index, message] of messages.entries()) {
        const { method } = membersOf(message);
        if (method === 'initialize') nameOf(call, message);
        const isCall = required[index] !== undefined || method === 'tools/call';
        if (isLogged && isCall) records.push(recordOf(call, message, required[index], index));
      }
      call.recorded = { records, at: now(), began: performance.now() };
    },
    async start(call) {
      const records = recordsOf(call).filter(
        ({ isRecorded: must, outcome }) => must && outcome === undefined,
      );
      const storing = storeStarted(records);
      if (call.recorded) call.recorded.storing = storing;
      await storing;
      if (call.recorded) call.recorded.storing = undefined;
    },
    end(call) {
      const { recorded } = call;
      if (!recorded) return void endUnread(call).catch(() => undefined);
      recorded.hasEnded = true;
      const endRecords = () => {
        for (const record of recorded.records) endRecord(call, recorded, record);
      };
      if (recorded.storing) void recorded.storing.then(endRecords, endRecords);
      else endRecords();
      const { caller, toolCalls = 0 } = call;
      if (recorded.records.length > 0 || toolCalls === 0 || !caller) return;
      const { status, reason } = outcomeOf(call.ctx);
      const outcome = status < 400 ? 'answered' : outcomeOfResponse(status, reason);
      activity.calls(caller.level, COUNTED[outcome], toolCalls);
    },
  };
}

/** A call that has ended on record is not made: it would be on record twice. Throws `client_gone`. */
export function requireOpen({ recorded }: Recorded): void {
  if (recorded?.hasEnded) throw clientGone();
}

export function recordsOf({ recorded }: Recorded): CallRecord[] {
  return recorded?.records ?? [];
}

/** Notes how a response of the MCP server ends its request. */
export function noteAnswer(call: Recorded, message: Record<string, unknown>): void {
  const record = recordsOf(call).find(
    ({ messageId, outcome }) => outcome === undefined && isSameId(messageId, message['id']),
  );
  if (!record) return;
  const { result, error } = message;
  record.outcome = error === undefined ? 'answered' : 'failed';
  if (record.outcome === 'failed') record.reason = 'error';
  if (isObject(result) && result['isError'] === true) record.toolError = true;
}

/** Notes that the server let the client get the answers from another stream (GET with `Last-Event-ID`), which may be one of another process. */
export function noteSuspension(call: Recorded): void {
  for (const record of recordsOf(call))
    if (record.outcome === undefined && record.messageId !== undefined)
      Object.assign(record, { outcome: 'answered', reason: 'resumable' });
}

/** Notes that a limit refused these messages of the body, which is then without them. */
export function noteLimited(call: Recorded, refused: ReadonlySet<number>): void {
  for (const record of recordsOf(call)) {
    const { index } = record;
    if (refused.has(index)) Object.assign(record, { outcome: 'refused', reason: 'limit_reached' });
    record.index -= [...refused].filter((each) => each < index).length;
  }
}

/** Notes that Gatehouse refused the requests of the call, with these responses: those with a tool error for `reason`. */
export function noteRefusals(
  call: Recorded,
  responses: readonly object[],
  reason: 'tool_held' | 'invalid_arguments',
): void {
  for (const record of recordsOf(call)) {
    const response = responses.find((one) => isSameId(membersOf(one)['id'], record.messageId));
    const { error } = membersOf(response);
    const { code } = membersOf(error);
    record.outcome = 'refused';
    // What the level of the caller forbids has its reason already.
    if (code === INVALID_PARAMS) record.reason ??= 'not_found';
    else if (responses.length > 1 && error !== undefined) record.reason ??= 'batch_refused';
    else record.reason ??= error === undefined ? reason : 'forbidden';
  }
}

/** Notes that Gatehouse answered in place of the MCP server, because the person has not connected an account there. */
export function noteMissingCredential(call: Recorded, responses: readonly object[]): void {
  for (const record of recordsOf(call)) {
    const response = responses.find((one) => isSameId(membersOf(one)['id'], record.messageId));
    const { resultType, isError } = membersOf(membersOf(response)['result']);
    // The tool that connects the account.
    const isAnswered = resultType === 'complete' && isError !== true;
    record.outcome ??= isAnswered ? 'answered' : 'refused';
    if (!isAnswered) record.reason ??= 'credential_required';
  }
}

/** The errors of Gatehouse and of what it depends on, and of clients that did not wait. Others refuse the request. */
const FAULTS: ReadonlySet<string> = new Set([
  'bad_gateway',
  'client_gone',
  'gateway_timeout',
  'refused_upstream',
  'response_too_large',
  'server_error',
  'temporarily_unavailable',
]);

/** Of a request whose answer was not seen. */
function outcomeOfResponse(status: number, reason: string | undefined): CallOutcome {
  if (reason === undefined) return 'failed';
  return status >= 500 || FAULTS.has(reason) ? 'failed' : 'refused';
}

/** The beginning of a text of a client. */
function text(value: unknown, maxLength: number): string | undefined {
  if (typeof value !== 'string') return undefined;
  return value.slice(0, maxLength).toWellFormed();
}

/** The query of a URI may contain secrets. */
function targetOf(method: unknown, name: unknown, uri: unknown): string | undefined {
  if (method === 'prompts/get') return text(name, MAX_TARGET_LENGTH);
  const target = text(uri, MAX_TARGET_LENGTH);
  return target?.split(/[?#]/, 1)[0];
}

function traceIdOf(...traceparents: unknown[]): string | undefined {
  for (const traceparent of traceparents) {
    const [context] = traceparent === undefined ? [] : parseTraceparent(traceparent);
    if (context) return context.traceId;
  }
  return undefined;
}
