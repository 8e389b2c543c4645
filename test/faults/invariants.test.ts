import { expect } from 'chai';
import type { Exchange } from '../support/faults/history.ts';
import { unusedRefreshTokens, violations } from '../support/faults/invariants.ts';

const AUTH = 'http://localhost:1';
const LINK = 'http://localhost:2/connect/Abc/mcp';
const WAIT = { 'retry-after': '2', 'cache-control': 'no-store' };

let clock = 0;

type Response = { status: number; body?: object | string; headers?: Record<string, string> };

/** The next exchange, which takes ten milliseconds. Without `response` the connection broke. */
function exchange(
  target: string,
  sent: Record<string, string>,
  response?: Response,
  more: Partial<Exchange> = {},
): Exchange {
  const [method = '', address = ''] = target.split(' ');
  const began = (clock += 100);
  const body = response?.body ?? '';
  return {
    began,
    ended: began + 10,
    at: began / 1000,
    method,
    url: new URL(address, AUTH),
    form: new URLSearchParams(sent),
    bearer: undefined,
    answer: response && {
      status: response.status,
      headers: new Headers(response.headers),
      text: typeof body === 'string' ? body : JSON.stringify(body),
    },
    ...more,
  };
}

function accessToken(id: string, exp = 1e9): string {
  const claims = { aud: LINK, exp, id };
  return `e.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.s`;
}

const tokens = (id: string) => ({
  status: 200,
  body: { access_token: accessToken(id), refresh_token: id },
});
const refused = (error: string) => ({ status: 400, body: { error } });
const unavailable = { status: 503, headers: WAIT, body: { error: 'temporarily_unavailable' } };

const redeem = (code: string, response?: Response) =>
  exchange('POST /oauth/token', { code }, response);
const refresh = (token: string, response?: Response) =>
  exchange('POST /oauth/token', { refresh_token: token }, response);
const revoke = (token: string, response: Response) =>
  exchange('POST /oauth/revoke', { token }, response);
const call = (id: string, response: Response, more: Partial<Exchange> = {}) =>
  exchange(`POST ${LINK}`, {}, response, { bearer: accessToken(id), ...more });

const VALID: Record<string, () => Exchange[]> = {
  'an exchange, a refresh that gets 503, and its retry': () => [
    redeem('c', tokens('r0')),
    refresh('r0', unavailable),
    refresh('r0', tokens('r1')),
    call('r1', { status: 200 }),
  ],
  'a refusal after a revocation that got 503': () => [
    redeem('c', tokens('r0')),
    revoke('r0', unavailable),
    refresh('r0', refused('invalid_grant')),
    call('r0', { status: 401 }),
  ],
  'a refusal after the connect link was revoked': () => [
    redeem('c', tokens('r0')),
    exchange('DELETE /api/v1/connectors/Abc', {}, { status: 200 }),
    refresh('r0', refused('invalid_grant')),
    call('r0', { status: 410 }),
  ],
  'a refused code whose first response was lost': () => [
    redeem('c', unavailable),
    redeem('c', refused('invalid_grant')),
  ],
  'a refused call without a token and one with an expired token': () => [
    exchange(`POST ${LINK}`, {}, { status: 401 }),
    call('r0', { status: 401 }, { bearer: accessToken('r0', 1), at: 2 }),
  ],
  'a successful call within a minute of the revocation': () => [
    redeem('c', tokens('r0')),
    revoke('r0', { status: 200 }),
    call('r0', { status: 200 }),
  ],
  'a 503 page that says to try again': () => [
    exchange('GET /oauth/authorize', {}, { status: 503, headers: WAIT, body: '<h1>Try again' }),
  ],
};

