// Resource indicators and audiences (RFC 8707, RFC 9068).
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { createConnector, type Connector, revokeConnector } from '../support/management-api.ts';
import { isSignInPage, openBrowser, requirePage } from '../support/browser.ts';
import {
  connect,
  obtainCode,
  redeem,
  registerClient,
  REDIRECT_URI,
} from '../support/connection.ts';
import { callTool } from '../support/mcp.ts';
import { authorizeUrl, discover, refresh, register, type Server } from '../support/oauth.ts';
import { useSystem } from '../support/system.ts';

describe('The resource of a request', () => {
  const system = useSystem();
  let connector: Connector;
  let server: Server;
  before(async () => {
    connector = await createConnector(system());
    ({ server } = await discover(connector.link));
  });

  async function pageFor(resource: string | string[]) {
    const { url } = authorizeUrl(server, await registerClient(server), { resource, state: 'same' });
    return requirePage(await openBrowser(system().origins).visit(url));
  }

  it('AUD-02 a resource that never existed gets the same error page as a revoked link', async () => {
    const revoked = await createConnector(system());
    await revokeConnector(system(), revoked.id);
    const never = connector.link.replace(connector.id, 'x'.repeat(22));
    const shown = [];
    for (const resource of [revoked.link, never, 'https://evil.example/x', system().auth]) {
      const { status, html } = await pageFor(resource);
      expect(status).to.equal(400);
      expect(html).to.not.include('evil.example');
      shown.push(withoutReference(html));
    }
    expect(new Set(shown.slice(0, 2)).size).to.equal(1);
  });

  /** Removes what differs between equal pages: the request id, and the link back with the client's state. */
  function withoutReference(html: string): string {
    return html.replace(/<code[^>]*>[^<]*<\/code>|href="[^"]*"/g, '').replace(/[\da-f]{12}/g, '');
  }

  const equivalents = ({ link }: Connector) => {
    const { origin, pathname } = new URL(link);
    return [link, `${link}/`, origin.toUpperCase() + pathname, [link, `${link}/`]];
  };
  const lookalikes = ({ link, id }: Connector) => [
    `${link}/extra`,
    `${link}?x`,
    `${link}#f`,
    `${link}/%2e%2e`,
    `${link}/..`,
    `${link}//`,
    `${link} `,
    new URL(link).origin,
    link.replace('/connect', '/Connect'),
    link.replace('localhost', 'user@localhost'),
    link.replace(id, id.toLowerCase() === id ? id.toUpperCase() : id.toLowerCase()),
    link.replace('/connect/', '/connect/./'),
    link.replace('localhost', 'localhost.'),
    link.replace('localhost', '127.0.0.1'),
    link.replace('http:', 'https:'),
    link.slice(0, -1),
  ];

  it('AUD-03 both endpoints accept every equivalent form of a resource and issue one audience', async () => {
    for (const asked of equivalents(connector))
      expect(isSignInPage(await pageFor(asked)), String(asked)).to.equal(true);
    const audiences = new Set();
    for (const requested of [undefined, ...equivalents(connector)]) {
      const code = await obtainCode(system(), connector, {
        parameters: { resource: requested ?? connector.link },
      });
      const { status, body } = await redeem(code, { resource: requested });
      expect(status, String(requested)).to.equal(200);
      audiences.add(decodeJwt(body.access_token ?? '').aud);
      const again = await refresh(server, code.client, body.refresh_token, { resource: requested });
      audiences.add(decodeJwt(again.body.access_token ?? '').aud);
    }
    expect([...audiences]).to.deep.equal([connector.link]);
  });

  it('AUD-03 both endpoints refuse lookalikes of a resource, and code and refresh token stay valid', async () => {
    const code = await obtainCode(system(), connector);
    for (const other of lookalikes(connector)) {
      expect((await pageFor(other)).status, other).to.equal(400);
      const { status, body } = await redeem(code, { resource: other });
      expect([status, body.error], other).to.deep.equal([400, 'invalid_target']);
    }
    const { body } = await redeem(code);
    for (const other of lookalikes(connector)) {
      const refused = await refresh(server, code.client, body.refresh_token, { resource: other });
      expect([refused.status, refused.body.error], other).to.deep.equal([400, 'invalid_target']);
    }
    expect((await refresh(server, code.client, body.refresh_token)).status).to.equal(200);
  });

  it('AUD-05 a request for several resources is refused, and a token has one audience', async () => {
    const other = await createConnector(system());
    expect((await pageFor([connector.link, other.link])).status).to.equal(400);
    const code = await obtainCode(system(), connector);
    const both = [connector.link, other.link];
    expect((await redeem(code, { resource: both })).body.error).to.equal('invalid_target');
    const { body } = await redeem(code);
    expect(decodeJwt(body.access_token ?? '').aud).to.equal(connector.link);
  });
});

