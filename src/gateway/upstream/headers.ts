// The headers of a request to the upstream. Only listed headers are forwarded: never tokens, proofs or cookies.
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { HttpError } from '../../http/errors.ts';
import { lruCache } from '../../lru-cache.ts';
import { type Caller, connectionOf, presentedToken } from '../authenticate.ts';
import { isObject, membersOf } from '../../json-values.ts';
import { hasSubject, isRequest, type Message, subjectOf } from '../json-rpc.ts';
import { plainValues } from '../exact-json.ts';
import type { IdBinder } from './bound-ids.ts';

const FORWARDED = ['accept', 'mcp-protocol-version', 'mcp-method', 'mcp-name'] as const;
const REVISION = /^\d{4}-\d{2}-\d{2}$/;
/** The first revision without sessions: each request states its revision and capabilities, and its headers repeat the body (SEP-2243). */
export const STATELESS_SINCE = '2026-07-28';
/** For servers that answer HTTP 400 to a revision that they do not know, in place of naming their own. */
export const OLDER_REVISION = '2025-06-18';
/** Has a task id, but no `Mcp-Name`, because that revision removed it. */
const REMOVED_METHOD = 'tasks/result';
const REVISION_IN_BODY = 'io.modelcontextprotocol/protocolVersion';

export type Inbound = { req: IncomingMessage; messages: readonly Message[] };

/** `id` is undefined for a server without sessions; `revision` takes the place of the app's. */
export type OpenSession = { id: string | undefined; revision?: string | undefined };

export type OutboundOptions = {
  ids: IdBinder;
  parameterHeaders: ParameterHeaders;
  caller: Caller;
  /** Takes the place of the session that the request names. */
  session?: OpenSession | undefined;
  /** `Gatehouse-Caller` and the plain headers. */
  callerHeaders: Readonly<Record<string, string>>;
  /** The value of `Host`, if it is not that of the address. */
  host: string | undefined;
  /** The operator's credentials, which never replace the headers that Gatehouse sets. */
  credentials: Readonly<Record<string, string>>;
  version: string;
};

/** Throws HttpError 404 if the session or event id is not this caller's or the method was removed, and 400 if a header differs from the body. */
export function outboundHeaders(
  { req, messages }: Inbound,
  options: OutboundOptions,
): Record<string, string> {
  const { headers } = req;
  requireMatchingBody(headers, messages);
  const { ids, caller, callerHeaders, credentials, host, version } = options;
  const session = options.session ? undefined : headers['mcp-session-id'];
  const event = headers['last-event-id'];
  const outbound: Record<string, string> = {
    ...credentials,
    accept: 'application/json, text/event-stream',
  };
  forwardHeaders(outbound, req, messages, options);
  if (messages.length > 0) outbound['content-type'] = 'application/json';
  if (session !== undefined)
    outbound['mcp-session-id'] = requireOwnId(ids.unbind('session', caller, String(session)));
  if (options.session?.id !== undefined) outbound['mcp-session-id'] = options.session.id;
  if (options.session?.revision) outbound['mcp-protocol-version'] = options.session.revision;
  if (event !== undefined)
    outbound['last-event-id'] = requireOwnId(ids.unbind('event', caller, String(event)));
  if (host !== undefined) outbound['host'] = host;
  outbound['accept-encoding'] = 'identity';
  outbound['user-agent'] = `gatehouse/${version}`;
  return Object.assign(outbound, callerHeaders);
}

/** Drops headers about a message unless there is exactly one, and headers that contain the access token or DPoP proof. */
function forwardHeaders(
  outbound: Record<string, string>,
  req: IncomingMessage,
  messages: readonly Message[],
  { parameterHeaders, caller }: Pick<OutboundOptions, 'parameterHeaders' | 'caller'>,
): void {
  const { headers } = req;
  const { token } = presentedToken(req);
  const secrets = [token, headers.dpop].filter((secret) => typeof secret === 'string');
  const message = messages.length === 1 ? messages[0] : undefined;
  const forwardSafe = (name: string, value: unknown) => {
    if (typeof value === 'string' && !secrets.some((secret) => secret && value.includes(secret)))
      outbound[name] = value;
  };
  for (const name of FORWARDED) {
    const value = headers[name];
    if (value === undefined) continue;
    const isAboutMessage = name === 'mcp-method' || name === 'mcp-name';
    if (isAboutMessage && !message) continue;
    if (name === 'mcp-name' && !(message && hasSubject(message))) continue;
    forwardSafe(name, value);
  }
  if (!message) return;
  const parameters = parameterHeaders.verified(headers, message, connectionOf(caller));
  for (const name in parameters) forwardSafe(name, parameters[name]);
}

