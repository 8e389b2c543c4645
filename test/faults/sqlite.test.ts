import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect } from 'chai';
import { createConnector, type Connector, readAllAudit } from '../support/management-api.ts';
import { connect, obtainCode, redeem } from '../support/connection.ts';
import { type History, recordHistory } from '../support/faults/history.ts';
import { violations } from '../support/faults/invariants.ts';
import { refreshAndCall, startLoad } from '../support/faults/load.ts';
import { openSmallDisk, type SmallDisk } from '../support/faults/small-disk.ts';
import { callTool } from '../support/mcp.ts';
import { refresh, register } from '../support/oauth.ts';
import {
  type GatehouseProcess,
  HOSTS,
  startGatehouseProcess,
} from '../support/scale-out/gatehouse-process.ts';
import { recordSoak, SOAK } from '../support/soak.ts';
import { createDeployment, type Deployment, startSystem, type System } from '../support/system.ts';
import { until } from '../support/until.ts';

const SECRET = 'a root secret that survives the process';
const KILLS = SOAK ? 100 : 1;
const FAMILIES = 4;
/** Of every response, in the long run. */
const MAX_RESPONSE_MS = 1500;

const openFile = ({ storeAddress }: Pick<System, 'storeAddress'>) =>
  new DatabaseSync(storeAddress.slice('sqlite:'.length), { timeout: 1000 });

describe('A process with a SQLite store', () => {
  let disk: SmallDisk;
  let deployment: Deployment;
  let system: System;
  let connector: Connector;
  let running: GatehouseProcess;
  let history: History;
  const closers: (() => unknown)[] = [];
  before(async () => {
    disk = await openSmallDisk();
    closers.push(disk.close);
    deployment = await createDeployment({
      storeAddress: `sqlite:${join(disk.dir, 'gatehouse.sqlite')}`,
    });
    closers.push(deployment.release);
    const listen = HOSTS.map((host) => {
      const { port } = new URL(deployment.environment[`GATEHOUSE_${host}_URL`] ?? '');
      return [`GATEHOUSE_${host}_LISTEN`, `127.0.0.1:${port}`];
    });
    Object.assign(deployment.environment, Object.fromEntries(listen), { GATEHOUSE_SECRET: SECRET });
    const { facts, signalStore } = deployment;
    system = { ...facts, signalStore, stop: async () => running.kill() };
    await start();
    closers.push(system.stop);
    connector = await createConnector(system);
  });
  beforeEach(() => {
    history = recordHistory([system.auth, system.resource]);
  });
  afterEach(() => history.stop());
  after(async () => {
    for (const close of closers.splice(0).toReversed()) await close();
  });

  async function start(): Promise<void> {
    running = await startGatehouseProcess(deployment.environment);
  }

  function expectIntegrity(): void {
    const db = openFile(system);
    expect(db.prepare('PRAGMA integrity_check').get()).to.deep.equal({ integrity_check: 'ok' });
    db.close();
  }

  it('writes get 503 while the disk is full, reads succeed, and writes recover when there is space', async () => {
    const connection = await connect(system, connector);
    const code = await obtainCode(system, connector);
    const { server, client, link, refreshToken, accessToken } = connection;
    const highest = await createConnector(system, { level: 'full' });
    const full = await connect(system, highest, { level: 'full' });
    disk.fill(running.pid);
    const recorded = await callTool(full.link, full.accessToken, 'club_overview');
    expect(recorded.rpc?.error?.message).to.match(/must be recorded, and this call could not be/);
    expect((await refresh(server, client, refreshToken)).status).to.equal(503);
    expect((await redeem(code)).status).to.equal(503);
    expect((await register(server, { redirect_uris: [client.redirectUri] })).status).to.equal(503);
    expect((await callTool(link, accessToken, 'club_overview')).status).to.equal(200);
    expect((await fetch(server.jwks_uri)).status).to.equal(200);
    disk.free(running.pid);
    await until(
      'refreshes to work',
      async () => (await refresh(server, client, refreshToken)).status === 200,
    );
    expect((await redeem(code)).status).to.equal(200);
    await refreshAndCall(await connect(system, connector));
    expect(violations(history.exchanges)).to.deep.equal([]);
  });

  it('LOG-15 calls of a level that is not recorded are answered while the disk is full, and then each is in the log or counted as missing', async () => {
    const own = await createConnector(system, { level: 'admin' });
    const { link, accessToken } = await connect(system, own, { level: 'admin' });
    await running.stop();
    await start();
    const earlier = new Set((await readAllAudit(system)).map(({ id }) => id));
    expect((await callTool(link, accessToken, 'club_overview')).status).to.equal(200);
    disk.fill(running.pid);
    for (let n = 0; n < 3; n += 1)
      expect((await callTool(link, accessToken, 'club_overview')).status).to.equal(200);
    disk.free(running.pid);
    await running.stop();
    await start();
    const items = (await readAllAudit(system)).filter(({ id }) => !earlier.has(id));
    const calls = items.filter((item) => item.event === 'call' && item.connector === own.id);
    // A small disk never has the gigabyte of free space that such calls need.
    const missing = items.filter(({ event }) => event === 'audit_dropped');
    const counted = missing.map((item) => Number(item['count'])).reduce((sum, n) => sum + n, 0);
    expect(calls.length + counted).to.equal(4);
    expect(new Set(calls.map(({ id }) => id))).to.have.lengthOf(calls.length);
  });

  it(`the SQLite store loses no acknowledged write when its process is killed under load${SOAK ? `, ${KILLS} times` : ''}`, async () => {
    const steady = [await connect(system, connector), await connect(system, connector)];
    const load = startLoad(system, connector, { steady });
    closers.push(load.stop);
    for (let i = 0; i < KILLS; i++) {
      await load.rounds(1);
      await running.kill();
      expectIntegrity();
      await start();
    }
    await load.rounds(1);
    await load.stop();
    for (const { server, client, refreshToken } of load.connections)
      expect((await refresh(server, client, refreshToken)).status).to.equal(200);
    const limits = { connectionsMayBreak: true, ...(SOAK ? { maxMs: MAX_RESPONSE_MS } : {}) };
    expect(violations(history.exchanges, limits)).to.deep.equal([]);
    recordSoak({
      what: `a process with SQLite killed ${KILLS} times under load`,
      held: `${history.exchanges.length} requests, ${load.connections.length} grants, no acknowledged write lost`,
    });
  }).timeout(60_000 + KILLS * 8000);
});

