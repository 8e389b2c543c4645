import { timingSafeEqual } from 'node:crypto';

/** Compares secrets. How long it takes reveals whether their lengths are equal, and nothing of their content. */
export function constantTimeEqual(one: string, other: string): boolean {
  const [first, second] = [Buffer.from(one), Buffer.from(other)];
  return first.length === second.length && timingSafeEqual(first, second);
}
