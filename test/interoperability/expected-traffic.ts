// Checks a client's step by the requests that the system receives.
import { expect } from 'chai';
import type { Traffic } from './traffic.ts';

/** Both metadata documents were requested. */
export function expectDiscovery({ seen }: Traffic, link: string): void {
  const { pathname } = new URL(link);
  expect(seen).to.include(`GET /.well-known/oauth-protected-resource${pathname} 200`);
  expect(seen).to.include('GET /.well-known/oauth-authorization-server 200');
}

export function expectRegistration({ seen }: Traffic): void {
  expect(seen).to.include('POST /oauth/register 201');
}

export function expectNoRegistration({ seen }: Traffic): void {
  expect(seen.filter((line) => line.includes('/oauth/register'))).to.deep.equal([]);
}

/** A person was sent to sign in and came back with a code. */
export function expectAuthorization({ seen }: Traffic): void {
  expect(seen.some((line) => /^GET \/oauth\/authorize 30\d$/.test(line))).to.equal(true);
  expect(seen.some((line) => /^POST \/interaction\/\S+ 30\d$/.test(line))).to.equal(true);
}

export function expectToken({ seen }: Traffic): void {
  expect(seen).to.include('POST /oauth/token 200');
}
