// Enterprise-managed authorization: an identity provider vouches for a person and an app, and the app gets an access token without a browser.
import { expect } from 'chai';
import { decodeJwt, decodeProtectedHeader, SignJWT, UnsecuredJWT } from 'jose';
import {
  ID_JAG_REFUSALS,
  type IdJagRefusal,
} from '../../src/authorization-server/engine/id-jag-refusals.ts';
import { grantLifetimes } from '../../src/grants/grant-life.ts';
import { lowerGrant } from '../../src/grants/grants.ts';
import {
  changeAccount,
  type Connector,
  createConnector,
  listGrants,
  manage,
  readAudit,
  revokeConnector,
  showConnector,
  showGrant,
} from '../support/administrator.ts';
import { moveClock, restoreClock } from '../support/clock.ts';
import { isLetIn } from '../support/mcp.ts';
import { type Client, discover, type Parameters, requestToken } from '../support/oauth.ts';
import { openSystemStore } from '../support/opened-store.ts';
import { startSystem, type System } from '../support/system.ts';
import { askAboutToken } from '../support/token-endpoints.ts';
import {
  rightClaims,
  startVouchingIssuer,
  type VouchingIssuer,
} from '../support/vouching-issuer.ts';
import { until } from '../store/condition.ts';

const GRANT_TYPE = 'urn:ietf:params:oauth:grant-type:jwt-bearer';
const REDIRECT = 'https://app.example.com/callback';
const client = (id: string): Client => ({
  id,
  secret: `the-secret-of-${id}-that-is-long-enough`,
  method: 'client_secret_basic',
  redirectUri: REDIRECT,
});
const [APP, OTHER, UNVOUCHED, FORBIDDEN] = ['app', 'other-app', 'unvouched', 'forbidden'].map(
  client,
) as [Client, Client, Client, Client];

function inSettings({ id, secret }: Client) {
  return { id, secret, name: `The ${id}`, redirectUris: [REDIRECT] };
}

type Claims = { [name: string]: unknown };

