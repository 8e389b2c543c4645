// Reads the tools of the operator's MCP server, as Gatehouse itself: over any revision of MCP, within a time and a size.
import {
  Client,
  ProtocolError,
  SdkError,
  SdkErrorCode,
  StreamableHTTPClientTransport,
} from '@modelcontextprotocol/client';
import type { SigningKey } from '../../keys/signing-keys.ts';
import { LEVELS } from '../../permission-level.ts';
import type { Caller } from '../level.ts';
import { CALLER_HEADER, callerHeader } from './caller-header.ts';

export type DiscoveryOptions = {
  /** The address, as it stands in the settings. */
  url: string;
  /** Bytes of one answer. */
  maxAnswerBytes: number;
  issuer: string;
  /** The key that signs now. Absent: the upstream is asked without a caller header. */
  signingKey?: () => SigningKey;
  version: string;
  /** Milliseconds for everything. */
  timeout: number;
  signal?: AbortSignal;
  /** Seconds since the epoch. */
  now: () => number;
};

export type DiscoveredTool = { name: string; title?: string; annotations?: object };

/** `revision` is the protocol revision that was agreed on. */
export type Discovered = { revision: string; tools: DiscoveredTool[] };

/** `rejected`: 401 or 403, so the caller header was not accepted. `not-mcp`: it answers, with something else than MCP. */
export type DiscoveryFault =
  | 'unreachable'
  | 'timeout'
  | 'rejected'
  | 'redirected'
  | 'not-found'
  | 'failing'
  | 'too-large'
  | 'not-mcp';

/** Why the tools could not be read; the message fits behind "the MCP server". */
export class DiscoveryError extends Error {
  override name = 'DiscoveryError';
  readonly fault: DiscoveryFault;

  constructor(fault: DiscoveryFault, message: string, options?: ErrorOptions) {
    super(message, options);
    this.fault = fault;
  }
}

/** The caller in the requests that Gatehouse makes for itself: it may see every tool. */
const OURSELVES: Caller = {
  accountId: 'gatehouse',
  clientId: 'gatehouse',
  tokenId: 'gatehouse',
  level: LEVELS.at(-1) ?? 'full',
  ceiling: LEVELS.at(-1) ?? 'full',
  minted: false,
};

const MAX_PAGES = 50;
const END_SESSION_MS = 2000;

/** Rejects with DiscoveryError, never later than the timeout and the time that ending a session may take. */
export async function discoverTools(options: DiscoveryOptions): Promise<Discovered> {
  const time = AbortSignal.timeout(options.timeout);
  const signal = options.signal ? AbortSignal.any([options.signal, time]) : time;
  const connection = openConnection(options, signal);
  const transport = new StreamableHTTPClientTransport(new URL(options.url), {
    fetch: connection.fetch,
    requestInit: { headers: await headersOf(options) },
  });
  const client = new Client(
    { name: 'gatehouse', version: options.version },
    { versionNegotiation: { mode: 'auto' }, listMaxPages: MAX_PAGES },
  );
  const limits = { signal: connection.signal, timeout: options.timeout };
  const work = async () => {
    await client.connect(transport, limits);
    const { tools } = await client.listTools(undefined, limits);
    const revision = client.getNegotiatedProtocolVersion() ?? '';
    return { revision, tools: tools.map(toolOf) };
  };
  try {
    // The client ends some of its waiting by its own timeout only.
    return await Promise.race([work(), rejectedBy(connection.signal)]);
  } catch (error) {
    throw connection.fault() ?? otherFault(error, signal, options.timeout);
  } finally {
    await transport.terminateSession().catch(() => undefined);
    await client.close().catch(() => undefined);
  }
}

function rejectedBy(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}

function toolOf({ name, title, annotations }: DiscoveredTool): DiscoveredTool {
  return {
    name,
    ...(title === undefined ? {} : { title }),
    ...(annotations === undefined ? {} : { annotations }),
  };
}

async function headersOf({
  url: audience,
  issuer,
  signingKey,
  version,
  now,
}: DiscoveryOptions): Promise<Record<string, string>> {
  const agent = { 'user-agent': `gatehouse/${version}` };
  if (!signingKey) return agent;
  const headerOf = callerHeader({ issuer, audience, signingKey, now });
  return { ...agent, [CALLER_HEADER]: await headerOf(OURSELVES) };
}

