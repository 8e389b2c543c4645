import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect } from 'chai';
import { errors, jwtVerify } from 'jose';
import { openRemoteKeys, type RemoteKeys } from '../../src/keys/remote-keys.ts';
import { createLogger } from '../../src/observability/logger.ts';
import { openStore } from '../../src/store/open.ts';
import type { Store } from '../../src/store/store.ts';
import { until } from '../support/until.ts';
import { createConnector } from '../support/management-api.ts';
import { advanceClock, restoreClock } from '../support/clock.ts';
import { connect, type Connection } from '../support/connection.ts';
import { refresh } from '../support/oauth.ts';
import { startSystem, type System } from '../support/system.ts';
import { publishedIds, rotateKeys } from './published-keys.ts';

describe('Remote verification keys without notifications', () => {
  let system: System;
  let quietStore: Store;
  let proxy: Server;
  let requests: number;
  let isStalled = false;
  let keys: RemoteKeys;
  let connection: Connection;

  beforeEach(async () => {
    system = await startSystem();
    connection = await connect(system, await createConnector(system));
    requests = 0;
    proxy = createServer(async (_request, response) => {
      requests += 1;
      if (isStalled) return;
      const answer = await fetch(`${system.auth}/oauth/jwks`);
      response.writeHead(answer.status).end(await answer.text());
    }).listen(0, '127.0.0.1');
    await once(proxy, 'listening');
    const { port } = proxy.address() as AddressInfo;
    // A separate store without notifications.
    const options = { secret: 'a secret of more than 32 characters', dataDir: system.dataDir };
    quietStore = await openStore({ kind: 'sqlite', file: 'quiet.sqlite' }, options);
    keys = await openRemoteKeys(`http://127.0.0.1:${port}/`, quietStore, createLogger('silent'));
  });

  afterEach(async () => {
    restoreClock();
    keys.close();
    await closeProxy();
    await quietStore.close();
    await system.stop();
  });

  async function closeProxy(): Promise<void> {
    if (!proxy.listening) return;
    proxy.closeAllConnections();
    await once(proxy.close(), 'close');
  }

  const verify = (token = '') => jwtVerify(token, keys.verificationKeys);

  async function refusal(token: string): Promise<unknown> {
    const verified = new Error('the token was verified');
    return verify(token).then(
      () => Promise.reject(verified),
      (error: unknown) => error,
    );
  }

  function withKeyId(token: string, kid: string): string {
    const [, ...rest] = token.split('.');
    const header = Buffer.from(JSON.stringify({ alg: 'ES256', typ: 'at+jwt', kid }));
    return [header.toString('base64url'), ...rest].join('.');
  }

  it('remote keys are fetched for the first token, once for many concurrent tokens', async () => {
    expect(requests).to.equal(0);
    await Promise.all(Array.from({ length: 20 }, () => verify(connection.accessToken)));
    expect(requests).to.equal(1);
  });

  it('remote keys are fetched again when a token has a new key id', async () => {
    await verify(connection.accessToken);
    const [key] = await rotateKeys(system, { atOnce: true });
    await until('the new key to sign', async () => (await publishedIds(system))[0] === key?.id);
    const { server, client, refreshToken } = connection;
    const { body } = await refresh(server, client, refreshToken);
    advanceClock(2);
    await verify(body.access_token);
    expect(requests).to.equal(2);
    expect(await refusal(connection.accessToken)).to.be.instanceOf(errors.JWKSNoMatchingKey);
  });

  it('RSV-09 DOS-06 tokens with made-up key ids cause at most one fetch a second', async () => {
    const began = Date.now();
    await verify(connection.accessToken);
    for (let second = 0; second < 3; second += 1) {
      for (let attempt = 0; attempt < 50; attempt += 1) {
        const forged = withKeyId(connection.accessToken, `made-up-${second}-${attempt}`);
        expect(await refusal(forged)).to.be.instanceOf(errors.JWKSNoMatchingKey);
      }
      advanceClock(1);
    }
    const seconds = (Date.now() - began) / 1000;
    expect(requests).to.be.within(2, 2 + Math.floor(seconds));
  });

  it('RSV-09 remote keys are used for a day while the authorization server is unavailable', async () => {
    await verify(connection.accessToken);
    await closeProxy();
    advanceClock(3500);
    await verify(connection.accessToken);
    advanceClock(86_400);
    expect(await refusal(connection.accessToken)).to.not.be.instanceOf(errors.JOSEError);
  });

  it('RSV-09 a fetch that times out is an error of the key set, not of the token, and is retried', async () => {
    isStalled = true;
    expect(await refusal(connection.accessToken)).to.be.instanceOf(errors.JWKSTimeout);
    isStalled = false;
    await verify(connection.accessToken);
    expect(requests).to.equal(2);
  });

  it('a failed first fetch is an error of the key set, not of the token', async () => {
    await closeProxy();
    expect(await refusal(connection.accessToken)).to.not.be.instanceOf(errors.JOSEError);
  });
});
