// RFC 6749 section 5.2.
import { expect } from 'chai';
import { createConnector, type Connector } from '../support/management-api.ts';
import { connect, obtainCode, redeem, registerClient } from '../support/connection.ts';
import { discover, refresh, requestToken, type Client } from '../support/oauth.ts';
import { rawRequest } from '../support/raw-request.ts';
import { useSystem } from '../support/system.ts';

const FORM = 'application/x-www-form-urlencoded';

describe('The token endpoint', () => {
  const system = useSystem();
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

  it("a request that is not a token request is refused with the RFC's error", async () => {
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

  it('methods other than POST are refused', async () => {
    for (const method of ['GET', 'PUT', 'DELETE', 'PATCH'])
      expect((await refused({ method })).status).to.be.oneOf([404, 405]);
  });

  it('a body of more than 16 kB is refused, with and without Content-Length', async () => {
    const body = `grant_type=refresh_token&refresh_token=${'x'.repeat(17 * 1024)}`;
    expect((await refused({ body })).status).to.equal(413);
    const answer = await rawRequest(system().auth, {
      method: 'POST',
      path: '/oauth/token',
      headers: { host: new URL(system().auth).host, 'content-type': FORM },
      chunks: [body.slice(0, 9000), body.slice(9000)],
    });
    expect(answer.status).to.equal(413);
    expect(answer.headers['cache-control']).to.equal('no-store');
    expect(JSON.parse(answer.body).error).to.be.a('string');
  });

  it('a confidential client is authenticated only by its secret', async () => {
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
});
