// RFC 9728, RFC 8414.
import { expect } from 'chai';
import { createConnector, revokeConnector, showConnector } from '../support/management-api.ts';
import { advanceClock } from '../support/clock.ts';
import { connect } from '../support/connection.ts';
import { useSystem } from '../support/system.ts';

const SERVER_METADATA = '/.well-known/oauth-authorization-server';
const RESOURCE_METADATA = '/.well-known/oauth-protected-resource';

async function load(url: string, options: RequestInit = {}) {
  const response = await fetch(url, { redirect: 'manual', ...options });
  const text = await response.text();
  return { status: response.status, headers: response.headers, text };
}

const AUTH_METHODS = ['none', 'client_secret_basic', 'client_secret_post', 'private_key_jwt'];
const ASSERTION_ALGORITHMS = ['ES256', 'EdDSA', 'Ed25519', 'RS256', 'PS256'];

/** Headers of MCP clients, of libraries that name themselves, and of OpenTelemetry. */
const ASKED = ['mcp-protocol-version', 'user-agent', 'traceparent', 'tracestate', 'baggage'];

describe('Discovery documents', () => {
  const system = useSystem();

  it('RSV-05 the metadata of a connect link lists the levels up to its own', async () => {
    const { id, link } = await createConnector(system(), { name: 'Ops & more', level: 'admin' });
    const { status, headers, text } = await load(
      `${system().resource}${RESOURCE_METADATA}/connect/${id}/mcp`,
    );
    expect(status).to.equal(200);
    expect(headers.get('content-type')).to.match(/^application\/json/);
    expect(JSON.parse(text)).to.deep.equal({
      resource: link,
      authorization_servers: [system().auth],
      scopes_supported: ['analytics', 'operations', 'admin'],
      bearer_methods_supported: ['header'],
      dpop_signing_alg_values_supported: ['ES256', 'Ed25519', 'EdDSA'],
      resource_name: 'Ops & more',
    });
  });

  it('RSV-05 the metadata of the resource server lists every level', async () => {
    const { status, text } = await load(`${system().resource}${RESOURCE_METADATA}`);
    expect(status).to.equal(200);
    expect(JSON.parse(text)).to.deep.equal({
      resource: system().resource,
      authorization_servers: [system().auth],
      scopes_supported: ['analytics', 'operations', 'admin', 'full'],
      bearer_methods_supported: ['header'],
      dpop_signing_alg_values_supported: ['ES256', 'Ed25519', 'EdDSA'],
      resource_name: 'Gatehouse',
    });
  });

  it('DEV-09 DIS-01 PKC-02 CIM-13 the authorization server metadata promises exactly what is supported', async () => {
    const { auth } = system();
    const { status, headers, text } = await load(`${auth}${SERVER_METADATA}`);
    expect(status).to.equal(200);
    expect(headers.get('content-type')).to.match(/^application\/json/);
    expect(JSON.parse(text)).to.deep.equal({
      issuer: auth,
      authorization_endpoint: `${auth}/oauth/authorize`,
      token_endpoint: `${auth}/oauth/token`,
      registration_endpoint: `${auth}/oauth/register`,
      revocation_endpoint: `${auth}/oauth/revoke`,
      jwks_uri: `${auth}/oauth/jwks`,
      response_types_supported: ['code'],
      response_modes_supported: ['query'],
      device_authorization_endpoint: `${auth}/oauth/device`,
      grant_types_supported: [
        'authorization_code',
        'refresh_token',
        'client_credentials',
        'urn:ietf:params:oauth:grant-type:device_code',
      ],
      code_challenge_methods_supported: ['S256'],
      token_endpoint_auth_methods_supported: AUTH_METHODS,
      token_endpoint_auth_signing_alg_values_supported: ASSERTION_ALGORITHMS,
      revocation_endpoint_auth_methods_supported: AUTH_METHODS,
      revocation_endpoint_auth_signing_alg_values_supported: ASSERTION_ALGORITHMS,
      dpop_signing_alg_values_supported: ['ES256', 'Ed25519', 'EdDSA'],
      scopes_supported: ['analytics', 'operations', 'admin', 'full', 'offline_access'],
      client_id_metadata_document_supported: true,
      authorization_response_iss_parameter_supported: true,
      ui_locales_supported: ['de', 'en', 'es', 'fr', 'ja', 'pt'],
    });
  });

  it('DIS-01 every advertised endpoint answers', async () => {
    const { auth } = system();
    const metadata = JSON.parse((await load(`${auth}${SERVER_METADATA}`)).text);
    const expected: [string, string, number][] = [
      ['authorization_endpoint', 'GET', 400],
      ['token_endpoint', 'POST', 400],
      ['registration_endpoint', 'POST', 400],
      ['revocation_endpoint', 'POST', 400],
      ['jwks_uri', 'GET', 200],
      ['device_authorization_endpoint', 'POST', 400],
    ];
    const advertised = Object.keys(metadata).filter((name) => /_(endpoint|uri)$/.test(name));
    expect(advertised).to.have.members(expected.map(([name]) => name));
    for (const [name, method, status] of expected) {
      expect((await load(metadata[name], { method })).status, name).to.equal(status);
    }
  });

  it('the JWKS contains public keys only', async () => {
    const { keys } = JSON.parse((await load(`${system().auth}/oauth/jwks`)).text);
    expect(keys).to.be.an('array').with.length.above(0);
    for (const key of keys) {
      expect(key).to.include({ kty: 'EC', crv: 'P-256', alg: 'ES256', use: 'sig' });
      expect(key).to.have.all.keys('kty', 'crv', 'x', 'y', 'kid', 'alg', 'use');
    }
  });

  it('HDR-04 discovery documents allow any origin and are cached for five minutes', async () => {
    const { link } = await createConnector(system());
    const { pathname } = new URL(link);
    for (const url of [
      `${system().auth}${SERVER_METADATA}`,
      `${system().resource}${RESOURCE_METADATA}`,
      `${system().resource}${RESOURCE_METADATA}${pathname}`,
    ]) {
      const { headers } = await load(url, { headers: { origin: 'https://app.example' } });
      expect(headers.get('cache-control')).to.equal('public, max-age=300');
      expect(headers.get('access-control-allow-origin')).to.equal('*');
      expect(headers.has('access-control-allow-credentials')).to.equal(false);
      expect(headers.has('set-cookie')).to.equal(false);
    }
  });

  it('discovery documents answer a preflight with MCP-Protocol-Version', async () => {
    const { link } = await createConnector(system());
    const { auth, resource } = system();
    for (const url of [
      `${auth}${SERVER_METADATA}`,
      `${resource}${RESOURCE_METADATA}`,
      `${resource}${RESOURCE_METADATA}${new URL(link).pathname}`,
      `${auth}/oauth/register`,
      `${auth}/oauth/token`,
    ]) {
      const { status, headers } = await load(url, {
        method: 'OPTIONS',
        headers: {
          origin: 'https://app.example',
          'access-control-request-method': 'GET',
          'access-control-request-headers': ASKED.join(),
        },
      });
      expect(status, url).to.be.oneOf([200, 204]);
      expect(headers.get('access-control-allow-origin'), url).to.equal('*');
      const allowed = headers.get('access-control-allow-headers')?.toLowerCase().split(', ');
      expect(allowed, url).to.include.members(ASKED);
      expect(headers.has('access-control-allow-credentials'), url).to.equal(false);
    }
  });

  it('RSV-05 the metadata of a used-up link is available, and that of a revoked link is 404', async () => {
    const connector = await createConnector(system(), { maxUses: 1 });
    const { id } = connector;
    const url = `${system().resource}${RESOURCE_METADATA}/connect/${id}/mcp`;
    await connect(system(), connector);
    expect((await showConnector(system(), id)).state).to.equal('used-up');
    // Longer than any process caches the connector.
    advanceClock(60);
    const used = await load(url);
    expect(used.status).to.equal(200);
    expect(JSON.parse(used.text).resource).to.equal(connector.link);
    await revokeConnector(system(), id);
    const { status, headers, text } = await load(url);
    expect(status).to.equal(404);
    expect(headers.get('content-type')).to.match(/^application\/json/);
    expect(JSON.parse(text).error).to.be.a('string');
  });
});
