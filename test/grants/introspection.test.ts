// Introspection (RFC 7662): the resource servers of the settings learn what a token is good for now; nobody else learns anything.
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { createConnector, revokeConnector } from '../support/management-api.ts';
import { advanceClock } from '../support/clock.ts';
import { obtainCode, registerClient } from '../support/connection.ts';
import type { AuthMethod } from '../support/oauth.ts';
import { onEachStore, useSystem } from '../support/system.ts';
import {
  postToken,
  type Credentials,
  type TokenEndpointResponse,
} from '../support/token-endpoints.ts';
import { until } from '../store/condition.ts';
import { type Family, present, startFamily, tokensOf, rotate } from './family.ts';

const HINTS = [undefined, 'access_token', 'refresh_token', 'unheard-of'];
const METHODS: AuthMethod[] = ['none', 'client_secret_basic', 'client_secret_post'];
const RESOURCE_SERVER: Credentials = {
  id: 'figures-api',
  secret: 'secret-of-the-figures-api-0123456789',
  method: 'client_secret_basic',
};
const SETTINGS = {
  file: {
    authorization: {
      introspectionClients: [{ id: RESOURCE_SERVER.id, secret: RESOURCE_SERVER.secret }],
    },
  },
};

onEachStore(
  'Introspection',
  (system) => {
    function introspect(
      token: string | undefined,
      { hint, as = RESOURCE_SERVER }: { hint?: string | undefined; as?: Credentials } = {},
    ): Promise<TokenEndpointResponse> {
      return postToken(`${system().auth}/oauth/introspect`, as, token, hint);
    }

    async function factsOf(token: string, hint?: string): Promise<Record<string, unknown>> {
      const { status, headers, text } = await introspect(token, { hint });
      expect(status).to.equal(200);
      expect(headers.get('cache-control')).to.equal('no-store');
      expect(headers.get('content-type')).to.match(/^application\/json/);
      return JSON.parse(text);
    }

    const isActive = async (token: string) => (await factsOf(token)).active;

    /** Well before a record would be read again by itself, which is after ten seconds. */
    async function untilInactive(...tokens: string[]): Promise<void> {
      for (const token of tokens)
        await until('the token is not active', async () => (await isActive(token)) === false, 3);
      for (const token of tokens) expect(await factsOf(token)).to.deep.equal({ active: false });
    }

    it('is advertised with the ways to authenticate', async () => {
      const metadata = await fetch(`${system().auth}/.well-known/oauth-authorization-server`);
      expect(await metadata.json()).to.deep.include({
        introspection_endpoint: `${system().auth}/oauth/introspect`,
        introspection_endpoint_auth_methods_supported: [
          'client_secret_basic',
          'client_secret_post',
        ],
      });
      const { accessToken } = await startFamily(system());
      for (const method of METHODS.slice(1)) {
        const { text } = await introspect(accessToken, { as: { ...RESOURCE_SERVER, method } });
        expect(JSON.parse(text).active).to.equal(true);
      }
    });

    it('of an access token says what the token says', async () => {
      const { accessToken, client, link } = await startFamily(system());
      const { sub, iat, exp, jti } = decodeJwt(accessToken);
      for (const hint of HINTS)
        expect(await factsOf(accessToken, hint)).to.deep.equal({
          active: true,
          client_id: client.id,
          sub,
          iss: system().auth,
          aud: link,
          iat,
          exp,
          jti,
          scope: 'operations',
          token_type: 'Bearer',
        });
    });

    it('of a refresh token says whose it is and until when it is good', async () => {
      const { refreshToken, accessToken, client } = await startFamily(system());
      for (const hint of HINTS) {
        const facts = await factsOf(refreshToken, hint);
        expect(facts).to.include({ active: true, client_id: client.id });
        expect(facts.sub).to.equal(decodeJwt(accessToken).sub);
        expect(facts.exp).to.be.above(Date.now() / 1000 + 29 * 86_400);
        expect(facts).to.not.have.any.keys('token_type', 'jti');
      }
    });

    it('says inactive, and nothing more, of what is no token or no longer one', async () => {
      const family = await startFamily(system());
      const code = await obtainCode(system(), await createConnector(system()));
      const [grant, , mac] = family.refreshToken.split('~');
      const no = [
        'x',
        'a.b.c',
        `${family.accessToken}x`,
        `${grant}~1~${mac}`,
        `${family.refreshToken}\n`,
        code.callback.searchParams.get('code') ?? '',
      ];
      for (const token of no)
        for (const hint of HINTS)
          expect(await factsOf(token, hint), token).to.deep.equal({ active: false });
      advanceClock(3600);
      expect(await factsOf(family.accessToken)).to.deep.equal({ active: false });
      expect(await isActive(family.refreshToken)).to.equal(true);
      advanceClock(30 * 86_400);
      expect(await factsOf(family.refreshToken)).to.deep.equal({ active: false });
    });

    it('of an old refresh token asks no more of it than a look: inactive, and the family lives', async () => {
      const family = await startFamily(system());
      const second = await rotate(family, family.refreshToken);
      const third = await rotate(family, second.refreshToken);
      advanceClock(66);
      expect(await factsOf(family.refreshToken)).to.deep.equal({ active: false });
      expect((await present(family, third.refreshToken)).status).to.equal(200);
    });

    it('of one revoked access token says inactive; the others stay active', async () => {
      const family = await startFamily(system());
      const next = await rotate(family, family.refreshToken);
      await revoke(family, next.accessToken);
      await untilInactive(next.accessToken);
      expect(await isActive(family.accessToken)).to.equal(true);
      expect(await isActive(next.refreshToken)).to.equal(true);
    });

    it('of all that an ended grant gave says inactive', async () => {
      const family = await startFamily(system());
      const next = tokensOf(await present(family, family.refreshToken));
      await revoke(family, next.refreshToken);
      await untilInactive(
        family.accessToken,
        next.accessToken,
        family.refreshToken,
        next.refreshToken,
      );
    });

    it('of all that a revoked connect link gave says inactive', async () => {
      const connector = await createConnector(system());
      const family = await startFamily(system(), {}, connector);
      expect(await isActive(family.accessToken)).to.equal(true);
      await revokeConnector(system(), connector.id);
      await untilInactive(family.accessToken, family.refreshToken);
    });

    it('of all that an expired connect link gave says inactive', async () => {
      const expiresAt = new Date(Date.now() + 600_000).toISOString();
      const family = await startFamily(
        system(),
        {},
        await createConnector(system(), { expiresAt }),
      );
      expect(await isActive(family.accessToken)).to.equal(true);
      advanceClock(601);
      await untilInactive(family.accessToken, family.refreshToken);
    });

    it('AUD-12 tells other clients nothing, not even about their own tokens', async () => {
      for (const method of METHODS) {
        const family = await startFamily(system(), { method });
        const other = await registerClient(family.server, method);
        for (const as of [family.client, other])
          for (const token of [family.accessToken, family.refreshToken, 'x']) {
            const { status, text } = await introspect(token, { as });
            expect([status, JSON.parse(text)]).to.deep.equal([200, { active: false }]);
          }
      }
    });

    it('tells nobody anything who does not prove who it is', async () => {
      const { accessToken } = await startFamily(system());
      const impostors: Credentials[] = [
        { ...RESOURCE_SERVER, secret: 'wrong' },
        { ...RESOURCE_SERVER, method: 'none' },
        { id: 'nobody', secret: RESOURCE_SERVER.secret, method: 'client_secret_basic' },
      ];
      for (const as of impostors) {
        const { status, headers, text } = await introspect(accessToken, { as });
        expect([status, JSON.parse(text).error]).to.deep.equal([401, 'invalid_client']);
        expect(JSON.parse(text)).to.not.have.property('active');
        expect(headers.get('cache-control')).to.equal('no-store');
      }
      const endpoint = `${system().auth}/oauth/introspect`;
      const anonymous = await postToken(endpoint, undefined, accessToken);
      expect(anonymous.status).to.be.within(400, 401);
      expect(JSON.parse(anonymous.text)).to.not.have.property('active');
    });

    it('is all that a resource server may do', async () => {
      const family = await startFamily(system());
      for (const token of [family.accessToken, family.refreshToken]) {
        const endpoint = family.server.revocation_endpoint;
        expect((await postToken(endpoint, RESOURCE_SERVER, token)).status).to.equal(200);
      }
      const { status, body } = await present(
        { ...family, client: { ...RESOURCE_SERVER, redirectUri: '' } },
        family.refreshToken,
      );
      expect([status, typeof body.error]).to.deep.equal([400, 'string']);
      expect(await isActive(family.accessToken)).to.equal(true);
      expect((await present(family, family.refreshToken)).status).to.equal(200);
    });
  },
  SETTINGS,
);

describe('Without resource servers in the settings', () => {
  const system = useSystem();

  it('there is no introspection, and none is advertised', async () => {
    const { accessToken, client, server } = await startFamily(system(), {
      method: 'client_secret_basic',
    });
    const advertised = Object.keys(server).filter((name) => name.startsWith('introspection'));
    expect(advertised).to.deep.equal([]);
    const endpoint = `${system().auth}/oauth/introspect`;
    expect((await postToken(endpoint, client, accessToken)).status).to.equal(404);
    expect((await fetch(endpoint)).status).to.equal(404);
  });
});

async function revoke({ server, client }: Family, token: string): Promise<void> {
  const { status } = await postToken(server.revocation_endpoint, client, token);
  expect(status).to.equal(200);
}
