// Where a target is in the log, when items are trimmed, lost or sent again, and when processes take over.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect } from 'chai';
import { auditIndex, beginAuditEpoch, lastAuditNumber } from '../../../src/audit/audit-log.ts';
import { findProgress, progressKey } from '../../../src/audit/delivery/progress.ts';
import { openLease } from '../../../src/audit/lease.ts';
import { deliveredNumbers } from '../../../src/audit/delivery/status.ts';
import {
  acceptedItems,
  type AuditReceiver,
  itemsIn,
  startAuditReceiver,
} from '../../support/audit-receiver.ts';
import { until } from '../../support/until.ts';
import { type DeliveredLog, openDeliveredLog, webhook } from './delivered-log.ts';

describe('The place of a target in the audit log', () => {
  let log: DeliveredLog;
  let receiver: AuditReceiver;
  beforeEach(async () => {
    log = await openDeliveredLog();
    receiver = await startAuditReceiver();
  });
  afterEach(async () => {
    await log.close();
    await receiver.stop();
  });
  const target = () => webhook(receiver.url);
  const arrived = () => acceptedItems(receiver).map(({ number }) => number);
  const caughtUp = () => log.statusWith(target(), ({ backlog }) => backlog === 0);
  const numbersTo = (last: number, first = 1) =>
    Array.from({ length: last - first + 1 }, (_, n) => first + n);
  const trim = (first: number, last: number) =>
    auditIndex.trim(log.store, { part: 'lasting', ranges: [[first, last]], blocks: [] });

  it('a new target gets what is stored, and one that returns continues at its place', async () => {
    await log.append(3);
    const first = await log.deliver([target()]);
    await caughtUp();
    await first.stop();
    await log.append(3);
    await log.deliver([]);
    await log.append(3);
    await log.deliver([target()]);
    await until('the rest', () => arrived().length === 9);
    expect(arrived()).to.deep.equal(numbersTo(9));
  });

  it('items that were trimmed before a new target existed are not lost', async () => {
    await log.append(10);
    await trim(1, 4);
    await log.deliver([target()]);
    await caughtUp();
    expect(arrived()).to.deep.equal(numbersTo(10, 5));
    expect((await log.items()).filter(({ event }) => event === 'delivery_lost')).to.deep.equal([]);
  });

  it('DLV-11 items that are trimmed before a target has them are recorded, counted and logged as lost', async () => {
    await log.append(2);
    const running = await log.deliver([target()]);
    await caughtUp();
    await running.stop();
    await log.append(10);
    await trim(3, 5);
    await trim(9, 9);
    await log.deliver([target()]);
    await log.statusWith(target(), ({ lost, backlog }) => lost === 4 && backlog === 0);
    expect(arrived().slice(0, 8)).to.deep.equal([1, 2, 6, 7, 8, 10, 11, 12]);
    const lost = (await log.items()).filter(({ event }) => event === 'delivery_lost');
    expect(lost.map(({ arguments: details }) => details)).to.deep.equal([
      { target: 'siem', first: 3, last: 5, count: 3 },
      { target: 'siem', first: 9, last: 9, count: 1 },
    ]);
    expect(await log.metrics()).to.include('audit_delivery_lost_total{target="siem"} 4');
    expect(JSON.stringify(log.log)).to.include('trimmed before a target had them');
  });

  it('DLV-11 items of a batch in progress that are trimmed are lost too, and the rest of it gets another id', async () => {
    receiver.answerWith(() => ({ status: 500 }));
    await log.append(6);
    await log.deliver([target()]);
    await log.statusWith(target(), ({ state }) => state === 'retrying');
    await trim(5, 6);
    receiver.answerWith(undefined);
    log.advance(10);
    await log.statusWith(target(), ({ lost, backlog }) => lost === 2 && backlog === 0);
    expect(arrived().slice(0, 4)).to.deep.equal([1, 2, 3, 4]);
    const [before, after] = receiver.deliveries.map(({ headers }) => headers['webhook-id']);
    expect(after).to.not.equal(before);
  });

  it('what each target has is known, so that nothing else is trimmed', async () => {
    const slow = webhook(receiver.url, { id: 'slow', events: ['signed_in'] });
    expect(await deliveredNumbers(log.store, [])).to.deep.equal([]);
    expect(await deliveredNumbers(log.store, [target(), slow])).to.deep.equal([0, 0]);
    await log.append(5);
    await log.deliver([target()]);
    await caughtUp();
    expect(await deliveredNumbers(log.store, [target(), slow])).to.deep.equal([5, 0]);
    await log.stopAll();
    await log.deliver([target(), slow]);
    await log.statusWith(slow, ({ backlog }) => backlog === 0);
    expect(await deliveredNumbers(log.store, [target(), slow])).to.deep.equal([5, 5]);
  });

  it('DLV-12 after a log lost its newest items, those that get their numbers are delivered', async () => {
    // A failover of the log's node in a cluster; the place is on another node.
    const loseItemsBefore = async (delivered: number) => {
      const progress = await findProgress(log.store, 'siem');
      const ahead = { ...progress, delivered, reached: delivered };
      await log.store.set(progressKey('siem'), ahead, Infinity);
    };
    await log.append(3);
    const running = await log.deliver([target()]);
    await caughtUp();
    await running.stop();
    await loseItemsBefore(5);
    // Another process has noticed it.
    const [{ epoch } = {}] = await log.items();
    await beginAuditEpoch(log.store);
    await log.append(1, { event: 'rolled_back', outcome: 'done', arguments: { epoch } });
    await log.append(3);
    await log.deliver([target()]);
    await until('the items of the new epoch', () => arrived().length === 7);
    expect(arrived()).to.deep.equal(numbersTo(7));
    await log.statusWith(target(), ({ delivered }) => delivered === 7);
    await log.stopAll();
    await loseItemsBefore(20);
    await log.deliver([target()]);
    await log.statusWith(target(), ({ delivered }) => delivered === 8);
    await log.append(2);
    await until('the items of the newest epoch', () => arrived().length === 10);
    expect(arrived()).to.deep.equal(numbersTo(10));
    expect(acceptedItems(receiver)[7]?.event).to.equal('rolled_back');
  });

  it('DLV-12 items that got the numbers of lost ones before anybody noticed it are delivered', async () => {
    await log.append(3);
    const running = await log.deliver([target()]);
    await caughtUp();
    const tables = ['log', 'log_entry', 'log_block'];
    const db = new DatabaseSync(join(log.dataDir, 'gatehouse.sqlite'), { timeout: 5000 });
    for (const table of tables) db.exec(`CREATE TABLE saved_${table} AS SELECT * FROM ${table}`);
    await log.append(4);
    await caughtUp();
    await running.stop();
    for (const table of tables) {
      db.exec(`DELETE FROM ${table}`);
      db.exec(`INSERT INTO ${table} SELECT * FROM saved_${table}`);
      db.exec(`DROP TABLE saved_${table}`);
    }
    db.close();
    await log.append(4);
    const stored = (await log.items()).map(({ id }) => id ?? '');
    await log.deliver([target()]);
    const ids = () => acceptedItems(receiver).map(({ id }) => id);
    await until('the new items', () => stored.every((id) => ids().includes(id)));
    const items = await log.items();
    expect(items.map(({ event }) => event)).to.include('rolled_back');
  });

  /** So that they cannot be decrypted. */
  function garbleBelow(end: number): void {
    const db = new DatabaseSync(join(log.dataDir, 'gatehouse.sqlite'), { timeout: 5000 });
    const replace = db.prepare('UPDATE log_entry SET value = ? WHERE number = ?');
    const rows = db.prepare('SELECT number, value FROM log_entry WHERE number < ?').all(end);
    db.exec('BEGIN');
    for (const { number, value } of rows) {
      const bytes = Buffer.from(value as Uint8Array);
      bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) ^ 1;
      replace.run(bytes, Number(number));
    }
    db.exec('COMMIT');
    db.close();
  }

  it('DLV-14 a backlog without any item that can be decrypted has no time, and an age above every limit', async () => {
    await log.append(30);
    garbleBelow(31);
    const { backlog, oldestAt } = await log.status(target());
    expect({ backlog, oldestAt }).to.deep.equal({ backlog: 30, oldestAt: undefined });
    // Another process delivers.
    await openLease(log.store, 'audit-delivery-lease:all').keep();
    await log.deliver([target()]);
    expect(await log.metrics()).to.match(
      /audit_delivery_oldest_seconds\{[^}]*target="siem"[^}]*\} \+Inf/,
    );
  });

  it('DLV-14 a target goes on after hundreds of items that cannot be decrypted, and its backlog has an age meanwhile', async () => {
    await log.append(506);
    garbleBelow(506);
    const [readable] = (await log.items()).filter(({ number }) => number === 506);
    expect((await log.status(target())).oldestAt).to.equal(Date.parse(readable?.time ?? '') / 1000);
    await log.deliver([target()]);
    await until('the last one', () => arrived().includes(506));
    expect((await log.status(target())).lost).to.equal(505);
  });

  it('two processes never deliver at the same time, and one that stops hands over at once', async () => {
    let open = 0;
    let most = 0;
    receiver.answerWith((_, response) => {
      most = Math.max(most, ++open);
      setTimeout(() => {
        open -= 1;
        response.writeHead(204).end();
      }, 5);
      return undefined;
    });
    const one = await log.deliver([target()]);
    await log.deliver([target()]);
    for (let n = 0; n < 20; n += 1) await log.append(1);
    await caughtUp();
    expect(most).to.equal(1);
    await one.stop();
    await log.append(1);
    await log.statusWith(target(), ({ delivered }) => delivered === 21);
    expect(await lastAuditNumber(log.store)).to.equal(21);
  });

  it('DLV-13 with a receiver that often fails and processes that are killed, every item arrives in order', async () => {
    const process = join(import.meta.dirname, 'delivering-process.ts');
    let answered = 0;
    const seen: number[] = [];
    const bodies = new Map<unknown, string>();
    receiver.answerWith((delivery) => {
      const { headers, body } = delivery;
      const text = body.toString();
      expect(bodies.get(headers['webhook-id']) ?? text).to.equal(text);
      bodies.set(headers['webhook-id'], text);
      answered += 1;
      // The process may be killed before it knows the answer.
      if (answered % 3 === 2) return { status: 503, headers: { 'retry-after': 'no' } };
      seen.push(...itemsIn(delivery).map(({ number }) => number));
      return { status: 204 };
    });
    const total = 3000;
    const writing = (async () => {
      for (let n = 0; n < total; n += 100) await log.append(100);
    })();
    for (let kills = 0; kills < 3; kills += 1) {
      const before = receiver.deliveries.length;
      const child = fork(process, [log.dataDir, String(log.ahead()), JSON.stringify(target())]);
      await until('deliveries', () => receiver.deliveries.length > before + 1);
      child.kill('SIGKILL');
      await once(child, 'exit');
      // The lease of the killed process, and the pause after the failure, are over.
      log.advance(30);
    }
    await writing;
    await log.deliver([target()]);
    await until('the end', () => {
      log.advance(1);
      return seen.includes(total);
    });
    expect(new Set(seen).size).to.equal(total);
    // In order: no item comes before one that has not come yet.
    let reached = 0;
    for (const number of seen) {
      expect(number).to.be.at.most(reached + 1);
      reached = Math.max(reached, number);
    }
  });
});
