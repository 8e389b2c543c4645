// The headers of a request to the upstream: a list of what goes on, so that tokens, cookies and whatever else came do not.
import type { IncomingHttpHeaders } from 'node:http';
import { HttpError } from '../../http/errors.ts';
import { membersOf } from '../messages.ts';
import { presentedToken } from '../bearer.ts';
import type { Caller } from '../level.ts';
import { CALLER_HEADER } from './caller-header.ts';
import type { Handles } from './handles.ts';
import { hasSubject, isRequest, type Message, subjectOf } from './message.ts';
import { decodedHeader, headerMismatch, type ParameterHeaders } from './parameter-headers.ts';

const PASSED_ON = /^(accept|mcp-protocol-version|mcp-method|mcp-name)$/;
const REVISION = /^\d{4}-\d{2}-\d{2}$/;
/** The first revision in which headers repeat the body (SEP-2243). */
const MIRRORED_SINCE = '2026-07-28';
const REVISION_IN_BODY = 'io.modelcontextprotocol/protocolVersion';

export type Inbound = { headers: IncomingHttpHeaders; messages: readonly Message[] };

export type OutboundOptions = {
  handles: Handles;
  parameterHeaders: ParameterHeaders;
  caller: Caller;
  /** The signed text of `Gatehouse-Caller`. */
  signedCaller: string;
  version: string;
};

/** Throws HttpError: 404 for a session or an event that is not this caller's, 400 for headers that say something else than the body. */
export function outboundHeaders(
  { headers, messages }: Inbound,
  options: OutboundOptions,
): Record<string, string> {
  requireAgreement(headers, messages);
  const { handles, parameterHeaders, caller, signedCaller, version } = options;
  const session = headers['mcp-session-id'];
  const event = headers['last-event-id'];
  return {
    accept: 'application/json, text/event-stream',
    ...passedOn(headers, messages, parameterHeaders),
    ...(messages.length > 0 ? { 'content-type': 'application/json' } : {}),
    ...(session === undefined
      ? {}
      : { 'mcp-session-id': requireOwn(handles.unbind('session', caller, String(session))) }),
    ...(event === undefined
      ? {}
      : { 'last-event-id': requireOwn(handles.unbind('event', caller, String(event))) }),
    'accept-encoding': 'identity',
    'user-agent': `gatehouse/${version}`,
    [CALLER_HEADER]: signedCaller,
  };
}

/** What speaks of one message says nothing about a batch. A header that repeats the token, or the proof of its key, is not repeated. */
function passedOn(
  headers: IncomingHttpHeaders,
  messages: readonly Message[],
  parameterHeaders: ParameterHeaders,
): Record<string, string> {
  const { token = '' } = presentedToken(headers.authorization);
  const secrets = [token, String(headers.dpop ?? '')].filter((secret) => secret !== '');
  const [message, ...more] = messages;
  const isPassedOn = ([name, value]: [string, unknown]) => {
    if (!PASSED_ON.test(name) || typeof value !== 'string') return false;
    if (name === 'mcp-name')
      return more.length === 0 && message !== undefined && hasSubject(message);
    return more.length === 0 || name !== 'mcp-method';
  };
  const ofMessage = message && more.length === 0 ? parameterHeaders.verified(headers, message) : {};
  const all = { ...Object.fromEntries(Object.entries(headers).filter(isPassedOn)), ...ofMessage };
  const isSecret = ([, value]: [string, unknown]) =>
    secrets.some((secret) => String(value).includes(secret));
  const passed = Object.entries(all).filter((header) => !isSecret(header));
  return Object.fromEntries(passed) as Record<string, string>;
}

/** A server that goes by the header would do something else than was judged here (MCP 2026-07-28, header validation). */
function requireAgreement(headers: IncomingHttpHeaders, messages: readonly Message[]): void {
  const [message, ...more] = messages;
  if (!message || more.length > 0) return;
  const { 'mcp-method': method, 'mcp-name': name } = headers;
  const [revision, revisionInBody] = [headers['mcp-protocol-version'], revisionOf(message)];
  if (isRequest(message) && isMirrored(revision ?? revisionInBody)) {
    const isNamed = subjectOf(message) === undefined || name !== undefined;
    if (method === undefined) throw headerMissing('Mcp-Method');
    if (!isNamed) throw headerMissing('Mcp-Name');
    if (revisionInBody !== undefined && revisionInBody !== revision)
      throw headerMismatch('MCP-Protocol-Version');
  }
  if (method !== undefined && method !== message.method) throw headerMismatch('Mcp-Method');
  const named = name === undefined ? undefined : decodedHeader(String(name));
  if (name !== undefined && (named === undefined || named !== subjectOf(message)))
    throw headerMismatch('Mcp-Name');
}

function revisionOf({ params }: Message): unknown {
  return membersOf(params?.['_meta'])[REVISION_IN_BODY];
}

/** Revisions are dates. */
function isMirrored(revision: unknown): boolean {
  return typeof revision === 'string' && REVISION.test(revision) && revision >= MIRRORED_SINCE;
}

function headerMissing(header: string): HttpError {
  return new HttpError(400, 'header_mismatch', `${header} is missing`);
}

function requireOwn(handle: string | undefined): string {
  if (handle !== undefined) return handle;
  throw new HttpError(404, 'unknown_session', 'there is no such session: start anew');
}
