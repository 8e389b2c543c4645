// Properties that every history must have, whatever the fault. Each function returns descriptions of violations.
import {
  claimsOf,
  type TokenFamilies,
  familiesIn,
  type TokenFamily,
  isTokenRequest,
  presentedIn,
} from './token-families.ts';
import { type RecordedResponse, type Exchange, jsonOf } from './history.ts';

export type Limits = {
  /** The time limit of every response. Set it only if nothing else uses the machine. */
  maxMs?: number;
  /** Whether connections may break because the process was killed. */
  connectionsMayBreak?: boolean;
};

/** The time after which a revoked token must be refused everywhere. */
const MAX_REVOCATION_SECONDS = 60;

export function violations(
  exchanges: readonly Exchange[],
  { maxMs = Infinity, connectionsMayBreak = false }: Limits = {},
): string[] {
  const families = familiesIn(exchanges);
  const found = exchanges.flatMap((exchange) => {
    const { answer, began, ended } = exchange;
    if (!answer) return connectionsMayBreak ? [] : [`${describe(exchange)}: the connection broke`];
    const took = ended - began;
    return [
      ...(took > maxMs ? [`${describe(exchange)}: took ${Math.round(took)} ms`] : []),
      ...malformedServerError(exchange, answer),
      ...wrongRefusal(families, exchanges, exchange, answer),
      ...successAfterRevocation(families, exchange, answer),
    ];
  });
  return [...found, ...codesRedeemedTwice(exchanges)];
}

/** A server error must be 503 with `Retry-After`, in the format of the endpoint. */
function malformedServerError(exchange: Exchange, answer: RecordedResponse): string[] {
  const { status, headers, text } = answer;
  const { pathname } = exchange.url;
  if (status < 500 || pathname === '/readyz') return [];
  const wrong: string[] = [];
  if (status !== 503) wrong.push('not 503');
  if (!(Number(headers.get('retry-after')) > 0)) wrong.push('no Retry-After');
  if (headers.get('cache-control') !== 'no-store') wrong.push('may be cached');
  if (headers.has('www-authenticate')) wrong.push('asks to sign in');
  if (isDocument(pathname)) wrong.push('a document that needs no store');
  if (isPage(pathname)) {
    if (!/try again|reload this page/i.test(text)) wrong.push('does not say what to do');
  } else if (codeIn(answer) !== 'temporarily_unavailable') wrong.push('another error code');
  return wrong.length > 0 ? [`${describe(exchange)}: ${wrong.join(', ')}`] : [];
}

function isDocument(path: string): boolean {
  return /^\/\.well-known\/oauth-(authorization-server|protected-resource)$|^\/oauth\/jwks$/.test(
    path,
  );
}

function isPage(path: string): boolean {
  return /^\/(interaction|account|oauth\/authorize)(\/|$)/.test(path);
}

/** The code of an OAuth error or of a JSON-RPC error. */
function codeIn(answer: RecordedResponse): unknown {
  const { error } = jsonOf(answer) ?? {};
  if (typeof error !== 'object' || error === null || !('data' in error)) return error;
  return (error.data as Record<string, unknown>).error;
}

/** A client error must have a reason: the token or code was really invalid. */
function wrongRefusal(
  families: TokenFamilies,
  exchanges: readonly Exchange[],
  exchange: Exchange,
  answer: RecordedResponse,
): string[] {
  const { status } = answer;
  if (status < 400 || status >= 500) return [];
  const isDeserved = isTokenRequest(exchange)
    ? codeIn(answer) === 'invalid_grant' && isUsedUp(families, exchanges, exchange)
    : isCall(exchange) && mayBeRefused(families, exchange);
  return isDeserved ? [] : [`${describe(exchange)}: refused with ${String(codeIn(answer))}`];
}

function isUsedUp(
  families: TokenFamilies,
  exchanges: readonly Exchange[],
  exchange: Exchange,
): boolean {
  const presented = presentedIn(exchange);
  if (wasAskedToEnd(families.of(presented), exchange)) return true;
  return exchange.form.has('code') && exchanges.some((other) => mayHaveRedeemed(other, exchange));
}

/** A code may also have been redeemed by a request whose response was lost. */
function mayHaveRedeemed(other: Exchange, { began, form }: Exchange): boolean {
  const isEarlier = other.began < began && other.form.get('code') === form.get('code');
  return isEarlier && (!other.answer || other.answer.status !== 400);
}

function isCall({ url }: Exchange): boolean {
  return /^\/connect\/\w+\/mcp$/.test(url.pathname);
}

function mayBeRefused(families: TokenFamilies, exchange: Exchange): boolean {
  const { bearer, at } = exchange;
  if (!bearer) return exchange.answer?.status === 401;
  const { exp = 0 } = claimsOf(bearer);
  return exp <= at || wasAskedToEnd(families.of(bearer), exchange);
}

function wasAskedToEnd(family: TokenFamily | undefined, { ended }: Exchange): boolean {
  return family !== undefined && family.endRequested < ended;
}

/** A revocation applies to token requests at once, and to calls once the cached record has expired. */
function successAfterRevocation(
  families: TokenFamilies,
  exchange: Exchange,
  { status }: RecordedResponse,
): string[] {
  if (status !== 200) return [];
  const isLate = isTokenRequest(exchange)
    ? exchange.began > endOf(families, presentedIn(exchange)).endConfirmed
    : exchange.at > endOf(families, exchange.bearer).endConfirmedAt + MAX_REVOCATION_SECONDS;
  return isLate ? [`${describe(exchange)}: answered after the end of its grant`] : [];
}

function endOf(families: TokenFamilies, token: string | undefined) {
  return families.of(token) ?? { endConfirmed: Infinity, endConfirmedAt: Infinity };
}

function codesRedeemedTwice(exchanges: readonly Exchange[]): string[] {
  const redeemed = exchanges
    .filter((exchange) => isTokenRequest(exchange) && exchange.answer?.status === 200)
    .map(({ form }) => form.get('code'))
    .filter((code) => code !== null);
  const twice = redeemed.filter((code, i) => redeemed.indexOf(code) !== i);
  return twice.map((code) => `the code ${code} was redeemed twice`);
}

/** Refresh tokens that were issued and never presented, except the newest of each family; after the grace period none may work. */
export function unusedRefreshTokens(exchanges: readonly Exchange[]): string[] {
  return familiesIn(exchanges)
    .all()
    .flatMap(({ issued, presented }) =>
      [...issued].slice(0, -1).filter((token) => !presented.has(token)),
    );
}

function describe({ method, url, form, answer }: Exchange): string {
  const what = form.get('grant_type') ?? '';
  return `${method} ${url.pathname} ${what} ${answer?.status ?? ''}`.replace(/ +/g, ' ');
}
