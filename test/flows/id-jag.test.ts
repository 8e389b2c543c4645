import { expect } from 'chai';
import { DEVICE_CODE } from '../../src/clients/clients.ts';
import { decodeJwt, decodeProtectedHeader } from 'jose';
import { z } from 'zod';
import { ID_JAG_ERRORS } from '../../src/oauth/engine/id-jag-validation.ts';
import { type Connector, createConnector, requestManagement } from '../support/management-api.ts';
import { advanceClock } from '../support/clock.ts';
import { isAccepted } from '../support/mcp.ts';
import { discover, type Parameters, requestToken } from '../support/oauth.ts';
import { until } from '../support/until.ts';
import { startSystem, type System } from '../support/system.ts';
import { startIdJagIssuer, type IdJagIssuer } from '../support/id-jag-issuer.ts';
import { APP, type Claims, GRANT_TYPE, preRegistered, useIdJag } from '../support/id-jag-system.ts';

describe('Access tokens for ID-JAGs', () => {
  const { setup, claimsFor, presentAssertion, signAndPresent, obtainToken } = useIdJag();
  let system: System;
  let idp: IdJagIssuer;
  let silent: IdJagIssuer;
  let connector: Connector;
  before(() => {
    ({ system, idp, second: silent, connector } = setup());
  });

  it('EMA-06 an app gets an access token for the connect link, and no refresh token', async () => {
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

  it('EMA-07 the metadata advertises the grant type, and does not name the trusted issuers', async () => {
    const { server } = await discover(connector.link);
    expect(server).to.deep.include({
      grant_types_supported: [
        'authorization_code',
        'refresh_token',
        'client_credentials',
        GRANT_TYPE,
        DEVICE_CODE,
      ],
      authorization_grant_profiles_supported: ['urn:ietf:params:oauth:grant-profile:id-jag'],
    });
    expect(JSON.stringify(server)).to.not.include(idp.issuer);
  });

  const levels: [string, Claims, Parameters, string][] = [
    [
      'what the entitlement rules give',
      { email: 'a@example.com', email_verified: true },
      {},
      'admin',
    ],
    ['not raised by an unverified email address', { email: 'b@example.com' }, {}, 'operations'],
    ['limited by the scope of the assertion', { scope: 'analytics openid' }, {}, 'analytics'],
    ['limited by the requested scope', {}, { scope: 'analytics' }, 'analytics'],
    [
      'limited by the entitlement rules, whatever is requested',
      {},
      { scope: 'full' },
      'operations',
    ],
    [
      'limited by the assertion, whatever is requested',
      { scope: 'analytics' },
      { scope: 'admin' },
      'analytics',
    ],
  ];
  for (const [what, claims, parameters, level] of levels) {
    it(`EMA-04 the granted level is ${what}`, async () => {
      const { link } = await createConnector(system, { level: 'admin' });
      const { body } = await obtainToken(
        `level of ${what}`,
        { ...claims, resource: link },
        parameters,
      );
      expect(body.scope).to.equal(level);
    });
  }

  it('EMA-04 the level does not exceed that of the connect link', async () => {
    const { link } = await createConnector(system, { level: 'analytics' });
    expect((await obtainToken('low', { resource: link })).body.scope).to.equal('analytics');
  });

  it('an assertion that is refused is an attempt, which a later one continues to its first call', async () => {
    const { link, id } = await createConnector(system, { level: 'operations' });
    const attempt = async (expected: object) =>
      until('the attempt of the assertion', async () => {
        const { items } = z
          .object({ items: z.array(z.looseObject({ connector: z.string().optional() })) })
          .parse(await requestManagement(system, 'GET', `/attempts?client=${APP.id}`));
        const found = items.filter(({ connector: of }) => of === id);
        expect(found).to.have.length.at.most(1);
        return found.find((each) =>
          Object.entries(expected).every(([key, value]) => each[key] === value),
        );
      });
    expect((await signAndPresent('newcomer', { resource: link, groups: [] })).body.error).to.equal(
      'invalid_grant',
    );
    const refused = await attempt({ step: 'authorize', end: 'refused', reason: 'no_rule' });
    expect(refused).to.deep.include({ client: APP.id, clientName: 'The app' });
    const { token } = await obtainToken('newcomer', { resource: link });
    const issued = await attempt({ step: 'token' });
    expect(issued).to.deep.include({ grant: decodeJwt(token).grant_id, groups: ['staff'] });
    expect(await isAccepted(link, token)).to.equal(true);
    await attempt({ step: 'first_call', end: 'connected' });
  });

  it('an assertion without groups or email keeps the values of the last one that had them', async () => {
    await obtainToken('mover');
    expect((await obtainToken('mover', { groups: undefined })).body.scope).to.equal('operations');
    const { body } = await signAndPresent('mover', { groups: [] });
    expect(body.error).to.equal('invalid_grant');
  });

  it('EMA-04 an assertion that says less ends the access of earlier tokens, even if it is refused', async () => {
    const { token } = await obtainToken('leaver');
    expect(await isAccepted(connector.link, token)).to.equal(true);
    const { body } = await signAndPresent('leaver', { groups: [] });
    expect(body.error).to.equal('invalid_grant');
    expect(await isAccepted(connector.link, token)).to.equal(false);
  });

  it('IDP-12 an unchanged email address stays verified, and a changed one does not', async () => {
    const { link } = await createConnector(system, { level: 'admin' });
    const levelWith = async (claims: Claims) =>
      (await obtainToken('verified', { resource: link, ...claims })).body.scope;
    expect(await levelWith({ email: 'v@example.com', email_verified: true })).to.equal('admin');
    expect(await levelWith({ email: 'V@example.com' })).to.equal('admin');
    expect(await levelWith({ email: 'w@example.com' })).to.equal('operations');
    expect(await levelWith({ email: 'v@example.com' })).to.equal('operations');
  });

  it('EMA-01 the issuer can replace its signing key, and assertions signed with the old one are refused', async () => {
    const claims = (sub: string) => claimsFor(sub, { iss: silent.issuer });
    const old = await silent.sign(claims('before'));
    expect((await presentAssertion(await silent.sign(claims('before')))).status).to.equal(200);
    await silent.rotate();
    // Longer than the wait between two fetches for an unknown key.
    advanceClock(11);
    expect((await presentAssertion(await silent.sign(claims('after')))).status).to.equal(200);
    expect((await presentAssertion(old)).body.error_description).to.equal(
      ID_JAG_ERRORS.bad_signature.description,
    );
  });

  it('EMA-01 the same subject at two issuers is two accounts', async () => {
    const mine = await obtainToken('twin');
    const theirs = await presentAssertion(
      await silent.sign(claimsFor('twin', { iss: silent.issuer })),
    );
    expect(theirs.status).to.equal(200);
    expect(decodeJwt(theirs.body.access_token ?? '').sub).to.not.equal(mine.claims.sub);
  });

  it("a request is 503 while the issuer's keys cannot be fetched", async () => {
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

  it('EMA-02 an assertion is refused for a client that is not listed for the issuer, or without the client secret', async () => {
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
    expect([refused.status, refused.body.error]).to.deep.equal([400, 'unauthorized_client']);
    const wrong = await presentAssertion(assertion, { ...APP, secret: `${APP.secret}x` });
    expect([wrong.status, wrong.body.error]).to.deep.equal([401, 'invalid_client']);
    const missing = await requestToken(server, APP, { grant_type: GRANT_TYPE });
    expect([missing.status, missing.body.error]).to.deep.equal([400, 'invalid_request']);
  });
});

describe('Without trusted issuers', () => {
  it('EMA-07 the JWT bearer grant type is neither supported nor advertised', async () => {
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
