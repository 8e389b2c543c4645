// DPoP-bound tokens (RFC 9449): introspection, revocation, storage and cost.
import { expect } from 'chai';
import { Redis } from 'ioredis';
import { decodeJwt } from 'jose';
import { findGrant } from '../../src/connections/grants.ts';
import { addressOf, mint } from '../links/minted-tokens/minting.ts';
import { type Connector, createConnector } from '../support/management-api.ts';
import { connect } from '../support/connection.ts';
import {
  type BoundConnection,
  callBound,
  connectBound,
  generateProofKey,
  type ProofKey,
  createProof,
  refreshBound,
} from '../support/dpop.ts';
import { isAccepted } from '../support/mcp.ts';
import { refresh } from '../support/oauth.ts';
import { openSystemStore } from '../support/system-store.ts';
import { readStoredBytes } from '../support/stored-bytes.ts';
import { countStoredKeys } from '../support/stored-keys.ts';
import { onEachStore, type System, untilReady, useSystem } from '../support/system.ts';
import { postToken } from '../support/token-endpoints.ts';
import { findCanaries } from './canaries.ts';

const RESOURCE_SERVER = {
  id: 'figures-api',
  secret: 'secret-of-the-figures-api-0123456789',
  method: 'client_secret_basic',
} as const;
const { id, secret } = RESOURCE_SERVER;
const FILE = { authorization: { introspectionClients: [{ id, secret }] } };
/** A thumbprint has 43 characters and is stored twice, with its member names. */
const MAX_EXTRA_BYTES = 120;

async function storedGrant(system: System, accessToken: string) {
  const { store } = await openSystemStore(system);
  const grant = await findGrant(store, String(decodeJwt(accessToken).grant_id));
  await store.close();
  return grant?.value;
}

onEachStore(
  'DPoP-bound tokens',
  (system, store) => {
    let connector: Connector;
    let key: ProofKey;
    let connection: BoundConnection;
    beforeEach(async () => {
      connector = await createConnector(system());
      key = await generateProofKey();
      const parameters = { dpop_jkt: key.thumbprint };
      connection = await connectBound(system(), connector, { key, parameters });
    });

    for (const held of ['accessToken', 'refreshToken'] as const)
      it(`a client revokes a bound token without a proof (${held})`, async () => {
        const { server, client } = connection;
        expect((await callBound(connection)).status).to.equal(200);
        await postToken(server.revocation_endpoint, client, connection[held]);
        expect((await callBound(connection)).status).to.equal(401);
        const { status } = await refreshBound(connection);
        expect(status).to.equal(held === 'accessToken' ? 200 : 400);
      });

    it('the store contains no proof id and no key thumbprint in plain text', async () => {
      const proofs = async () => (await countStoredKeys(system()))['dpop-proof'] ?? 0;
      const before = await proofs();
      const { link, accessToken, server } = connection;
      const claims = { jti: 'canary-of-a-jti-0123456789' };
      expect((await callBound(connection, { overrides: { claims } })).status).to.equal(200);
      const others = { claims: { jti: 'another-canary-of-a-jti-012345' } };
      const proof = await createProof(key, { url: server.token_endpoint }, others);
      expect((await refreshBound(connection, { proof })).status).to.equal(200);
      expect(await proofs()).to.equal(before + 2);
      const stored = await readStoredBytes(system().storeAddress);
      const bytes = Buffer.concat(stored.flatMap(({ name, bytes: b }) => [Buffer.from(name), b]));
      const canaries = new Map([
        ['jti of the call', claims.jti],
        ['jti of the refresh', others.claims.jti],
        ['thumbprint', key.thumbprint],
        ['token', accessToken],
        ['link', link],
      ]);
      expect(findCanaries(canaries, bytes)).to.deep.equal([]);
    });

    it('refused requests store no proof', async () => {
      const proofs = async () => (await countStoredKeys(system()))['dpop-proof'] ?? 0;
      const before = await proofs();
      const thief = { ...connection, key: await generateProofKey() };
      const { status } = await callBound(thief);
      expect([status, (await refreshBound(thief)).status]).to.deep.equal([401, 400]);
      await callBound(connection, { overrides: { claims: { htm: 'GET' } } });
      await callBound({ ...connection, accessToken: `${connection.accessToken}x` });
      await refreshBound(connection, { token: `${connection.refreshToken}x` });
      expect(await proofs()).to.equal(before);
    });

    async function introspect(token: string | undefined): Promise<Record<string, unknown>> {
      const endpoint = `${system().auth}/oauth/introspect`;
      return JSON.parse((await postToken(endpoint, RESOURCE_SERVER, token)).text);
    }

    it('introspection returns the key of a bound token, and no key for a bearer token', async () => {
      const { accessToken, refreshToken } = connection;
      const cnf = { jkt: key.thumbprint };
      expect(await introspect(accessToken)).to.deep.include({
        active: true,
        token_type: 'DPoP',
        cnf,
      });
      expect(await introspect(refreshToken)).to.deep.include({ active: true, cnf });
      const plain = await connect(system(), connector);
      const facts = await introspect(plain.accessToken);
      expect(facts).to.include({ active: true, token_type: 'Bearer' }).and.not.have.property('cnf');
      expect(await introspect(plain.refreshToken)).to.not.have.property('cnf');
    });

    it('the grant of a bound token stores the thumbprint, and other grants store nothing more', async () => {
      const plain = await connect(system(), connector);
      const [bound, other] = [
        await storedGrant(system(), connection.accessToken),
        await storedGrant(system(), plain.accessToken),
      ];
      expect(bound?.refresh?.payload.jkt).to.equal(key.thumbprint);
      expect(JSON.stringify(other)).to.not.match(/"jkt"/i);
      const more = JSON.stringify(bound).length - JSON.stringify(other).length;
      expect(more).to.be.within(43, MAX_EXTRA_BYTES);
    });

    // The store cannot matter for a refused scheme.
    if (store !== 'sqlite') return;

    it('a minted token is not accepted with the DPoP scheme', async () => {
      const { token } = await mint(system());
      const link = addressOf(system());
      const { status, headers, rpc } = await callBound({ key, link, accessToken: token });
      expect([status, headers.get('www-authenticate')]).to.deep.equal([401, 'Bearer']);
      expect(rpc?.error?.message).to.match(/^minted tokens are sent as Bearer/);
      expect(await isAccepted(link, token)).to.equal(true);
    });
  },
  { file: FILE },
);