describe('A SQLite file that another program locks', () => {
  let system: System;
  before(async () => {
    system = await startSystem();
  });
  after(() => system?.stop());

  it('writes get 503 while another program locks the file, and other requests succeed', async () => {
    const connector = await createConnector(system);
    const families = [];
    for (let i = 0; i < FAMILIES; i++) families.push(await connect(system, connector));
    const history = recordHistory([system.auth, system.resource]);
    const db = openFile(system);
    try {
      db.exec('BEGIN IMMEDIATE');
      const refreshing = families.map(({ server, client, refreshToken }) =>
        refresh(server, client, refreshToken),
      );
      const [server] = families.map((family) => family.server);
      const documents = [`${server?.jwks_uri}`, `${system.resource}/livez`].map((url) =>
        fetch(url),
      );
      const calling = families.map(({ link, accessToken }) =>
        callTool(link, accessToken, 'club_overview'),
      );
      for (const { status } of await Promise.all([...documents, ...calling]))
        expect(status).to.equal(200);
      for (const { status } of await Promise.all(refreshing)) expect(status).to.equal(503);
      db.exec('ROLLBACK');
      for (const { server, client, refreshToken } of families)
        expect((await refresh(server, client, refreshToken)).status).to.equal(200);
      expect(violations(history.exchanges, SOAK ? { maxMs: MAX_RESPONSE_MS } : {})).to.deep.equal(
        [],
      );
    } finally {
      db.close();
      history.stop();
    }
  });
});