const INVALID: Record<string, [RegExp, () => Exchange[]]> = {
  'a response that takes too long': [
    /took 1501 ms/,
    () => [{ ...refresh('r0', unavailable), began: 0, ended: 1501 }],
  ],
  'a broken connection': [/connection broke/, () => [refresh('r0')]],
  'a 500 response': [/not 503/, () => [refresh('r0', { ...unavailable, status: 500 })]],
  'a 503 response without Retry-After': [
    /no Retry-After/,
    () => [refresh('r0', { ...unavailable, headers: { 'cache-control': 'no-store' } })],
  ],
  'a cacheable 503 response': [
    /may be cached/,
    () => [refresh('r0', { ...unavailable, headers: { 'retry-after': '2' } })],
  ],
  'a 503 response with another error code': [
    /another error code/,
    () => [refresh('r0', { ...unavailable, body: { error: 'server_error' } })],
  ],
  'a 503 response to a client in HTML': [
    /another error code/,
    () => [refresh('r0', { ...unavailable, body: '<h1>Try again</h1>' })],
  ],
  'a 503 response to a browser in JSON': [
    /does not say what to do/,
    () => [exchange('GET /interaction/x', {}, unavailable)],
  ],
  'a 503 response with WWW-Authenticate': [
    /asks to sign in/,
    () => [call('r0', { ...unavailable, headers: { ...WAIT, 'www-authenticate': 'Bearer' } })],
  ],
  'a 503 response from the JWKS endpoint': [
    /needs no store/,
    () => [exchange('GET /oauth/jwks', {}, { ...unavailable })],
  ],
  'a refused refresh token that was not revoked': [
    /refused with invalid_grant/,
    () => [redeem('c', tokens('r0')), refresh('r0', refused('invalid_grant'))],
  ],
  'a refused client': [
    /refused with invalid_client/,
    () => [
      redeem('c', tokens('r0')),
      revoke('r0', { status: 200 }),
      refresh('r0', refused('invalid_client')),
    ],
  ],
  'a refused token after the revocation of another grant': [
    /refused with invalid_grant/,
    () => [
      redeem('c', tokens('r0')),
      redeem('d', tokens('s0')),
      revoke('s0', { status: 200 }),
      refresh('r0', refused('invalid_grant')),
    ],
  ],
  'a refused code that was not redeemed': [
    /refused with invalid_grant/,
    () => [redeem('c', refused('invalid_grant'))],
  ],
  'a refused call with a valid token': [
    /refused/,
    () => [redeem('c', tokens('r0')), call('r0', { status: 401 })],
  ],
  'two successful exchanges of a code': [
    /redeemed twice/,
    () => [redeem('c', tokens('r0')), redeem('c', tokens('s0'))],
  ],
  'a successful refresh after the revocation of an earlier token of the family': [
    /after the end/,
    () => [
      redeem('c', tokens('r0')),
      refresh('r0', tokens('r1')),
      revoke('r0', { status: 200 }),
      refresh('r1', tokens('r2')),
    ],
  ],
  'a successful call more than a minute after the revocation': [
    /after the end/,
    () => {
      const ended = [redeem('c', tokens('r0')), revoke('r0', { status: 200 })];
      return [...ended, call('r0', { status: 200 }, { at: clock / 1000 + 62 })];
    },
  ],
};

describe('The check of recorded histories', () => {
  for (const [what, exchanges] of Object.entries(VALID))
    it(`a history with ${what} has no violation`, () => {
      expect(violations(exchanges())).to.deep.equal([]);
    });

  for (const [what, [found, exchanges]] of Object.entries(INVALID))
    it(`a history with ${what} has a violation`, () => {
      expect(violations(exchanges(), { maxMs: 1500 }).join('\n')).to.match(found);
    });

  it('broken connections are no violation if connectionsMayBreak is set', () => {
    expect(violations([refresh('r0')], { connectionsMayBreak: true })).to.deep.equal([]);
  });

  it('unusedRefreshTokens returns the issued tokens that were never used, except the newest', () => {
    const exchanges = [
      redeem('c', tokens('r0')),
      refresh('r0', tokens('r1')),
      refresh('r0', tokens('r2')),
      refresh('r2', tokens('r3')),
    ];
    expect(unusedRefreshTokens(exchanges)).to.deep.equal(['r1']);
  });
});