describe('An identity provider that vouches for people', () => {
  let system: System;
  let idp: VouchingIssuer;
  let silent: VouchingIssuer;
  let connector: Connector;
  before(async () => {
    [idp, silent] = await Promise.all([startVouchingIssuer(), startVouchingIssuer()]);
    const clients = [APP, OTHER, UNVOUCHED, FORBIDDEN];
    system = await startSystem({
      file: {
        entitlements: [
          { match: { group: 'staff' }, level: 'operations' },
          { match: { emailDomain: 'example.com' }, level: 'admin' },
        ],
        clients: {
          preRegistered: clients.map(inSettings),
        },
        authorization: {
          trustedIssuers: [
            {
              issuer: idp.issuer,
              jwks: { keys: [idp.jwk()] },
              clients: [APP.id, OTHER.id, FORBIDDEN.id],
            },
            { issuer: silent.issuer, jwksUri: silent.jwksUri, clients: [APP.id, UNVOUCHED.id] },
          ],
        },
      },
    });
    connector = await createConnector(system);
  });
  afterEach(restoreClock);
  after(async () => {
    await system?.stop();
    await Promise.all([idp.stop(), silent.stop()]);
  });

  /** The claims of an assertion that is good, for a person of their own. */
  function claimsFor(sub: string, more: Claims = {}): Claims {
    const parties = { aud: system.auth, client_id: APP.id, resource: connector.link };
    return { ...rightClaims(idp.issuer), ...parties, sub, groups: ['staff'], ...more };
  }

  async function present(assertion: string, as = APP, more: Parameters = {}) {
    const { server } = await discover(connector.link);
    return requestToken(server, as, { grant_type: GRANT_TYPE, assertion, ...more });
  }

  const vouch = async (sub: string, more: Claims = {}, parameters: Parameters = {}) =>
    present(await idp.sign(claimsFor(sub, more)), APP, parameters);

  async function obtain(sub: string, more: Claims = {}, parameters: Parameters = {}) {
    const { body } = await vouch(sub, more, parameters);
    if (!body.access_token) throw new Error(JSON.stringify(body));
    const claims = decodeJwt(body.access_token);
    return { body, token: body.access_token, grantId: String(claims.grant_id), claims };
  }

  /** As when the process died before it was noted that the assertion was used. */
  async function forgetUse({ jti }: Claims): Promise<void> {
    const { store } = await openSystemStore(system);
    await store.delete(`assertion:${idp.issuer}\n${String(jti)}`);
    await store.close();
  }

  it('EMA-06 gives an app an access token for the connect link, and no refresh token', async () => {
    const { body, token, claims } = await obtain('ada');
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
    expect(await isLetIn(connector.link, token)).to.equal(true);
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
      const { body } = await obtain(`level of ${what}`, { ...claims, resource: link }, parameters);
      expect(body.scope).to.equal(level);
    });
  }

  it('EMA-04 gets no more than the level of the connect link', async () => {
    const { link } = await createConnector(system, { level: 'analytics' });
    expect((await obtain('low', { resource: link })).body.scope).to.equal('analytics');
  });

  it('is held to what it said of a person until it says otherwise', async () => {
    await obtain('mover');
    expect((await obtain('mover', { groups: undefined })).body.scope).to.equal('operations');
    const { body } = await vouch('mover', { groups: [] });
    expect(body.error).to.equal('invalid_grant');
  });

  it('need not say again that an address is verified, until it is another one', async () => {
    const { link } = await createConnector(system, { level: 'admin' });
    const levelWith = async (claims: Claims) =>
      (await obtain('verified', { resource: link, ...claims })).body.scope;
    expect(await levelWith({ email: 'v@example.com', email_verified: true })).to.equal('admin');
    expect(await levelWith({ email: 'V@example.com' })).to.equal('admin');
    expect(await levelWith({ email: 'w@example.com' })).to.equal('operations');
    expect(await levelWith({ email: 'v@example.com' })).to.equal('operations');
  });

  it('renews one grant, however often it vouches', async () => {
    const first = await obtain('often');
    moveClock(5 * 86_400);
    const second = await obtain('often');
    expect(second.grantId).to.equal(first.grantId);
    const { items } = await listGrants(system, { account: String(first.claims.sub) });
    expect(items).to.have.lengthOf(1);
    expect(items[0]).to.include({ id: first.grantId, state: 'active', clientName: 'The app' });
    expect(await isLetIn(connector.link, second.token)).to.equal(true);
  });

  it('stops being good for a grant that nobody used for a month: the next one is new', async () => {
    const first = await obtain('rare');
    moveClock(31 * 86_400);
    expect(await showGrant(system, first.grantId)).to.include({ state: 'ended', reason: 'idle' });
    expect((await obtain('rare')).grantId).to.not.equal(first.grantId);
  });

  it('does not raise what the person lowered', async () => {
    const { grantId, token } = await obtain('lowerer');
    const { store } = await openSystemStore(system);
    const lifetimes = grantLifetimes({ accessToken: 3600, refreshTokenIdle: 30 * 86_400 });
    await lowerGrant(store, grantId, 'analytics', { lifetimes, now: Date.now() / 1000 });
    await store.close();
    // Longer than a process goes by what it read.
    moveClock(15);
    expect(await isLetIn(connector.link, token)).to.equal(false);
    const next = await obtain('lowerer');
    expect([next.grantId, next.body.scope]).to.deep.equal([grantId, 'analytics']);
    expect(await isLetIn(connector.link, next.token)).to.equal(true);
  });

  it('takes one use for one person with one client', async () => {
    const { id, link } = await createConnector(system, { maxUses: 2 });
    await Promise.all([1, 2, 3].map(() => obtain('first', { resource: link })));
    await obtain('second', { resource: link });
    await until('both are kept', async () => (await showConnector(system, id)).uses === 2);
    expect((await vouch('third', { resource: link })).body.error_description).to.equal(
      ID_JAG_REFUSALS.used_up.description,
    );
    await obtain('first', { resource: link });
    expect((await showConnector(system, id)).uses).to.equal(2);
  });

  it('is in the audit log once for each grant, with whom it vouched for', async () => {
    const { grantId, claims } = await obtain('audited');
    await obtain('audited');
    const items = (await readAudit(system)).filter((item) => item.grantId === grantId);
    expect(items).to.have.lengthOf(1);
    const { time: _time, ...item } = items[0] ?? {};
    expect(item).to.deep.equal({
      event: 'grant_vouched',
      account: claims.sub,
      clientId: APP.id,
      connector: connector.id,
      grantId,
      outcome: 'granted',
    });
  });

  it('EMA-05 cannot keep alive what an administrator ends, and may vouch again', async () => {
    const { token, grantId } = await obtain('ended');
    await manage(system, 'DELETE', `/grants/${grantId}`);
    expect(await isLetIn(connector.link, token)).to.equal(false);
    expect(await showGrant(system, grantId)).to.include({ state: 'ended' });
    const again = await obtain('ended');
    expect(again.grantId).to.not.equal(grantId);
    expect(await isLetIn(connector.link, again.token)).to.equal(true);
  });

  it('gives tokens that their client revokes, and nobody else', async () => {
    const { token } = await obtain('revoker');
    const { server } = await discover(connector.link);
    await askAboutToken(server.revocation_endpoint, OTHER, token);
    expect(await isLetIn(connector.link, token)).to.equal(true);
    await askAboutToken(server.revocation_endpoint, APP, token);
    await until('it is refused', async () => !(await isLetIn(connector.link, token)));
  });

  it('EMA-03 is asked again for each token: of one assertion sent often at once one is good', async () => {
    const { id, link } = await createConnector(system);
    const assertion = await idp.sign(claimsFor('racer', { resource: link }));
    const answers = await Promise.all(Array.from({ length: 20 }, () => present(assertion)));
    const good = answers.filter(({ status }) => status === 200);
    expect(good).to.have.lengthOf(1);
    const refused = answers.filter(({ status }) => status !== 200);
    expect(new Set(refused.map(({ body }) => body.error_description))).to.deep.equal(
      new Set([ID_JAG_REFUSALS.replayed.description]),
    );
    expect((await listGrants(system, { connector: id })).items).to.have.lengthOf(1);
  });

  it('may be asked again with the same assertion when we stopped before it was used up', async () => {
    const { id, link } = await createConnector(system, { maxUses: 1 });
    const claims = claimsFor('repeater', { resource: link });
    const assertion = await idp.sign(claims);
    const grantIds = [];
    for (const _time of [1, 2]) {
      const { body } = await present(assertion);
      grantIds.push(decodeJwt(body.access_token ?? '').grant_id);
      await forgetUse(claims);
    }
    expect(new Set(grantIds).size).to.equal(1);
    expect((await listGrants(system, { connector: id })).items).to.have.lengthOf(1);
    expect((await showConnector(system, id)).uses).to.equal(1);
  });

  it('EMA-01 signs with another key from one day to the next, and what the old one signed is refused', async () => {
    const claims = (sub: string) => claimsFor(sub, { iss: silent.issuer });
    const old = await silent.sign(claims('before'));
    expect((await present(await silent.sign(claims('before')))).status).to.equal(200);
    await silent.rotate();
    // Longer than we wait between two looks for a key that we do not know.
    moveClock(11);
    expect((await present(await silent.sign(claims('after')))).status).to.equal(200);
    expect((await present(old)).body.error_description).to.equal(
      ID_JAG_REFUSALS.bad_signature.description,
    );
  });

  it('EMA-01 is one issuer of several, and the same subject at another is somebody else', async () => {
    const mine = await obtain('twin');
    const theirs = await present(await silent.sign(claimsFor('twin', { iss: silent.issuer })));
    expect(theirs.status).to.equal(200);
    expect(decodeJwt(theirs.body.access_token ?? '').sub).to.not.equal(mine.claims.sub);
  });

  it('is waited for while its keys cannot be had, with 503', async () => {
    const away = await startVouchingIssuer();
    await away.stop();
    const own = await startSystem({
      file: {
        clients: {
          preRegistered: [inSettings(APP)],
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
    const refused = await present(assertion, { ...APP, id, secret });
    expect([refused.status, refused.body.error]).to.deep.equal([400, 'invalid_request']);
    const wrong = await present(assertion, { ...APP, secret: `${APP.secret}x` });
    expect([wrong.status, wrong.body.error]).to.deep.equal([401, 'invalid_client']);
    const missing = await requestToken(server, APP, { grant_type: GRANT_TYPE });
    expect([missing.status, missing.body.error]).to.deep.equal([400, 'invalid_request']);
  });

  describe('EMA-01 EMA-02 EMA-03 EMA-05 is refused', () => {
    type Refused = () => ReturnType<typeof present>;
    const refusedFor =
      (claims: Claims, as = APP, more: Parameters = {}): Refused =>
      async () =>
        present(await idp.sign(claimsFor('refused', claims)), as, more);
    const inSeconds =
      (from: number, to: number): Refused =>
      async () => {
        const now = Math.floor(Date.now() / 1000);
        return refusedFor({ iat: now + from, exp: now + to })();
      };
    const cases: Record<IdJagRefusal, Refused> = {
      malformed: () => present('not.a.jwt'),
      wrong_type: async () => present(await idp.sign(claimsFor('refused'), { typ: 'JWT' })),
      wrong_algorithm: async () =>
        present(
          await new SignJWT(claimsFor('refused'))
            .setProtectedHeader({ alg: 'HS256', typ: 'oauth-id-jag+jwt' })
            .sign(Buffer.from(APP.secret ?? '')),
        ),
      unknown_issuer: refusedFor({ iss: 'https://login.example.org' }),
      bad_signature: async () => present(await silent.sign(claimsFor('refused'))),
      missing_claim: refusedFor({ jti: undefined }),
      wrong_audience: async () => refusedFor({ aud: system.resource })(),
      expired: inSeconds(-400, -61),
      not_yet_valid: inSeconds(90, 300),
      too_long_lived: inSeconds(0, 3700),
      wrong_client: refusedFor({}, OTHER),
      client_not_vouched: async () =>
        present(await idp.sign(claimsFor('refused', { client_id: UNVOUCHED.id })), UNVOUCHED),
      client_revoked: async () => {
        await manage(system, 'POST', '/clients/revoke', { id: FORBIDDEN.id });
        return refusedFor({ client_id: FORBIDDEN.id }, FORBIDDEN)();
      },
      wrong_tenant: refusedFor({ tenant: 'acme' }),
      unsupported_restriction: refusedFor({ cnf: { jkt: 'x' } }),
      unknown_resource: async () =>
        refusedFor({ resource: `${system.resource}/connect/${'a'.repeat(22)}/mcp` })(),
      several_resources: async () => {
        const { link } = await createConnector(system);
        return refusedFor({ resource: [connector.link, link] })();
      },
      other_resource: async () => {
        const { link } = await createConnector(system);
        return refusedFor({}, APP, { resource: link })();
      },
      connector_over: async () => {
        const { id, link } = await createConnector(system);
        await revokeConnector(system, id);
        return refusedFor({ resource: link })();
      },
      scope_without_level: refusedFor({ scope: 'openid' }),
      account_disabled: async () => {
        const { claims, token } = await obtain('disabled');
        await changeAccount(system, String(claims.sub), 'disable');
        const assertion = await idp.sign(claimsFor('disabled'));
        expect((await present(assertion)).body.error).to.equal('invalid_grant');
        expect(await isLetIn(connector.link, token)).to.equal(false);
        await changeAccount(system, String(claims.sub), 'enable');
        // Made before, so it is over with all the rest.
        return present(await idp.sign(claimsFor('disabled', { iat: Number(claims.iat) - 10 })));
      },
      not_entitled: refusedFor({ groups: ['guests'] }),
      used_up: async () => {
        const { link } = await createConnector(system, { maxUses: 1 });
        await obtain('first', { resource: link });
        return refusedFor({ resource: link })();
      },
      replayed: async () => {
        const assertion = await idp.sign(claimsFor('replaying'));
        expect((await present(assertion)).status).to.equal(200);
        return present(assertion);
      },
      grant_over: async () => {
        const claims = claimsFor('forgotten');
        const assertion = await idp.sign(claims);
        const { body } = await present(assertion);
        const { grant_id: grantId } = decodeJwt(body.access_token ?? '');
        await manage(system, 'DELETE', `/grants/${String(grantId)}`);
        await forgetUse(claims);
        return present(assertion);
      },
    };

    for (const [reason, refused] of Object.entries(cases)) {
      it(`because of ${reason}, and nothing changes`, async () => {
        const { status, body, headers } = await refused();
        const { error, description } = ID_JAG_REFUSALS[reason as IdJagRefusal];
        expect([status, body]).to.deep.equal([400, { error, error_description: description }]);
        expect(headers.get('cache-control')).to.equal('no-store');
        const accounts = (await manage(system, 'GET', '/accounts?limit=200')) as {
          items: { subject: string }[];
        };
        expect(accounts.items.map(({ subject }) => subject)).to.not.include('refused');
      });
    }

    it('when it is not signed at all', async () => {
      const unsigned = new UnsecuredJWT(claimsFor('refused')).encode();
      expect((await present(unsigned)).body.error).to.equal('invalid_grant');
    });
  });
});

describe('Without an identity provider that vouches for people', () => {
  it('the grant type is neither there nor declared', async () => {
    const system = await startSystem({
      file: {
        clients: {
          preRegistered: [inSettings(APP)],
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
