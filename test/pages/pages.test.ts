import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { openPages } from '../../src/pages/pages.ts';
import { CONSOLE_SAMPLES } from './console-samples.ts';
import { SAMPLES as VALUES } from './samples.ts';
import {
  CONSENT,
  ERROR,
  NO_ACCESS,
  SAMPLES,
  serveSamples,
  SHARED,
  SIGN_IN,
  type Sample,
} from './sample-pages.ts';
import { withoutOwnScript } from '../support/own-script.ts';

const VIEWS = join(import.meta.dirname, '../../views');
const ATTACK = `<img src=x onerror=1>"'</title><script>\u202E`;

/** Replaces every text by an attack, except members that select a branch of the template. */
function poison<T>(values: T): T {
  if (typeof values === 'string') return ATTACK as T;
  if (Array.isArray(values)) return values.map((item) => poison(item)) as T;
  if (typeof values !== 'object' || values === null) return values;
  const entries = Object.entries(values).map(([key, value]) => [
    key,
    ['kind', 'reason', 'decision', 'about'].includes(key) ? value : poison(value),
  ]);
  return Object.fromEntries(entries) as T;
}

const PERSON = { id: 'ada', name: 'Ada', email: 'ada@example.com', may: 'full' };

const POISONED: Record<string, Sample> = {
  'self-registered': (pages, ctx) => pages.render(ctx, 'consent', poison(CONSENT)),
  'metadata-document': (pages, ctx) =>
    pages.render(
      ctx,
      'consent',
      poison({
        ...CONSENT,
        client: { name: 'x', kind: 'metadata-document', host: 'x' },
        redirect: { destination: 'x', kind: 'elsewhere' },
      }),
    ),
  'pre-registered': (pages, ctx) =>
    pages.render(
      ctx,
      'consent',
      poison({
        ...CONSENT,
        client: { name: 'x', kind: 'pre-registered' },
        stay: undefined,
        renewableFor: 60,
      }),
    ),
  'no-access': (pages, ctx) => pages.render(ctx, 'no-access', poison(NO_ACCESS)),
  'used-up': (pages, ctx) =>
    pages.render(ctx, 'no-access', poison({ ...NO_ACCESS, reason: 'used-up' })),
  error: (pages, ctx) => pages.render(ctx, 'error', poison(ERROR)),
  'sign-in': (pages, ctx) =>
    pages.render(
      ctx,
      'sign-in',
      poison({ ...SIGN_IN, trouble: { name: 'x', reason: 'stopped' } } as const),
    ),
  'development-sign-in': (pages, ctx) =>
    pages.render(ctx, 'development-sign-in', poison({ action: 'x', people: [PERSON] })),
  done: (pages, ctx) =>
    pages.render(
      ctx,
      'done',
      poison({ decision: 'approved', destination: 'x', level: 'full', accountPage: 'x' } as const),
    ),
  home: (pages, ctx) =>
    pages.render(ctx, 'home', poison({ resourceUrl: 'x', account: '/account' })),
};

for (const [name, { view, values }] of Object.entries({ ...VALUES, ...CONSOLE_SAMPLES }))
  POISONED[name] ??= (pages, ctx) => pages.render(ctx, view, poison(values) as never);

/** Returns all values of an attribute. */
function attribute(html: string, name: string): string[] {
  return [...html.matchAll(new RegExp(`\\s${name}="([^"]*)"`, 'g'))].map((match) => match[1] ?? '');
}

