// The console's page of health: whether the store, the authorization server and the resource server answer, and the signing keys.
import { listKeys } from '../signing-keys.ts';
import { code, time } from './facts.ts';
import { frameOf } from './frame.ts';
import type { Sections, Visit } from './visit.ts';

const WITHIN = 2000;

export function healthPage({ page }: Sections): void {
  page('/health', show);
}

async function show(visit: Visit): Promise<void> {
  const { options, ctx } = visit;
  const { store, authUrl, resourceUrl, version, pages } = options;
  const [isStored, isAuth, isResource, { items }] = await Promise.all([
    answers(store.ping()),
    answers(requireReady(authUrl)),
    answers(requireReady(resourceUrl)),
    listKeys(options),
  ]);
  await pages.render(ctx, 'console/health', {
    console: frameOf(visit, 'health'),
    version,
    checks: [
      { name: 'store', isWell: isStored },
      { name: 'auth', isWell: isAuth },
      { name: 'resource', isWell: isResource },
    ],
    items: items.map(({ id, state, signsFrom, publishedUntil }) => ({
      title: id,
      state,
      isWell: true,
      facts: [
        code('signsFrom', signsFrom),
        ...(publishedUntil === undefined ? [] : time('expires', publishedUntil)),
      ],
      actions: [],
    })),
  });
}

async function answers(asked: Promise<unknown>): Promise<boolean> {
  return asked.then(
    () => true,
    () => false,
  );
}

/** By the public address, as clients would. */
async function requireReady(url: string): Promise<void> {
  const response = await fetch(`${url}/readyz`, {
    redirect: 'manual',
    signal: AbortSignal.timeout(WITHIN),
  });
  await response.body?.cancel();
  if (!response.ok) throw new Error(`${url} is not ready`);
}
