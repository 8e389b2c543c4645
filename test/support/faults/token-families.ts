// Which tokens of a history belong together: all that came from one code; and when somebody asked for their end.
import { type Exchange, jsonOf } from './history.ts';

/** Times are those of the history, `began` and `ended`. */
export type TokenFamily = {
  /** Refresh tokens, in the order they were answered first. */
  issued: Set<string>;
  presented: Set<string>;
  /** The connect link that its access tokens are for. */
  link: string | undefined;
  /** When the first request to end it was sent: from then on a refusal is deserved. */
  endRequested: number;
  /** When an end was acknowledged first: from then on nothing may be given. */
  endConfirmed: number;
  /** The same moment, in seconds of the clock that tests move. */
  endConfirmedAt: number;
};

export type TokenFamilies = {
  /** Undefined for what never was a token of this history. */
  of(token: string | null | undefined): TokenFamily | undefined;
  all(): TokenFamily[];
};

/** A token that was there before the history began starts a family of its own. */
export function familiesIn(exchanges: readonly Exchange[]): TokenFamilies {
  const byToken = new Map<string, TokenFamily>();
  const inOrder = exchanges.toSorted((a, b) => a.ended - b.ended);
  for (const exchange of inOrder) if (isTokenRequest(exchange)) addTokens(byToken, exchange);
  for (const exchange of inOrder)
    for (const family of endedBy(byToken, exchange)) markEnd(family, exchange);
  return {
    of: (token) => (token ? byToken.get(token) : undefined),
    all: () => [...new Set(byToken.values())],
  };
}

export function isTokenRequest({ method, url }: Exchange): boolean {
  return method === 'POST' && url.pathname === '/oauth/token';
}

/** The code or refresh token of a token request. */
export function presentedIn({ form }: Exchange): string {
  return form.get('refresh_token') ?? form.get('code') ?? '';
}

function newFamily(): TokenFamily {
  return {
    issued: new Set(),
    presented: new Set(),
    link: undefined,
    endRequested: Infinity,
    endConfirmed: Infinity,
    endConfirmedAt: Infinity,
  };
}

function addTokens(byToken: Map<string, TokenFamily>, exchange: Exchange): void {
  const presented = presentedIn(exchange);
  const family = byToken.get(presented) ?? newFamily();
  const { access_token: access, refresh_token: next } = jsonOf(exchange.answer) ?? {};
  for (const token of [presented, access, next])
    if (typeof token === 'string') byToken.set(token, family);
  if (exchange.form.has('refresh_token')) family.presented.add(presented);
  if (typeof next === 'string') family.issued.add(next);
  if (typeof access === 'string') family.link = String(claimsOf(access).aud);
}

/** The families that a request was meant to end: a revoked token's, or all of a revoked connector. */
function endedBy(
  byToken: Map<string, TokenFamily>,
  { method, url, form }: Exchange,
): TokenFamily[] {
  if (method === 'POST' && url.pathname === '/oauth/revoke') {
    const family = byToken.get(form.get('token') ?? '');
    return family ? [family] : [];
  }
  const [, connector] = /^\/api\/v1\/connectors\/(\w+)$/.exec(url.pathname) ?? [];
  if (method !== 'DELETE' || !connector) return [];
  return [...new Set(byToken.values())].filter(({ link }) => link?.includes(`/${connector}/`));
}

function markEnd(family: TokenFamily, { began, ended, at, answer }: Exchange): void {
  family.endRequested = Math.min(family.endRequested, began);
  if (answer?.status !== 200) return;
  family.endConfirmed = Math.min(family.endConfirmed, ended);
  family.endConfirmedAt = Math.min(family.endConfirmedAt, at);
}

/** Of a JWT, without checking it. */
export function claimsOf(jwt: string): { aud?: unknown; exp?: number } {
  return JSON.parse(Buffer.from(jwt.split('.')[1] ?? '', 'base64url').toString());
}
