// Checkpoints, forgetting and verification in a running system.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { auditIndex, lastAuditNumber } from '../../../src/audit/audit-log.ts';
import { managementClient } from '../../../src/management/api/client.ts';
import { loadSettings } from '../../../src/settings/load.ts';
import { examineSettings } from '../../doctor/fault.ts';
import { advanceClock, restoreClock } from '../../support/clock.ts';
import { callTool } from '../../support/mcp.ts';
import { changeAccount, createConnector, readAllAudit } from '../../support/management-api.ts';
import { openSystemStore } from '../../support/system-store.ts';
import { onEachStore, startSystem, type System } from '../../support/system.ts';
import { until } from '../../support/until.ts';
import { connectPerson } from '../../support/upstream/system.ts';

const SETTINGS = loadSettings({ GATEHOUSE_SECRET: 'a root secret of more than 32 characters' });

function clientOf({ management, managementKey }: System) {
  return managementClient({ url: management, key: managementKey });
}

async function verify(system: System): Promise<unknown> {
  const lines = (await Array.fromAsync(await clientOf(system).verifyAudit()))
    .join('')
    .trim()
    .split('\n');
  return JSON.parse(lines.at(-1) ?? '').result;
}

const checkpointsOf = async (system: System) =>
  (await readAllAudit(system)).filter(({ event }) => event === 'checkpoint');

onEachStore('A running system that proves its audit log', (system) => {
  afterEach(restoreClock);

  /** Makes an item, and waits for the checkpoint that covers it a minute later. */
  const nextCheckpoint = async (of: System) => {
    const before = (await checkpointsOf(of)).length;
    await createConnector(of);
    await until('a checkpoint', async () => {
      advanceClock(60);
      return (await checkpointsOf(of)).length > before;
    });
  };

  it('makes a checkpoint within a minute, and another process goes on when one ends', async () => {
    await nextCheckpoint(system());
    const secret = readFileSync(join(system().dataDir, 'secret'), 'utf8').trim();
    const second = await startSystem({
      storeAddress: system().storeAddress,
      settings: { GATEHOUSE_SECRET: secret },
    });
    await nextCheckpoint(system());
    await second.stop();
    await nextCheckpoint(system());
    const items = await checkpointsOf(system());
    const numbers = items.map((item) => Number(item['checkpoint']));
    expect(numbers).to.deep.equal(numbers.map((_, index) => index + 1));
    const found = (await verify(system())) as { ok: boolean; checkpoints: number };
    expect(found.ok).to.equal(true);
    // The system may make another one meanwhile.
    expect(found.checkpoints).to.be.within(numbers.length, numbers.length + 1);
  });

  it('PRV-04 forgetting an account deletes where its calls came from, and the log stays verifiable', async () => {
    const { link, token } = await connectPerson(system(), 'operations');
    const { sub = '' } = decodeJwt(token);
    expect((await callTool(link, token, 'contacts', { note: 'of this person' })).status).to.equal(
      200,
    );
    const itemsOf = async () =>
      (await readAllAudit(system())).filter(({ account }) => account === sub);
    await until('the call', async () => (await itemsOf()).some(({ event }) => event === 'call'));
    expect(JSON.stringify(await itemsOf())).to.match(/"address":/);
    await changeAccount(system(), sub, 'forget');
    const items = await itemsOf();
    expect(items.map(({ event }) => event)).to.include.members(['call', 'account_forgotten']);
    expect(JSON.stringify(items)).to.not.match(/address|userAgent|of this person|digests|salt/);
    await nextCheckpoint(system());
    expect(await verify(system())).to.deep.include({ ok: true, problems: [] });
  });

  it('verifies its last day once a day, and doctor tells what it found', async () => {
    const openClient = () => clientOf(system());
    const check = async () => {
      const [finding] = await examineSettings(SETTINGS, ['audit-integrity'], { openClient });
      return finding;
    };
    expect(
      await until('the verification', async () => {
        const { verifiedAt } = await openClient().showAuditVerification();
        return verifiedAt;
      }),
    ).to.be.a('string');
    expect((await check())?.outcome).to.equal('ok');
    await nextCheckpoint(system());
    const { store } = await openSystemStore(system());
    try {
      const newest = (await checkpointsOf(system())).at(-1);
      const number = Number(newest?.['number']) - 1;
      expect(await lastAuditNumber(store)).to.be.above(number);
      await auditIndex.trim(store, { part: 'lasting', ranges: [[number, number]], blocks: [] });
    } finally {
      await store.close();
    }
    advanceClock(86_400);
    await until('a finding', async () => (await check())?.outcome === 'problem');
    expect((await check())?.what).to.match(
      /found 1 problem; the first is the item \S+ \(removed\)/,
    );
    expect(await verify(system())).to.deep.include({ ok: false });
  });
});

describe("doctor's check of the integrity of the audit log", () => {
  it('says so if it cannot ask', async () => {
    const [finding] = await examineSettings(SETTINGS, ['audit-integrity']);
    expect(finding?.outcome).to.equal('unknown');
  });
});
