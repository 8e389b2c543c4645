// RFC 7591, RFC 7592.
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect } from 'chai';
import { z } from 'zod';
import { createConnector } from '../support/management-api.ts';
import { connect, REDIRECT_URI } from '../support/connection.ts';
import { requestToken } from '../support/oauth.ts';
import { rawRequest } from '../support/raw-request.ts';
import { readStoredBytes } from '../support/stored-bytes.ts';
import { useSystem, type System } from '../support/system.ts';

const answer = z.looseObject({ client_id: z.string(), client_name: z.string() });

async function register({ auth }: System, metadata: object | string) {
  const response = await fetch(`${auth}/oauth/register`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: typeof metadata === 'string' ? metadata : JSON.stringify(metadata),
  });
  return { status: response.status, body: answer.parse(await response.json()) };
}

const PLAIN = { redirect_uris: [REDIRECT_URI], token_endpoint_auth_method: 'none' };
const MAX_STORED_BYTES = 1200;

describe('The record of a registration', () => {
  const system = useSystem();
  const clients = () => readStoredBytes(system().storeAddress, 'client:');

  it('DCR-01 a registered client is stored in at most 1200 bytes, and long or unknown members are cut or dropped', async () => {
    const name = `Big ${'x'.repeat(40_000)}`;
    const { status, body } = await register(system(), {
      ...PLAIN,
      client_name: name,
      contacts: Array(1000).fill('a@b.example'),
      software_id: 'y'.repeat(5000),
    });
    expect(status).to.equal(201);
    expect(body.client_name).to.equal(name.slice(0, 80));
    expect(body).to.not.have.any.keys('contacts', 'software_id');
    for (const { bytes } of await clients()) expect(bytes.length).to.be.below(MAX_STORED_BYTES);
  });

  it('DCR-01 a registration of up to 64 kB is accepted, also with a chunked body', async () => {
    const text = JSON.stringify({ ...PLAIN, x: 'x'.repeat(62_000) });
    expect((await register(system(), text)).status).to.equal(201);
    const { status } = await rawRequest(system().auth, {
      method: 'POST',
      path: '/oauth/register',
      headers: { host: new URL(system().auth).host, 'content-type': 'application/json' },
      chunks: [text.slice(0, 30_000), text.slice(30_000)],
    });
    expect(status).to.equal(201);
  });

  it('DCR-01 members such as __proto__ have no effect', async () => {
    const sent = `{"redirect_uris":["${REDIRECT_URI}",null,7,{}],"token_endpoint_auth_method":"none",
      "__proto__":{"admin":true},"constructor":{"prototype":{"admin":true}},"toString":"x"}`;
    const { status, body } = await register(system(), sent);
    expect(status).to.equal(201);
    expect(body['redirect_uris']).to.deep.equal([REDIRECT_URI]);
    expect(({} as Record<string, unknown>)['admin']).to.equal(undefined);
    expect(body).to.not.have.any.keys('admin', 'toString', 'constructor');
  });

  it('DCR-04 client id and secret are generated, and the store does not contain them in plain text', async () => {
    const wish = {
      client_id: 'chosen-by-the-client',
      client_secret: 'secret-chosen-by-the-client',
    };
    const { body } = await register(system(), { redirect_uris: [REDIRECT_URI], ...wish });
    expect(body.client_id).to.not.equal(wish.client_id);
    const secret = String(body['client_secret']);
    expect(secret)
      .to.match(/^[\w-]{43}$/)
      .and.not.equal(wish.client_secret);
    for (const { name, bytes } of await readStoredBytes(system().storeAddress)) {
      for (const hidden of [secret, body.client_id, wish.client_secret])
        expect(bytes.includes(hidden) || name.includes(hidden), name).to.equal(false);
    }
  });
});

