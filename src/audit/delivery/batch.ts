// Which items a batch has, and its body.
import { createHash } from 'node:crypto';
import { membersOf } from '../../json-values.ts';
import type { DeliveryTarget } from '../../settings/audit-delivery.ts';
import type { Store } from '../../store/store.ts';
import { readAuditAfter } from '../audit-log.ts';
import {
  type Batch,
  type DeliveryProgress,
  MAX_BATCH_ITEMS,
  newBatch,
  type Place,
  type Rendering,
} from './progress.ts';
import { deliveredBytes, deliveredItem, type Renderer, type StoredItem } from './render.ts';

const MAX_BYTES = 900_000;

/** Numbers of items, inclusive. */
export type NumberRange = { first: number; last: number };

/** What follows the items that the receiver has. `place` is that of the last of them, and `lost` are those that were trimmed. */
export type NextItems = {
  /** None if the target gets none of them. */
  items: readonly StoredItem[];
  first: number;
  place: Place;
  lost: readonly NumberRange[];
  /** Undefined for items that were in no batch yet. */
  batch: Batch | undefined;
};

/** Returns the items of the batch in progress, or the next ones. Undefined if there are none. */
export async function nextItems(
  store: Store,
  target: DeliveryTarget,
  { delivered, epoch, reached, batches }: DeliveryProgress,
): Promise<NextItems | undefined> {
  const [batch] = batches;
  const first = batch?.first ?? delivered + 1;
  const { found, read, isAll } = await readItems(store, first, batch?.last ?? Infinity);
  // After so many that cannot be decrypted, there are others.
  const newest = found.at(-1) ?? (isAll ? undefined : read);
  const last = batch && isAll ? batch.last : newest?.number;
  if (last === undefined) return undefined;
  return {
    items: found.filter((item) => isSent(target, item)),
    first,
    place: placeOf(last, newest, epoch),
    lost: missing(found, { first: Math.max(first, reached + 1), last }),
    batch,
  };
}

/** `newest` has the number `last`, unless that one was trimmed. */
function placeOf(last: number, newest: Numbered | undefined, epoch: string): Place {
  const id = newest?.number === last ? newest.id : undefined;
  return { delivered: last, epoch: newest?.epoch ?? epoch, ...(id === undefined ? {} : { id }) };
}

const PAGE_ITEMS = 100;

type Numbered = { number: number; epoch: string; id?: string };

/** Returns the items from `first` to `last`, or about as many as a batch can have. `read` is the last one that was read. `isAll`: there are no more. */
async function readItems(
  store: Store,
  first: number,
  last: number,
): Promise<{ found: StoredItem[]; read: Numbered | undefined; isAll: boolean }> {
  const found: StoredItem[] = [];
  let read: Numbered | undefined;
  let [bytes, after] = [0, first - 1];
  for (let pages = 0; pages < MAX_BATCH_ITEMS / PAGE_ITEMS && bytes < MAX_BYTES; pages += 1) {
    const page = await readAuditAfter(store, after, PAGE_ITEMS);
    const wanted = page.filter(({ number }) => number <= last);
    for (const { number, epoch, item } of wanted) {
      after = number;
      read = { number, epoch };
      // Items that this process cannot decrypt count as lost.
      if (!item) continue;
      found.push({ ...item, id: item.id ?? `${epoch}-${number}`, epoch, number });
      bytes += deliveredBytes(item);
    }
    if (wanted.length < PAGE_ITEMS) return { found, read, isAll: true };
  }
  return { found, read, isAll: false };
}

/** Items about what the target refused are never sent to it: it may refuse them too. Forgetting a person deletes which target it was. */
function isSent({ id, events }: DeliveryTarget, item: StoredItem): boolean {
  const { target = id } = membersOf(item.arguments);
  if (item.event === 'delivery_rejected' && target === id) return false;
  return events === undefined || events.includes(item.event);
}

/** The numbers in a range that have no item. */
function missing(items: readonly StoredItem[], { first, last }: NumberRange): NumberRange[] {
  const gaps: NumberRange[] = [];
  let next = first;
  for (const number of [...items.map((item) => item.number), last + 1]) {
    if (number > next) gaps.push({ first: next, last: number - 1 });
    next = Math.max(next, number + 1);
  }
  return gaps;
}

export type PreparedBatch = {
  batch: Batch;
  items: readonly StoredItem[];
  /** Of the last item. */
  place: Place;
  body: Uint8Array<ArrayBuffer>;
  newest: number;
};

/** Renders the batch in progress as before. If that is not possible, and for new items, makes a new batch with as many items as fit. */
export function prepareBatch(
  renderer: Renderer,
  { newest: notBefore }: DeliveryProgress,
  { items, first, place, batch }: NextItems,
  now: number,
): PreparedBatch {
  const isBare = batch?.withoutArguments === true;
  const render = (some: readonly StoredItem[], rendering: Rendering) => {
    const delivered = some.map((item) => deliveredItem(item, isBare));
    return renderer.render(delivered, rendering);
  };
  if (batch?.rendered && !renderer.isOutdated(batch.rendered, now)) {
    const same = render(items, batch.rendered);
    if (sha256(same.body) === batch.rendered.sha256) return { batch, items, place, ...same };
  }
  const rendering = { at: now, notBefore };
  let fitting = items;
  let { body, newest } = render(fitting, rendering);
  while (body.length > MAX_BYTES && fitting.length > 1) {
    const share = (0.9 * MAX_BYTES) / body.length;
    fitting = fitting.slice(0, Math.max(1, Math.floor(fitting.length * share)));
    ({ body, newest } = render(fitting, rendering));
  }
  const end = fitting.length === items.length ? undefined : fitting.at(-1);
  const reached = end ? { delivered: end.number, epoch: end.epoch, id: end.id } : place;
  const rendered = { ...rendering, sha256: sha256(body) };
  const isSame = batch && !batch.rendered && batch.last === reached.delivered;
  const next = isSame
    ? { ...batch, rendered }
    : newBatch({
        first,
        last: reached.delivered,
        rendered,
        ...(isBare ? { withoutArguments: true } : {}),
      });
  return { batch: next, items: fitting, place: reached, body, newest };
}

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('base64url');
}
