// Asks the identity provider and the MCP server whether the answers fit. Neither stops init.
import { discoverTools } from '../gateway/upstream/discovery.ts';
import { DiscoveryError } from '../gateway/upstream/discovery-faults.ts';
import { errorCode } from '../settings/source.ts';
import { isIssuerOfDocument } from '../settings/value-types.ts';
import { tlsFault } from '../tls-errors.ts';
import { version } from '../version.ts';
import { type ClassifiedTool, classifyTools, SUGGESTED_LEVELS } from './levels.ts';
import { HEADER_EXAMPLE, type UpstreamHeader, type UpstreamHeaders } from './upstream-headers.ts';

const UPSTREAM_TIMEOUT_MS = 10_000;
const PROVIDER_TIMEOUT_MS = 5000;
const MAX_ANSWER_BYTES = 16 * 1024 * 1024;

/** `problem` is a sentence without a full stop, and `remedy` says what to do. */
export type Probe<T> = { found: T; problem?: string; remedy?: string };

/** `isRefused`: the MCP server answers with HTTP 401, 403 or 407. */
export type ToolProbe = Probe<ClassifiedTool[]> & { isRefused?: boolean };

/**
 * Suggests a level for each tool of the MCP server. Sends the headers, but no caller header, which only a running Gatehouse can sign.
 */
export async function readTools(
  url: string,
  issuer: string,
  { headers, values }: UpstreamHeaders,
): Promise<ToolProbe> {
  const { origin, pathname } = new URL(url);
  const name = `the MCP server ${origin}${pathname}`;
  try {
    const { tools } = await discoverTools({
      url,
      issuer,
      // For the caller header, which is not sent.
      levels: SUGGESTED_LEVELS,
      credentials: values,
      maxAnswerBytes: MAX_ANSWER_BYTES,
      version,
      timeout: UPSTREAM_TIMEOUT_MS,
      now: () => Date.now() / 1000,
    });
    const found = classifyTools(tools);
    if (found.length === new Set(tools.map((tool) => tool.name)).size) return { found };
    return {
      found,
      problem: `${name} has tools that the settings cannot name, or too many`,
      remedy: 'they need the highest level',
    };
  } catch (error) {
    if (!(error instanceof DiscoveryError)) throw error;
    const isRefused = error.fault === 'rejected';
    const remedy = isRefused
      ? `${credentialRemedy(headers)}; if it requires the header Gatehouse-Caller, start Gatehouse; gatehouse doctor then lists its tools; if people have accounts of their own there, add credential: { kind: oauth } below its url`
      : (tlsFault(error)?.remedy ?? 'check the address, and that the server runs');
    return { found: [], problem: `${name} ${error.message}`, remedy, isRefused };
  }
}

function credentialRemedy(headers: readonly UpstreamHeader[]): string {
  return headers.length > 0
    ? `check ${headers.map(({ variable }) => variable).join(', ')}`
    : `if it requires a credential, set an environment variable to it, and name the variable: --upstream-header "${HEADER_EXAMPLE}"`;
}

/** Compares the issuer with its discovery document (OpenID Connect Discovery section 4). */
export async function probeIssuer(issuer: string): Promise<Probe<undefined>> {
  const url = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
  const fault = (what: string): Probe<undefined> => ({
    found: undefined,
    problem: `${url} ${what}`,
    remedy: 'check the issuer of the identity provider; gatehouse doctor checks it again',
  });
  try {
    const signal = AbortSignal.timeout(PROVIDER_TIMEOUT_MS);
    const response = await fetch(url, { signal, redirect: 'manual' });
    if (response.status !== 200) return fault(`answers with HTTP ${response.status}`);
    const document: unknown = await response.json();
    const named = typeof document === 'object' && document && 'issuer' in document;
    if (!named || typeof document.issuer !== 'string') return fault('names no issuer');
    if (isIssuerOfDocument(issuer, document.issuer)) return { found: undefined };
    return fault(`names another issuer, ${JSON.stringify(document.issuer.slice(0, 200))}`);
  } catch (error) {
    const tls = tlsFault(error);
    if (tls) return { ...fault(tls.what), remedy: tls.remedy };
    const { cause = error } = error as { cause?: unknown };
    return fault(
      error instanceof SyntaxError ? 'is not JSON' : `cannot be fetched (${errorCode(cause)})`,
    );
  }
}
