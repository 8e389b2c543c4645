import { listKeys } from '../signing-keys.ts';
import type { ConsoleContext, ConsoleRoutes } from './context.ts';
import { codeField, dateFields, layout } from './layout.ts';

const TIMEOUT_MS = 2000;

export function healthPage({ page }: ConsoleRoutes): void {
  page('/health', show);
}

async function show(context: ConsoleContext): Promise<void> {
  const { management, ctx } = context;
  const { settings, services } = management;
  const { store, version, pages } = services;
  const { authUrl, resourceUrl } = settings;
  const [isStoreOk, isAuthOk, isResourceOk, { items }] = await Promise.all([
    succeeds(store.ping()),
    succeeds(requireReady(authUrl)),
    succeeds(requireReady(resourceUrl)),
    listKeys(management),
  ]);
  await pages.render(ctx, 'console/health', {
    console: layout(context, 'health'),
    version,
    checks: [
      { name: 'store', isOk: isStoreOk },
      { name: 'auth', isOk: isAuthOk },
      { name: 'resource', isOk: isResourceOk },
    ],
    items: items.map(({ id, state, signsFrom, publishedUntil }) => ({
      title: id,
      state,
      isOk: true,
      fields: [codeField('signsFrom', signsFrom), ...dateFields('expires', publishedUntil)],
      actions: [],
    })),
  });
}

async function succeeds(check: Promise<unknown>): Promise<boolean> {
  return check.then(
    () => true,
    () => false,
  );
}

/** Asks at the public address, as clients do. */
async function requireReady(url: string): Promise<void> {
  const response = await fetch(`${url}/readyz`, {
    redirect: 'manual',
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  await response.body?.cancel();
  if (!response.ok) throw new Error(`${url} is not ready`);
}
