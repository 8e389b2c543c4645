import { once } from 'node:events';
import { createServer, type Server as HttpServer } from 'node:http';
import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { EXAMPLE_THEME } from '../pages/sample-pages.ts';
import { usePage } from '../support/chromium.ts';
import { createConnector } from '../support/management-api.ts';
import { redeem, registerClient } from '../support/connection.ts';
import { freePorts } from '../support/free-ports.ts';
import { isAccepted } from '../support/mcp.ts';
import { authorizeUrl, discover } from '../support/oauth.ts';
import { useSystem } from '../support/system.ts';

const BACK_IN_THE_APP = 'back in the app';

for (const [looks, file] of [
  ['', {}],
  [', in the example theme', { theme: EXAMPLE_THEME }],
] as const)
  describe(`Connecting in Chromium${looks}`, function () {
    this.timeout(40_000);
    const system = useSystem({ file });
    const tab = usePage();
    let app: HttpServer;
    let callbacks: URL[];
    let redirectUri: string;

    before(async () => {
      const [port = 0] = await freePorts(1);
      redirectUri = `http://127.0.0.1:${port}/callback`;
      app = await listen(port);
    });
    beforeEach(() => {
      callbacks = [];
    });
    after(() => {
      app.closeAllConnections();
      app.close();
    });

    /** Redirects to another origin, as hosted clients do on the way to their desktop app. */
    async function listen(port: number): Promise<HttpServer> {
      const server = createServer((req, res) => {
        const url = new URL(req.url ?? '/', redirectUri);
        if (url.pathname !== '/callback') return void res.end(BACK_IN_THE_APP);
        callbacks.push(url);
        res.writeHead(307, { location: `http://localhost:${port}/done` }).end();
      });
      await once(server.listen(port, '127.0.0.1'), 'listening');
      return server;
    }

    async function start(page: Page) {
      const { link } = await createConnector(system(), { level: 'admin' });
      const { server } = await discover(link);
      const client = await registerClient(server, 'none', redirectUri);
      const { url, verifier, state } = authorizeUrl(server, client, { resource: link });
      await page.goto(url.href);
      return { link, server, client, verifier, state };
    }

    if (looks !== '') {
      it('CON-10 approving a lower level with another account, and denying, each send the app its response', async () => {
        const page = tab();
        const { state, ...started } = await start(page);
        await page.getByRole('button', { name: 'Grace Hopper' }).click();
        await page.getByRole('button', { name: 'Use another account' }).click();
        await page.getByRole('button', { name: 'Ada Lovelace' }).click();
        const stay = page.getByLabel('Stay connected');
        expect(await page.locator('input[name=level]:checked').inputValue()).to.equal('admin');
        expect(await stay.isChecked()).to.equal(true);
        await page.locator('input[name=level][value=analytics]').check();
        await stay.uncheck();
        await page.getByRole('button', { name: 'Approve' }).click();
        await page.getByText(BACK_IN_THE_APP).waitFor();
        const [callback, ...more] = callbacks;
        expect(more).to.have.length(0);
        expect(callback?.searchParams.get('state')).to.equal(state);
        if (!callback) throw new Error('the app was not called back');
        const { body } = await redeem({ ...started, callback });
        expect(body.scope).to.equal('analytics');
        expect(body).to.not.have.property('refresh_token');
        expect(await isAccepted(started.link, body.access_token)).to.equal(true);

        await start(page);
        await page.getByRole('button', { name: 'Deny' }).click();
        await page.getByText(BACK_IN_THE_APP).waitFor();
        expect(callbacks[1]?.searchParams.get('error')).to.equal('access_denied');
        await page.goBack();
        expect(await page.getByRole('button', { name: 'Approve' }).count()).to.equal(0);
        await page.getByText('You have denied this already').waitFor();
      });
      // The theme has the same forms, and the server handles repeated and parallel requests without it.
      return;
    }

    it('two clicks lead from the authorization request to a working token', async () => {
      const page = tab();
      const { state, ...started } = await start(page);
      await page.getByRole('button', { name: 'Ada Lovelace' }).click();
      await page.getByRole('button', { name: 'Approve' }).click();
      await page.getByText(BACK_IN_THE_APP).waitFor();
      const [callback, ...more] = callbacks;
      expect(more).to.have.length(0);
      expect(callback?.searchParams.get('state')).to.equal(state);
      if (!callback) throw new Error('the app was not called back');
      const { body } = await redeem({ ...started, callback });
      expect(body.scope).to.equal('admin offline_access');
      expect(await isAccepted(started.link, body.access_token)).to.equal(true);
    });

    it('a lower level, no refresh token and another account take one click each', async () => {
      const page = tab();
      const { state, ...started } = await start(page);
      await page.getByRole('button', { name: 'Grace Hopper' }).click();
      await page.getByRole('button', { name: 'Use another account' }).click();
      await page.getByRole('button', { name: 'Ada Lovelace' }).click();
      await page.locator('input[name=level][value=analytics]').check();
      await page.getByLabel('Stay connected').uncheck();
      await page.getByRole('button', { name: 'Approve' }).click();
      await page.getByText(BACK_IN_THE_APP).waitFor();
      const [callback] = callbacks;
      if (!callback) throw new Error(`no callback for ${state}`);
      const { body } = await redeem({ ...started, callback });
      expect(body.scope).to.equal('analytics');
      expect(body).to.not.have.property('refresh_token');
    });

    it('CON-10 denying redirects to the app with an error, and going back shows that the request is finished', async () => {
      const page = tab();
      await start(page);
      await page.getByRole('button', { name: 'Ada Lovelace' }).click();
      await page.getByRole('button', { name: 'Deny' }).click();
      await page.getByText(BACK_IN_THE_APP).waitFor();
      expect(callbacks[0]?.searchParams.get('error')).to.equal('access_denied');
      await page.goBack();
      expect(await page.getByRole('button', { name: 'Approve' }).count()).to.equal(0);
      await page.getByText('You have denied this already').waitFor();
    });

    it("a double click on Approve connects the app, also if the app's callback is slow", async () => {
      const page = tab();
      const { state: _state, ...started } = await start(page);
      await page.getByRole('button', { name: 'Ada Lovelace' }).click();
      await page.getByRole('button', { name: 'Approve' }).dblclick({ delay: 20 });
      await page.getByText(BACK_IN_THE_APP).waitFor();
      const codes = new Set(callbacks.map(({ searchParams }) => searchParams.get('code')));
      expect(codes.size).to.equal(1);
      const [callback] = callbacks;
      if (!callback) throw new Error('the app was not called back');
      const { body } = await redeem({ ...started, callback });
      expect(await isAccepted(started.link, body.access_token)).to.equal(true);
    });

    it('CON-13 two tabs each approve their own connect link', async () => {
      const tabs = [];
      const second = await tab().context().newPage();
      for (const page of [tab(), second]) {
        const started = await start(page);
        if (page === tab()) await page.getByRole('button', { name: 'Ada Lovelace' }).click();
        await page.getByRole('button', { name: 'Approve' }).waitFor();
        tabs.push({ page, ...started });
      }
      for (const { page, state, ...started } of tabs) {
        await page.getByRole('button', { name: 'Approve' }).click();
        await page.getByText(BACK_IN_THE_APP).waitFor();
        const callback = callbacks.find(({ searchParams }) => searchParams.get('state') === state);
        if (!callback) throw new Error('the app was not called back');
        const { body } = await redeem({ ...started, callback });
        expect(await isAccepted(started.link, body.access_token)).to.equal(true);
      }
    });
  });