/** HTTP for the MCP client. It remembers why the last request failed, which the client wraps in errors of its own. */
function openConnection({ maxAnswerBytes }: DiscoveryOptions, signal: AbortSignal) {
  let last: DiscoveryError | undefined;
  // The client goes on waiting when a stream of events breaks.
  const broken = new AbortController();
  const breakOff = (fault: DiscoveryError) => {
    last = fault;
    broken.abort(fault);
  };
  const ask = async (url: string | URL, init: RequestInit = {}): Promise<Response> => {
    // The stream of a session carries nothing that is needed here.
    if (init.method === 'GET') return new Response(null, { status: 405 });
    last = undefined;
    const time = init.method === 'DELETE' ? AbortSignal.timeout(END_SESSION_MS) : signal;
    const signals = init.signal ? [init.signal, time] : [time];
    try {
      const response = await fetch(url, {
        ...init,
        signal: AbortSignal.any(signals),
        redirect: 'manual',
      });
      last = faultOf(response);
      return limited(response, maxAnswerBytes, breakOff);
    } catch (error) {
      if (!time.aborted)
        last = new DiscoveryError('unreachable', reasonOf(error), { cause: error });
      throw error;
    }
  };
  return {
    fetch: ask,
    signal: AbortSignal.any([signal, broken.signal]),
    fault: () => (signal.aborted ? undefined : last),
  };
}

function faultOf(response: Response): DiscoveryError | undefined {
  const { status } = response;
  if (status < 300) return undefined;
  if (status === 401 || status === 403 || status === 407)
    return new DiscoveryError('rejected', `refuses Gatehouse (HTTP ${status})`);
  if (status < 400) {
    const target = URL.parse(response.headers.get('location') ?? '', response.url);
    const where = target ? ` to ${target.origin}${target.pathname}` : '';
    return new DiscoveryError('redirected', `redirects${where} (HTTP ${status})`);
  }
  if (status === 404 || status === 405)
    return new DiscoveryError('not-found', `has no MCP endpoint at this address (HTTP ${status})`);
  if (status >= 500) return new DiscoveryError('failing', `answers HTTP ${status}`);
  return new DiscoveryError('not-mcp', `answers HTTP ${status}`);
}

/** The same response, whose body fails when it is larger. */
function limited(
  response: Response,
  limit: number,
  onFault: (fault: DiscoveryError) => void,
): Response {
  if (!response.body) return response;
  let received = 0;
  const counter = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      received += chunk.length;
      if (received <= limit) return controller.enqueue(chunk);
      const fault = new DiscoveryError('too-large', `answers with more than ${limit} bytes`);
      onFault(fault);
      controller.error(fault);
    },
  });
  const { status, statusText, headers } = response;
  return new Response(response.body.pipeThrough(counter), { status, statusText, headers });
}

const REASONS: Record<string, string> = {
  ECONNREFUSED: 'does not listen (connection refused)',
  ECONNRESET: 'cuts the connection',
  UND_ERR_SOCKET: 'cuts the connection',
  ENOTFOUND: 'has a name without an address (ENOTFOUND)',
  EAI_AGAIN: 'has a name that cannot be looked up (EAI_AGAIN)',
  EHOSTUNREACH: 'cannot be reached from here (EHOSTUNREACH)',
  ENETUNREACH: 'cannot be reached from here (ENETUNREACH)',
  ERR_TLS_CERT_ALTNAME_INVALID: 'has a certificate for another name',
  CERT_HAS_EXPIRED: 'has a certificate that has expired',
};

/** `fetch` throws a TypeError with the fault of the network as its cause. */
function reasonOf(error: unknown): string {
  const { cause } = error as { cause?: NodeJS.ErrnoException };
  const { code = '', message = '' } = cause ?? {};
  if (/CERT|VERIFY|ISSUER/.test(code) && REASONS[code] === undefined)
    return `has a certificate that is not trusted here (${code})`;
  if (/SSL|EPROTO/.test(code)) return `does not speak TLS as it should (${code})`;
  return REASONS[code] ?? `cannot be reached (${code || message || 'no reason is known'})`;
}

function otherFault(error: unknown, signal: AbortSignal, timeout: number): DiscoveryError {
  const isTimeout = error instanceof SdkError && error.code === SdkErrorCode.RequestTimeout;
  if (signal.aborted || isTimeout)
    return new DiscoveryError('timeout', `does not answer within ${timeout / 1000} s`);
  if (error instanceof ProtocolError) {
    const message = `answers with the error ${error.code} (${printable(error.message)})`;
    return new DiscoveryError('failing', message, { cause: error });
  }
  const message = `does not answer as MCP requires (${printable((error as Error).message)})`;
  return new DiscoveryError('not-mcp', message, { cause: error });
}

const MAX_TEXT = 200;

/** What comes from the other side, for a log and a terminal. */
export function printable(text: string, max = MAX_TEXT): string {
  const line = text.replaceAll(/[\p{C}\p{Zl}\p{Zp}\s]+/gu, ' ').trim();
  return line.length > max ? `${line.slice(0, max)}…` : line;
}
