// Counts and orders the writes of token requests: what each kind stores, and that a refused request stores nothing.
import { expect } from 'chai';
import { openBrowser } from '../support/browser.ts';
import { freezeClock, restoreClock } from '../support/clock.ts';
import {
  connect,
  type ConnectOptions,
  type IssuedCode,
  obtainCode,
  redeem,
  registerClient,
} from '../support/connection.ts';
import { askForDevice, DEVICE_CODE, enterCode, poll } from '../support/device.ts';
import {
  connectBound,
  createProof,
  generateProofKey,
  redeemBound,
  refreshBound,
} from '../support/dpop.ts';
import { useProxiedSystem } from '../support/faults/proxied-system.ts';
import { type Connector, createConnector, requestManagement } from '../support/management-api.ts';
import { discover, refresh, register, requestToken, type TokenResponse } from '../support/oauth.ts';

/** Commands that store nothing. */
const READS = ['get', 'mget', 'smembers', 'zrange', 'subscribe', 'ping', 'publish'];
/** Records of the grant, of single-use proofs and assertions. Counters and what follows the response are not the subject. */
const SUBJECTS = ['grant', 'dpop-proof', 'client-assertion', 'assertion', 'device'];

describe('The writes of a token request', () => {
  const proxied = useProxiedSystem();
  let connector: Connector;
  before(async () => {
    connector = await createConnector(proxied().system, { level: 'full' });
  });

  /** The kinds of the records that the request wrote, in order. */
  async function writesOf<Result>(request: () => Promise<Result>) {
    const writes: string[] = [];
    proxied().proxy.setRule(({ name, kind }) => {
      if (!READS.includes(name) && SUBJECTS.includes(kind)) writes.push(kind);
      return 'pass';
    });
    const result = await request();
    proxied().proxy.setRule();
    return { writes, result };
  }

  async function expectWrites(
    request: () => Promise<TokenResponse>,
    expected: { writes: string[]; error?: string },
  ): Promise<TokenResponse> {
    const { writes, result } = await writesOf(request);
    expect({ writes, error: result.body.error }).to.deep.equal({ error: undefined, ...expected });
    return result;
  }

  const newCode = (options?: ConnectOptions): Promise<IssuedCode> =>
    obtainCode(proxied().system, connector, options);

  describe('that exchanges a code', () => {
    it('an exchange with a refresh token writes the grant once', async () => {
      const code = await newCode();
      await expectWrites(() => redeem(code), { writes: ['grant'] });
    });

    it('an exchange without a refresh token writes the grant once', async () => {
      const code = await newCode({ stay: false });
      const { body } = await expectWrites(() => redeem(code), { writes: ['grant'] });
      expect(body.refresh_token).to.equal(undefined);
    });

    for (const stay of [true, false])
      it(`an exchange with a DPoP proof uses the proof, then writes the grant (${stay ? 'with' : 'without'} a refresh token)`, async () => {
        const [key, code] = [await generateProofKey(), await newCode({ stay })];
        await expectWrites(() => redeemBound(key, code), { writes: ['dpop-proof', 'grant'] });
      });

    it('an exchange of a device writes the grant once', async () => {
      const { system } = proxied();
      const { server } = await discover(connector.link);
      const { body: app } = await register(server, {
        grant_types: [DEVICE_CODE, 'refresh_token'],
        token_endpoint_auth_method: 'none',
      });
      const client = { id: app.client_id ?? '', method: 'none' as const, redirectUri: '' };
      const { body: device } = await askForDevice(server, client, { resource: connector.link });
      const browser = openBrowser(system.origins);
      const page = await enterCode(browser, device.verification_uri, device.user_code);
      await browser.submit(page, { decision: 'approve' });
      await expectWrites(() => poll(server, client, device.device_code), { writes: ['grant'] });
    });

    const REFUSED: Record<string, [more: Record<string, string>, error: string]> = {
      'a wrong verifier': [{ code_verifier: 'x'.repeat(43) }, 'invalid_grant'],
      'another redirect URI': [{ redirect_uri: 'http://127.0.0.1:7070/other' }, 'invalid_grant'],
      'another resource': [{ resource: 'https://other.example/connect/x/mcp' }, 'invalid_target'],
      'an unknown client': [{ client_id: 'unknown' }, 'invalid_client'],
    };
    for (const [what, [more, error]] of Object.entries(REFUSED))
      it(`COD-04 an exchange with ${what} writes nothing, and the code still works`, async () => {
        const code = await newCode();
        await expectWrites(() => redeem(code, more), { writes: [], error });
        expect((await redeem(code)).status).to.equal(200);
      });

    it('an exchange by another client writes nothing, and the code still works', async () => {
      const code = await newCode();
      const client = await registerClient(code.server);
      await expectWrites(() => redeem({ ...code, client }), { writes: [], error: 'invalid_grant' });
      expect((await redeem(code)).status).to.equal(200);
    });

    it('a code that is sent again within a second writes nothing', async () => {
      const code = await newCode();
      freezeClock();
      try {
        await redeem(code);
        await expectWrites(() => redeem(code), { writes: [], error: 'invalid_grant' });
      } finally {
        restoreClock();
      }
    });

    it('an exchange with a proof that was used writes only its attempt to use the proof again', async () => {
      const key = await generateProofKey();
      const first = await newCode();
      const proof = await createProof(key, { url: first.server.token_endpoint });
      await redeemBound(key, first, proof);
      const second = await newCode();
      await expectWrites(() => redeemBound(key, second, proof), {
        writes: ['dpop-proof'],
        error: 'invalid_dpop_proof',
      });
      expect((await redeemBound(key, second)).status).to.equal(200);
    });
  });

  describe('that refreshes', () => {
    it('a refresh writes the grant once', async () => {
      const { server, client, refreshToken } = await connect(proxied().system, connector);
      await expectWrites(() => refresh(server, client, refreshToken), { writes: ['grant'] });
    });

    it('a refresh that is repeated within a minute writes nothing', async () => {
      const { server, client, refreshToken } = await connect(proxied().system, connector);
      const first = await refresh(server, client, refreshToken);
      const again = await expectWrites(() => refresh(server, client, refreshToken), { writes: [] });
      expect(again.body.refresh_token).to.equal(first.body.refresh_token);
    });

    it('a refresh with a bound token uses the proof and writes the grant', async () => {
      const connection = await connectBound(proxied().system, connector);
      const { writes, result } = await writesOf(() => refreshBound(connection));
      expect(result.status).to.equal(200);
      expect(writes.toSorted()).to.deep.equal(['dpop-proof', 'grant']);
    });
  });

  it('a machine writes its grant once for its first token, and nothing for the next one', async () => {
    const { system } = proxied();
    const created = await requestManagement(system, 'POST', '/clients', {
      name: 'CI',
      connector: connector.id,
      level: 'operations',
    });
    const { server } = await discover(connector.link);
    const { id, secret } = created as { id: string; secret: string };
    const client = { id, secret, method: 'client_secret_basic' as const, redirectUri: '' };
    const parameters = { grant_type: 'client_credentials', resource: connector.link };
    await expectWrites(() => requestToken(server, client, parameters), { writes: ['grant'] });
    await expectWrites(() => requestToken(server, client, parameters), { writes: [] });
  });
});
