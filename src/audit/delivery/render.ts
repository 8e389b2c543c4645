// Items as receivers get them.
import type { DeliveryTarget } from '../../settings/audit-delivery.ts';
import type { AuditItem } from '../audit.ts';
import type { Answer } from './answer.ts';
import type { Rendering } from './progress.ts';
import { webhookRenderer } from './webhook.ts';

/** An item with what identifies it. */
export type StoredItem = AuditItem & { id: string; epoch: string; number: number };

/** The form of a kind of target. */
export type Renderer = {
  /** Returns the same bytes for the same arguments. `newest` is the newest time in the records, in seconds since the epoch. */
  render(
    items: readonly DeliveredItem[],
    rendering: Rendering,
  ): { body: Uint8Array<ArrayBuffer>; newest: number };
  /** Whether receivers may refuse the body by now. */
  isOutdated(rendering: Rendering, now: number): boolean;
  /** The headers of an attempt. */
  headers(id: string, body: Uint8Array<ArrayBuffer>, now: number): Record<string, string>;
  /** What the receiver refused although it accepted the batch. */
  rejectedIn(answer: Answer): { count: number; reason: string } | undefined;
};

/** Loads the library of OpenTelemetry if the target needs it. */
export async function openRenderer(target: DeliveryTarget, version: string): Promise<Renderer> {
  if (target.kind === 'webhook') return webhookRenderer(target);
  const { otlpRenderer } = await import('./otlp.ts');
  return otlpRenderer(target, version);
}

export type DeliveredItem = StoredItem & {
  /** The length of arguments that were cut. */
  argumentsBytes?: number;
  /** The receiver refused the item with its arguments. */
  argumentsOmitted?: true;
};

const MAX_ARGUMENTS_BYTES = 16 * 1024;

export function deliveredItem(item: StoredItem, withoutArguments: boolean): DeliveredItem {
  const { argumentsJson, ...others } = item;
  if (withoutArguments) {
    const { arguments: _details, ...rest } = others;
    return hasArguments(item) ? { ...rest, argumentsOmitted: true } : rest;
  }
  const bytes = Buffer.from(argumentsJson ?? '');
  if (bytes.length <= MAX_ARGUMENTS_BYTES) return item;
  // A character that was cut in two is U+FFFD.
  const cut = bytes.toString('utf8', 0, MAX_ARGUMENTS_BYTES).replace(/\ufffd+$/, '');
  return { ...others, argumentsJson: cut, argumentsBytes: bytes.length };
}

const OTHER_BYTES = 500;

/** Estimates the size of an item in a delivery. */
export function deliveredBytes({ argumentsJson = '' }: Partial<AuditItem>): number {
  return Math.min(argumentsJson.length, MAX_ARGUMENTS_BYTES) + OTHER_BYTES;
}

export function hasArguments({ argumentsJson, arguments: details }: Partial<AuditItem>): boolean {
  return argumentsJson !== undefined || details !== undefined;
}
