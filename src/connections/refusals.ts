// Refusals of people, by the reference on the page that they saw.
import type { AccessRefusal } from '../observability/labels.ts';
import type { RuleKind } from '../people/entitlement.ts';
import type { Store } from '../store/store.ts';

/** Who got no access, and why. Without an account, nobody had signed in. `tried` are the kinds of rules that did not match. */
export type RefusedPerson = {
  reason: AccessRefusal;
  account?: string | undefined;
  clientId?: string | undefined;
  connector?: string | undefined;
  tried?: RuleKind[];
};

/** `at` in seconds since the epoch. */
export type Refusal = RefusedPerson & { at: number };

const KEPT_SECONDS = 30 * 86_400;
/** The id of the request, which is also on the page and in the log. */
const REFERENCE = /^[\w-]{12}$/;
const refusalKey = (reference: string) => `refusal:${reference}`;

export async function saveRefusal(
  store: Store,
  reference: string,
  refusal: Refusal,
): Promise<void> {
  await store.add(refusalKey(reference), refusal, KEPT_SECONDS);
}

export async function findRefusal(store: Store, reference: string): Promise<Refusal | undefined> {
  if (!REFERENCE.test(reference)) return undefined;
  return (await store.get<Refusal>(refusalKey(reference)))?.value;
}
