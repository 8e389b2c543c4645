// Whether tampering with the audit log is found, in the store and in exports.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { auditItem, storeAudit } from '../../../src/audit/audit.ts';
import {
  auditIndex,
  beginAuditEpoch,
  replaceAuditItems,
  TERM_KINDS,
} from '../../../src/audit/audit-log.ts';
import { trimAudit } from '../../../src/audit/audit-keep.ts';
import { publicChainKeys } from '../../../src/audit/chain/chain-keys.ts';
import { exportedLog, exportLine, type ExportHeader } from '../../../src/audit/chain/export.ts';
import { forgetInAudit } from '../../../src/audit/chain/forget.ts';
import { makeCheckpoint } from '../../../src/audit/chain/make-checkpoint.ts';
import { openAuditMemory } from '../../../src/audit/chain/rollback.ts';
import { forgotten } from '../../../src/audit/chain/sealed-item.ts';
import { verifyExport } from '../../../src/audit/chain/verify-export.ts';
import type { Verification } from '../../../src/audit/chain/verifier.ts';
import { verifyStore } from '../../../src/audit/chain/verify-store.ts';
import { keptRows, termAt } from '../../../src/store/log-rows.ts';
import type { Store } from '../../../src/store/store.ts';
import { STORES } from '../../support/system.ts';
import { type ChainLog, openChainLog } from './chain-log.ts';
import {
  type Evidence,
  exchangeItems,
  EXPORT_TAMPERING,
  type Finding,
  newestOf,
  numberOf,
  prepareEvidence,
  STORE_TAMPERING,
} from './tampering.ts';

const HEADER: ExportHeader = {
  export: { issuer: 'https://auth.example', time: '2030-01-01T00:00:00.000Z', filters: {} },
};

function expectFinding(
  { ok, problems: [first] }: Verification,
  finding: Finding,
  { items }: Evidence,
): void {
  if (finding === 'nothing') {
    expect(first).to.equal(undefined);
    expect(ok).to.equal(true);
    return;
  }
  expect(ok).to.equal(false);
  const item = items.find(({ id }) => id === first?.id);
  const place = item?.number ?? (first?.id === 'inserted' ? finding.place : undefined);
  expect({ kind: first?.kind, place }).to.deep.equal(finding);
}

