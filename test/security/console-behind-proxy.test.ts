import { expect } from 'chai';
import { gatehouse } from '../management/command-line.ts';
import { freePorts } from '../support/free-ports.ts';
import {
  type OpenIdProvider,
  openIdSettings,
  startOpenIdProvider,
} from '../support/openid-provider.ts';
import { rawRequest } from '../support/raw-request.ts';
import { startSystem, type System } from '../support/system.ts';
import { withoutOwnScript } from '../support/own-script.ts';

describe('The console behind a proxy that terminates TLS', () => {
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

  async function signIn(headers: Record<string, string> = {}) {
    const redirect = await visit('/console/connectors', headers);
    const [loginState = ''] = redirect.headers['set-cookie'] ?? [];
    const callback = provider.approve(new URL(redirect.headers.location ?? ''));
    const response = await visit(callback.pathname + callback.search, {
      ...headers,
      cookie: pairOf(loginState),
    });
    const setCookies = response.headers['set-cookie'] ?? [];
    const session = setCookies.filter((cookie) => !/^[^=]+=;/.test(cookie)).at(-1) ?? '';
    return { loginState, session, response };
  }

  for (const forwarded of [{}, { 'x-forwarded-proto': 'http' }, { forwarded: 'proto=http' }])
    it(`CSL-03 the cookies are __Host-, Secure, HttpOnly and SameSite=Lax (${JSON.stringify(forwarded)})`, async () => {
      const { loginState, session, response } = await signIn(forwarded as Record<string, string>);
      expect(response.status).to.equal(303);
      expect(response.headers.location).to.equal('/console/connectors');
      expect(loginState).to.match(/^__Host-gatehouse-console-sign-in=/);
      expect(session).to.match(/^__Host-gatehouse-console=/);
      for (const cookie of [loginState, session])
        expect(cookie)
          .to.match(/; secure(;|$)/i)
          .and.match(/; httponly(;|$)/i)
          .and.match(/; samesite=lax(;|$)/i)
          .and.match(/; path=\/(;|$)/i)
          .and.not.match(/; domain=/i);
    });

  it('commands reach the listener, because the proxy passes the console alone', async () => {
    const list = (listen: string) =>
      gatehouse(['connector', 'list', '--json'], {
        GATEHOUSE_MANAGEMENT_URL: `https://${host}`,
        GATEHOUSE_MANAGEMENT_LISTEN: listen,
        GATEHOUSE_MANAGEMENT_KEY: system.managementKey,
      });
    const { code, stdout } = await list(new URL(listener).host.replace('127.0.0.1', '0.0.0.0'));
    expect({ code, listed: JSON.parse(stdout) }).to.deep.equal({ code: 0, listed: { items: [] } });
    const [closed] = await freePorts(1);
    const elsewhere = await list(`127.0.0.1:${closed}`);
    expect(JSON.parse(elsewhere.stderr)).to.include({ error: 'unreachable' });
    expect(elsewhere.stderr).to.include(`nothing listens at https://${host}`);
  });

  it('CSL-09 the console escapes names and addresses from the identity provider', async () => {
    const name = `<script>alert(1)</script>"><b>Ada`;
    provider.setBehaviour({ claims: { name, email: `"<i>"@example.com` } });
    const { session } = await signIn();
    for (const path of ['/console/connectors', '/console/accounts', '/console/audit']) {
      const { status, body } = await visit(path, { cookie: pairOf(session) });
      expect(status, path).to.equal(200);
      expect(withoutOwnScript(body), path).not.to.match(/<script|<b>Ada|"<i>"/);
      if (path !== '/console/audit') expect(body).to.include('&lt;script&gt;');
    }
  });

  it("CSL-01 a person whose name or address equals an administrator's subject is refused", async () => {
    provider.setBehaviour({ claims: { sub: 'subject-2', name: 'subject-1', email: 'subject-1' } });
    const { session, response } = await signIn();
    expect(response.status).to.equal(403);
    expect(session).to.equal('');
  });
});