describe('An access token', () => {
  const system = useSystem();

  it('AUD-07 the resource server refuses refresh tokens, codes, client ids and the management key', async () => {
    const connector = await createConnector(system());
    const { link, refreshToken, server, client } = await connect(system(), connector);
    const code = await obtainCode(system(), connector, { as: { client } });
    for (const wrong of [
      refreshToken,
      code.callback.searchParams.get('code') ?? '',
      system().managementKey,
      client.id,
      '',
    ])
      expect((await callTool(link, wrong, 'club_overview')).status).to.equal(401);
    // No ID token is issued that could be mistaken for an access token.
    const asked = await connect(system(), connector, {
      parameters: { scope: 'openid profile operations offline_access' },
    });
    const { body } = await refresh(server, asked.client, asked.refreshToken);
    expect(body).to.not.have.property('id_token');
    expect(server.scopes_supported).to.not.include('openid');
  });

  it('AUD-08 a client cannot get a token for itself with client_credentials', async () => {
    const connector = await createConnector(system());
    const { server } = await discover(connector.link);
    const metadata = { redirect_uris: [REDIRECT_URI], grant_types: ['client_credentials'] };
    const { status, body } = await register(server, metadata);
    expect([status, body.grant_types]).to.deep.equal([
      201,
      ['authorization_code', 'refresh_token'],
    ]);
    const answer = await fetch(server.token_endpoint, {
      method: 'POST',
      headers: { authorization: `Basic ${btoa(`${body.client_id}:${body.client_secret}`)}` },
      body: new URLSearchParams({ grant_type: 'client_credentials', resource: connector.link }),
    });
    expect(answer.status).to.equal(400);
    expect(((await answer.json()) as { error: string }).error).to.match(
      /^unsupported_grant_type$|^unauthorized_client$/,
    );
    const { accessToken, client } = await connect(system(), connector);
    expect(decodeJwt(accessToken).sub).to.not.equal(client.id);
  });

  it('AUD-09 unknown scopes do not prevent a token, and its response names the granted scope', async () => {
    const connector = await createConnector(system());
    const { server } = await discover(connector.link);
    const { status, body } = await register(server, {
      redirect_uris: [REDIRECT_URI],
      scope: 'mcp:read openid *',
      token_endpoint_auth_method: 'none',
    });
    expect(status).to.equal(201);
    const client = { id: body.client_id ?? '', method: 'none', redirectUri: REDIRECT_URI } as const;
    for (const scope of ['*', 'mcp:read', 'operations:*', undefined]) {
      const { scope: granted } = await connect(system(), connector, {
        as: { client },
        parameters: { scope },
      });
      expect(granted, String(scope)).to.match(/^operations( offline_access)?$/);
    }
  });

  it('AUD-10 the authorization response has the issuer of the metadata, byte for byte', async () => {
    const connector = await createConnector(system());
    const { server, resource } = await discover(connector.link);
    const { callback } = await obtainCode(system(), connector);
    expect(server.issuer).to.equal(system().auth);
    expect(resource.authorization_servers).to.deep.equal([server.issuer]);
    expect(callback.searchParams.get('iss')).to.equal(server.issuer);
    expect(server.authorization_response_iss_parameter_supported).to.equal(true);
  });
});
