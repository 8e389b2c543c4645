// RFC 7662.
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { createConnector, requestManagement, revokeConnector } from '../support/management-api.ts';
import { advanceClock } from '../support/clock.ts';
import { obtainCode, registerClient } from '../support/connection.ts';
import type { AuthMethod } from '../support/oauth.ts';
import { useSystem } from '../support/system.ts';
import {
  postToken,
  type Credentials,
  type TokenEndpointResponse,
} from '../support/token-endpoints.ts';
import {
  type TokenFamily,
  present,
  connectWithRefreshToken,
  tokensOf,
  rotate,
  untilNoticed,
} from './token-family.ts';

const HINTS = [undefined, 'access_token', 'refresh_token', 'unknown'];
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

describe('Introspection', () => {
  const system = useSystem(SETTINGS);

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

  async function untilInactive(...tokens: string[]): Promise<void> {
    for (const token of tokens)
      await untilNoticed('the token to be inactive', async () => !(await isActive(token)));
    for (const token of tokens) expect(await factsOf(token)).to.deep.equal({ active: false });
  }

  it('the metadata has the introspection endpoint and its authentication methods', async () => {
    const metadata = await fetch(`${system().auth}/.well-known/oauth-authorization-server`);
    expect(await metadata.json()).to.deep.include({
      introspection_endpoint: `${system().auth}/oauth/introspect`,
      introspection_endpoint_auth_methods_supported: ['client_secret_basic', 'client_secret_post'],
    });
    const { accessToken } = await connectWithRefreshToken(system());
    for (const method of METHODS.slice(1)) {
      const { text } = await introspect(accessToken, { as: { ...RESOURCE_SERVER, method } });
      expect(JSON.parse(text).active).to.equal(true);
    }
  });

  it('CHG-04 an access token of a paused link is inactive, and its refresh token stays active', async () => {
    const connector = await createConnector(system());
    const { accessToken, refreshToken } = await connectWithRefreshToken(system(), {}, connector);
    const pause = (paused: boolean) =>
      requestManagement(system(), 'PATCH', `/connectors/${connector.id}`, { paused });
    await pause(true);
    await untilInactive(accessToken);
    expect(await isActive(refreshToken)).to.equal(true);
    await pause(false);
    await untilNoticed('the token to be active again', async () =>
      Boolean(await isActive(accessToken)),
    );
  });

  it('AUD-12 introspection of an access token returns its claims', async () => {
    const { accessToken, client, link } = await connectWithRefreshToken(system());
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

  it('AUD-12 introspection of a refresh token returns its account, client and expiry', async () => {
    const { refreshToken, accessToken, client } = await connectWithRefreshToken(system());
    for (const hint of HINTS) {
      const facts = await factsOf(refreshToken, hint);
      expect(facts).to.include({ active: true, client_id: client.id });
      expect(facts.sub).to.equal(decodeJwt(accessToken).sub);
      expect(facts.exp).to.be.above(Date.now() / 1000 + 29 * 86_400);
      expect(facts).to.not.have.any.keys('token_type', 'jti');
    }
  });

  it('AUD-12 introspection of an invalid or expired token returns inactive and nothing else', async () => {
    const family = await connectWithRefreshToken(system());
    const code = await obtainCode(system(), await createConnector(system()));
    const [grant, , mac] = family.refreshToken.split('~');
    const invalid = [
      'x',
      'a.b.c',
      `${family.accessToken}x`,
      `${grant}~1~${mac}`,
      `${family.refreshToken}\n`,
      code.callback.searchParams.get('code') ?? '',
    ];
    for (const token of invalid)
      for (const hint of HINTS)
        expect(await factsOf(token, hint), token).to.deep.equal({ active: false });
    advanceClock(3600);
    expect(await factsOf(family.accessToken)).to.deep.equal({ active: false });
    expect(await isActive(family.refreshToken)).to.equal(true);
    advanceClock(30 * 86_400);
    expect(await factsOf(family.refreshToken)).to.deep.equal({ active: false });
  });

  it('introspection of a rotated refresh token returns inactive and does not end the family', async () => {
    const family = await connectWithRefreshToken(system());
    const second = await rotate(family, family.refreshToken);
    const third = await rotate(family, second.refreshToken);
    advanceClock(66);
    expect(await factsOf(family.refreshToken)).to.deep.equal({ active: false });
    expect((await present(family, third.refreshToken)).status).to.equal(200);
  });

  it('REF-06 introspection of a revoked access token returns inactive, and other tokens stay active', async () => {
    const family = await connectWithRefreshToken(system());
    const next = await rotate(family, family.refreshToken);
    await revoke(family, next.accessToken);
    await untilInactive(next.accessToken);
    expect(await isActive(family.accessToken)).to.equal(true);
    expect(await isActive(next.refreshToken)).to.equal(true);
  });

  it('introspection returns inactive for every token of an ended grant', async () => {
    const family = await connectWithRefreshToken(system());
    const next = tokensOf(await present(family, family.refreshToken));
    await revoke(family, next.refreshToken);
    await untilInactive(
      family.accessToken,
      next.accessToken,
      family.refreshToken,
      next.refreshToken,
    );
  });

  it('introspection returns inactive for every token of a revoked connect link', async () => {
    const connector = await createConnector(system());
    const family = await connectWithRefreshToken(system(), {}, connector);
    expect(await isActive(family.accessToken)).to.equal(true);
    await revokeConnector(system(), connector.id);
    await untilInactive(family.accessToken, family.refreshToken);
  });

  it('introspection returns inactive for every token of an expired connect link', async () => {
    const expiresAt = new Date(Date.now() + 600_000).toISOString();
    const family = await connectWithRefreshToken(
      system(),
      {},
      await createConnector(system(), { expiresAt }),
    );
    expect(await isActive(family.accessToken)).to.equal(true);
    advanceClock(601);
    await untilInactive(family.accessToken, family.refreshToken);
  });

  it('AUD-12 introspection by other clients returns inactive, even for their own tokens', async () => {
    for (const method of METHODS) {
      const family = await connectWithRefreshToken(system(), { method });
      const other = await registerClient(family.server, method);
      for (const as of [family.client, other])
        for (const token of [family.accessToken, family.refreshToken, 'x']) {
          const { status, text } = await introspect(token, { as });
          expect([status, JSON.parse(text)]).to.deep.equal([200, { active: false }]);
        }
    }
  });

  it('AUD-12 introspection without valid client authentication gets 401', async () => {
    const { accessToken } = await connectWithRefreshToken(system());
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

  it('REF-06 a resource server can neither refresh nor revoke tokens', async () => {
    const family = await connectWithRefreshToken(system());
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
});

describe('Introspection without resource servers in the settings', () => {
  const system = useSystem();

  it('the introspection endpoint gets 404 and is not in the metadata', async () => {
    const { accessToken, client, server } = await connectWithRefreshToken(system(), {
      method: 'client_secret_basic',
    });
    const members = Object.keys(server).filter((name) => name.startsWith('introspection'));
    expect(members).to.deep.equal([]);
    const endpoint = `${system().auth}/oauth/introspect`;
    expect((await postToken(endpoint, client, accessToken)).status).to.equal(404);
    expect((await fetch(endpoint)).status).to.equal(404);
  });
});

async function revoke({ server, client }: TokenFamily, token: string): Promise<void> {
  const { status } = await postToken(server.revocation_endpoint, client, token);
  expect(status).to.equal(200);
}
