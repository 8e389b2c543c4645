// Sample values for every page, and a server that shows them under the content security policy of the real hosts.
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import Koa from 'koa';
import type { Pages, ViewValues } from '../../src/http/pages.ts';
import { LEVEL_TEXTS } from '../../src/http/level-texts.ts';
import { levelsUpTo, type Level } from '../../src/permission-level.ts';

export type Sample = (pages: Pages, ctx: Koa.Context) => Promise<void>;

const LINK = 'https://mcp.example.com/connect/4qR8sT1vWxYz2aBcD3eFgH/mcp';
const CONNECTOR = { name: 'Club numbers', link: LINK };
const ACCOUNT = {
  name: 'Ada Lovelace',
  email: 'ada@example.com',
  provider: 'your company account',
};

export function levelChoices(highest: Level): ViewValues['consent']['levels'] {
  return levelsUpTo(highest).map((level) => ({
    level,
    ...LEVEL_TEXTS[level],
    selected: level === highest,
  }));
}

/** A desktop app that registered itself and listens on this computer. */
export const CONSENT: ViewValues['consent'] = {
  action: '/interaction/abc/consent',
  token: 'form-token',
  client: { name: 'Claude Code', kind: 'self-registered' },
  redirect: { destination: 'localhost:53682', thisComputer: true },
  connector: CONNECTOR,
  levels: levelChoices('operations'),
  account: ACCOUNT,
  stay: { checked: true, lifetime: '90 days' },
  accessLifetime: '1 hour',
  changed: false,
};

export const NO_ACCESS: ViewValues['no-access'] = {
  action: '/interaction/abc/consent',
  token: 'form-token',
  account: { ...ACCOUNT, name: 'Alan Turing', email: 'alan@example.com' },
  connector: CONNECTOR,
};

export const ERROR: ViewValues['error'] = {
  title: 'This connect link was revoked',
  message: 'The link your app used does not work any more.',
  advice: 'Ask the person who gave it to you for a fresh one, and add that to your app.',
  reference: 'Zr8kT2mQp1Vx',
  returnTo: { href: 'http://localhost:53682/callback', host: 'localhost:53682' },
};

const PEOPLE = [
  { id: 'ada', name: 'Ada Lovelace', email: 'ada@example.com', may: 'full' },
  { id: 'grace', name: 'Grace Hopper', email: 'grace@example.com', may: 'operations' },
  { id: 'alan', name: 'Alan Turing', email: 'alan@example.com', may: 'nothing' },
];

const LONG = 'Donaudampfschifffahrtsgesellschaftskapitän'.repeat(6);

export const SAMPLES: Record<string, Sample> = {
  consent: (pages, ctx) => pages.render(ctx, 'consent', CONSENT),
  'consent-every-level': (pages, ctx) =>
    pages.render(ctx, 'consent', {
      ...CONSENT,
      client: { name: 'Claude', kind: 'metadata-document', host: 'claude.ai' },
      redirect: { destination: 'claude.ai', thisComputer: false },
      levels: levelChoices('full'),
    }),
  'consent-changed': (pages, ctx) =>
    pages.render(ctx, 'consent', {
      ...CONSENT,
      client: { name: 'Reporting Bot', kind: 'pre-registered' },
      redirect: { destination: 'reports.example.com', thisComputer: false },
      levels: levelChoices('analytics'),
      stay: undefined,
      changed: true,
    }),
  'consent-hostile': (pages, ctx) =>
    pages.render(ctx, 'consent', {
      ...CONSENT,
      client: { name: `Claude” from claude.ai to “\u202Eedualc ${LONG}`, kind: 'self-registered' },
      redirect: { destination: `${LONG.toLowerCase()}.example:65535`, thisComputer: false },
      connector: { name: LONG, link: LINK },
      account: { name: LONG, email: `${LONG}@example.com`, provider: LONG },
      levels: levelChoices('full'),
    }),
  'no-access': (pages, ctx) => pages.render(ctx, 'no-access', NO_ACCESS, 403),
  'used-up': (pages, ctx) =>
    pages.render(ctx, 'no-access', { ...NO_ACCESS, reason: 'used-up' }, 403),
  error: (pages, ctx) => pages.render(ctx, 'error', ERROR, 400),
  'error-without-a-way-back': (pages, ctx) =>
    pages.render(ctx, 'error', { ...ERROR, returnTo: undefined }, 400),
  'development-sign-in': (pages, ctx) =>
    pages.render(ctx, 'development-sign-in', { action: '/interaction/def', people: PEOPLE }),
  home: (pages, ctx) => pages.render(ctx, 'home', { resourceUrl: 'https://mcp.example.com' }),
};

const POLICY =
  "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'";

/** Shows each sample at `/<its name>`; `posts` holds the body of every form sent to any address. */
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
      ctx.body = 'posted';
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
