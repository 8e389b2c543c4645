// The console behind a proxy that ends TLS: its cookies, and what the identity provider calls people.
import { expect } from 'chai';
import { freePorts } from '../support/free-ports.ts';
import {
  type OpenIdProvider,
  openIdSettings,
  startOpenIdProvider,
} from '../support/openid-provider.ts';
import { rawRequest } from '../support/raw-request.ts';
import { startSystem, type System } from '../support/system.ts';

describe('The console behind a proxy that ends TLS', () => {
  let provider: OpenIdProvider;
  let system: System;
  let listener: string;
  let host: string;
  before(async () => {
    provider = await startOpenIdProvider();
    provider.setBehaviour({ claims: { name: 'Ada', email: 'ada@example.com' } });
    const [publicPort, port] = await freePorts(2);
    host = `localhost:${publicPort}`;
    listener = `http://127.0.0.1:${port}`;
    const addresses = {
      GATEHOUSE_MANAGEMENT_URL: `https://${host}`,
      GATEHOUSE_MANAGEMENT_LISTEN: `127.0.0.1:${port}`,
    };
    const file = {
      entitlements: [{ match: { anyone: true }, level: 'full' }],
      management: { administrators: [{ subject: 'subject-1' }] },
    };
    system = await startSystem(openIdSettings(provider, file, addresses));
  });
  after(async () => {
    await system?.stop();
    await provider.stop();
  });

  const visit = (path: string, headers: Record<string, string> = {}) =>
    rawRequest(listener, { path, headers: { host, accept: 'text/html', ...headers } });
  const pairOf = (cookie = '') => cookie.split(';', 1)[0] ?? '';

  async function signIn(said: Record<string, string> = {}) {
    const left = await visit('/console/connectors', said);
    const [trip = ''] = left.headers['set-cookie'] ?? [];
    const callback = provider.approve(new URL(left.headers.location ?? ''));
    const back = await visit(callback.pathname + callback.search, {
      ...said,
      cookie: pairOf(trip),
    });
    const kept = (back.headers['set-cookie'] ?? []).filter((cookie) => !/^[^=]+=;/.test(cookie));
    return { trip, session: kept.at(-1) ?? '', back };
  }

  for (const said of [{}, { 'x-forwarded-proto': 'http' }, { forwarded: 'proto=http' }])
    it(`CSL-03 sets cookies for this host only, over https, out of reach of scripts (${JSON.stringify(said)})`, async () => {
      const { trip, session, back } = await signIn(said as Record<string, string>);
      expect(back.status).to.equal(303);
      expect(back.headers.location).to.equal('/console/connectors');
      expect(trip).to.match(/^__Host-gatehouse-console-sign-in=/);
      expect(session).to.match(/^__Host-gatehouse-console=/);
      for (const cookie of [trip, session])
        expect(cookie)
          .to.match(/; secure(;|$)/i)
          .and.match(/; httponly(;|$)/i)
          .and.match(/; samesite=lax(;|$)/i)
          .and.match(/; path=\/(;|$)/i)
          .and.not.match(/; domain=/i);
    });

  it('CSL-09 shows what the identity provider calls people as text', async () => {
    const name = `<script>alert(1)</script>"><b>Ada`;
    provider.setBehaviour({ claims: { name, email: `"<i>"@example.com` } });
    const { session } = await signIn();
    for (const path of ['/console/connectors', '/console/accounts', '/console/audit']) {
      const { status, body } = await visit(path, { cookie: pairOf(session) });
      expect(status, path).to.equal(200);
      expect(body, path).not.to.match(/<script|<b>Ada|"<i>"/);
      if (path !== '/console/audit') expect(body).to.include('&lt;script&gt;');
    }
  });

  it('CSL-01 lets nobody in whose identity is another, whatever they are called', async () => {
    provider.setBehaviour({ claims: { sub: 'subject-2', name: 'subject-1', email: 'subject-1' } });
    const { session, back } = await signIn();
    expect(back.status).to.equal(403);
    expect(session).to.equal('');
  });
});
