// RFC 6749 section 4.1.2.1.
import { expect } from 'chai';
import { createConnector, revokeConnector, type Connector } from '../support/management-api.ts';
import { openBrowser, requireExternalRedirect, requirePage } from '../support/browser.ts';
import { connect, obtainCode, redeem, requestAuthorization } from '../support/connection.ts';
import { isAccepted } from '../support/mcp.ts';
import { authorizeUrl, discover, refresh, type Client, type Parameters } from '../support/oauth.ts';
import { useSystem } from '../support/system.ts';

const CALLBACK = 'https://reports.example.com/callback';
const SECRET = 'a-secret-of-a-client-that-is-long-enough';

const PUBLIC: Client = { id: 'reports', method: 'none', redirectUri: CALLBACK };
const CONFIDENTIAL: Client = {
  id: 'reports.batch',
  method: 'client_secret_basic',
  secret: SECRET,
  redirectUri: CALLBACK,
};

describe('A pre-registered client', () => {
  const system = useSystem({
    file: {
      clients: {
        preRegistered: [
          { id: PUBLIC.id, name: 'Monthly reports', redirectUris: [CALLBACK] },
          {
            id: CONFIDENTIAL.id,
            name: 'Monthly reports',
            redirectUris: [CALLBACK],
            secret: SECRET,
          },
        ],
      },
    },
  });
  let connector: Connector;
  before(async () => {
    connector = await createConnector(system());
  });

  async function open(client: Client, parameters: Parameters = {}) {
    const { server } = await discover(connector.link);
    const browser = openBrowser(system().origins);
    const authorization = authorizeUrl(server, client, { resource: connector.link, ...parameters });
    return { server, browser, ...authorization };
  }

  /** The redirect that the client receives before any page is shown. */
  async function answerTo(client: Client, parameters: Parameters) {
    const { browser, url, state } = await open(client, parameters);
    const answer = requireExternalRedirect(await browser.visit(url));
    expect(answer.origin + answer.pathname).to.equal(CALLBACK);
    return { answer, state };
  }

  for (const [kind, client] of [
    ['public', PUBLIC],
    ['confidential', CONFIDENTIAL],
  ] as const) {
    describe(`a ${kind} client`, () => {
      it('DCR-12 the client connects, calls tools and refreshes', async () => {
        const { link, server, accessToken, refreshToken, scope } = await connect(
          system(),
          connector,
          { as: { client } },
        );
        expect(scope).to.equal('operations offline_access');
        expect(await isAccepted(link, accessToken)).to.equal(true);
        const { body } = await refresh(server, client, refreshToken);
        expect(await isAccepted(link, body.access_token)).to.equal(true);
      });

      const mistakes: [string, Parameters, string][] = [
        ['with prompt=none', { prompt: 'none' }, 'interaction_required'],
        ['without a code challenge', { code_challenge: undefined }, 'invalid_request'],
        ['with the method plain', { code_challenge_method: 'plain' }, 'invalid_request'],
        ['without a resource', { resource: undefined }, 'invalid_target'],
        ['for a resource that is no connect link', { resource: 'urn:x' }, 'invalid_target'],
      ];
      for (const [what, parameters, error] of mistakes) {
        it(`AUD-10 a request ${what} returns ${error}, state and iss to the client`, async () => {
          const { answer, state } = await answerTo(client, parameters);
          expect(Object.fromEntries(answer.searchParams)).to.include({
            error,
            state,
            iss: system().auth,
          });
          expect(answer.searchParams.get('error_description')).to.match(/\w/);
          expect(answer.searchParams.has('code')).to.equal(false);
        });
      }

      it('CON-15 prompt=none returns interaction_required, also if the person is signed in', async () => {
        const { browser } = await connect(system(), connector, { as: { client } });
        const { url, state } = await open(client, { prompt: 'none' });
        const { searchParams } = requireExternalRedirect(await browser.visit(url));
        expect(Object.fromEntries(searchParams)).to.include({
          error: 'interaction_required',
          state,
          iss: system().auth,
        });
      });

      it('a revoked connect link returns invalid_target', async () => {
        const { id, link } = await createConnector(system());
        await revokeConnector(system(), id);
        const { answer, state } = await answerTo(client, { resource: link });
        expect(Object.fromEntries(answer.searchParams)).to.include({
          error: 'invalid_target',
          state,
          iss: system().auth,
        });
      });

      it('a denial returns access_denied', async () => {
        const { browser, url, state } = await open(client);
        const { searchParams } = await browser.authorize(url, { decision: 'deny' });
        expect(Object.fromEntries(searchParams)).to.include({
          error: 'access_denied',
          state,
          iss: system().auth,
        });
      });
    });
  }

  it('KEY-06 a confidential client without its secret is rejected, and the code is not consumed', async () => {
    const code = await obtainCode(system(), connector, { as: { client: CONFIDENTIAL } });
    const strangers: Client[] = [
      { ...CONFIDENTIAL, secret: `${SECRET}x` },
      { ...CONFIDENTIAL, method: 'none', secret: undefined },
      { ...CONFIDENTIAL, id: PUBLIC.id },
      { ...CONFIDENTIAL, id: 'reports.nobody' },
    ];
    for (const client of strangers) {
      const { status, body } = await redeem({ ...code, client });
      expect([status, body.error], client.id).to.deep.equal([401, 'invalid_client']);
    }
    const { status, body } = await redeem(code);
    expect(status).to.equal(200);
    for (const client of strangers.slice(0, 2)) {
      const refused = await refresh(code.server, client, body.refresh_token);
      expect([refused.status, refused.body.error]).to.deep.equal([401, 'invalid_client']);
    }
    const refreshed = await refresh(code.server, CONFIDENTIAL, body.refresh_token);
    expect(refreshed.status).to.equal(200);
  });

  it('RED-08 a client that registered itself gets a page in place of these error redirects', async () => {
    const browser = openBrowser(system().origins);
    const { url, server, client } = await requestAuthorization(system(), connector, {
      prompt: 'none',
    });
    expect(requirePage(await browser.visit(url)).status).to.equal(400);
    const asked = authorizeUrl(server, client, { resource: connector.link });
    const { html } = await browser.openConsent(asked.url);
    expect(html).to.match(/chosen by the app, not verified/i);
  });
});
