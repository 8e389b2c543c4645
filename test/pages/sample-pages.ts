import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import Koa from 'koa';
import type { Pages } from '../../src/pages/pages.ts';
import { type Sample as Values, SAMPLES as VALUES } from './samples.ts';

export { CONSENT, ERROR, levelChoices, NO_ACCESS, SIGN_IN } from './samples.ts';

export type Sample = (pages: Pages, ctx: Koa.Context) => Promise<void>;

export const EXAMPLE_THEME = join(import.meta.dirname, '../../config/example-theme');

/** Settings of the operator. */
export const SHARED = {
  productName: 'Gatehouse',
  supportContact: 'it-desk@example.com',
};

export const SAMPLES: Record<string, Sample> = Object.fromEntries(
  Object.entries(VALUES).map(([name, sample]) => [name, rendering(sample)]),
);

/** Pages of people: the first sample of each view, and all others. Pages of the console. */
export function groupedNames(): { first: string[]; others: string[]; console: string[] } {
  const seen = new Set<string>();
  const groups = Object.groupBy(Object.entries(VALUES), ([, { view }]) => {
    if (view.startsWith('console/')) return 'console';
    const isFirst = !seen.has(view);
    seen.add(view);
    return isFirst ? 'first' : 'others';
  });
  const names = (samples: [string, Values][] = []) => samples.map(([name]) => name);
  return {
    first: names(groups.first),
    others: names(groups.others),
    console: names(groups.console),
  };
}

export function rendering({ view, values, status }: Values): Sample {
  return (pages, ctx) => pages.render(ctx, view, values, status);
}

const POLICY =
  "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'";

/** Serves each sample at `/<name>` with the content security policy of the hosts. `posts` has the body of every submitted form. */
export async function serveSamples(
  pages: Pages,
  samples: Record<string, Sample> = SAMPLES,
): Promise<{ url: string; posts: URLSearchParams[]; close: () => Promise<void> }> {
  const posts: URLSearchParams[] = [];
  const app = new Koa();
  app.use(async (ctx, next) => {
    ctx.set('Content-Security-Policy', POLICY);
    await next();
  });
  app.use(pages.middleware);
  app.use(async (ctx) => {
    const sample = samples[ctx.path.slice(1)];
    if (ctx.method === 'POST') {
      posts.push(new URLSearchParams(Buffer.concat(await ctx.req.toArray()).toString()));
      ctx.status = 204;
    } else if (sample) {
      await sample(pages, ctx);
    }
  });
  const server = app.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    posts,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
