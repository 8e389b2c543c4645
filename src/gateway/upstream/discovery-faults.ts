// Why the tools of the operator's MCP server cannot be listed, and what the operator can do.
import { ProtocolError, SdkError, SdkErrorCode } from '@modelcontextprotocol/client';
import type { Upstream } from '../../settings/upstreams.ts';
import { tlsFault } from '../../tls-errors.ts';
import type { CatalogFault, DiscoveryFault } from '../../upstreams/tool-catalog.ts';
import { CompressedResponse } from './messages.ts';
import { printable } from '../../printable-text.ts';
import { findsParts, refusesHost } from './quoting.ts';

type Credentials = Readonly<Record<string, string>>;

/** The message completes a sentence that starts with "the MCP server". */
export class DiscoveryError extends Error {
  override name = 'DiscoveryError';
  readonly fault: DiscoveryFault;
  /** Present if TLS failed. */
  readonly remedy?: string;
  /** Whether the server answered HTTP 400. */
  readonly isBadRequest: boolean;

  constructor(
    fault: DiscoveryFault,
    message: string,
    { status, ...options }: ErrorOptions & { status?: number } = {},
  ) {
    super(message, options);
    this.fault = fault;
    this.isBadRequest = status === 400;
    const tls = tlsFault(options?.cause);
    if (tls) this.remedy = tls.remedy;
  }
}

export function faultOf(
  response: Response,
  words: string,
  credentials: Credentials,
): DiscoveryError | undefined {
  const { status } = response;
  if (status < 300) return undefined;
  const quote = words === '' || findsParts(credentials)(words) ? '' : `: ${printable(words)}`;
  if (refusesHost(status, words))
    return new DiscoveryError('wrong-host', `refuses the Host header (HTTP ${status}${quote})`);
  if (status === 401 || status === 403 || status === 407)
    return new DiscoveryError('rejected', `refuses Gatehouse (HTTP ${status})`);
  if (status < 400) {
    const target = URL.parse(response.headers.get('location') ?? '', response.url);
    const address = target && target.origin + target.pathname;
    const where = address && !findsParts(credentials)(address) ? ` to ${address}` : '';
    return new DiscoveryError('redirected', `redirects${where} (HTTP ${status})`);
  }
  if (status === 404 || status === 405)
    return new DiscoveryError('not-found', `has no MCP endpoint at this address (HTTP ${status})`);
  if (status >= 500) return new DiscoveryError('failing', `responds with HTTP ${status}`);
  return new DiscoveryError('not-mcp', `responds with HTTP ${status}`, { status });
}

const REASONS: Record<string, string> = {
  ECONNREFUSED: 'does not listen (connection refused)',
  ECONNRESET: 'closes the connection',
  UND_ERR_SOCKET: 'closes the connection',
  ENOTFOUND: 'has a name that does not resolve (ENOTFOUND)',
  EAI_AGAIN: 'has a name that cannot be resolved at present (EAI_AGAIN)',
  EHOSTUNREACH: 'cannot be reached from this machine (EHOSTUNREACH)',
  ENETUNREACH: 'cannot be reached from this machine (ENETUNREACH)',
};

export function unreachable(error: unknown): DiscoveryError {
  if (error instanceof CompressedResponse)
    return new DiscoveryError('not-mcp', `compresses its responses (${error.encoding})`);
  return new DiscoveryError('unreachable', reasonOf(error), { cause: error });
}

/** `fetch` throws a TypeError whose cause is the network error. */
function reasonOf(error: unknown): string {
  const { cause } = error as { cause?: NodeJS.ErrnoException };
  const { code = '', message = '' } = cause ?? {};
  return (
    tlsFault(error)?.what ??
    REASONS[code] ??
    `cannot be reached (${code || message || 'unknown reason'})`
  );
}

export function otherFault(
  error: unknown,
  signal: AbortSignal,
  { credentials, timeout }: { credentials: Credentials; timeout: number },
): DiscoveryError {
  const isTimeout = error instanceof SdkError && error.code === SdkErrorCode.RequestTimeout;
  if (signal.aborted || isTimeout)
    return new DiscoveryError('timeout', `does not answer within ${timeout / 1000} s`);
  const { message: text } = error as Error;
  const quote = findsParts(credentials)(text) ? '' : ` (${printable(text)})`;
  if (error instanceof ProtocolError)
    return new DiscoveryError('failing', `answers with the error ${error.code}${quote}`, {
      cause: error,
    });
  return new DiscoveryError('not-mcp', `sends a response that is not valid MCP${quote}`, {
    cause: error,
  });
}

const REMEDIES: Record<DiscoveryFault, (setting: string) => string> = {
  unreachable: (setting) =>
    `check ${setting}.url, that the MCP server runs, and that no firewall blocks this machine`,
  timeout: () => 'check that this machine reaches the MCP server, and how long its response takes',
  'wrong-host': (setting) =>
    `set ${setting}.host to a name that the MCP server accepts, such as localhost with its port, or allow the host of ${setting}.url in the MCP server`,
  rejected: (setting) =>
    `configure the MCP server to verify the header gatehouse-caller: keys at {authUrl}/oauth/jwks, issuer authUrl, audience exactly ${setting}.url; sub may be gatehouse. If it needs a credential of its own, set ${setting}.headers`,
  redirected: (setting) =>
    `set ${setting}.url to the final address, including its path and slash: redirects are not followed`,
  'not-found': (setting) => `check the path of ${setting}.url (often /mcp)`,
  failing: () => 'see the log of the MCP server',
  'too-large': (setting) => `reduce the number of tools, or raise ${setting}.maxAnswerBytes`,
  'not-mcp': (setting) => `check that ${setting}.url is an MCP server with Streamable HTTP`,
};

/** What the operator can do. */
export function remedyFor(
  { fault, remedy }: CatalogFault,
  { setting }: Pick<Upstream, 'setting'>,
): string {
  return remedy ?? REMEDIES[fault](setting);
}
