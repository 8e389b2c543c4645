// What somebody with access to the database, or to an export, could do to the audit log, and what `gatehouse audit verify` says about it.
import type { AuditItem } from '../../../src/audit/audit.ts';
import type { Checkpoint } from '../../../src/audit/chain/checkpoint.ts';
import { itemDigest, type SealedItem } from '../../../src/audit/chain/sealed-item.ts';
import type { Problem } from '../../../src/audit/chain/verifier.ts';
import type { ChainLog } from './chain-log.ts';

/** A log with four checkpoints, and items that none covers yet. */
export type Evidence = {
  log: ChainLog;
  items: SealedItem[];
  checkpoints: Checkpoint[];
};

/** `place` is the number that the first item that is named had before. */
export type Finding = { kind: Problem['kind']; place: number } | 'nothing';

export type StoreTampering = {
  what: string;
  /** Returns what must be found first. */
  tamper: (evidence: Evidence) => Promise<Finding>;
  /** An auditor kept the newest checkpoint. */
  isKept?: true;
};

export async function prepareEvidence(log: ChainLog): Promise<Evidence> {
  const checkpoints: Checkpoint[] = [];
  for (const count of [3, 40, 5, 7]) {
    await log.append(count, { account: 'ada', address: '192.0.2.1', argumentsJson: '{"id":1}' });
    log.advance(60);
    checkpoints.push(await log.checkpoint());
  }
  await log.append(2);
  return { log, items: await log.items(), checkpoints };
}

/** The number of an item that the checkpoint covers. */
function covered({ checkpoints }: Evidence, checkpoint: number, index = 2): number {
  return (checkpoints[checkpoint - 1]?.first.number ?? 0) + index;
}

export function numberOf({ items }: Evidence, { id }: Checkpoint): number {
  return items.find((item) => item.id === id)?.number ?? 0;
}

async function exchange({ database }: ChainLog, one: number, other: number): Promise<void> {
  const [first, second] = [await database.entry(one), await database.entry(other)];
  await database.put(one, second);
  await database.put(other, first);
}

/** Two that the checkpoint covers. */
export async function exchangeItems(evidence: Evidence, checkpoint = 2): Promise<void> {
  const place = covered(evidence, checkpoint);
  await exchange(evidence.log, place, place + 3);
}

async function removeTail(evidence: Evidence): Promise<void> {
  const { log, items, checkpoints } = evidence;
  const [, kept, , newest] = checkpoints;
  if (!kept || !newest) throw new Error('the evidence has four checkpoints');
  const last = numberOf(evidence, kept);
  await log.database.remove(last + 1, items.length);
  await log.database.setHead(last, `${kept.checkpoint} ${kept.id}`);
}

