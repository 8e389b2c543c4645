import { expect } from 'chai';
import { startGatehouse } from '../../src/server.ts';
import { loadSettings } from '../../src/settings/load.ts';
import { createConnector } from '../support/management-api.ts';
import { openBrowser } from '../support/browser.ts';
import { restoreClock } from '../support/clock.ts';
import { connect } from '../support/connection.ts';
import { isAccepted } from '../support/mcp.ts';
import { discover, refresh } from '../support/oauth.ts';
import { rawRequest } from '../support/raw-request.ts';
import { connectSdkV1, connectSdkV2, type SdkClient, type SdkOptions } from '../support/sdk.ts';
import {
  createDeployment,
  startDeployment,
  type Deployment,
  type System,
} from '../support/system.ts';

const SDKS: [string, (link: string, options: SdkOptions) => Promise<SdkClient>][] = [
  ['SDK v1', connectSdkV1],
  ['SDK v2', (link, options) => connectSdkV2(link, 'auto', options)],
];

/** Runs the tests for one process with one listener for both hosts. */
function whole(title: string, start: (place: Deployment) => Promise<System>, claims: Claims): void {
  describe(title, () => {
    let place: Deployment;
    let system: System | undefined;
    before(async () => {
      place = await createDeployment();
      system = await start(place);
    });
    afterEach(restoreClock);
    after(async () => {
      await system?.stop();
      await place.release();
    });
    const running = () => {
      if (!system) throw new Error('the system runs only during tests');
      return system;
    };

    for (const [name, connectSdk] of SDKS) {
      it(`${name} gets from the link to a tool result`, async () => {
        const { link } = await createConnector(running());
        expect(new URL(link).origin).to.equal(running().resource);
        const client = await connectSdk(link, {
          browser: openBrowser(running().origins),
          method: 'none',
        });
        expect(await client.callTool('club_overview')).to.have.property('members');
        expect(client.signIns()).to.equal(1);
        await client.close();
      });
    }

    it('a client stays connected by refreshing', async () => {
      const connector = await createConnector(running());
      const connection = await connect(running(), connector);
      const { body } = await refresh(
        connection.server,
        connection.client,
        connection.refreshToken,
        { resource: connector.link },
      );
      expect(await isAccepted(connector.link, body.access_token)).to.equal(true);
    });

    claims(running);
  });
}

type Claims = (system: () => System) => void;

async function ask(base: string, path: string, accept = 'text/html', method = 'GET') {
  const headersOfRequest = { host: new URL(base).host, accept };
  const { status, headers, body } = await rawRequest(base, {
    method,
    path,
    headers: headersOfRequest,
  });
  return { status, type: String(headers['content-type']), body };
}

whole(
  'Both servers on one origin',
  async (place) => {
    const { auth, origins } = place.facts;
    const settings = { GATEHOUSE_RESOURCE_URL: auth };
    const system = await startDeployment(place, settings);
    return { ...system, resource: auth, origins: [auth, ...origins.slice(2)] };
  },
  (system) => {
    it('each server answers at its own paths', async () => {
      const { auth } = system();
      const { id, link } = await createConnector(system());
      const { resource, server } = await discover(link);
      expect(resource.resource).to.equal(link);
      expect(server.issuer).to.equal(auth);
      const root = await ask(auth, '/.well-known/oauth-protected-resource');
      expect(JSON.parse(root.body)).to.include({ resource: auth });
      // Only the authorization server responds to unknown paths with a page for POST.
      const isPage = async (path: string) =>
        (await ask(auth, path, 'text/html', 'POST')).type.startsWith('text/html');
      for (const path of ['/mcp', `/connect/${id}/mcp`, '/connect', '/connect/x', '/mcp/x']) {
        expect((await ask(auth, path)).status, path).to.be.oneOf([401, 404]);
        expect(await isPage(path), path).to.equal(false);
      }
      for (const path of ['/connected', '/mcpx', '/x/connect', '/x/mcp', '/nothing']) {
        expect((await ask(auth, path)).status, path).to.equal(404);
        expect(await isPage(path), path).to.equal(true);
      }
      for (const path of ['/', '/assets/style.css', '/oauth/jwks'])
        expect((await ask(auth, path)).status, path).to.equal(200);
    });

    it('the page of the connect link finds its stylesheet', async () => {
      const { link } = await createConnector(system());
      const { body } = await ask(system().auth, new URL(link).pathname);
      const [, path = ''] = /<link rel="stylesheet" href="([^"]*)"/.exec(body) ?? [];
      const { status, type } = await ask(system().auth, path);
      expect([status, type]).to.deep.equal([200, 'text/css; charset=utf-8']);
    });
  },
);

whole(
  'Both servers on one port with two host names',
  async (place) => {
    const { auth, origins } = place.facts;
    const resource = auth.replace('localhost', '127.0.0.1');
    // A settings file cannot say this, because there each name has its own socket.
    const settings = loadSettings(place.environment);
    const listen = { ...settings.listen, resource: settings.listen.auth };
    const { stop } = await startGatehouse({ ...settings, resourceUrl: resource, listen });
    const system = { ...place.facts, signalStore: place.signalStore, stop };
    return { ...system, resource, origins: [auth, resource, ...origins.slice(2)] };
  },
  (system) => {
    it('each server answers at its own host name for every path', async () => {
      const { auth, resource } = system();
      const { id } = await createConnector(system());
      for (const path of ['/mcp', `/connect/${id}/mcp`]) {
        expect((await ask(resource, path)).status, path).to.equal(401);
        expect((await ask(auth, path)).status, path).to.equal(404);
      }
      for (const path of ['/oauth/jwks', '/.well-known/oauth-authorization-server']) {
        expect((await ask(auth, path)).status, path).to.equal(200);
        expect((await ask(resource, path)).status, path).to.equal(404);
      }
    });
  },
);
