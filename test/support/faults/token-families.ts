// Groups the tokens of a history by the code they came from, with the time at which each family was ended.
import { type Exchange, jsonOf } from './history.ts';

/** Times are `began` and `ended` of the history. */
export type TokenFamily = {
  /** Refresh tokens in the order in which they were issued. */
  issued: Set<string>;
  presented: Set<string>;
  /** The connect link of its access tokens. */
  link: string | undefined;
  /** When the first request to end the family was sent; refusals are valid from then on. */
  endRequested: number;
  /** When the end was first confirmed; success is wrong from then on. */
  endConfirmed: number;
  /** The same time in seconds of the clock that tests move. */
  endConfirmedAt: number;
};

export type TokenFamilies = {
  /** Undefined for a value that is no token of this history. */
  of(token: string | null | undefined): TokenFamily | undefined;
  all(): TokenFamily[];
};

/** A token from before the history starts its own family. */
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

/** The code or refresh token in a token request. */
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

/** The families that a request should end: that of a revoked token, or all of a revoked connector. */
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

/** The claims of a JWT, without verification. */
export function claimsOf(jwt: string): { aud?: unknown; exp?: number } {
  return JSON.parse(Buffer.from(jwt.split('.')[1] ?? '', 'base64url').toString());
}
