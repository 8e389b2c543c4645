// RFC 8707, RFC 9068 section 4.
import { expect } from 'chai';
import { decodeJwt, decodeProtectedHeader } from 'jose';
import { type Connector, createConnector } from '../support/management-api.ts';
import { isConsentPage, requirePage } from '../support/browser.ts';
import { connect, type Connection } from '../support/connection.ts';
import { callTool, isAccepted } from '../support/mcp.ts';
import { authorizeUrl, type Parameters } from '../support/oauth.ts';
import { type System, useSystem } from '../support/system.ts';

async function twoConnectors(system: System) {
  const own = await createConnector(system, { name: 'Own link' });
  const other = await createConnector(system, { name: 'Other link' });
  return { own, other };
}

describe('The audience of an access token', () => {
  const system = useSystem();

  it('AUD-06 the access token has one audience, the connect link', async () => {
    const { own } = await twoConnectors(system());
    const { accessToken, client } = await connect(system(), own);
    expect(decodeProtectedHeader(accessToken)).to.include({ typ: 'at+jwt', alg: 'ES256' });
    const { iat = 0, exp, sub, jti, grant_id: grantId, ...claims } = decodeJwt(accessToken);
    expect(claims).to.deep.equal({
      iss: system().auth,
      aud: own.link,
      client_id: client.id,
      scope: 'operations',
      connector: own.id,
    });
    expect(exp).to.equal(iat + 3600);
    for (const name of [sub, jti, grantId]) expect(name).to.be.a('string').with.length.above(0);
    expect(sub).to.match(/^[\w-]{27}$/);
  });

  it('RSV-01 the access token is accepted only at its own connect link', async () => {
    const { own, other } = await twoConnectors(system());
    const { accessToken } = await connect(system(), own);
    expect(await isAccepted(own.link, accessToken)).to.equal(true);
    for (const address of [other.link, `${system().resource}/mcp`]) {
      const { status, headers } = await callTool(address, accessToken, 'club_overview');
      expect(status, address).to.equal(401);
      expect(headers.get('www-authenticate')).to.match(/^Bearer/);
    }
    const { headers } = await callTool(other.link, accessToken, 'club_overview');
    expect(headers.get('www-authenticate')).to.include('error="invalid_token"');
  });
});

describe('Consent for several connect links', () => {
  const system = useSystem();
  let own: Connector;
  let other: Connector;
  let connection: Connection;
  before(async () => {
    ({ own, other } = await twoConnectors(system()));
    connection = await connect(system(), own);
  });

  const attempts: Parameters[] = [
    {},
    { scope: 'openid' },
    { scope: 'openid operations offline_access' },
    { scope: 'operations', prompt: 'consent' },
    { scope: '' },
  ];
  for (const attempt of attempts) {
    it(`AUD-01 consent for one link does not cover another link (${JSON.stringify(attempt)})`, async () => {
      const { server, client, browser } = connection;
      const { url } = authorizeUrl(server, client, { ...attempt, resource: other.link });
      const page = requirePage(await browser.visit(url));
      expect(isConsentPage(page)).to.equal(true);
      expect(page.html).to.include('Other link').and.not.include('Own link');
    });

    it(`CON-01 a second authorization of the same link asks for consent again (${JSON.stringify(attempt)})`, async () => {
      const { server, client, browser } = connection;
      const { url } = authorizeUrl(server, client, { ...attempt, resource: own.link });
      expect(isConsentPage(requirePage(await browser.visit(url)))).to.equal(true);
    });
  }

  it('CON-01 prompt=none does not skip consent', async () => {
    const { server, client, browser } = connection;
    for (const { link } of [own, other]) {
      const { url } = authorizeUrl(server, client, { resource: link, prompt: 'none' });
      const step = await browser.visit(url);
      if (step.kind === 'redirect')
        expect(step.url.searchParams.get('error')).to.match(/_required$/);
      else expect(step.status).to.equal(400);
    }
  });
});