export const STORE_TAMPERING: readonly StoreTampering[] = [
  {
    what: 'one bit of an item was changed',
    async tamper(evidence) {
      const place = covered(evidence, 2);
      const bytes = await evidence.log.database.entry(place);
      const middle = Math.floor(bytes.length / 2);
      bytes[middle] = (bytes[middle] ?? 0) ^ 1;
      await evidence.log.database.put(place, bytes);
      return { kind: 'changed', place };
    },
  },
  {
    what: 'one item was removed',
    async tamper(evidence) {
      const place = covered(evidence, 2);
      await evidence.log.database.remove(place, place);
      return { kind: 'removed', place };
    },
  },
  {
    what: 'two items were exchanged',
    async tamper(evidence) {
      const place = covered(evidence, 2);
      await exchange(evidence.log, place, place + 3);
      return { kind: 'changed', place: place + 3 };
    },
  },
  {
    what: 'an item was inserted in place of another one',
    async tamper(evidence) {
      const { log, items } = evidence;
      const place = covered(evidence, 2);
      // From the end, so that it is an item of this log.
      await log.database.put(place, await log.database.entry(items.length));
      return { kind: 'inserted', place: items.length };
    },
  },
  {
    what: 'a checkpoint was removed',
    async tamper(evidence) {
      const { log, checkpoints } = evidence;
      const [, second] = checkpoints;
      const place = second ? numberOf(evidence, second) : 0;
      await log.database.remove(place, place);
      return { kind: 'removed', place };
    },
  },
  {
    what: 'the tail was removed with two checkpoints',
    async tamper(evidence) {
      await removeTail(evidence);
      return 'nothing';
    },
  },
  {
    what: 'the tail was removed with two checkpoints, and an auditor kept the newest one',
    isKept: true,
    async tamper(evidence) {
      await removeTail(evidence);
      return { kind: 'missing_tail', place: numberOf(evidence, newestOf(evidence)) };
    },
  },
  {
    what: 'the whole log was removed',
    async tamper({ log }) {
      await log.database.removeLog();
      return 'nothing';
    },
  },
  {
    what: 'the whole log was removed, and an auditor kept the newest checkpoint',
    isKept: true,
    async tamper(evidence) {
      await evidence.log.database.removeLog();
      return { kind: 'missing_tail', place: numberOf(evidence, newestOf(evidence)) };
    },
  },
  {
    what: 'two items were exchanged, and the log says that it has no checkpoint',
    async tamper(evidence) {
      const { log, items } = evidence;
      const place = covered(evidence, 2);
      await exchange(log, place, place + 3);
      await log.database.setHead(items.length, '');
      return { kind: 'removed', place: numberOf(evidence, firstOf(evidence)) };
    },
  },
  {
    what: 'two items were exchanged, and the next checkpoint was made by a log that says that it has none',
    async tamper(evidence) {
      const { log, items } = evidence;
      const place = covered(evidence, 2);
      await exchange(log, place, place + 3);
      await log.database.setHead(items.length, '');
      await log.checkpoint();
      return { kind: 'changed', place: place + 3 };
    },
  },
  {
    what: 'an item was exchanged for its neighbour, and the log names an older checkpoint',
    async tamper(evidence) {
      const { log, items, checkpoints } = evidence;
      const [, second, third] = checkpoints;
      if (!second || !third) throw new Error('the evidence has four checkpoints');
      const place = covered(evidence, 4);
      await exchange(log, place, place + 1);
      await log.database.setHead(items.length, `${second.checkpoint} ${second.id}`);
      return { kind: 'removed', place: numberOf(evidence, third) };
    },
  },
  {
    what: 'items were removed, and a trimming that no checkpoint covers claims them',
    async tamper(evidence) {
      const { log } = evidence;
      const place = covered(evidence, 2);
      await log.append(1, { event: 'audit_trimmed', ranges: [[place, place + 1]], count: 2 });
      await log.database.remove(place, place + 1);
      return { kind: 'removed', place };
    },
  },
];

function firstOf({ checkpoints }: Evidence): Checkpoint {
  const [first] = checkpoints;
  if (!first) throw new Error('the evidence has four checkpoints');
  return first;
}

export function newestOf({ checkpoints }: Evidence): Checkpoint {
  const newest = checkpoints.at(-1);
  if (!newest) throw new Error('the evidence has four checkpoints');
  return newest;
}

export type ExportTampering = {
  what: string;
  /** Changes the lines and returns what must be found first. */
  tamper: (lines: string[], evidence: Evidence) => Finding;
};

function lineOf(lines: readonly string[], number: number): number {
  return lines.findIndex((line) => (JSON.parse(line) as AuditItem).number === number);
}

function editItem(lines: string[], number: number, edit: (item: AuditItem) => object): void {
  const at = lineOf(lines, number);
  lines[at] = JSON.stringify(edit(JSON.parse(lines[at] ?? '') as AuditItem));
}

