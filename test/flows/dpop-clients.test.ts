// RFC 9449 with MCP's SDK v2 and openid-client.
import { DpopSession } from '@modelcontextprotocol/client';
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import * as library from 'openid-client';
import { createConnector } from '../support/management-api.ts';
import { openBrowser } from '../support/browser.ts';
import { advanceClock, restoreClock } from '../support/clock.ts';
import { REDIRECT_URI, registerClient } from '../support/connection.ts';
import { discover } from '../support/oauth.ts';
import { connectSdkV2 } from '../support/sdk.ts';
import {
  createDeployment,
  startDeployment,
  type Deployment,
  type System,
  useSystem,
} from '../support/system.ts';

/** Metadata by RFC 8414 rather than OpenID Connect, and plain http on loopback. */
const OPTIONS: library.DiscoveryRequestOptions = {
  algorithm: 'oauth2',
  execute: [library.allowInsecureRequests],
};

describe('SDK v2 with DPoP', () => {
  const system = useSystem();

  for (const mode of ['legacy', 'auto'] as const)
    for (const method of ['none', 'client_secret_basic'] as const)
      it(`the client connects, calls and refreshes with bound tokens after one sign-in: ${mode}, ${method}`, async () => {
        const { link } = await createConnector(system());
        const dpop = await DpopSession.create();
        const browser = openBrowser(system().origins);
        const client = await connectSdkV2(link, mode, { browser, method, dpop });
        const binding = () => decodeJwt(client.accessToken() ?? '').cnf;
        expect(binding()).to.deep.equal({ jkt: dpop.thumbprint });
        expect(await client.callTool('club_overview')).to.have.property('members');
        const before = client.accessToken();
        advanceClock(3601);
        expect(await client.callTool('club_overview')).to.have.property('members');
        expect(client.accessToken()).to.not.equal(before);
        expect(binding()).to.deep.equal({ jkt: dpop.thumbprint });
        expect(client.signIns()).to.equal(1);
        await client.close();
      });

  it('the client steps up if a tool needs a higher level, and the challenge uses the DPoP scheme', async () => {
    const { link } = await createConnector(system(), { level: 'admin' });
    const browser = openBrowser(system().origins);
    const wanted = { level: 'analytics' as 'analytics' | 'admin' };
    const authorize = (url: URL | string) => browser.authorize(url, wanted);
    const dpop = await DpopSession.create();
    const client = await connectSdkV2(link, 'auto', {
      browser: { authorize },
      method: 'none',
      dpop,
    });
    wanted.level = 'admin';
    const call = () => client.callTool('member_contact', { memberId: 'M0001' });
    const refused = await call().catch((error: Error) => error.constructor.name);
    expect(refused).to.equal('UnauthorizedError');
    await client.finishSignIn();
    expect(await call()).to.include.keys('email', 'phone');
    expect(decodeJwt(client.accessToken() ?? '').cnf).to.deep.equal({ jkt: dpop.thumbprint });
    await client.close();
  });
});

/** Two origins, and one origin, where nonces of one server are also sent to the other. */
const PLACES: [string, (environment: Deployment['environment']) => Record<string, string>][] = [
  ['two origins', () => ({})],
  ['one origin', ({ GATEHOUSE_AUTH_URL: auth = '' }) => ({ GATEHOUSE_RESOURCE_URL: auth })],
];

for (const [title, more] of PLACES)
  describe(`openid-client with DPoP, on ${title}`, () => {
    let place: Deployment;
    let system: System;
    before(async () => {
      place = await createDeployment();
      const settings = more(place.environment);
      const started = await startDeployment(place, settings);
      system = { ...started, resource: settings.GATEHOUSE_RESOURCE_URL ?? started.resource };
    });
    afterEach(restoreClock);
    after(async () => {
      await system.stop();
      await place.release();
    });

    for (const off of [0, -4000, 4000])
      it(`the client connects, calls and refreshes with a clock that is ${off} s off`, async () => {
        const { link } = await createConnector(system);
        const client = await openClient(link, off);
        const tokens = await signIn(client, system, link);
        await ping(client, link, tokens.access_token);
        advanceClock(3601);
        const { refresh_token = '' } = tokens;
        const refreshed = await library.refreshTokenGrant(
          client.configuration,
          refresh_token,
          undefined,
          client,
        );
        expect([tokens.token_type, refreshed.token_type]).to.deep.equal(['dpop', 'dpop']);
        await ping(client, link, refreshed.access_token);
        // One extra request for a nonce of each server, before and after the hour; on one origin one nonce serves both.
        const forNonces = title === 'one origin' ? 2 : 4;
        expect(client.requests).to.have.length(4 + (off === 0 ? 0 : forNonces));
      });
  });

type KeyClient = {
  configuration: library.Configuration;
  DPoP: library.DPoPHandle;
  /** Paths requested, in order. */
  requests: string[];
};

/** A public client whose clock is wrong by `off` seconds. */
async function openClient(link: string, off: number): Promise<KeyClient> {
  const { server } = await discover(link);
  const { id } = await registerClient(server);
  const configuration = await library.discovery(
    new URL(server.issuer),
    id,
    { [library.clockSkew]: off },
    library.None(),
    OPTIONS,
  );
  const requests: string[] = [];
  configuration[library.customFetch] = (url, options) => {
    requests.push(`${options.method} ${new URL(url).pathname}`);
    return fetch(url, options as RequestInit);
  };
  const keys = await library.randomDPoPKeyPair('ES256');
  return { configuration, DPoP: library.getDPoPHandle(configuration, keys), requests };
}

async function signIn({ configuration, DPoP }: KeyClient, { origins }: System, link: string) {
  const verifier = library.randomPKCECodeVerifier();
  const url = library.buildAuthorizationUrl(configuration, {
    redirect_uri: REDIRECT_URI,
    resource: link,
    code_challenge: await library.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    dpop_jkt: await DPoP.calculateThumbprint(),
  });
  const callback = await openBrowser(origins).authorize(url);
  const checks = { pkceCodeVerifier: verifier };
  return library.authorizationCodeGrant(configuration, callback, checks, undefined, { DPoP });
}

async function ping({ configuration, DPoP }: KeyClient, link: string, token: string) {
  const answer = await library.fetchProtectedResource(
    configuration,
    token,
    new URL(link),
    'POST',
    JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' }),
    new Headers({
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
    }),
    { DPoP },
  );
  expect(answer.status).to.equal(200);
  await answer.text();
}