describe('A registration', () => {
  const system = useSystem();

  it('DCR-02 a registration gets the supported grant and response types only, and the response says so', async () => {
    const { body } = await register(system(), {
      ...PLAIN,
      grant_types: ['implicit', 'client_credentials', 'password', 'authorization_code'],
      response_types: ['token', 'id_token token', 'code'],
      scope: 'full admin openid',
    });
    expect(body['grant_types']).to.deep.equal(['authorization_code', 'refresh_token']);
    expect(body['response_types']).to.deep.equal(['code']);
    expect(body).to.not.have.property('scope');
    const server = await metadata(system());
    const client = { id: body.client_id, method: 'none', redirectUri: REDIRECT_URI } as const;
    for (const [grant_type, error] of [
      ['client_credentials', 'unauthorized_client'],
      ['password', 'unsupported_grant_type'],
      ['implicit', 'unsupported_grant_type'],
      ['urn:x', 'unsupported_grant_type'],
    ]) {
      const refused = await requestToken(server, client, { grant_type });
      expect([refused.status, refused.body.error]).to.deep.equal([400, error]);
    }
  });

  it('DCR-05 a registration cannot be read, changed or removed, and its response has no management token', async () => {
    const { body } = await register(system(), PLAIN);
    expect(body).to.not.have.any.keys('registration_access_token', 'registration_client_uri');
    for (const method of ['GET', 'PUT', 'DELETE', 'PATCH', 'POST']) {
      const response = await fetch(`${system().auth}/oauth/register/${body.client_id}`, {
        method,
        headers: { authorization: 'Bearer x', accept: 'text/html' },
      });
      expect(response.status, method).to.equal(404);
      expect(response.headers.get('content-type')).to.match(/^application\/json/);
    }
  });

  it('DCR-06 no URL of a registration is fetched', async () => {
    let hits = 0;
    const host = createServer((_req, res) => {
      hits += 1;
      res.end('[]');
    }).listen(0, '127.0.0.1');
    await once(host, 'listening');
    const url = `http://127.0.0.1:${(host.address() as AddressInfo).port}/x`;
    const pointers = Object.fromEntries(
      ['logo_uri', 'client_uri', 'tos_uri', 'policy_uri', 'jwks_uri', 'initiate_login_uri']
        .concat(['sector_identifier_uri', 'request_uris', 'backchannel_logout_uri'])
        .map((name) => [name, name === 'request_uris' ? [url] : url]),
    );
    const { status, body } = await register(system(), { ...PLAIN, ...pointers });
    expect(status).to.equal(201);
    expect(body).to.not.have.any.keys(...Object.keys(pointers));
    const client = { id: body.client_id, method: 'none', redirectUri: REDIRECT_URI } as const;
    await connect(system(), await createConnector(system()), { as: { client } });
    host.closeAllConnections();
    host.close();
    expect(hits).to.equal(0);
  });

  it('DCR-07 CORS allows registration from any origin, with POST only and without credentials', async () => {
    const response = await fetch(`${system().auth}/oauth/register`, {
      method: 'OPTIONS',
      headers: {
        origin: 'https://page.example',
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'content-type',
      },
    });
    expect(response.status).to.equal(204);
    const { headers } = response;
    expect(headers.get('access-control-allow-origin')).to.equal('*');
    expect(headers.get('access-control-allow-methods')).to.equal('POST');
    expect(headers.has('access-control-allow-credentials')).to.equal(false);
  });

  it('DCR-08 a software statement is ignored', async () => {
    const claims = { client_name: 'A great company', redirect_uris: ['https://evil.example/cb'] };
    const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
    const statement = `${part({ alg: 'none' })}.${part(claims)}.`;
    const { status, body } = await register(system(), { ...PLAIN, software_statement: statement });
    expect(status).to.equal(201);
    expect(body.client_name).to.not.include('great');
    expect(body['redirect_uris']).to.deep.equal([REDIRECT_URI]);
    expect(body).to.not.have.property('software_statement');
  });
});

async function metadata({ auth }: System) {
  const response = await fetch(`${auth}/.well-known/oauth-authorization-server`);
  return (await response.json()) as Parameters<typeof requestToken>[0];
}