describe('DPoP-bound tokens on Redis', () => {
  const system = useSystem({ store: 'redis' });

  /** The kinds of keys in the commands that a request sends to Redis. */
  async function commandsOf(request: () => Promise<unknown>): Promise<string[]> {
    const redis = new Redis(system().storeAddress);
    const monitor = await redis.monitor();
    const commands: string[] = [];
    monitor.on('monitor', (_time: string, args: string[], source: string) => {
      // Commands inside of a script belong to the command that runs it.
      if (source !== 'lua') commands.push(args.join(' '));
    });
    await request();
    await redis.echo('end of the commands');
    while (!commands.some((line) => line.includes('end of the commands')))
      await new Promise((resolve) => monitor.once('monitor', resolve));
    monitor.disconnect();
    redis.disconnect();
    return commands.flatMap((line) => /\b(grant|dpop-proof):/.exec(line)?.[1] ?? []);
  }

  it('a bound refresh sends one store command more than an unbound refresh', async () => {
    const connector = await createConnector(system());
    const bound = await connectBound(system(), connector);
    const { server, client, refreshToken } = await connect(system(), connector);
    const plain = await commandsOf(() => refresh(server, client, refreshToken));
    expect(plain).to.deep.equal(['grant', 'grant']);
    const proven = await commandsOf(() => refreshBound(bound));
    expect(proven).to.deep.equal(['grant', 'dpop-proof', 'grant']);
  });

  it('bound tokens get 503 while Redis is stalled, because used proofs are unknown, and work afterwards', async () => {
    const connector = await createConnector(system());
    const bound = await connectBound(system(), connector);
    const plain = await connect(system(), connector);
    const states = async () => [
      (await callBound(bound)).status,
      (await refreshBound(bound)).status,
      await isAccepted(connector.link, plain.accessToken),
    ];
    expect((await callBound(bound)).status).to.equal(200);
    expect(await isAccepted(connector.link, plain.accessToken)).to.equal(true);
    system().signalStore('SIGSTOP');
    const stalled = await states().finally(() => system().signalStore('SIGCONT'));
    expect(stalled).to.deep.equal([503, 503, true]);
    await untilReady(system());
    expect(await states()).to.deep.equal([200, 200, true]);
  });
});
