import { expect } from 'chai';
import { createConnector } from '../support/management-api.ts';
import { openBrowser, requirePage } from '../support/browser.ts';
import { advanceClock } from '../support/clock.ts';
import { connect, obtainCode, redeem } from '../support/connection.ts';
import { callTool, isAccepted } from '../support/mcp.ts';
import { refresh, type TokenResponse } from '../support/oauth.ts';
import { untilReady, useSystem } from '../support/system.ts';

describe('A stalled store', () => {
  const system = useSystem({ store: 'redis' });

  /** The store does not answer until `run` has finished. */
  async function stalled<T>(run: () => Promise<T>): Promise<T> {
    system().signalStore('SIGSTOP');
    try {
      return await run();
    } finally {
      system().signalStore('SIGCONT');
      await untilReady(system());
    }
  }

  function expectToWait({ status, headers, body }: TokenResponse): void {
    expect(status).to.equal(503);
    expect(body.error).to.equal('temporarily_unavailable');
    expect(Number(headers.get('retry-after'))).to.be.above(0);
    expect(headers.get('cache-control')).to.equal('no-store');
  }

  it('a refresh and a code exchange return 503 during the stall, and succeed afterwards', async () => {
    const connector = await createConnector(system());
    const { server, client, refreshToken } = await connect(system(), connector);
    const code = await obtainCode(system(), connector);
    const answers = await stalled(() =>
      Promise.all([refresh(server, client, refreshToken), redeem(code)]),
    );
    answers.forEach(expectToWait);
    expect((await refresh(server, client, refreshToken)).status).to.equal(200);
    expect((await redeem(code)).status).to.equal(200);
  });

  it("the development identity provider's pages say to try again during the stall, and work afterwards", async () => {
    const browser = openBrowser([...system().origins, system().management]);
    const people = requirePage(await browser.visit(`${system().management}/console`));
    const asked = browser.visited.find(({ pathname }) => pathname === '/auth');
    const pages = await stalled(() =>
      Promise.all([
        browser.visit(people.url),
        browser.submit(people, { person: 'ada' }),
        browser.visit(String(asked)),
      ]),
    );
    for (const { status, headers, html } of pages.map(requirePage)) {
      expect(status).to.equal(503);
      expect(Number(headers.get('retry-after'))).to.be.above(0);
      expect(html).to.include('Temporarily unavailable').and.not.include('expired');
      expect(html).to.include('Reference for support');
    }
    const console = requirePage(await browser.submit(people, { person: 'ada' }));
    expect(console.html).to.include('Ada Lovelace').and.include('New connector');
  });

  it('metadata and keys are served during the stall, and the readiness check fails', async () => {
    const { auth, resource } = system();
    const statuses = await stalled(() =>
      Promise.all(
        [
          `${auth}/.well-known/oauth-authorization-server`,
          `${auth}/oauth/jwks`,
          `${resource}/.well-known/oauth-protected-resource`,
          `${auth}/livez`,
          `${auth}/readyz`,
        ].map(async (url) => (await fetch(url)).status),
      ),
    );
    expect(statuses).to.deep.equal([200, 200, 200, 200, 503]);
  });

  it('calls succeed during the stall, except those that must be audited', async () => {
    const full = await createConnector(system(), { level: 'full' });
    const low = await connect(system(), full, { level: 'analytics' });
    const high = await connect(system(), full, { level: 'full' });
    for (const { accessToken } of [low, high])
      expect(await isAccepted(full.link, accessToken)).to.equal(true);
    const [goesOn, refused] = await stalled(() =>
      Promise.all(
        [low, high].map(({ accessToken }) => callTool(full.link, accessToken, 'club_overview')),
      ),
    );
    expect(goesOn?.rpc?.result?.structuredContent).to.have.property('members');
    expect(refused?.rpc?.error).to.have.property('code');
    expect(refused?.text).to.not.include('members');
    expect(await isAccepted(full.link, high.accessToken)).to.equal(true);
  });

  it('calls return 503, not 401, when the stall outlasts the cache', async () => {
    const connector = await createConnector(system());
    const { accessToken } = await connect(system(), connector);
    expect(await isAccepted(connector.link, accessToken)).to.equal(true);
    const answer = await stalled(async () => {
      advanceClock(46);
      return callTool(connector.link, accessToken, 'club_overview');
    });
    expect(answer.status).to.equal(503);
    expect(answer.headers.has('www-authenticate')).to.equal(false);
    expect(Number(answer.headers.get('retry-after'))).to.be.above(0);
    expect(await isAccepted(connector.link, accessToken)).to.equal(true);
  });
});
