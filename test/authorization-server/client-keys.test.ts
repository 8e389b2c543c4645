// RFC 7523 section 2.2: clients that authenticate with private_key_jwt.
import type { RequestListener } from 'node:http';
import { expect } from 'chai';
import { type IssuedCode, obtainCode } from '../support/connection.ts';
import {
  type AssertionKey,
  assertionParameters,
  createAssertion,
  generateAssertionKey,
} from '../support/client-assertion.ts';
import { statusAndError } from '../support/dpop.ts';
import { isAccepted } from '../support/mcp.ts';
import {
  type Client,
  exchange,
  type Parameters,
  refresh,
  type Server,
  type TokenResponse,
} from '../support/oauth.ts';
import { answerWith, publish } from './metadata-documents/document-host.ts';
import { usePublishing } from './metadata-documents/publishing.ts';

const REFUSED = [401, 'invalid_client'];
const CALLBACK = 'https://reports.example.com/callback';
const KEYS = 'https://keys.documents.example/keys';

const key = await generateAssertionKey('ES256', 'first');
const inline = await Promise.all(
  ['EdDSA', 'RS256', 'PS256', 'ES256', 'ES256'].map((alg) => generateAssertionKey(alg)),
);

type Keys = { keys: unknown[] };

/** Documents of clients that have only a key, and their key set. */
function withKeys(
  keys: Keys | RequestListener,
  document: Record<string, unknown> = { token_endpoint_auth_method: 'private_key_jwt' },
): RequestListener {
  const answerKeys = typeof keys === 'function' ? keys : answerWith(200, {}, JSON.stringify(keys));
  return (request, response) =>
    request.url === '/keys'
      ? answerKeys(request, response)
      : publish({ jwks_uri: KEYS, ...document })(request, response);
}

describe('A client that authenticates with a key', () => {
  const publishing = usePublishing('sqlite', undefined, {
    clients: {
      allowedRedirects: [CALLBACK],
      preRegistered: [
        {
          id: 'batch',
          name: 'Reports',
          redirectUris: [CALLBACK],
          jwks: { keys: inline.map(({ jwk }) => jwk) },
        },
        { id: 'batch.remote', name: 'Reports', redirectUris: [CALLBACK], jwksUri: KEYS },
      ],
    },
  });
  beforeEach(() => {
    publishing().host.answer = withKeys({ keys: [key.jwk] });
  });

  const preRegistered: Client = { id: 'batch', method: 'none', redirectUri: CALLBACK };

  async function codeOf(client: Client): Promise<IssuedCode> {
    const { system, connector } = publishing();
    return obtainCode(system, connector, { as: { client } });
  }

  async function authenticate(
    { server, client }: { server: Server; client: Client },
    by: AssertionKey = key,
    claims: Record<string, unknown> = {},
  ): Promise<Parameters> {
    return assertionParameters(await createAssertion(by, { server, client }, { claims }));
  }

  const redeemWith = (code: IssuedCode, parameters: Parameters) =>
    exchange(code.server, code.client, code, parameters);

  async function redeemed(code: IssuedCode, by?: AssertionKey): Promise<TokenResponse> {
    return redeemWith(code, await authenticate(code, by));
  }

  it('a metadata-document client connects, calls tools and refreshes', async () => {
    const code = await codeOf(publishing().newClient());
    const { status, body } = await redeemed(code);
    expect([status, body.error]).to.deep.equal([200, undefined]);
    expect(await isAccepted(code.link, body.access_token)).to.equal(true);
    const { server, client } = code;
    const without = await refresh(server, client, body.refresh_token);
    expect(statusAndError(without)).to.deep.equal(REFUSED);
    const refreshed = await refresh(server, client, body.refresh_token, await authenticate(code));
    expect(refreshed.status).to.equal(200);
  });

  it('every algorithm works, and two keys of one kind need no kid', async () => {
    const { system, connector } = publishing();
    const code = await codeOf(preRegistered);
    const [first, ...more] = inline;
    let { body } = await redeemed(code, first);
    for (const each of more) {
      const parameters = await authenticate(code, each);
      const refreshed = await refresh(code.server, preRegistered, body.refresh_token, parameters);
      expect(refreshed.status, each.alg).to.equal(200);
      ({ body } = refreshed);
    }
    expect(system.auth).to.equal(code.server.issuer);
    expect(connector.link).to.equal(code.link);
  });
});
