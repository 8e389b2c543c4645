// RFC 6749 section 5.2.
import { expect } from 'chai';
import { createConnector, type Connector } from '../support/management-api.ts';
import { connect, obtainCode, redeem, registerClient } from '../support/connection.ts';
import { discover, refresh, requestToken, type Client } from '../support/oauth.ts';
import { rawRequest } from '../support/raw-request.ts';
import { useSystem } from '../support/system.ts';

const FORM = 'application/x-www-form-urlencoded';

/** As `openssl rand -base64` makes them, and worse. */
const SECRETS = [
  'x2+s/1Aq+Zk0v8Qe+WnB7yPl0Rt4Uo9i+Mc3Kd==',
  '100%ab+zz%4w-long-enough-to-be-a-secret',
];
const PRE_REGISTERED: Client[] = SECRETS.map((secret, index) => ({
  id: `reports-${index}`,
  secret,
  method: 'client_secret_basic',
  redirectUri: 'https://reports.example.com/callback',
}));

describe('The token endpoint', () => {
  const system = useSystem({
    file: {
      clients: {
        preRegistered: PRE_REGISTERED.map(({ id, secret, redirectUri }) => ({
          id,
          name: 'Reports',
          secret,
          redirectUris: [redirectUri],
        })),
      },
    },
  });
  let connector: Connector;
  before(async () => {
    connector = await createConnector(system());
  });

  /** Sends a request and expects a refusal in JSON that is not cached. */
  async function refused(options: { method?: string; type?: string; body?: string }) {
    const { method = 'POST', type = FORM, body } = options;
    const response = await fetch(`${system().auth}/oauth/token`, {
      method,
      headers: { accept: 'text/html', ...(body === undefined ? {} : { 'content-type': type }) },
      ...(body === undefined ? {} : { body }),
    });
    expect(response.headers.get('content-type')).to.match(/^application\/json/);
    expect(response.headers.get('cache-control')).to.equal('no-store');
    const answer = JSON.parse(await response.text());
    expect(answer.error_description).to.be.a('string').with.length.above(0);
    return { status: response.status, error: answer.error };
  }

  it("DIS-03 a request that is not a token request is refused with the RFC's error", async () => {
    const { server } = await discover(connector.link);
    const { id } = await registerClient(server);
    const requests: [Parameters<typeof refused>[0], number, string | undefined][] = [
      [{ body: '' }, 400, 'invalid_request'],
      [{ body: 'grant_type=authorization_code' }, 400, 'invalid_request'],
      [{ body: `client_id=${id}` }, 400, 'invalid_request'],
      [{ body: `client_id=${id}&grant_type=password` }, 400, 'unsupported_grant_type'],
      [{ body: `client_id=${id}&grant_type=client_credentials` }, 400, 'unauthorized_client'],
      [{ body: `client_id=${id}&grant_type=refresh_token` }, 400, 'invalid_request'],
      [{ body: `client_id=${id}&grant_type=authorization_code&code=x` }, 400, undefined],
      [{ body: `client_id=${id}&grant_type=refresh_token&refresh_token=x` }, 400, 'invalid_grant'],
      [
        { body: `client_id=${id}&grant_type=refresh_token&refresh_token=x&refresh_token=y` },
        400,
        'invalid_request',
      ],
      [{ body: 'client_id=nobody&grant_type=refresh_token' }, 401, 'invalid_client'],
      [
        { body: '{"grant_type":"refresh_token"}', type: 'application/json' },
        400,
        'invalid_request',
      ],
      [{ body: 'x', type: 'text/plain' }, 400, 'invalid_request'],
    ];
    for (const [request, status, error] of requests) {
      const answer = await refused(request);
      expect(answer.status, request.body).to.equal(status);
      if (error !== undefined) expect(answer.error, request.body).to.equal(error);
    }
  });

  it('KEY-06 a confidential client is authenticated only by its secret', async () => {
    for (const method of ['client_secret_basic', 'client_secret_post'] as const) {
      const code = await obtainCode(system(), connector, { method });
      const impostors: Client[] = [
        { ...code.client, method: 'none' },
        { ...code.client, secret: 'wrong' },
      ];
      for (const client of impostors) {
        const { status, body } = await redeem({ ...code, client });
        expect(status).to.equal(401);
        expect(body.error).to.equal('invalid_client');
      }
      const { status, body } = await redeem(code);
      expect(status).to.equal(200);
      for (const client of impostors)
        expect((await refresh(code.server, client, body.refresh_token)).status).to.equal(401);
      expect((await refresh(code.server, code.client, body.refresh_token)).status).to.equal(200);
    }
  });

  it('access tokens, codes and refresh tokens are not interchangeable', async () => {
    const { server, client, accessToken, refreshToken } = await connect(system(), connector);
    const code = await obtainCode(system(), connector, { as: { client } });
    const value = code.callback.searchParams.get('code') ?? '';
    for (const wrong of [accessToken, value, `${refreshToken}x`, refreshToken?.slice(0, -1)])
      expect((await refresh(server, client, wrong)).body.error).to.equal('invalid_grant');
    for (const wrong of [accessToken, refreshToken]) {
      const { body } = await requestToken(server, client, {
        grant_type: 'authorization_code',
        code: wrong,
        redirect_uri: client.redirectUri,
        code_verifier: code.verifier,
      });
      expect(body.error).to.equal('invalid_grant');
    }
    expect((await refresh(server, client, refreshToken)).status).to.equal(200);
    expect((await redeem(code)).status).to.equal(200);
  });

  it('a Basic secret is accepted percent-encoded and as it is', async () => {
    for (const client of PRE_REGISTERED) {
      const { server, refreshToken } = await connect(system(), connector, { as: { client } });
      const encoded = { ...client, secret: encodeURIComponent(String(client.secret)) };
      expect((await refresh(server, encoded, refreshToken)).status).to.equal(200);
      const wrong = { ...client, secret: String(client.secret).replaceAll('+', ' ') };
      expect((await refresh(server, wrong, refreshToken)).status).to.equal(401);
    }
  });

  it('an Authorization header of another scheme is ignored if the body names the client', async () => {
    for (const method of ['none', 'client_secret_post'] as const) {
      const code = await obtainCode(system(), connector, { method });
      const { server, client } = code;
      const stale = { authorization: 'Bearer configured-for-the-mcp-server' };
      const { status, body } = await requestToken(
        server,
        client,
        {
          grant_type: 'authorization_code',
          code: code.callback.searchParams.get('code') ?? '',
          redirect_uri: client.redirectUri,
          code_verifier: code.verifier,
        },
        stale,
      );
      expect(status).to.equal(200);
      const form = { token: body.refresh_token ?? '', client_id: client.id };
      const revoked = await fetch(server.revocation_endpoint, {
        method: 'POST',
        headers: stale,
        body: new URLSearchParams({
          ...form,
          ...(client.secret === undefined ? {} : { client_secret: client.secret }),
        }),
      });
      expect(revoked.status).to.equal(200);
    }
    const { server, client } = await obtainCode(system(), connector, {
      method: 'client_secret_basic',
    });
    const nameless = { authorization: 'Bearer configured-for-the-mcp-server' };
    const form = { grant_type: 'refresh_token', refresh_token: 'x' };
    const bare = await requestToken(server, client, { ...form, client_id: client.id }, nameless);
    expect([bare.status, bare.body.error]).to.deep.equal([401, 'invalid_client']);
    expect(bare.body.error_description).to.include('token_endpoint_auth_method');
    const refusal = await requestToken(server, client, form, nameless);
    expect(refusal.body.error_description).to.include('Authorization must be Basic');
  });

  it('a missing or wrong code_verifier and a wrong redirect_uri are named', async () => {
    const code = await obtainCode(system(), connector);
    const redeemWith = (more: Record<string, string | undefined>) => redeem(code, more);
    for (const [parameters, name] of [
      [{ code_verifier: undefined }, 'code_verifier is missing'],
      [{ code_verifier: 'x'.repeat(43) }, 'code_verifier does not belong'],
      [{ code_verifier: 'short' }, 'code_verifier'],
      [{ redirect_uri: 'http://127.0.0.1:7071/callback' }, 'redirect_uri is not'],
    ] as const) {
      const { status, body } = await redeemWith(parameters);
      expect(status).to.equal(400);
      expect(body.error_description).to.include(name);
    }
    const { body } = await redeemWith({});
    expect(body.access_token).to.be.a('string');
  });

  it('a body without a Content-Type is refused with the type that is missing', async () => {
    const { hostname, port } = new URL(system().auth);
    for (const [path, body, type] of [
      ['/oauth/token', 'grant_type=refresh_token&client_id=x', FORM],
      ['/oauth/revoke', 'token=x&client_id=x', FORM],
      ['/oauth/device', 'client_id=x', FORM],
      ['/oauth/register', '{"redirect_uris":["http://localhost/cb"]}', 'application/json'],
    ] as const)
      for (const chunks of [[body], [body.slice(0, 5), body.slice(5)]]) {
        const host = `${hostname}:${port}`;
        const answer = await rawRequest(system().auth, {
          method: 'POST',
          path,
          headers: { host },
          chunks,
        });
        expect(answer.status).to.equal(400);
        expect(JSON.parse(answer.body).error_description, path).to.include(`send ${type}`);
      }
  });

  it('a parameter without a value counts as omitted, also beside one with a value', async () => {
    const code = await obtainCode(system(), connector);
    const { status, body } = await redeem(code, {
      resource: ['', code.link],
      scope: '',
      client_secret: '',
      code_verifier: ['', code.verifier],
    });
    expect([status, body.error_description]).to.deep.equal([200, undefined]);
  });
});