/** A server that trusts the headers would do something else than we authorized (MCP 2026-07-28, header validation). */
function requireMatchingBody(headers: IncomingHttpHeaders, messages: readonly Message[]): void {
  const [message, ...more] = messages;
  if (!message || more.length > 0) return;
  const { 'mcp-method': method, 'mcp-name': name } = headers;
  const [revision, revisionInBody] = [headers['mcp-protocol-version'], revisionOf(message)];
  if (isRequest(message) && isStateless(revision ?? revisionInBody)) {
    if (message.method === REMOVED_METHOD)
      throw new HttpError(404, 'method_not_found', `there is no ${REMOVED_METHOD}: use tasks/get`);
    const hasName = subjectOf(message) === undefined || name !== undefined;
    if (method === undefined) throw headerMissing('Mcp-Method');
    if (!hasName) throw headerMissing('Mcp-Name');
    if (revisionInBody !== undefined && revisionInBody !== revision)
      throw headerMismatch('MCP-Protocol-Version');
  }
  if (method !== undefined && method !== message.method) throw headerMismatch('Mcp-Method');
  const named = name === undefined ? undefined : decodedHeader(String(name));
  if (name !== undefined && (named === undefined || named !== subjectOf(message)))
    throw headerMismatch('Mcp-Name');
}

/** The revision that a request states in its body, unvalidated. */
export function revisionOf({ params }: Message): unknown {
  return membersOf(params?.['_meta'])[REVISION_IN_BODY];
}

/** Whether a revision is STATELESS_SINCE or later. */
export function isStateless(revision: unknown): boolean {
  return typeof revision === 'string' && REVISION.test(revision) && revision >= STATELESS_SINCE;
}

function headerMissing(header: string): HttpError {
  return new HttpError(400, 'header_mismatch', `${header} is missing`);
}

function requireOwnId(id: string | undefined): string {
  if (id !== undefined) return id;
  throw new HttpError(404, 'unknown_session', 'the session does not exist: start a new one');
}

/** A header, and the path of the argument that it repeats, as the tool's schema declares it (`x-mcp-header`). */
type Declaration = { header: string; path: readonly string[] };

/**
 * Verifies the headers `Mcp-Param-*`, which repeat arguments of a tool call (MCP 2026-07-28, SEP-2243). A server may trust the headers, while
 * we authorize and audit the body. The declarations come from the tool lists that this process forwarded, without what waits for an operator:
 * those of the caller's own list decide. Those that others were shown may be about another tool, so a header that differs is dropped and refuses
 * no call. For other tools, such as after a restart, a header repeats the argument of its own name. A header without an argument is dropped; an
 * upstream that needs it responds with -32020, and the client lists the tools again.
 */
export type ParameterHeaders = {
  /** Reads the declarations of a list that was shown to a connection or token. */
  learn(tools: readonly unknown[], caller: string): void;
  /** The headers to forward. Throws HttpError 400 if one differs from its argument. */
  verified(headers: IncomingHttpHeaders, message: Message, caller?: string): Record<string, string>;
};

const PARAMETER_PREFIX = 'mcp-param-';
const NO_PARAMETERS: Record<string, string> = {};
/** Of tools, and of tools and callers. */
const MAX_DECLARED = 20_000;
const MAX_SCHEMA_DEPTH = 20;
const ENCODED = /^=\?base64\?(.*)\?=$/;
/** Servers read other characters in different ways (RFC 9110 section 5.5). */
const PLAIN = /^[\t\x20-\x7e]*$/;
/** Without leading zeros, which some parsers read as octal. */
const DECIMAL = /^-?(0|[1-9]\d*)(\.\d+)?$/;
/** Different decimals of up to 15 digits are different doubles. Longer ones must be written as the body is. */
const MAX_EXACT_LENGTH = 15;

