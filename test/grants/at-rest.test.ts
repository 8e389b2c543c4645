// Whoever reads the database, what is sent to it, or the log, finds nothing there that opens anything or names anybody.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { expect } from 'chai';
import { Redis } from 'ioredis';
import { decodeJwt } from 'jose';
import { findGrant } from '../../src/grants/grants.ts';
import { startGatehouse } from '../../src/gatehouse.ts';
import { createLogger } from '../../src/observability/logger.ts';
import { loadSettings } from '../../src/settings/load.ts';
import { openSystemStore } from '../support/system-store.ts';
import { readStoredBytes } from '../support/stored-bytes.ts';
import { createDeployment, STORES, type Deployment, type StoreKind } from '../support/system.ts';
import { findCanaries, writingsOf, type Canaries } from './canaries.ts';
import { goThroughLife, type Life } from './whole-life.ts';

type Eavesdropper = { heard: () => Buffer; stop: () => void };

/** Every command that is sent to Redis, also those whose effect is gone a moment later. */
async function listenToRedis(url: string): Promise<Eavesdropper> {
  const redis = new Redis(url);
  const monitor = await redis.monitor();
  const heard: string[] = [];
  monitor.on('monitor', (_time: string, args: string[]) => heard.push(args.join(' ')));
  return {
    heard: () => Buffer.from(heard.join('\n')),
    stop() {
      monitor.disconnect();
      redis.disconnect();
    },
  };
}

/** The file, and what was written to it a moment ago. */
function readSqliteFiles(address: string): Buffer {
  const file = address.slice('sqlite:'.length);
  return Buffer.concat([readFileSync(file), readFileSync(`${file}-wal`)]);
}

type Witnessed = { life: Life; log: Buffer; written: Buffer; stored: Buffer; place: Deployment };

/** Everything a client and a person do, with the log at its most talkative, and all that was left or passed by. */
async function witnessLife(store: StoreKind): Promise<Witnessed> {
  const place = await createDeployment({ store });
  const { storeAddress } = place.facts;
  const eavesdropper = store === 'redis' ? await listenToRedis(storeAddress) : undefined;
  const lines: string[] = [];
  const logger = createLogger('trace', { write: (line) => void lines.push(line) });
  const gatehouse = await startGatehouse(loadSettings(place.environment), { logger });
  const { signalStore, facts } = place;
  const life = await goThroughLife({ ...facts, signalStore, stop: gatehouse.stop });
  const records = await readStoredBytes(storeAddress);
  const written = eavesdropper?.heard() ?? readSqliteFiles(storeAddress);
  await gatehouse.stop();
  eavesdropper?.stop();
  return {
    life,
    place,
    log: Buffer.from(lines.join('')),
    written,
    stored: Buffer.concat(records.flatMap(({ name, bytes }) => [Buffer.from(name), bytes])),
  };
}

for (const store of STORES)
  describe(`After a whole life on ${store}`, () => {
    let witnessed: Witnessed | undefined;
    before(async () => {
      witnessed = await witnessLife(store);
    });
    after(() => witnessed?.place.release());

    function known(): Witnessed {
      if (!witnessed) throw new Error('nothing was witnessed');
      return witnessed;
    }

    it('what is looked for would be found, in any writing', () => {
      const { life } = known();
      expect(life.canaries.size).to.be.above(30);
      for (const [what, value] of life.canaries) {
        const one: Canaries = new Map([[what, value]]);
        for (const written of Object.values(writingsOf(value)))
          expect(findCanaries(one, Buffer.from(`x${written}y`, 'latin1')), what).to.not.deep.equal(
            [],
          );
      }
    });

    it('no secret and no name is in the database', () => {
      const { life, stored } = known();
      expect(stored.length).to.be.above(5000);
      for (const kind of ['grant:', 'client:', 'account:', 'session:', 'connector:', 'audit:'])
        expect(stored.includes(kind), kind).to.equal(true);
      expect(findCanaries(life.canaries, stored)).to.deep.equal([]);
    });

    it('no secret and no name was ever sent to it', () => {
      const { life, written } = known();
      expect(written.includes('grant:')).to.equal(true);
      expect(findCanaries(life.canaries, written)).to.deep.equal([]);
    });

    it('LOG-01 LOG-04 COD-06 no secret and no name is in the log, which says what happened', () => {
      const { life, log } = known();
      const lines = log.toString().trim().split('\n');
      const logged = lines.map((line) => JSON.parse(line));
      expect(logged.length).to.be.above(50);
      const reasons = new Set(logged.map(({ reason }) => reason));
      for (const reason of ['refresh_replay', 'code_replay', 'revoked_by_client', 'invalid_client'])
        expect(reasons.has(reason), reason).to.equal(true);
      expect(findCanaries(life.canaries, log)).to.deep.equal([]);
    });

    it('the root secret opens records with the digest of a client secret, and without any code or token', async () => {
      const { life, place } = known();
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
