// The judge of the other claims: what it must find in a history, and what it must let pass.
import { expect } from 'chai';
import type { Exchange } from '../support/faults/history.ts';
import { unusedRefreshTokens, violations } from '../support/faults/invariants.ts';

const AUTH = 'http://localhost:1';
const LINK = 'http://localhost:2/connect/Abc/mcp';
const WAIT = { 'retry-after': '2', 'cache-control': 'no-store' };

let clock = 0;

type Told = { status: number; body?: object | string; headers?: Record<string, string> };

/** One exchange after another, each of ten milliseconds. Without `told` the connection broke. */
function exchange(
  target: string,
  sent: Record<string, string>,
  told?: Told,
  more: Partial<Exchange> = {},
): Exchange {
  const [method = '', address = ''] = target.split(' ');
  const began = (clock += 100);
  const body = told?.body ?? '';
  return {
    began,
    ended: began + 10,
    at: began / 1000,
    method,
    url: new URL(address, AUTH),
    form: new URLSearchParams(sent),
    bearer: undefined,
    answer: told && {
      status: told.status,
      headers: new Headers(told.headers),
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
const putOff = { status: 503, headers: WAIT, body: { error: 'temporarily_unavailable' } };

const redeem = (code: string, told?: Told) => exchange('POST /oauth/token', { code }, told);
const refresh = (token: string, told?: Told) =>
  exchange('POST /oauth/token', { refresh_token: token }, told);
const revoke = (token: string, told: Told) => exchange('POST /oauth/revoke', { token }, told);
const call = (id: string, told: Told, more: Partial<Exchange> = {}) =>
  exchange(`POST ${LINK}`, {}, told, { bearer: accessToken(id), ...more });

const FINE: Record<string, () => Exchange[]> = {
  'a code, a refresh, a fault and its repetition': () => [
    redeem('c', tokens('r0')),
    refresh('r0', putOff),
    refresh('r0', tokens('r1')),
    call('r1', { status: 200 }),
  ],
  'a refusal after a revocation that was asked for and perhaps not carried out': () => [
    redeem('c', tokens('r0')),
    revoke('r0', putOff),
    refresh('r0', refused('invalid_grant')),
    call('r0', { status: 401 }),
  ],
  'a refusal after the connect link was revoked': () => [
    redeem('c', tokens('r0')),
    exchange('DELETE /api/v1/connectors/Abc', {}, { status: 200 }),
    refresh('r0', refused('invalid_grant')),
    call('r0', { status: 410 }),
  ],
  'a code that is refused after its first answer was lost': () => [
    redeem('c', putOff),
    redeem('c', refused('invalid_grant')),
  ],
  'a call without a token, and one with a token that has expired': () => [
    exchange(`POST ${LINK}`, {}, { status: 401 }),
    call('r0', { status: 401 }, { bearer: accessToken('r0', 1), at: 2 }),
  ],
  'a call within a minute of the revocation': () => [
    redeem('c', tokens('r0')),
    revoke('r0', { status: 200 }),
    call('r0', { status: 200 }),
  ],
  'a page that says try again': () => [
    exchange('GET /oauth/authorize', {}, { status: 503, headers: WAIT, body: '<h1>Try again' }),
  ],
};

const WRONG: Record<string, [RegExp, () => Exchange[]]> = {
  'an answer that takes too long': [
    /took 1501 ms/,
    () => [{ ...refresh('r0', putOff), began: 0, ended: 1501 }],
  ],
  'a connection that breaks': [/connection broke/, () => [refresh('r0')]],
  'a server error': [/not 503/, () => [refresh('r0', { ...putOff, status: 500 })]],
  'a fault that does not say when to come back': [
    /no Retry-After/,
    () => [refresh('r0', { ...putOff, headers: { 'cache-control': 'no-store' } })],
  ],
  'a fault that may be cached': [
    /may be cached/,
    () => [refresh('r0', { ...putOff, headers: { 'retry-after': '2' } })],
  ],
  'a fault with another error code': [
    /another error code/,
    () => [refresh('r0', { ...putOff, body: { error: 'server_error' } })],
  ],
  'a fault in HTML for a client': [
    /another error code/,
    () => [refresh('r0', { ...putOff, body: '<h1>Try again</h1>' })],
  ],
  'a fault in JSON for a person': [
    /does not say what to do/,
    () => [exchange('GET /interaction/x', {}, putOff)],
  ],
  'a fault that asks to sign in': [
    /asks to sign in/,
    () => [call('r0', { ...putOff, headers: { ...WAIT, 'www-authenticate': 'Bearer' } })],
  ],
  'keys that are not served': [
    /needs no store/,
    () => [exchange('GET /oauth/jwks', {}, { ...putOff })],
  ],
  'a refresh token that is refused': [
    /refused with invalid_grant/,
    () => [redeem('c', tokens('r0')), refresh('r0', refused('invalid_grant'))],
  ],
  'a client that is refused, whatever was revoked': [
    /refused with invalid_client/,
    () => [
      redeem('c', tokens('r0')),
      revoke('r0', { status: 200 }),
      refresh('r0', refused('invalid_client')),
    ],
  ],
  'a token that is refused although another one was revoked': [
    /refused with invalid_grant/,
    () => [
      redeem('c', tokens('r0')),
      redeem('d', tokens('s0')),
      revoke('s0', { status: 200 }),
      refresh('r0', refused('invalid_grant')),
    ],
  ],
  'a code that is refused the first time': [
    /refused with invalid_grant/,
    () => [redeem('c', refused('invalid_grant'))],
  ],
  'a call that is refused': [
    /refused/,
    () => [redeem('c', tokens('r0')), call('r0', { status: 401 })],
  ],
  'a code that is redeemed twice': [
    /redeemed twice/,
    () => [redeem('c', tokens('r0')), redeem('c', tokens('s0'))],
  ],
  'a refresh after the revocation of an earlier token of the family': [
    /after the end/,
    () => [
      redeem('c', tokens('r0')),
      refresh('r0', tokens('r1')),
      revoke('r0', { status: 200 }),
      refresh('r1', tokens('r2')),
    ],
  ],
  'a call more than a minute after the revocation': [
    /after the end/,
    () => {
      const ended = [redeem('c', tokens('r0')), revoke('r0', { status: 200 })];
      return [...ended, call('r0', { status: 200 }, { at: clock / 1000 + 62 })];
    },
  ],
};

describe('A history', () => {
  for (const [what, exchanges] of Object.entries(FINE))
    it(`of ${what} is as it should be`, () => {
      expect(violations(exchanges())).to.deep.equal([]);
    });

  for (const [what, [found, exchanges]] of Object.entries(WRONG))
    it(`of ${what} is not as it should be`, () => {
      expect(violations(exchanges()).join('\n')).to.match(found);
    });

  it('of a process that was killed may have connections that broke', () => {
    expect(violations([refresh('r0')], { connectionsMayBreak: true })).to.deep.equal([]);
  });

  it('names the tokens that were given and never used, except the newest', () => {
    const exchanges = [
      redeem('c', tokens('r0')),
      refresh('r0', tokens('r1')),
      refresh('r0', tokens('r2')),
      refresh('r2', tokens('r3')),
    ];
    expect(unusedRefreshTokens(exchanges)).to.deep.equal(['r1']);
  });
});
