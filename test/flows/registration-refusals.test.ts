// RFC 7591 section 3.2.2.
import { expect } from 'chai';
import { z } from 'zod';
import { countStoredKeys } from '../support/stored-keys.ts';
import { type System, useSystem } from '../support/system.ts';

const refusal = z.object({ error: z.string(), error_description: z.string().min(1) });

type Sent = { body: string; headers?: Record<string, string> };

/** POSTs to the registration endpoint and expects a refusal that stores nothing. */
async function refused(system: System, { body, headers }: Sent) {
  const before = await countStoredKeys(system);
  const response = await fetch(`${system.auth}/oauth/register`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body,
  });
  const answer = refusal.parse(await response.json());
  expect(await countStoredKeys(system), JSON.stringify(answer)).to.deep.equal(before);
  expect(response.headers.get('cache-control')).to.include('no-store');
  return { status: response.status, error: answer.error };
}

function withRedirects(...redirect_uris: unknown[]): Sent {
  return { body: JSON.stringify({ redirect_uris, token_endpoint_auth_method: 'none' }) };
}

describe('A refused registration', () => {
  const system = useSystem();

  it('DCR-01 a registration with three thousand redirect addresses is refused', async () => {
    const many = Array.from({ length: 3000 }, (_, n) => `http://[::1]/${n}`);
    expect((await refused(system(), withRedirects(...many))).status).to.be.oneOf([400, 413]);
  });

  for (const [what, metadata] of [
    ['no addresses', { client_name: 'Nameless' }],
    ['an empty list of addresses', { redirect_uris: [] }],
    ['an address that is not a string', { redirect_uris: [{ uri: 'http://localhost/cb' }] }],
    ['addresses that are not a list', { redirect_uris: 'http://localhost/cb' }],
  ] as const) {
    it(`DCR-02 a registration with ${what} is refused`, async () => {
      const answer = await refused(system(), { body: JSON.stringify(metadata) });
      expect(answer).to.deep.equal({ status: 400, error: 'invalid_redirect_uri' });
    });
  }

  for (const method of ['private_key_jwt', 'client_secret_jwt', 'tls_client_auth', 'x', 7]) {
    it(`DCR-02 a registration with the token endpoint authentication method ${method} is refused`, async () => {
      const metadata = {
        redirect_uris: ['http://localhost/cb'],
        token_endpoint_auth_method: method,
      };
      const answer = await refused(system(), { body: JSON.stringify(metadata) });
      expect(answer).to.deep.equal({ status: 400, error: 'invalid_client_metadata' });
    });
  }

  for (const body of ['', '{', 'null', '[]', '"text"', '7', '\u0000']) {
    it(`a registration with the body ${JSON.stringify(body)} is refused`, async () => {
      expect((await refused(system(), { body })).status).to.equal(400);
    });
  }

  for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data']) {
    it(`a registration with the content type ${type} is refused`, async () => {
      const sent = { ...withRedirects('http://localhost/cb'), headers: { 'content-type': type } };
      expect((await refused(system(), sent)).status).to.be.oneOf([400, 415]);
    });
  }

  it('a registration for client_credentials alone is told who creates such clients', async () => {
    for (const redirects of [{}, { redirect_uris: [] }]) {
      const metadata = { ...redirects, grant_types: ['client_credentials'] };
      const response = await fetch(`${system().auth}/oauth/register`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(metadata),
      });
      const answer = refusal.parse(await response.json());
      expect([response.status, answer.error]).to.deep.equal([400, 'invalid_client_metadata']);
      expect(answer.error_description).to.match(/client_credentials.* an administrator creates/);
    }
  });
});