export const EXPORT_TAMPERING: readonly ExportTampering[] = [
  {
    what: 'a member of an item was changed',
    tamper(lines, evidence) {
      const place = covered(evidence, 2);
      editItem(lines, place, (item) => ({ ...item, outcome: 'refused' }));
      return { kind: 'changed', place };
    },
  },
  {
    what: 'what an item says about a person was changed',
    tamper(lines, evidence) {
      const place = covered(evidence, 3);
      editItem(lines, place, (item) => ({ ...item, address: '198.51.100.9' }));
      return { kind: 'changed', place };
    },
  },
  {
    what: 'what an item says about a person was removed',
    tamper(lines, evidence) {
      const place = covered(evidence, 2);
      editItem(lines, place, ({ address: _address, ...item }) => item);
      return { kind: 'changed', place };
    },
  },
  {
    what: 'a member was added to an item',
    tamper(lines, evidence) {
      const place = covered(evidence, 2);
      editItem(lines, place, (item) => ({ ...item, tool: 'another' }));
      return { kind: 'changed', place };
    },
  },
  {
    what: 'a line was damaged',
    tamper(lines, evidence) {
      const place = covered(evidence, 2);
      lines[lineOf(lines, place)] = '{"id":';
      return { kind: 'changed', place };
    },
  },
  {
    what: 'one item was removed',
    tamper(lines, evidence) {
      const place = covered(evidence, 2);
      lines.splice(lineOf(lines, place), 1);
      return { kind: 'removed', place };
    },
  },
  {
    what: 'an item was inserted and the others were renumbered',
    tamper(lines, evidence) {
      const place = covered(evidence, 4);
      const end = evidence.items.length;
      for (let number = end; number >= place; number -= 1)
        editItem(lines, number, (item) => ({ ...item, number: number + 1 }));
      const inserted = { ...evidence.items[place - 1], id: 'inserted', number: place };
      lines.splice(lineOf(lines, place + 1), 0, JSON.stringify(inserted));
      return { kind: 'inserted', place };
    },
  },
  {
    what: 'two lines were exchanged',
    tamper(lines, evidence) {
      const place = covered(evidence, 2);
      const at = lineOf(lines, place);
      const [one, other] = [lines[at] ?? '', lines[at + 1] ?? ''];
      const numbered = (line: string, number: number) =>
        JSON.stringify({ ...(JSON.parse(line) as AuditItem), number });
      [lines[at], lines[at + 1]] = [numbered(other, place), numbered(one, place + 1)];
      return { kind: 'changed', place: place + 1 };
    },
  },
  {
    what: 'a checkpoint was removed',
    tamper(lines, evidence) {
      const [, second] = evidence.checkpoints;
      const place = second ? numberOf(evidence, second) : 0;
      lines.splice(lineOf(lines, place), 1);
      return { kind: 'removed', place };
    },
  },
  {
    what: 'the list of a checkpoint was removed',
    tamper(lines, evidence) {
      const at = lines.findIndex((line, index) => index > 10 && line.startsWith('{"list":'));
      lines.splice(at, 1);
      // The one that follows.
      return { kind: 'removed', place: numberOf(evidence, newestOf(evidence)) };
    },
  },
  {
    what: 'the list of the newest checkpoint was removed',
    tamper(lines, evidence) {
      const at = lines.findLastIndex((line) => line.startsWith('{"list":'));
      lines.splice(at, 1);
      return { kind: 'removed', place: numberOf(evidence, newestOf(evidence)) };
    },
  },
  {
    what: 'an item and its digest in the list were changed',
    tamper(lines, evidence) {
      const [, second] = evidence.checkpoints;
      const place = covered(evidence, 2);
      editItem(lines, place, (item) => ({ ...item, outcome: 'refused' }));
      const at = lines.findIndex((line, index) => index > 2 && line.startsWith('{"list":'));
      const { list } = JSON.parse(lines[at] ?? '') as { list: { digests: string[] } };
      const changed = JSON.parse(lines[lineOf(lines, place)] ?? '') as SealedItem;
      list.digests[2] = itemDigest(changed);
      lines[at] = JSON.stringify({ list });
      // The chain does not lead to the checkpoint any more.
      return { kind: 'changed', place: second ? numberOf(evidence, second) : 0 };
    },
  },
  {
    what: 'the name of a person was changed',
    tamper(lines, evidence) {
      editItem(lines, covered(evidence, 2), (item) => ({ ...item, names: { ada: 'Eve' } }));
      return 'nothing';
    },
  },
];
