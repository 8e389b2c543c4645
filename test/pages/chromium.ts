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
  /** Opens a page without cached files. The caller closes it. */
  openFresh: () => Promise<Page>;
  url: string;
  posts: URLSearchParams[];
};

type Options = {
  theme?: string | undefined;
  /** Uses one page for all tests, because opening one is slow. Each test then sets its size and color scheme. */
  isKept?: boolean;
};

/** Serves the samples to a new page for every test of the surrounding `describe`, unless `isKept`. Call the result in a test. */
export function useChromium(
  samples: Record<string, Sample>,
  { theme, isKept = false }: Options = {},
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
    if (!browser || !page || !server) throw new Error('a page is open only while a test runs');
    const opened = browser;
    return { page, openFresh: () => opened.newPage(), url: server.url, posts: server.posts };
  };
}
