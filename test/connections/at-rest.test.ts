// Looks for secrets and names in the database, in the commands sent to it, and in the log.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { expect } from 'chai';
import { Redis } from 'ioredis';
import { decodeJwt } from 'jose';
import { findGrant } from '../../src/connections/grants.ts';
import { startGatehouse } from '../../src/server.ts';
import { createLogger } from '../../src/observability/logger.ts';
import { loadSettings } from '../../src/settings/load.ts';
import { openSystemStore } from '../support/system-store.ts';
import { readStoredBytes } from '../support/stored-bytes.ts';
import { createDeployment, STORES, type Deployment, type StoreKind } from '../support/system.ts';
import { findCanaries, encodingsOf, type Canaries } from './canaries.ts';
import { collectPrivateValues, type PrivateValues } from './private-values.ts';

type CommandMonitor = { commands: () => Buffer; stop: () => void };

/** Records every command sent to Redis, also those whose effect is overwritten later. */
async function monitorRedis(url: string): Promise<CommandMonitor> {
  const redis = new Redis(url);
  const monitor = await redis.monitor();
  const commands: string[] = [];
  monitor.on('monitor', (_time: string, args: string[]) => commands.push(args.join(' ')));
  return {
    commands: () => Buffer.from(commands.join('\n')),
    stop() {
      monitor.disconnect();
      redis.disconnect();
    },
  };
}

/** The database file and its write-ahead log. */
function readSqliteFiles(address: string): Buffer {
  const file = address.slice('sqlite:'.length);
  return Buffer.concat([readFileSync(file), readFileSync(`${file}-wal`)]);
}

type Recorded = {
  life: PrivateValues;
  log: Buffer;
  written: Buffer;
  stored: Buffer;
  place: Deployment;
};

/** Uses every feature with the log level trace. Records the log, the commands and the stored bytes. */
async function recordLife(store: StoreKind): Promise<Recorded> {
  const place = await createDeployment({ store });
  const { storeAddress } = place.facts;
  const monitor = store === 'redis' ? await monitorRedis(storeAddress) : undefined;
  const lines: string[] = [];
  const logger = createLogger('trace', { write: (line) => void lines.push(line) });
  const gatehouse = await startGatehouse(loadSettings(place.environment), { logger });
  const { signalStore, facts } = place;
  const life = await collectPrivateValues({ ...facts, signalStore, stop: gatehouse.stop });
  const records = await readStoredBytes(storeAddress);
  const written = monitor?.commands() ?? readSqliteFiles(storeAddress);
  await gatehouse.stop();
  monitor?.stop();
  return {
    life,
    place,
    log: Buffer.from(lines.join('')),
    written,
    stored: Buffer.concat(records.flatMap(({ name, bytes }) => [Buffer.from(name), bytes])),
  };
}

for (const store of STORES)
  describe(`Stored and logged data after every kind of request (${store})`, () => {
    let result: Recorded | undefined;
    before(async () => {
      result = await recordLife(store);
    });
    after(() => result?.place.release());

    function recorded(): Recorded {
      if (!result) throw new Error('nothing was recorded');
      return result;
    }

    it('the search finds every secret in every encoding', () => {
      const { life } = recorded();
      expect(life.canaries.size).to.be.above(30);
      for (const [what, value] of life.canaries) {
        const one: Canaries = new Map([[what, value]]);
        for (const written of Object.values(encodingsOf(value)))
          expect(findCanaries(one, Buffer.from(`x${written}y`, 'latin1')), what).to.not.deep.equal(
            [],
          );
      }
    });

    it('REF-07 the database contains no secret and no name', () => {
      const { life, stored } = recorded();
      expect(stored.length).to.be.above(5000);
      for (const kind of ['grant:', 'client:', 'account:', 'session:', 'connector:', 'audit:'])
        expect(stored.includes(kind), kind).to.equal(true);
      expect(findCanaries(life.canaries, stored)).to.deep.equal([]);
    });

    it('the commands sent to the database contain no secret and no name', () => {
      const { life, written } = recorded();
      expect(written.includes('grant:')).to.equal(true);
      expect(findCanaries(life.canaries, written)).to.deep.equal([]);
    });

    it('LOG-01 LOG-04 COD-06 the log contains no secret and no name, and has a reason for every refusal', () => {
      const { life, log } = recorded();
      const lines = log.toString().trim().split('\n');
      const logged = lines.map((line) => JSON.parse(line));
      expect(logged.length).to.be.above(50);
      const reasons = new Set(logged.map(({ reason }) => reason));
      for (const reason of ['refresh_replay', 'code_replay', 'revoked_by_client', 'invalid_client'])
        expect(reasons.has(reason), reason).to.equal(true);
      expect(findCanaries(life.canaries, log)).to.deep.equal([]);
    });

    it('REF-07 decrypted records contain the digest of a client secret and no code or token', async () => {
      const { life, place } = recorded();
      const { store: opened } = await openSystemStore(place.facts);
      const { client, accessToken, refreshToken, code } = life.connected;
      const clientRecord = await opened.get(`client:${client.id}`);
      const grant = await findGrant(opened, String(decodeJwt(accessToken).grant_id));
      await opened.close();
      const digest = createHash('sha256')
        .update(client.secret ?? '')
        .digest('base64url');
      expect(JSON.stringify(clientRecord?.value)).to.include(digest).and.include(client.id);
      expect(JSON.stringify(grant?.value)).to.include(client.id).and.include(life.clientName);
      const secrets: Canaries = new Map(
        Object.entries({ secret: client.secret ?? '', accessToken, refreshToken, code }),
      );
      for (const record of [clientRecord, grant])
        expect(findCanaries(secrets, Buffer.from(JSON.stringify(record?.value)))).to.deep.equal([]);
    });
  });
