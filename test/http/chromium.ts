// The sample pages in the system's Chromium, headless.
import { type Browser, chromium, type Page } from 'playwright-core';
import { openPages } from '../../src/http/pages.ts';
import { type Sample, serveSamples, SHARED } from './sample-pages.ts';

export function launchChromium(more: readonly string[] = []): Promise<Browser> {
  return chromium.launch({
    executablePath: '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', ...more],
  });
}

export type Shown = { page: Page; url: string; posts: URLSearchParams[] };

/** A fresh page for every claim of the `describe` around it; call the result while a claim runs. */
export function useChromium(samples: Record<string, Sample>, theme?: string): () => Shown {
  let browser: Browser | undefined;
  let server: Awaited<ReturnType<typeof serveSamples>> | undefined;
  let page: Page | undefined;
  before(async () => {
    const pages = openPages(SHARED, theme);
    server = await serveSamples(pages, samples);
    browser = await launchChromium();
  });
  beforeEach(async () => {
    page = await browser?.newPage();
    server?.posts.splice(0);
  });
  afterEach(() => page?.close());
  after(async () => {
    await browser?.close();
    await server?.close();
  });
  return () => {
    if (!page || !server) throw new Error('a page is open only while a claim runs');
    return { page, url: server.url, posts: server.posts };
  };
}