for (const kind of STORES)
  describe(`The chain of the audit log, on ${kind}`, () => {
    let log: ChainLog;
    beforeEach(async () => {
      log = await openChainLog(kind);
    });
    afterEach(() => log.close());
    const ok = (checkpoints: number) => ({ ok: true, checkpoints, problems: [], notes: [] });

    it('a log with items before, between and after checkpoints is verified, also while it grows', async () => {
      await log.append(3, { account: 'ada', address: '192.0.2.1', arguments: { level: 1.5 } });
      await log.checkpoint();
      await log.append(1005);
      const [second, third] = [await log.checkpoint(), await log.checkpoint()];
      expect(second.last.number - second.first.number).to.equal(999);
      expect(third.previous).to.equal(second.head);
      await log.append(2);
      const growing = log.append(200);
      expect(await log.verify()).to.deep.equal(ok(3));
      await growing;
      expect(await log.verify({ kept: second })).to.deep.equal(ok(3));
    });

    for (const { what, tamper, isKept } of STORE_TAMPERING)
      it(`PRV-01 tampering is named or cannot be seen: ${what}`, async () => {
        const evidence = await prepareEvidence(log);
        expect(await log.verify()).to.deep.equal(ok(4));
        const finding = await tamper(evidence);
        const kept = isKept ? { kept: newestOf(evidence) } : {};
        expectFinding(await log.verify(kept), finding, evidence);
      });

    const removeLists = async ({ checkpoints }: Evidence) => {
      for (const { checkpoint } of checkpoints)
        await log.store.delete(`audit-checkpoint:${checkpoint}`);
    };
    const kinds = ({ problems }: Verification) => [
      ...new Set(problems.map(({ kind: one }) => one)),
    ];

    it('PRV-09 the chain goes on after the newest checkpoint in the log, although the log names another one and the lists are gone', async () => {
      const evidence = await prepareEvidence(log);
      const { id, checkpoint, head, last } = newestOf(evidence);
      await exchangeItems(evidence);
      await removeLists(evidence);
      await log.database.setHead(evidence.items.length, `${checkpoint} ${id}x`);
      const next = await log.checkpoint();
      expect(next).to.include({ checkpoint: checkpoint + 1, previous: head });
      expect(next.first.number).to.equal(last.number + 1);
      expect(kinds(await log.verify())).to.deep.equal(['removed']);
      const [told] = log.told.filter(({ level }) => level === 50);
      expect(told).to.include({ marked: `${checkpoint} ${id}x`, after: id });
    });

    it('PRV-09 the chain goes on after the newest checkpoint in the log, although the log names an older one', async () => {
      const evidence = await prepareEvidence(log);
      const [, second] = evidence.checkpoints;
      const { id, checkpoint, head } = newestOf(evidence);
      await exchangeItems(evidence, 4);
      await log.database.setHead(evidence.items.length, `${second?.checkpoint} ${second?.id}`);
      const next = await log.checkpoint();
      expect(next).to.include({ checkpoint: checkpoint + 1, previous: head });
      expect(kinds(await log.verify())).to.deep.equal(['changed']);
      const [told] = log.told.filter(({ level }) => level === 50);
      expect(told).to.include({ marked: `${second?.checkpoint} ${second?.id}`, after: id });
    });

    it('PRV-09 an older checkpoint in place of one after that which the log names is a finding', async () => {
      const evidence = await prepareEvidence(log);
      const [first, , third, fourth] = evidence.checkpoints.map((one) => numberOf(evidence, one));
      await log.database.put(third ?? 0, await log.database.entry(first ?? 0));
      await log.database.put(fourth ?? 0, await log.database.entry(1));
      await exchangeItems(evidence, 4);
      const named = evidence.checkpoints[1];
      await log.database.setHead(evidence.items.length, `${named?.checkpoint} ${named?.id}`);
      await log.checkpoint();
      expect(kinds(await log.verify())).to.deep.equal(['removed']);
    });

    it('PRV-09 a chain that began anew is a finding, also against each checkpoint that an auditor kept', async () => {
      const evidence = await prepareEvidence(log);
      const { id, checkpoint } = newestOf(evidence);
      await exchangeItems(evidence);
      await removeLists(evidence);
      await log.database.setHead(evidence.items.length, `${checkpoint} ${id}x`);
      await hideCheckpoints();
      const next = await log.checkpoint();
      expect(next).to.include({ checkpoint: checkpoint + 1, previous: '' });
      expect(next.first.number).to.equal(1);
      expect(kinds(await log.verify())).to.deep.equal(['removed']);
      for (const kept of evidence.checkpoints)
        expect(kinds(await log.verify({ kept }))).to.include('missing_tail');
      expect(log.told.filter(({ level }) => level === 50)).to.have.lengthOf(1);
    });

    /** Removes their rows, so that nobody finds them. */
    async function hideCheckpoints(): Promise<void> {
      const hash = auditIndex.term(log.store, 'event', 'checkpoint');
      const event = TERM_KINDS.indexOf('event');
      const blocks = await auditIndex.blocks(log.store, { part: 'lasting', after: 0, limit: 10 });
      for (const before of blocks) {
        const after = keptRows(before.rows, (index) => termAt(before.rows, index, event) !== hash);
        const trimming = { part: 'lasting' as const, ranges: [], blocks: [{ before, after }] };
        await auditIndex.trim(log.store, trimming);
      }
    }

    it('PRV-01 each bit of a stored item that is changed is found', async () => {
      await log.append(2, { account: 'ada', target: 'orders' });
      await log.checkpoint();
      const bytes = await log.database.entry(1);
      const [first] = await log.items();
      for (let bit = 0; bit < bytes.length * 8; bit += 37) {
        const changed = Buffer.from(bytes);
        changed[bit >> 3] = (changed[bit >> 3] ?? 0) ^ (1 << (bit & 7));
        await log.database.put(1, changed);
        const { problems } = await log.verify();
        expect(problems.map(({ kind: found, id }) => ({ found, id }))).to.deep.equal([
          { found: 'changed', id: first?.id },
        ]);
      }
    });

    it('PRV-02 of two processes that make a checkpoint at once, one appends after the same predecessor', async () => {
      const second = { ...log.services, store: await log.second() };
      for (let round = 0; round < 5; round += 1) {
        await log.append(3);
        await Promise.all([log.services, second, log.services].map(makeCheckpoint));
      }
      const { ok: isOk, checkpoints } = await log.verify();
      const stored = (await log.items()).filter(({ event }) => event === 'checkpoint');
      expect(isOk).to.equal(true);
      expect(stored.map(({ checkpoint }) => checkpoint)).to.deep.equal(
        Array.from({ length: checkpoints }, (_, n) => n + 1),
      );
    });

    it('a list that a killed process did not write is made again', async () => {
      await log.append(3);
      const { checkpoint } = await log.checkpoint();
      await log.store.delete(`audit-checkpoint:${checkpoint}`);
      await log.append(1);
      await log.checkpoint();
      expect(await log.verify()).to.deep.equal(ok(2));
    });

    it('PRV-03 items that were trimmed by their age are no finding, and the same gap without a trimming is', async () => {
      const services = { ...log.services, metrics: { ...log.services.metrics, auditReach() {} } };
      const kept = {
        keep: 3600,
        keepUndelivered: 1000,
        keepCalls: { time: 3600, items: 1000 },
        delivered: async () => [],
      };
      await log.append(30);
      await log.checkpoint();
      log.advance(3000);
      await log.append(30);
      await log.checkpoint();
      log.advance(1200);
      await trimAudit(services, kept, 'lasting');
      const left = await log.items();
      expect(left[0]?.number).to.be.above(25);
      expect((await log.verify()).problems).to.deep.equal([]);
      const number = left.find(({ event }) => event === 'call')?.number ?? 0;
      await auditIndex.trim(log.store, { part: 'lasting', ranges: [[number, number]], blocks: [] });
      const { problems } = await log.verify();
      expect(problems.map(({ kind: found }) => found)).to.deep.equal(['removed']);
    });

    it('PRV-03 a beginning that was removed is a finding, although calls at its end were trimmed by their age', async () => {
      const services = { ...log.services, metrics: { ...log.services.metrics, auditReach() {} } };
      const kept = {
        keep: 1_000_000,
        keepUndelivered: 1_000_000,
        keepCalls: { time: 1000, items: 1000 },
        delivered: async () => [],
      };
      const checkpoints = [];
      for (let round = 0; round < 3; round += 1) {
        await log.append(1, { event: 'connector_changed', outcome: 'done' });
        await log.append(20, {}, 'bulk');
        checkpoints.push(await log.checkpoint());
      }
      log.advance(2000);
      await trimAudit(services, kept, 'bulk');
      await log.checkpoint();
      expect(await log.verify()).to.include({ ok: true });
      const [first, second] = checkpoints;
      await log.database.remove(1, second?.last.number ?? 0);
      for (const { checkpoint } of [first, second].filter((each) => each !== undefined))
        await log.store.delete(`audit-checkpoint:${checkpoint}`);
      const { problems } = await log.verify({ kept: second });
      expect(problems.map(({ kind: found }) => found)).to.deep.equal(['removed']);
    });

    it('PRV-03 items that are trimmed while the log is verified are no finding', async () => {
      const services = { ...log.services, metrics: { ...log.services.metrics, auditReach() {} } };
      const kept = {
        keep: 1_000_000,
        keepUndelivered: 1000,
        keepCalls: { time: 1000, items: 1000 },
        delivered: async () => [],
      };
      for (let round = 0; round < 3; round += 1) {
        await log.append(1, { event: 'connector_changed', outcome: 'done' });
        await log.append(20, {}, 'bulk');
        await log.checkpoint();
      }
      log.advance(2000);
      let trimming: Promise<void> | undefined;
      const store: Store = {
        ...log.store,
        async readLog(...range) {
          await trimming;
          return log.store.readLog(...range);
        },
      };
      const onProgress = () => {
        trimming ??= trimAudit(services, kept, 'bulk');
      };
      const { problems } = await verifyStore(store, { now: log.now(), onProgress });
      expect((await log.items()).map(({ event }) => event)).to.not.include('call');
      expect(problems).to.deep.equal([]);
    });

    it('PRV-04 what items say about a person is deleted when the account is forgotten, and the chain stays verifiable', async () => {
      const about = {
        account: 'ada',
        address: '192.0.2.77',
        userAgent: 'Ada’s app',
        target: 'notes',
      };
      await log.append(3, { ...about, argumentsJson: '{"secret":"of ada"}' });
      await log.append(2, { ...about, account: 'grace' });
      await log.checkpoint();
      await log.append(2, about);
      await log.append(1, { event: 'account_forgotten', account: 'ada', outcome: 'done' });
      await forgetInAudit(log.store, 'ada');
      await log.append(1, about);
      const items = await log.items();
      const ofAda = items.filter(({ account, event }) => account === 'ada' && event === 'call');
      expect(JSON.stringify(ofAda.slice(0, 5))).to.not.match(/192\.0\.2|Ada’s|notes|secret|salt/);
      expect(ofAda.slice(5).map(({ address }) => address)).to.deep.equal(['192.0.2.77']);
      const ofGrace = items.filter(({ account }) => account === 'grace');
      expect(ofGrace.map(({ address }) => address)).to.deep.equal(['192.0.2.77', '192.0.2.77']);
      expect(await log.verify()).to.deep.equal(ok(1));
      await log.checkpoint();
      expect(await log.verify()).to.deep.equal(ok(2));
    });

    it('PRV-04 a deleted value without a later item account_forgotten of the account is changed', async () => {
      await log.append(1, { event: 'account_forgotten', account: 'ada', outcome: 'done' });
      const [item] = await log.append(1, { account: 'ada', address: '192.0.2.77' });
      await log.checkpoint();
      await log.append(1, { event: 'account_forgotten', account: 'grace', outcome: 'done' });
      const sealed = (await log.items()).find(({ id }) => id === item?.id);
      if (!sealed) throw new Error('the item is not stored');
      await replaceAuditItems(log.store, [forgotten(sealed)]);
      const { problems } = await log.verify();
      expect(problems).to.deep.equal([{ kind: 'changed', id: item?.id, time: item?.time }]);
    });

    it('PRV-05 a store that was rolled back and continued is a note, and a finding only against a checkpoint of what was lost', async () => {
      const memory = openAuditMemory();
      await log.append(5);
      await log.checkpoint();
      const copy = await log.save();
      for (const item of await log.append(5)) memory.remember(item);
      log.advance(30);
      const lost = await log.checkpoint();
      await copy.restore();
      await log.append(7);
      await memory.check(log.services);
      await memory.check(log.services);
      await log.append(1);
      await log.checkpoint();
      const { problems, notes } = await log.verify();
      expect(problems).to.deep.equal([]);
      expect(notes.map(({ kind: note }) => note)).to.deep.equal(['rolled_back']);
      const items = await log.items();
      expect(new Set(items.map(({ epoch }) => epoch)).size).to.equal(2);
      const against = await log.verify({ kept: lost });
      expect(against.problems).to.deep.equal([
        { kind: 'missing_tail', id: lost.id, time: lost.time },
      ]);
    });

    it('PRV-05 a rollback that another process noticed first is noted by this one if the other one could not', async () => {
      const memory = openAuditMemory();
      await log.append(3);
      const copy = await log.save();
      const lost = await log.append(2);
      for (const item of lost) memory.remember(item);
      await copy.restore();
      await log.append(3);
      // The other process has the lock, and is killed.
      const lock = `audit-rollback:${lost[0]?.epoch}`;
      await log.store.add(lock, true, 60);
      await memory.check(log.services);
      expect(await rolledBack()).to.equal(0);
      for (const item of await log.append(3)) memory.remember(item);
      await memory.check(log.services);
      await log.store.delete(lock);
      await memory.check(log.services);
      await memory.check(log.services);
      expect(await rolledBack()).to.equal(1);
    });

    it('PRV-05 a rollback is noted also if this process stored more than was lost before it looked', async () => {
      const memory = openAuditMemory();
      await log.append(3);
      const copy = await log.save();
      for (const item of await log.append(2)) memory.remember(item);
      await copy.restore();
      for (const item of await log.append(3)) memory.remember(item);
      await memory.check(log.services);
      await memory.check(log.services);
      expect(await rolledBack()).to.equal(1);
    });

    it('PRV-05 a rollback is noted also if another process was killed after it began an epoch', async () => {
      const memories = [openAuditMemory(), openAuditMemory()];
      await log.append(3);
      const copy = await log.save();
      for (const item of await log.append(2)) for (const each of memories) each.remember(item);
      await copy.restore();
      await beginAuditEpoch(log.store);
      for (const item of await log.append(3)) for (const each of memories) each.remember(item);
      for (const memory of memories) await memory.check(log.services);
      await log.append(1);
      for (const memory of memories) await memory.check(log.services);
      expect(await rolledBack()).to.equal(1);
    });

    const rolledBack = async () =>
      (await log.items()).filter(({ event }) => event === 'rolled_back').length;

    for (const isCovered of [false, true])
      it(`PRV-05 items that another process stored with the numbers of lost ones are covered as they are${isCovered ? ', also of ones that a lost checkpoint covered' : ''}`, async () => {
        const memory = openAuditMemory();
        memory.digests.isUsed = true;
        const remembering = { ...log.services, digests: memory.digests };
        const append = async (count: number) => {
          const added = Array.from({ length: count }, () => ({
            item: auditItem(log.services, { event: 'call', outcome: 'answered' }),
            part: 'lasting' as const,
          }));
          for (const item of await storeAudit(remembering, added)) memory.remember(item);
        };
        await append(3);
        const copy = await log.save();
        await append(2);
        if (isCovered) await makeCheckpoint({ ...remembering, auditLog: memory.remember });
        await copy.restore();
        // By another process, which is followed by this one before it has noticed anything.
        await log.append(isCovered ? 4 : 2);
        await append(1);
        await makeCheckpoint(remembering);
        await memory.check(log.services);
        await makeCheckpoint(remembering);
        const { problems, notes } = await log.verify();
        expect(problems).to.deep.equal([]);
        expect(notes.map(({ kind: note }) => note)).to.deep.equal(['rolled_back']);
      });

    describe('an export', () => {
      let directory: string;
      beforeEach(async () => {
        directory = await mkdtemp(join(tmpdir(), 'gatehouse-export-'));
      });
      afterEach(() => rm(directory, { recursive: true, force: true }));

      const lines = async (times: { since?: number; until?: number } = {}) => {
        const text = (seconds: number | undefined) =>
          seconds === undefined ? undefined : new Date(seconds * 1000).toISOString();
        const { since, until } = times;
        const header = { export: { ...HEADER.export, since: text(since), until: text(until) } };
        const found = [exportLine(header)];
        for await (const line of exportedLog(log.store, times)) found.push(exportLine(line));
        return found.map((line) => line.trimEnd());
      };
      const verify = async (content: readonly string[], kept?: Evidence['checkpoints'][number]) => {
        const file = join(directory, 'export.jsonl');
        await writeFile(file, `${content.join('\n')}\n`);
        const { keys } = await publicChainKeys(log.store, log.now());
        return verifyExport(file, { keys, kept });
      };

      it('a whole export is verified without a store, and knows the checkpoint that an auditor kept', async () => {
        const evidence = await prepareEvidence(log);
        expect(await verify(await lines(), newestOf(evidence))).to.deep.equal(ok(4));
      });

      it('an export of a time is verified as far as its checkpoints have all their items', async () => {
        const evidence = await prepareEvidence(log);
        const [first, second, third] = evidence.checkpoints.map(
          ({ time }) => Date.parse(time) / 1000,
        );
        if (!first || !second || !third) throw new Error('the evidence has four checkpoints');
        const since = await verify(await lines({ since: first + 1 }));
        expect({ ...since, checkpoints: 0 }).to.deep.equal(ok(0));
        expect(since.checkpoints).to.be.within(1, 3);
        const until = await verify(await lines({ until: third - 1 }));
        expect({ ...until, checkpoints: 0 }).to.deep.equal(ok(0));
        expect(until.checkpoints).to.be.within(1, 3);
        const both = await verify(await lines({ since: first + 1, until: second - 1 }));
        expect(both.ok).to.equal(true);
      });

      it('PRV-01 an export that says it begins later, and lacks the lists of thousands of its items, has a finding', async () => {
        await log.append(3500);
        for (let round = 0; round < 4; round += 1) await log.checkpoint();
        const [header = '', ...content] = await lines();
        const lists = content.filter((line) => line.startsWith('{"list":'));
        const cut = content.filter((line) => !lists.slice(0, 3).includes(line));
        const since = { ...HEADER.export, since: '1970-01-01T00:00:00.000Z' };
        expect((await verify([header, ...content])).ok).to.equal(true);
        const { problems } = await verify([JSON.stringify({ export: since }), ...cut]);
        expect(problems.map(({ kind: found }) => found)).to.deep.equal(['removed']);
      });

      for (const { what, tamper } of EXPORT_TAMPERING)
        it(`PRV-01 tampering with an export is named or of no importance: ${what}`, async () => {
          const evidence = await prepareEvidence(log);
          const content = await lines();
          const finding = tamper(content, evidence);
          expectFinding(await verify(content), finding, evidence);
        });
    });
  });
