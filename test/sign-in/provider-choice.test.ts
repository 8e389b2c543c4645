import { expect } from 'chai';
import { pino } from 'pino';
import { rememberProvider } from '../../src/sign-in/sign-in.ts';
import { createHost } from '../../src/http/host.ts';
import { freePorts } from '../support/free-ports.ts';
import { rawRequest } from '../support/raw-request.ts';

describe('the provider choice cookie', () => {
  /** Returns the cookies that a host with this public URL sets. */
  async function cookieAt(url: string): Promise<string[]> {
    const [port = 0] = await freePorts(1);
    const host = new URL(url).host;
    const app = createHost({
      name: 'test',
      url,
      proxies: 1,
      logger: pino({ level: 'silent' }),
      isReady: async () => ({}),
    });
    app.keys = ['a-key'];
    app.use((ctx) => {
      const isHttps = url.startsWith('https:');
      rememberProvider({ isHttps }, ctx, { id: 'github' });
      ctx.body = 'remembered';
    });
    const server = app.listen(port, '127.0.0.1');
    try {
      const { headers } = await rawRequest(`http://127.0.0.1:${port}`, { headers: { host } });
      return [headers['set-cookie'] ?? []].flat();
    } finally {
      server.close();
    }
  }

  it('the provider choice cookie is host-only, HttpOnly and Secure if the URL is https', async () => {
    const [cookie = '', ...others] = await cookieAt('https://auth.example.com');
    expect(others).to.deep.equal([]);
    const [pair, ...attributes] = cookie.split('; ');
    expect(pair).to.equal('__Host-gatehouse-provider=github');
    expect(attributes).to.include.members(['path=/', 'samesite=lax', 'secure', 'httponly']);
    expect(cookie).to.not.match(/domain=/i);
  });

  it('the provider choice cookie expires after half a year', async () => {
    const [cookie = ''] = await cookieAt('http://localhost:4000');
    const expires = Date.parse(/expires=([^;]+)/.exec(cookie)?.[1] ?? '');
    expect(expires - Date.now()).to.be.within(179 * 86_400_000, 181 * 86_400_000);
  });
});