describe('pages', () => {
  let server: Awaited<ReturnType<typeof serveSamples>>;
  const closing: (() => unknown)[] = [];

  before(async () => {
    server = await serveSamples(openPages(SHARED));
    closing.push(server.close);
  });
  after(() => Promise.all(closing.map((close) => close())));

  /** A copy of the real views that a test may change. */
  function copyViews(): string {
    const directory = mkdtempSync(join(tmpdir(), 'views-'));
    closing.push(() => rmSync(directory, { recursive: true }));
    // No theme may replace the script.
    cpSync(VIEWS, directory, { recursive: true, filter: (file) => !file.endsWith('.js') });
    return directory;
  }

  describe('rendering', () => {
    for (const name of Object.keys(POISONED)) {
      it(`markup, quotes and bidirectional controls in every value are escaped (${name})`, async () => {
        const poisoned = await serveSamples(openPages(poison(SHARED)), POISONED);
        closing.push(poisoned.close);
        const html = withoutOwnScript(await (await fetch(`${poisoned.url}/${name}`)).text());
        expect(html).to.include(
          '&lt;img src=x onerror=1&gt;&#34;&#39;&lt;/title&gt;&lt;script&gt;\uFFFD',
        );
        expect(html).not.to.match(/<img|<script|\u202E/);
        expect(html.match(/<\/title>/g)).to.have.length(1);
        expect(html.replaceAll(/"[^"]*"/g, '')).not.to.match(/<[^>]*\sonerror=/);
      });
    }

    for (const name of Object.keys(SAMPLES)) {
      it(`COD-06 CON-05 the page has no script (one of our own in the console and on the page of a connect link), no inline style, and no address on another host except its return link, install addresses and those of our own hosts (${name})`, async () => {
        const page = await (await fetch(`${server.url}/${name}`)).text();
        const html = /class="console"|id="connect-link"/.test(page) ? withoutOwnScript(page) : page;
        expect(html).not.to.match(/<script|<style|\sstyle=|\son\w+=/i);
        const addresses = ['src', 'href', 'action', 'formaction'].flatMap((key) =>
          attribute(html, key),
        );
        const installs = [
          'cursor://anysphere.cursor-deeplink/mcp/install?name=club-numbers',
          'vscode:mcp/install?%7B%22name%22%3A%22club-numbers%22%7D',
          'vscode-insiders:mcp/install?%7B%22name%22%3A%22club-numbers%22%7D',
          'lmstudio://add_mcp?name=club-numbers',
        ];
        const expected: Record<string, string[]> = {
          error: ['http://localhost:53682/callback'],
          'error-of-the-app': ['http://localhost:53682/callback'],
          approved: ['https://auth.example.com/account'],
          'device-approved': ['https://auth.example.com/account'],
          denied: ['https://auth.example.com/account'],
          'device-denied': ['https://auth.example.com/account'],
          'device-withdrawn': ['https://auth.example.com/account'],
          withdrawn: ['https://auth.example.com/account'],
          'error-of-another-host': ['https://auth.example.com/account'],
          'console-not-administrator': ['https://auth.example.com/account'],
          'home-in-development': ['http://localhost:3000/account', 'http://localhost:3002/console'],
          'connect-link': installs,
          'connect-link-hostile': installs,
          'connect-link-paused': installs,
        };
        expect(
          addresses.some((address) => /^\/assets\/style\.css\?v=[\w-]{22}$/.test(address)),
        ).to.equal(true);
        const elsewhere = addresses.filter((address) => !/^(\/(?!\/)|#)/.test(address));
        expect(elsewhere).to.deep.equal(expected[name] ?? []);
      });
    }

    it('every class of a page has a rule in the stylesheet', async () => {
      const stylesheet = readFileSync(join(VIEWS, 'assets/style.css'), 'utf8');
      const classes = await Promise.all(
        Object.keys(SAMPLES).map(async (name) => {
          const html = await (await fetch(`${server.url}/${name}`)).text();
          // In texts, the class is the tag of the text, for themes.
          return attribute(html.replaceAll('<bdi class=', '<bdi title='), 'class').flatMap(
            (value) => value.trim().split(/\s+/),
          );
        }),
      );
      const used = [...new Set(classes.flat())].filter((name) => name !== '');
      expect(used).to.include('facts');
      const hasRule = (name: string) => new RegExp(`\\.${name}(?![\\w-])`).test(stylesheet);
      expect(used.filter((name) => !hasRule(name))).to.deep.equal([]);
    });

    it('a page is HTML with the given status and is not cached', async () => {
      const refused = await fetch(`${server.url}/no-access`);
      expect(refused.status).to.equal(403);
      expect(refused.headers.get('content-type')).to.equal('text/html; charset=utf-8');
      expect(refused.headers.get('cache-control')).to.equal('no-store');
      expect((await fetch(`${server.url}/home`)).status).to.equal(200);
    });

    it('concurrent renderings do not affect each other', async () => {
      const names = Object.keys(SAMPLES);
      const alone = await Promise.all(
        names.map(async (name) => (await fetch(`${server.url}/${name}`)).text()),
      );
      const many = [...names, ...names, ...names, ...names];
      const together = await Promise.all(
        many.map(async (name) => (await fetch(`${server.url}/${name}`)).text()),
      );
      expect(together).to.deep.equal([...alone, ...alone, ...alone, ...alone]);
      expect(new Set(alone).size).to.equal(names.length);
    });
  });

  describe('the stylesheet', () => {
    it('the stylesheet is cached for five minutes without a version in its path, and then revalidated with its ETag', async () => {
      const first = await fetch(`${server.url}/assets/style.css`);
      expect(first.status).to.equal(200);
      expect(first.headers.get('content-type')).to.equal('text/css; charset=utf-8');
      expect(first.headers.get('cache-control')).to.equal('public, max-age=300');
      expect(await first.text()).to.match(/prefers-color-scheme: dark/);
      const headers = {
        'If-None-Match': first.headers.get('etag') ?? '',
        'Cache-Control': 'max-age=0',
      };
      expect((await fetch(`${server.url}/assets/style.css`, { headers })).status).to.equal(304);
    });

    it('the stylesheet has one path, and supports HEAD', async () => {
      const head = await fetch(`${server.url}/assets/style.css`, { method: 'HEAD' });
      expect(head.status).to.equal(200);
      expect(Number(head.headers.get('content-length'))).to.be.above(1000);
      for (const path of [
        '/assets/',
        '/assets/style.css/',
        '/assets/../package.json',
        '/consent.ejs',
      ])
        expect((await fetch(`${server.url}${path}`)).status, path).to.equal(404);
    });
  });

  describe('opening', () => {
    it('templates are read once', async () => {
      const directory = copyViews();
      const opened = await serveSamples(openPages(SHARED, directory));
      closing.push(opened.close);
      for (const file of ['home.ejs', 'partials/top.ejs'])
        writeFileSync(join(directory, file), 'changed');
      const [now, original] = await Promise.all(
        [opened.url, server.url].map(async (url) => (await fetch(`${url}/home`)).text()),
      );
      expect(now).to.equal(original);
    });
  });
});
