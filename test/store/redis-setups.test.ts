// How Redis can be set up so that Gatehouse cannot use it: each is one message with what to do.
import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { expect } from 'chai';
import { Redis } from 'ioredis';
import { z } from 'zod';
import { checkStore } from '../../src/doctor/store.ts';
import { parseStoreAddress } from '../../src/settings/addresses.ts';
import { openStore } from '../../src/store/open.ts';
import type { Store } from '../../src/store/store.ts';
import type { ConfiguredDeployment } from '../../src/doctor/deployment.ts';
import { makeCertificate } from '../oauth/metadata-documents/certificate.ts';
import { freePorts } from '../support/free-ports.ts';
import { runServer } from '../support/main-process.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { createDeployment } from '../support/system.ts';
import { until } from '../support/until.ts';
import { startCluster } from './redis-topologies.ts';

const SECRET = 'a root secret for the tests of the store';
const PASSWORD = 'p+a/b';
const IN_ADDRESS = encodeURIComponent(PASSWORD).replace('%2B', '+');
const schema = z.string().transform(parseStoreAddress);
const DOCUMENT = readFileSync(join(import.meta.dirname, '../../config/redis.md'), 'utf8');
/** The rights in the document. */
const [, RIGHTS = ''] = /^ACL SETUSER gatehouse on >\S+ (.*)$/m.exec(DOCUMENT) ?? [];

