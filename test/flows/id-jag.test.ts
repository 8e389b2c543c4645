// Enterprise-managed authorization: an identity provider vouches for a person and an app, and the app gets an access token without a browser.
import { expect } from 'chai';
import { decodeJwt, decodeProtectedHeader } from 'jose';
import { ID_JAG_ERRORS } from '../../src/authorization-server/engine/id-jag-validation.ts';
import { type Connector, createConnector } from '../support/management-api.ts';
import { advanceClock } from '../support/clock.ts';
import { isAccepted } from '../support/mcp.ts';
import { discover, type Parameters, requestToken } from '../support/oauth.ts';
import { startSystem, type System } from '../support/system.ts';
import { startIdJagIssuer, type IdJagIssuer } from '../support/id-jag-issuer.ts';
import { APP, type Claims, GRANT_TYPE, preRegistered, useIdJag } from '../support/id-jag-system.ts';

describe('An identity provider that vouches for people', () => {
  const { setup, claimsFor, presentAssertion, signAndPresent, obtainToken } = useIdJag();
  let system: System;
  let idp: IdJagIssuer;
  let silent: IdJagIssuer;
  let connector: Connector;
  before(() => {
    ({ system, idp, second: silent, connector } = setup());
  });

  it('EMA-06 gives an app an access token for the connect link, and no refresh token', async () => {
    const { body, token, claims } = await obtainToken('ada');
    expect(Object.keys(body).sort()).to.deep.equal(
      ['access_token', 'expires_in', 'scope', 'token_type'].sort(),
    );
    expect(body).to.include({ token_type: 'Bearer', expires_in: 3600, scope: 'operations' });
    expect(decodeProtectedHeader(token).typ).to.equal('at+jwt');
    expect(claims).to.include({
      iss: system.auth,
      aud: connector.link,
      client_id: APP.id,
      scope: 'operations',
      connector: connector.id,
    });
    expect(claims).to.not.have.any.keys('name', 'email', 'groups');
    expect(await isAccepted(connector.link, token)).to.equal(true);
  });

  it('EMA-07 is declared, and who it is is not', async () => {
    const { server } = await discover(connector.link);
    expect(server).to.deep.include({
      grant_types_supported: ['authorization_code', 'refresh_token', GRANT_TYPE],
      authorization_grant_profiles_supported: ['urn:ietf:params:oauth:grant-profile:id-jag'],
    });
    expect(JSON.stringify(server)).to.not.include(idp.issuer);
  });

  const levels: [string, Claims, Parameters, string][] = [
    ['what the rules give', { email: 'a@example.com', email_verified: true }, {}, 'admin'],
    ['no more for an address that nobody verified', { email: 'b@example.com' }, {}, 'operations'],
    ['what the scope of the assertion allows', { scope: 'analytics openid' }, {}, 'analytics'],
    ['what the app asks for', {}, { scope: 'analytics' }, 'analytics'],
    ['no more than the rules, whatever is asked', {}, { scope: 'full' }, 'operations'],
    ['no more than the assertion', { scope: 'analytics' }, { scope: 'admin' }, 'analytics'],
  ];
  for (const [what, claims, parameters, level] of levels) {
    it(`EMA-04 gets ${what}`, async () => {
      const { link } = await createConnector(system, { level: 'admin' });
      const { body } = await obtainToken(
        `level of ${what}`,
        { ...claims, resource: link },
        parameters,
      );
      expect(body.scope).to.equal(level);
    });
  }

  it('EMA-04 gets no more than the level of the connect link', async () => {
    const { link } = await createConnector(system, { level: 'analytics' });
    expect((await obtainToken('low', { resource: link })).body.scope).to.equal('analytics');
  });

  it('is held to what it said of a person until it says otherwise', async () => {
    await obtainToken('mover');
    expect((await obtainToken('mover', { groups: undefined })).body.scope).to.equal('operations');
    const { body } = await signAndPresent('mover', { groups: [] });
    expect(body.error).to.equal('invalid_grant');
  });

  it('need not say again that an address is verified, until it is another one', async () => {
    const { link } = await createConnector(system, { level: 'admin' });
    const levelWith = async (claims: Claims) =>
      (await obtainToken('verified', { resource: link, ...claims })).body.scope;
    expect(await levelWith({ email: 'v@example.com', email_verified: true })).to.equal('admin');
    expect(await levelWith({ email: 'V@example.com' })).to.equal('admin');
    expect(await levelWith({ email: 'w@example.com' })).to.equal('operations');
    expect(await levelWith({ email: 'v@example.com' })).to.equal('operations');
  });

  it('EMA-01 signs with another key from one day to the next, and what the old one signed is refused', async () => {
    const claims = (sub: string) => claimsFor(sub, { iss: silent.issuer });
    const old = await silent.sign(claims('before'));
    expect((await presentAssertion(await silent.sign(claims('before')))).status).to.equal(200);
    await silent.rotate();
    // Longer than we wait between two looks for a key that we do not know.
    advanceClock(11);
    expect((await presentAssertion(await silent.sign(claims('after')))).status).to.equal(200);
    expect((await presentAssertion(old)).body.error_description).to.equal(
      ID_JAG_ERRORS.bad_signature.description,
    );
  });

  it('EMA-01 is one issuer of several, and the same subject at another is somebody else', async () => {
    const mine = await obtainToken('twin');
    const theirs = await presentAssertion(
      await silent.sign(claimsFor('twin', { iss: silent.issuer })),
    );
    expect(theirs.status).to.equal(200);
    expect(decodeJwt(theirs.body.access_token ?? '').sub).to.not.equal(mine.claims.sub);
  });

  it('is waited for while its keys cannot be had, with 503', async () => {
    const away = await startIdJagIssuer();
    await away.stop();
    const own = await startSystem({
      file: {
        clients: {
          preRegistered: [preRegistered(APP)],
        },
        authorization: {
          trustedIssuers: [{ issuer: away.issuer, jwksUri: away.jwksUri, clients: [APP.id] }],
        },
      },
    });
    try {
      const { link } = await createConnector(own);
      const { server } = await discover(link);
      const claims = { ...claimsFor('x'), iss: away.issuer, aud: own.auth, resource: link };
      const assertion = await away.sign(claims);
      const answer = await requestToken(server, APP, { grant_type: GRANT_TYPE, assertion });
      expect([answer.status, answer.body.error]).to.deep.equal([503, 'temporarily_unavailable']);
      expect(answer.headers.get('retry-after')).to.match(/^\d+$/);
    } finally {
      await own.stop();
    }
  });

  it('EMA-02 vouches for nobody to a client that is not named, or without its secret', async () => {
    const assertion = await idp.sign(claimsFor('nobody', { client_id: 'dynamic' }));
    const { server } = await discover(connector.link);
    const body = JSON.stringify({
      redirect_uris: ['http://127.0.0.1:1/cb'],
      grant_types: [GRANT_TYPE],
    });
    const headers = { 'content-type': 'application/json' };
    const registered = await fetch(server.registration_endpoint, { method: 'POST', headers, body });
    const { client_id: id, client_secret: secret } = (await registered.json()) as {
      client_id: string;
      client_secret: string;
    };
    const refused = await presentAssertion(assertion, { ...APP, id, secret });
    expect([refused.status, refused.body.error]).to.deep.equal([400, 'invalid_request']);
    const wrong = await presentAssertion(assertion, { ...APP, secret: `${APP.secret}x` });
    expect([wrong.status, wrong.body.error]).to.deep.equal([401, 'invalid_client']);
    const missing = await requestToken(server, APP, { grant_type: GRANT_TYPE });
    expect([missing.status, missing.body.error]).to.deep.equal([400, 'invalid_request']);
  });
});

describe('Without an identity provider that vouches for people', () => {
  it('the grant type is neither there nor declared', async () => {
    const system = await startSystem({
      file: {
        clients: {
          preRegistered: [preRegistered(APP)],
        },
      },
    });
    try {
      const { server } = await discover((await createConnector(system)).link);
      expect(server).to.not.have.any.keys('authorization_grant_profiles_supported');
      expect(server.grant_types_supported).to.not.include(GRANT_TYPE);
      const { body } = await requestToken(server, APP, { grant_type: GRANT_TYPE, assertion: 'x' });
      expect(body.error).to.equal('unsupported_grant_type');
    } finally {
      await system.stop();
    }
  });
});