export function parameterHeaders(): ParameterHeaders {
  const declared = lruCache<Declaration[]>(MAX_DECLARED);
  return {
    learn(tools, caller) {
      for (const { name, inputSchema } of tools.map(membersOf)) {
        if (typeof name !== 'string') continue;
        const declarations = declarationsIn(inputSchema);
        declared.set(ofCaller(caller, name), declarations);
        declared.set(ofAnybody(name), declarations);
      }
    },
    verified(headers, { method, params }, caller = '') {
      if (method !== 'tools/call') return NO_PARAMETERS;
      const names = Object.keys(headers).filter((header) => header.startsWith(PARAMETER_PREFIX));
      if (names.length === 0) return NO_PARAMETERS;
      const sent = names.map((name) => [name, headers[name]] as const);
      const { name, arguments: given } = membersOf(params);
      const own = declared.get(ofCaller(caller, String(name)));
      const others = own ? undefined : declared.get(ofAnybody(String(name)));
      const declarations =
        own ?? others ?? declarationsByName(given, new Set(sent.map(([each]) => each)));
      const byHeader = Map.groupBy(declarations, ({ header }) => header);
      const verified = sent.filter(([header, value]) => {
        const mirrored = byHeader.get(header) ?? [];
        const differs = mirrored.some(({ path }) => !repeats(String(value), valueAt(given, path)));
        if (differs && !others) throw headerMismatch(header);
        return mirrored.length > 0 && !differs;
      });
      return Object.fromEntries(verified) as Record<string, string>;
    },
  };
}

const ofCaller = (caller: string, name: string) => `${caller} ${name}`;
/** No caller is empty. */
const ofAnybody = (name: string) => ofCaller('', name);

/** Follows `properties` only: an argument elsewhere in a schema has no fixed path. */
function declarationsIn(schema: unknown, path: readonly string[] = []): Declaration[] {
  const { 'x-mcp-header': header, properties } = membersOf(schema);
  const own =
    typeof header === 'string' ? [{ header: PARAMETER_PREFIX + header.toLowerCase(), path }] : [];
  if (path.length === MAX_SCHEMA_DEPTH) return own;
  const nested = Object.entries(membersOf(properties)).flatMap(([name, property]) =>
    declarationsIn(property, [...path, name]),
  );
  return [...own, ...nested];
}

/** Returns only the declarations of `sent` headers, because there may be very many arguments. */
function declarationsByName(given: unknown, sent: ReadonlySet<string>): Declaration[] {
  return Object.keys(membersOf(given)).flatMap((name) =>
    [name, name.replaceAll('_', '-')]
      .map((header) => ({ header: PARAMETER_PREFIX + header.toLowerCase(), path: [name] }))
      .filter(({ header }) => sent.has(header)),
  );
}

function valueAt(given: unknown, path: readonly string[]): unknown {
  return path.reduce((value, name) => {
    const members = membersOf(value);
    return Object.hasOwn(members, name) ? members[name] : undefined;
  }, given);
}

function repeats(header: string, value: unknown): boolean {
  const text = decodedHeader(header);
  if (text === undefined) return false;
  // `JSON.stringify` writes infinity as null.
  if (typeof value === 'number' && !Number.isFinite(value)) return false;
  if (typeof value === 'number' && DECIMAL.test(text) && text.length <= MAX_EXACT_LENGTH)
    return Number(text) === value;
  const plain = isObject(value) ? plainValues(value) : value;
  return ['string', 'number', 'boolean'].includes(typeof plain) && String(plain) === text;
}

/** Returns undefined if the value is ambiguous. */
function decodedHeader(value: string): string | undefined {
  if (!PLAIN.test(value)) return undefined;
  const [, base64] = ENCODED.exec(value) ?? [];
  if (base64 === undefined) return value;
  const bytes = Buffer.from(base64, 'base64');
  const text = bytes.toString('utf8');
  const isCanonical = bytes.toString('base64') === base64 && Buffer.from(text).equals(bytes);
  return isCanonical ? text : undefined;
}

function headerMismatch(header: string): HttpError {
  return new HttpError(400, 'header_mismatch', `${header} differs from the body`);
}
