// RFC 7591.
import { expect } from 'chai';
import { createConnector } from '../support/management-api.ts';
import { connect } from '../support/connection.ts';
import { discover, register } from '../support/oauth.ts';
import { useSystem } from '../support/system.ts';

describe('Dynamic client registration', () => {
  const system = useSystem();

  it('the response lists the redirect addresses that were accepted', async () => {
    const { link } = await createConnector(system());
    const { server } = await discover(link);
    const { body } = await register(server, {
      redirect_uris: [
        'cursor://callback',
        'http://localhost:8787/callback',
        'https://other.example/cb',
      ],
      token_endpoint_auth_method: 'none',
    });
    expect(body.redirect_uris).to.deep.equal(['http://localhost:8787/callback']);
  });

  // As some serializers write them: anthropics/claude-code issue 13685, and older Python SDKs.
  it('a client that registers with empty members connects', async () => {
    const connector = await createConnector(system());
    const { server } = await discover(connector.link);
    const redirectUri = 'http://127.0.0.1:8090/callback';
    const empty = ['client_uri', 'tos_uri', 'policy_uri', 'jwks_uri', 'contacts', 'scope'];
    const { status, body } = await register(server, {
      client_name: 'Empty Members',
      ...Object.fromEntries(empty.map((name) => [name, null])),
      logo_uri: '',
      redirect_uris: [redirectUri],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      token_endpoint_auth_method: 'client_secret_post',
    });
    expect(status).to.equal(201);
    const { client_id: id = '', client_secret: secret } = body;
    const client = {
      id,
      secret: String(secret),
      method: 'client_secret_post',
      redirectUri,
    } as const;
    const { refreshToken } = await connect(system(), connector, { as: { client } });
    expect(refreshToken).to.be.a('string');
  });
});