describe('A Redis that is set up in another way', () => {
  const closers: (() => unknown)[] = [];
  afterEach(async () => {
    for (const close of closers.splice(0).toReversed()) await close();
  });

  const start = async (...args: string[]): Promise<RedisServer & { raw: Redis }> => {
    const server = await startRedis({ args });
    closers.push(() => server.stop());
    const raw = new Redis(server.url);
    raw.on('error', () => undefined);
    closers.push(() => raw.disconnect());
    return { ...server, raw };
  };
  const open = async (address: string, openMs = 700): Promise<Store> => {
    const timeouts = { open: openMs };
    const options = { secret: SECRET, dataDir: '/nowhere', timeouts };
    const store = await openStore(schema.parse(address), options);
    closers.push(() => store.close());
    return store;
  };
  const refusal = async (address: string): Promise<string> => {
    const error: unknown = await open(address).catch((reason: unknown) => reason);
    expect(error, address).to.be.an('error').with.property('name', 'StoreNotOpened');
    return (error as Error).message;
  };
  const doctorSays = async (address: string): Promise<string[]> => {
    const settings = { store: schema.parse(address), secret: SECRET };
    const deployment = { settings, maxRedisLatency: 60_000 } as unknown as ConfiguredDeployment;
    const findings = await checkStore(deployment);
    return findings
      .filter(({ outcome }) => outcome === 'problem')
      .map(({ what, remedy }) => `${what}: ${remedy}`);
  };
  const withUser = async (rights: string): Promise<string> => {
    const { raw, port } = await start();
    await raw.call('ACL', 'SETUSER', 'gatehouse', 'on', `>${PASSWORD}`, ...rights.split(' '));
    return `redis://gatehouse:${IN_ADDRESS}@127.0.0.1:${port}`;
  };

  const ALL = '~* &* +@all';
  const rightsWithout: [what: string, rights: string, named: RegExp][] = [
    ['scripts', `${ALL} -eval -evalsha`, /scripts \(EVAL, EVALSHA\).*no permissions/],
    ['channels', '~* resetchannels +@all', /channels \(PUBLISH, SUBSCRIBE\).*channel/],
    ['streams', `${ALL} -@stream`, /streams \(XADD, XRANGE, XREVRANGE\)/],
    ['one command of a script', `${ALL} -zadd`, /sorted sets \(ZADD\)/],
    ['keys', '&* +@all', /values \(SET.*hashes.*streams/],
  ];
  for (const [what, rights, named] of rightsWithout)
    it(`a user without the right to ${what} stops the start with what is missing, and doctor says the same`, async () => {
      const address = await withUser(rights);
      const message = await refusal(address);
      expect(message).to.match(named).and.include('config/redis.md');
      expect(message).to.not.include('redis.call').and.not.include('\n');
      const [first = ''] = await doctorSays(address);
      expect(first).to.match(named).and.include('config/redis.md');
    });

  it('the rights in the document are enough for start and doctor, on one server', async () => {
    expect(RIGHTS).to.include('~*');
    const address = await withUser(RIGHTS);
    const store = await open(address);
    await store.subscribe('news', () => undefined);
    await store.append('log:1', 1, 60);
    expect(await doctorSays(address)).to.deep.equal([]);
  });

  it('several values are read with one command, and one by one when the user loses the right to it', async () => {
    const { raw, url } = await start();
    const store = await open(url);
    for (const n of [1, 3]) await store.set(`value:${n}`, n, 60);
    const read = () => store.getMany([1, 2, 3].map((n) => `value:${n}`));
    const commands = async () => {
      await raw.config('RESETSTAT');
      expect(await read()).to.deep.equal([1, undefined, 3]);
      const stats = await raw.info('commandstats');
      return ['mget', 'get'].map((name) =>
        Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(stats)?.[1] ?? 0),
      );
    };
    expect(await commands()).to.deep.equal([1, 0]);
    await raw.call('ACL', 'SETUSER', 'default', '-mget');
    expect(await commands()).to.deep.equal([0, 3]);
    expect(await commands()).to.deep.equal([0, 3]);
    expect(await store.getMany([])).to.deep.equal([]);
  });

  it('the rights in the document are enough in a Redis Cluster', async () => {
    const { masters, replica, stop } = await startCluster();
    closers.push(stop);
    for (const { raw } of [...masters, replica])
      await raw.call('ACL', 'SETUSER', 'gatehouse', 'on', `>${PASSWORD}`, ...RIGHTS.split(' '));
    const nodes = masters.map(({ port }) => `127.0.0.1:${port}`).join(',');
    const address = `redis+cluster://gatehouse:${IN_ADDRESS}@${nodes}`;
    const store = await open(address, 5000);
    await store.subscribe('news', () => undefined);
    await store.append('log:1', 1, 60);
    expect(await doctorSays(address)).to.deep.equal([]);
    for (const { port } of masters)
      expect(await refusal(`redis://127.0.0.1:${port}`)).to.match(
        /is part of a Redis Cluster: use redis\+cluster:\/\//,
      );
  });

  it('a server of its own stops the start with an address for a Cluster', async () => {
    const { port } = await start();
    const message = await refusal(`redis+cluster://127.0.0.1:${port}`);
    expect(message).to.match(/is not part of a Redis Cluster: use redis:\/\//);
  });

  it('a renamed command stops the start with its name', async () => {
    const { url } = await start('--rename-command', 'EVAL', '');
    expect(await refusal(url)).to.match(/lacks scripts \(EVAL\).*requires Redis 6\.2/);
  });

  it('a replica stops the start, and one that becomes the primary in time does not', async () => {
    const primary = await start();
    const replica = await start('--replicaof', `127.0.0.1 ${primary.port}`);
    await until('the replica to be in sync', async () =>
      (await replica.raw.info('replication')).includes('master_link_status:up'),
    );
    expect(await refusal(replica.url)).to.match(/is a replica.*address of the primary/);
    await replica.raw.config('RESETSTAT');
    const opening = open(replica.url, 30_000);
    await until('the start to have tried', async () =>
      /errorstat_READONLY:count=([2-9]|\d\d)/.test(await replica.raw.info('errorstats')),
    );
    await replica.raw.replicaof('NO', 'ONE');
    await (await opening).ping();
  });

  it('a number of a database that does not exist stops the start, and nothing is written to database 0', async () => {
    const { raw, url } = await start('--databases', '1');
    const message = await refusal(`${url}/3`);
    expect(message).to.match(/has no database 3 .*GATEHOUSE_STORE/);
    expect(await raw.dbsize()).to.equal(0);
    expect(await doctorSays(`${url}/3`)).to.match(/has no database 3/);
  });

  it('a store whose database is refused after a lost connection writes nothing to database 0, and goes on in its own afterwards', async () => {
    const address = await withUser(ALL);
    const store = await open(`${address}/3`);
    const raw = new Redis(address.replace(/gatehouse:.*@/, ''));
    closers.push(() => raw.disconnect());
    await raw.call('ACL', 'SETUSER', 'gatehouse', '-select');
    await raw.call('CLIENT', 'KILL', 'USER', 'gatehouse');
    const failure = await store.set('thing:1', 1, 60).catch((error: unknown) => error);
    expect(failure).to.be.an('error');
    expect(await raw.dbsize()).to.equal(0);
    await raw.call('ACL', 'SETUSER', 'gatehouse', '+select');
    await until('the store to work', () =>
      store.set('thing:1', 1, 60).then(
        () => true,
        () => false,
      ),
    );
    expect(await raw.dbsize()).to.equal(0);
  });

  it('a process prints one line and exits if its user has too few rights', async () => {
    const deployment = await createDeployment({
      storeAddress: await withUser(`${ALL} -eval -evalsha`),
    });
    closers.push(deployment.release);
    const { code, stdout, stderr } = await runServer(deployment.environment);
    expect({ code, stdout }).to.deep.equal({ code: 1, stdout: '' });
    expect(stderr).to.match(
      /^the store at [\d.:]+ cannot be opened: it does not let this user .*\n$/,
    );
  });

  describe('with Sentinel', () => {
    /** Starts a master with a user, and a Sentinel that watches it. */
    async function startWatched(sentinelSettings: string, ...args: string[]) {
      const master = await start(...args);
      await master.raw.call(
        'ACL',
        'SETUSER',
        'gatehouse',
        'on',
        `>${PASSWORD}`,
        ...RIGHTS.split(' '),
      );
      const [port = 0] = await freePorts(1);
      const dir = await mkdtemp(join(tmpdir(), 'sentinel-'));
      closers.push(() => rm(dir, { recursive: true, force: true }));
      const file = join(dir, 'sentinel.conf');
      const watched = `sentinel monitor main 127.0.0.1 ${master.port} 1\n`;
      await writeFile(file, watched + sentinelSettings);
      const sentinel = await startRedis({ port, args: [file, '--sentinel'] });
      closers.push(() => sentinel.stop());
      const user = `gatehouse:${IN_ADDRESS}`;
      return {
        master,
        address: (query = '', name = 'main') =>
          `redis+sentinel://${user}@127.0.0.1:${port}/${name}${query}`,
        port,
      };
    }

    it('a Sentinel without a password gets none, although Redis has a user', async () => {
      const { address } = await startWatched('');
      await (await open(address(), 5000)).ping();
    });

    it('Sentinels with the user and password of Redis need nothing more', async () => {
      const { address } = await startWatched(
        `user gatehouse on >${PASSWORD} ~* &* +@all\nuser default off\n`,
      );
      await (await open(address(), 5000)).ping();
    });

    it('Sentinels with their own password take it from the address, and without it the message says where to put it', async () => {
      const { address } = await startWatched('requirepass "of+the+sentinels"\n');
      await (await open(address('?sentinelPassword=of+the+sentinels'), 5000)).ping();
      expect(await refusal(address())).to.match(
        /Sentinels that refuse.*WRONGPASS.*\?sentinelPassword=/,
      );
      expect(await refusal(address('?sentinelPassword=hunter2'))).to.not.include('hunter2');
      expect(await doctorSays(address())).to.match(/\?sentinelPassword=/);
    });

    it('the message says that a Sentinel watches no such master, or that the address is no Sentinel', async () => {
      const { address, master, port } = await startWatched('');
      expect(await refusal(address('', 'other'))).to.match(/watches no master with this name/);
      expect(await refusal(`redis+sentinel://127.0.0.1:${master.port}/main`)).to.match(
        /is not a Sentinel.*redis:\/\//,
      );
      expect(await refusal(`redis://127.0.0.1:${port}`)).to.match(
        /is a Sentinel.*redis\+sentinel:\/\//,
      );
    });
  });

  it('a server with TLS of a private authority is used if that is trusted, and otherwise the message names NODE_EXTRA_CA_CERTS', async () => {
    const [port = 0] = await freePorts(1);
    const dir = await mkdtemp(join(tmpdir(), 'redis-tls-'));
    closers.push(() => rm(dir, { recursive: true, force: true }));
    const { cert, key } = makeCertificate('localhost', { from: -1, until: 60 });
    const files = { cert: join(dir, 'redis.crt'), key: join(dir, 'redis.key') };
    await writeFile(files.cert, cert);
    await writeFile(files.key, key);
    await start(
      '--tls-port',
      String(port),
      '--tls-cert-file',
      files.cert,
      '--tls-key-file',
      files.key,
      '--tls-ca-cert-file',
      files.cert,
      '--tls-auth-clients',
      'no',
    );
    const address = `rediss://localhost:${port}`;
    expect(await refusal(address)).to.include('NODE_EXTRA_CA_CERTS');
    expect(await refusal(`redis://localhost:${port}`)).to.match(/TLS, use rediss:\/\//);
    const trusted = getCACertificates('default');
    setDefaultCACertificates([...trusted, cert]);
    closers.push(() => setDefaultCACertificates(trusted));
    await (await open(address, 5000)).ping();
  });
});
