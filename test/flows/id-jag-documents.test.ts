// MCP enterprise-managed authorization: clients that are identified by a metadata document.
import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import { answerWith, DOMAIN, publish } from '../oauth/metadata-documents/document-host.ts';
import { usePublishing } from '../oauth/metadata-documents/publishing.ts';
import { requirePage } from '../support/browser.ts';
import { askForDevice, DEVICE_CODE } from '../support/device.ts';
import { createProof, generateProofKey, statusAndError } from '../support/dpop.ts';
import { type IdJagIssuer, startIdJagIssuer, validClaims } from '../support/id-jag-issuer.ts';
import { GRANT_TYPE } from '../support/id-jag-system.ts';
import { isAccepted } from '../support/mcp.ts';
import { type Client, discover, requestToken } from '../support/oauth.ts';

const URL_OF_APP = `https://app.${DOMAIN}/vouched.json`;
const URL_OF_PUBLIC = `https://app.${DOMAIN}/public.json`;
const URL_OF_DEVICE = `https://app.${DOMAIN}/device.json`;
const URL_OF_UNUSED = `https://app.${DOMAIN}/unused.json`;
const URL_OF_BOUND = `https://app.${DOMAIN}/bound.json`;
const URL_OF_OTHER = `https://app.${DOMAIN}/other.json`;
const ASSERTION_TYPE = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer';

describe('An assertion that a client with a metadata document presents', () => {
  let idp: IdJagIssuer;
  const file: Record<string, unknown> = {};
  before(async () => {
    idp = await startIdJagIssuer();
    Object.assign(file, {
      clients: { registration: 'closed' },
      authorization: {
        trustedIssuers: [
          {
            id: 'company',
            issuer: idp.issuer,
            jwksUri: idp.jwksUri,
            clients: [URL_OF_APP, URL_OF_PUBLIC, URL_OF_DEVICE, URL_OF_UNUSED, URL_OF_BOUND],
          },
        ],
      },
      entitlements: [{ match: { group: 'staff', provider: 'company' }, level: 'operations' }],
    });
  });
  after(() => idp.stop());
  const publishing = usePublishing('sqlite', undefined, file);
  const keys = generateKeyPair('ES256');

  async function clientAssertion(id: string): Promise<Record<string, string>> {
    const { privateKey } = await keys;
    const assertion = await new SignJWT({ jti: randomUUID() })
      .setProtectedHeader({ alg: 'ES256' })
      .setIssuer(id)
      .setSubject(id)
      .setAudience(publishing().system.auth)
      .setExpirationTime('1m')
      .sign(privateKey);
    return { client_assertion: assertion, client_assertion_type: ASSERTION_TYPE };
  }

  async function present(
    id: string,
    more: Record<string, string> = {},
    claims: object = {},
    headers: Record<string, string> = {},
  ) {
    const { system, connector } = publishing();
    const { server } = await discover(connector.link);
    const parties = { aud: system.auth, client_id: id, resource: connector.link };
    const assertion = await idp.sign({
      ...validClaims(idp.issuer),
      ...parties,
      sub: 'ada',
      groups: ['staff'],
      ...claims,
    });
    const client: Client = { id, method: 'none', redirectUri: '' };
    return requestToken(server, client, { grant_type: GRANT_TYPE, assertion, ...more }, headers);
  }

  async function publishKeyed(changes: object = {}): Promise<void> {
    const jwks = { keys: [await exportJWK((await keys).publicKey)] };
    const keyed = { token_endpoint_auth_method: 'private_key_jwt', jwks, ...changes };
    publishing().host.answer = publish(keyed);
  }

  it('EMA-02 is accepted if an issuer may vouch for the document and the client signs with its key, also where registration is closed', async () => {
    await publishKeyed();
    const { status, body } = await present(URL_OF_APP, await clientAssertion(URL_OF_APP));
    expect([status, body.scope], JSON.stringify(body)).to.deep.equal([200, 'operations']);
    expect(body).not.to.have.property('refresh_token');
    expect(await isAccepted(publishing().connector.link, body.access_token)).to.equal(true);
  });

  it('EMA-02 an assertion without a resource takes the parameter', async () => {
    await publishKeyed();
    const { link } = publishing().connector;
    const authentication = await clientAssertion(URL_OF_APP);
    const { status } = await present(
      URL_OF_APP,
      { ...authentication, resource: link },
      { resource: undefined },
    );
    expect(status).to.equal(200);
  });

  it('EMA-02 is refused without authentication, and for a document that no issuer may vouch for, which is not fetched', async () => {
    await publishKeyed();
    const refused = await present(URL_OF_APP);
    expect([refused.status, refused.body.error]).to.deep.equal([401, 'invalid_client']);
    const before = publishing().host.requests.length;
    const other = await present(URL_OF_OTHER, await clientAssertion(URL_OF_OTHER));
    expect(other.body.error).to.equal('invalid_client');
    expect(publishing().host.requests.length).to.equal(before);
  });

  it('AUD-11 without a DPoP proof is refused for a document with dpop_bound_access_tokens, and uses nothing up', async () => {
    await publishKeyed({ dpop_bound_access_tokens: true });
    const claims = { jti: randomUUID() };
    const bearer = await present(URL_OF_BOUND, await clientAssertion(URL_OF_BOUND), claims);
    expect(statusAndError(bearer)).to.deep.equal([400, 'invalid_dpop_proof']);
    const dpop = await createProof(await generateProofKey(), {
      url: `${publishing().system.auth}/oauth/token`,
    });
    const authentication = await clientAssertion(URL_OF_BOUND);
    const bound = await present(URL_OF_BOUND, authentication, claims, { dpop });
    expect([bound.status, bound.body.token_type]).to.deep.equal([200, 'DPoP']);
  });

  it('EMA-02 is refused for a document of a public client', async () => {
    await publishKeyed({ token_endpoint_auth_method: 'none' });
    const { status, body } = await present(URL_OF_PUBLIC);
    expect([status, body.error]).to.deep.equal([401, 'invalid_client']);
    expect(body.error_description).to.include('must authenticate');
  });

  it('a document that an issuer may vouch for is not open to people where registration is closed', async () => {
    await publishKeyed();
    const client: Client = {
      id: URL_OF_APP,
      method: 'none',
      redirectUri: 'http://127.0.0.1/callback',
    };
    const page = requirePage(await publishing().visit(client));
    expect(page.status).to.equal(400);
  });

  it('a document that an issuer may vouch for is not open to devices where registration is closed, also not to pages', async () => {
    const grants = { grant_types: ['authorization_code', DEVICE_CODE] };
    await publishKeyed({ ...grants, token_endpoint_auth_methods_supported: ['none'] });
    const { link } = publishing().connector;
    const { status } = await present(URL_OF_DEVICE, await clientAssertion(URL_OF_DEVICE));
    expect(status).to.equal(200);
    const { server } = await discover(link);
    const client: Client = { id: URL_OF_DEVICE, method: 'none', redirectUri: '' };
    for (const headers of [{}, { origin: 'https://page.example' }] as Record<string, string>[]) {
      const { body } = await askForDevice(server, client, { resource: link }, headers);
      expect(body.error, JSON.stringify(headers)).to.equal('invalid_client');
    }
  });

  it('the token endpoint fetches the document for no other grant type', async () => {
    publishing().host.answer = answerWith(500);
    const before = publishing().host.requests.length;
    await present(URL_OF_UNUSED, { grant_type: 'refresh_token', refresh_token: 'x' });
    expect(publishing().host.requests.length).to.equal(before);
  });
});
