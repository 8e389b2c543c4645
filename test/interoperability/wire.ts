// How a recorded client speaks HTTP: from its own address, and with what a page may read when it runs in one (Fetch standard, CORS).
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
    const response = await fetch(url, {
      method,
      redirect: 'manual',
      headers: { ...own, ...headers },
      ...(body === undefined ? {} : { body }),
    });
    const text = await response.text();
    if (origin !== undefined) requireReadable(response, origin);
    const { status, headers: answered } = response;
    return { status, headers: answered, text, json: () => JSON.parse(text) as unknown };
  };
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
