// RFC 8707, RFC 9068 section 4.
import { expect } from 'chai';
import { decodeJwt, decodeProtectedHeader } from 'jose';
import { type Connector, createConnector } from '../support/management-api.ts';
import { isConsentPage, openBrowser, requirePage } from '../support/browser.ts';
import { connect, type Connection, obtainCode, redeem } from '../support/connection.ts';
import { callTool, isAccepted } from '../support/mcp.ts';
import { authorizeUrl, refresh, type Parameters } from '../support/oauth.ts';
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

  it('AUD-05 an authorization request has exactly one connect link', async () => {
    const { server, client, browser } = connection;
    const { url } = authorizeUrl(server, client, { resource: [own.link, other.link] });
    const page = requirePage(await browser.visit(url));
    expect(page.status).to.equal(400);
    expect(isConsentPage(page)).to.equal(false);
  });

  it('CON-13 two tabs keep their connect links and codes apart', async () => {
    const { server, client, browser } = connection;
    const first = authorizeUrl(server, client, { resource: own.link });
    const second = authorizeUrl(server, client, { resource: other.link });
    const firstPage = requirePage(await browser.visit(first.url));
    const secondPage = requirePage(await browser.visit(second.url));
    for (const [page, { verifier }, { link }, { link: wrong }] of [
      [firstPage, first, own, other],
      [secondPage, second, other, own],
    ] as const) {
      const step = await browser.submit(page, { decision: 'approve' });
      if (step.kind === 'page') throw new Error(step.html);
      const { body } = await redeem({ link, server, client, callback: step.url, verifier });
      expect(await isAccepted(link, body.access_token)).to.equal(true);
      expect(await isAccepted(wrong, body.access_token)).to.equal(false);
    }
  });

  it('a consent form that is sent to the page of another link approves neither link', async () => {
    const { server, client, browser } = connection;
    const pages = [];
    for (const { link } of [own, other])
      pages.push(
        requirePage(await browser.visit(authorizeUrl(server, client, { resource: link }).url)),
      );
    const [ownForm, otherForm] = pages.map((page) =>
      page.forms.find(({ method }) => method === 'POST'),
    );
    const [page] = pages;
    if (!ownForm || !otherForm || !page) throw new Error('a consent page without a form');
    const body = new URLSearchParams({ decision: 'approve', level: 'operations' });
    for (const { kind, name, value } of ownForm.controls)
      if (kind === 'hidden') body.append(name, value);
    const step = await browser.post(page, otherForm.action, body);
    if (step.kind === 'redirect') expect(step.url.searchParams.get('code')).to.equal(null);
  });
});

describe('The resource of a token request', () => {
  const system = useSystem();

  it('COD-04 a code exchange for another link fails, and the code still works for its own link', async () => {
    const { own, other } = await twoConnectors(system());
    const code = await obtainCode(system(), own);
    const wrong = [other.link, `${system().resource}/mcp`, system().resource, 'urn:x', 'x'];
    for (const resource of [...wrong, [own.link, other.link]]) {
      const { status, body } = await redeem(code, { resource });
      expect({ status, error: body.error }).to.deep.equal({ status: 400, error: 'invalid_target' });
    }
    const { status, body } = await redeem(code, { resource: own.link });
    expect(status).to.equal(200);
    expect(decodeJwt(body.access_token ?? '').aud).to.equal(own.link);
  });

  it('REF-05 a refresh for another link fails, and the token still works for its own link', async () => {
    const { own, other } = await twoConnectors(system());
    const { server, client, refreshToken } = await connect(system(), own);
    for (const resource of [other.link, `${system().resource}/mcp`, [own.link, other.link]]) {
      const { status, body } = await refresh(server, client, refreshToken, { resource });
      expect({ status, error: body.error }).to.deep.equal({ status: 400, error: 'invalid_target' });
    }
    const { status, body } = await refresh(server, client, refreshToken, { resource: own.link });
    expect(status).to.equal(200);
    expect(decodeJwt(body.access_token ?? '').aud).to.equal(own.link);
  });

  it('AUD-03 a token request may spell its link differently or omit it', async () => {
    const { own } = await twoConnectors(system());
    const { origin, pathname } = new URL(own.link);
    for (const resource of [
      undefined,
      `${own.link}/`,
      origin.toUpperCase() + pathname,
      [own.link, own.link],
    ]) {
      const { status, body } = await redeem(await obtainCode(system(), own), { resource });
      expect(status, String(resource)).to.equal(200);
      expect(decodeJwt(body.access_token ?? '').aud).to.equal(own.link);
    }
  });

  it('a code or refresh token is rejected for another client', async () => {
    const { own } = await twoConnectors(system());
    const code = await obtainCode(system(), own);
    const stranger = await connect(system(), own, {
      as: { browser: openBrowser(system().origins) },
    });
    const stolen = await redeem({ ...code, client: stranger.client });
    expect(stolen.body.error).to.equal('invalid_grant');
    const { body } = await redeem(code);
    const turned = await refresh(code.server, stranger.client, body.refresh_token);
    expect(turned.body.error).to.equal('invalid_grant');
    expect((await refresh(code.server, code.client, body.refresh_token)).status).to.equal(200);
  });
});
