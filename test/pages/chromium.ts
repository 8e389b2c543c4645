// The sample pages in the system's Chromium, headless.
import { type Browser, chromium, type Page } from 'playwright-core';
import { openPages } from '../../src/pages/pages.ts';
import { CHROMIUM, requireProgram } from '../support/programs.ts';
import { type Sample, serveSamples, SHARED } from './sample-pages.ts';

export function launchChromium(more: readonly string[] = []): Promise<Browser> {
  return chromium.launch({
    executablePath: requireProgram(CHROMIUM),
    args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', ...more],
  });
}

export type Shown = {
  page: Page;
  /** Another page, of a browser that loaded nothing yet; to be closed. */
  openFresh: () => Promise<Page>;
  url: string;
  posts: URLSearchParams[];
};

type Wishes = {
  theme?: string | undefined;
  /** One page for all claims, because opening one takes longer than most; each says how it looks, and leaves nothing behind in it. */
  isKept?: boolean;
};

/** A fresh page for every claim of the `describe` around it, unless it is kept; call the result while a claim runs. */
export function useChromium(
  samples: Record<string, Sample>,
  { theme, isKept = false }: Wishes = {},
): () => Shown {
  let browser: Browser | undefined;
  let server: Awaited<ReturnType<typeof serveSamples>> | undefined;
  let page: Page | undefined;
  before(async () => {
    const pages = openPages(SHARED, theme);
    server = await serveSamples(pages, samples);
    browser = await launchChromium();
  });
  beforeEach(async () => {
    page ??= await browser?.newPage();
    server?.posts.splice(0);
  });
  afterEach(async () => {
    if (isKept) return;
    await page?.close();
    page = undefined;
  });
  after(async () => {
    await browser?.close();
    await server?.close();
  });
  return () => {
    if (!browser || !page || !server) throw new Error('a page is open only while a claim runs');
    const opened = browser;
    return { page, openFresh: () => opened.newPage(), url: server.url, posts: server.posts };
  };
}
