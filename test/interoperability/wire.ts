// HTTP as a recorded client sends it: from its address, and with the CORS rules of a page if it runs in one (Fetch standard).
import { expect } from 'chai';
import type { RecordedClient } from './recorded-clients.ts';

export type Request = {
  method?: string;
  headers?: Record<string, string>;
  body?: string | URLSearchParams;
};
export type Reply = { status: number; headers: Headers; text: string; json: () => unknown };

export type Send = (url: string | URL, request?: Request) => Promise<Reply>;

export function wireOf({ address, origin, protocolVersion }: RecordedClient): Send {
  const own = {
    'x-forwarded-for': address,
    'mcp-protocol-version': protocolVersion,
    ...(origin === undefined ? {} : { origin }),
  };
  return async (url, { method = 'GET', headers = {}, body } = {}) => {
    const sent = { ...own, ...headers };
    if (origin !== undefined) await requirePreflight(url, method, sent);
    const response = await fetch(url, {
      method,
      redirect: 'manual',
      headers: sent,
      ...(body === undefined ? {} : { body }),
    });
    const text = await response.text();
    if (origin !== undefined) requireReadable(response, origin);
    const { status, headers: answered } = response;
    return { status, headers: answered, text, json: () => JSON.parse(text) as unknown };
  };
}

/** CORS-safelisted request headers, and headers that the network adds. */
const UNASKED = ['accept', 'origin', 'x-forwarded-for'];

async function requirePreflight(
  url: string | URL,
  method: string,
  { origin = '', ...headers }: Record<string, string>,
): Promise<void> {
  const names = Object.keys(headers).filter((name) => !UNASKED.includes(name));
  const { status, headers: allowed } = await fetch(url, {
    method: 'OPTIONS',
    headers: {
      origin,
      'access-control-request-method': method,
      'access-control-request-headers': names.join(','),
    },
  });
  expect(status, `preflight of ${url}`).to.be.within(200, 299);
  expect(allowed.get('access-control-allow-origin')).to.be.oneOf(['*', origin]);
  const listed = allowed.get('access-control-allow-headers')?.toLowerCase().split(/, */);
  expect(listed, `preflight of ${url}`).to.include.members(names);
}

function requireReadable({ url, headers, status }: Response, origin: string): void {
  expect(headers.get('access-control-allow-origin'), url).to.be.oneOf(['*', origin]);
  if (status === 401 || status === 403)
    expect(headers.get('access-control-expose-headers'), url).to.match(/www-authenticate/i);
}

/** A parameter of the challenge (RFC 9110 section 11.6.1). */
export function challengeOf({ headers }: Reply, name: string): string | undefined {
  const header = headers.get('www-authenticate') ?? '';
  return new RegExp(`\\b${name}="([^"]*)"`).exec(header)?.[1];
}
