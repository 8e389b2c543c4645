// The headers of a request to the upstream: a list of what goes on, so that tokens, cookies and whatever else came do not.
import type { IncomingHttpHeaders } from 'node:http';
import { HttpError } from '../../http/errors.ts';
import { presentedToken } from '../bearer.ts';
import type { Caller } from '../level.ts';
import { CALLER_HEADER } from './caller-header.ts';
import type { Handles } from './handles.ts';
import { hasSubject, type Message, subjectOf } from './message.ts';

const PASSED_ON = /^(accept|mcp-protocol-version|mcp-method|mcp-name|mcp-param-[\w-]+)$/;
/** MCP 2026-07-28: how a header carries text that is not plain (SEP-2243). */
const ENCODED = /^=\?base64\?([A-Za-z0-9+/]*={0,2})\?=$/;

export type Inbound = { headers: IncomingHttpHeaders; messages: readonly Message[] };

export type OutboundOptions = {
  handles: Handles;
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
  const { handles, caller, signedCaller, version } = options;
  const session = headers['mcp-session-id'];
  const event = headers['last-event-id'];
  return {
    accept: 'application/json, text/event-stream',
    ...passedOn(headers, messages),
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
): Record<string, string> {
  const { token = '' } = presentedToken(headers.authorization);
  const secrets = [token, String(headers.dpop ?? '')].filter((secret) => secret !== '');
  const [message, ...more] = messages;
  const isPassedOn = ([name, value]: [string, unknown]) => {
    if (!PASSED_ON.test(name) || typeof value !== 'string') return false;
    if (secrets.some((secret) => value.includes(secret))) return false;
    if (name === 'mcp-name')
      return more.length === 0 && message !== undefined && hasSubject(message);
    return more.length === 0 || !/^mcp-(method|param)/.test(name);
  };
  return Object.fromEntries(Object.entries(headers).filter(isPassedOn)) as Record<string, string>;
}

/** A server that goes by the header would do something else than was judged here (MCP 2026-07-28, header validation). */
function requireAgreement(headers: IncomingHttpHeaders, messages: readonly Message[]): void {
  const [message, ...more] = messages;
  if (!message || more.length > 0) return;
  const { 'mcp-method': method, 'mcp-name': name } = headers;
  if (method !== undefined && method !== message.method) throw mismatch('Mcp-Method');
  if (name !== undefined && decoded(String(name)) !== subjectOf(message))
    throw mismatch('Mcp-Name');
}

function decoded(value: string): string {
  const [, base64] = ENCODED.exec(value) ?? [];
  return base64 === undefined ? value : Buffer.from(base64, 'base64').toString('utf8');
}

function mismatch(header: string): HttpError {
  return new HttpError(400, 'header_mismatch', `${header} says something else than the body`);
}

function requireOwn(handle: string | undefined): string {
  if (handle !== undefined) return handle;
  throw new HttpError(404, 'unknown_session', 'there is no such session: start anew');
}
