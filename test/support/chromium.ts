// Chromium. All test files of a process share one, because its start takes longer than most tests.
import type { Context, Suite } from 'mocha';
import { type Browser, chromium, type Page } from 'playwright-core';
import { CHROMIUM, requireProgram } from './programs.ts';

/** The shared browser finds this host on the loopback interface. */
export const HOSTED_APP = 'app.example.com';

/** The caller closes the browser. */
export function launchChromium(more: readonly string[] = []): Promise<Browser> {
  return chromium.launch({
    executablePath: requireProgram(CHROMIUM),
    args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', ...more],
  });
}

let shared: Promise<Browser> | undefined;

function openShared(current: Suite): Promise<Browser> {
  if (shared) return shared;
  shared = launchChromium([`--host-resolver-rules=MAP ${HOSTED_APP} 127.0.0.1`]);
  // A worker of a parallel run has more files to come; Playwright ends the browser with the process.
  if (process.env.MOCHA_WORKER_ID === undefined)
    rootOf(current).afterAll('close Chromium', async () => {
      await (await shared)?.close();
      shared = undefined;
    });
  return shared;
}

function rootOf(suite: Suite): Suite {
  return suite.parent ? rootOf(suite.parent) : suite;
}

export type PageOptions = {
  width?: number;
  colorScheme?: 'light' | 'dark';
};

/**
 * One page for all tests of the surrounding `describe`, because opening one takes longer than a navigation. Each test starts without
 * cookies, and other pages that a test opened are closed after it. Call the result in a test or hook.
 */
export function usePage(options: PageOptions = {}): () => Page {
  let page: Page | undefined;
  before(async function () {
    page = await openPage(this, options);
  });
  beforeEach(() => page?.context().clearCookies());
  afterEach(async () => {
    for (const other of page?.context().pages() ?? []) if (other !== page) await other.close();
  });
  after(() => page?.context().close());
  return () => opened(page);
}

/** A new page for each test, for tests that leave a navigation open: one to a custom scheme does not end. */
export function useNewPage(options: PageOptions = {}): () => Page {
  let page: Page | undefined;
  beforeEach(async function () {
    page = await openPage(this, options);
  });
  afterEach(() => page?.context().close());
  return () => opened(page);
}

async function openPage(
  { test }: Context,
  { width = 1280, colorScheme = 'light' }: PageOptions,
): Promise<Page> {
  if (!test?.parent) throw new Error('call it in a describe');
  const browser = await openShared(test.parent);
  const viewport = { width, height: 800 };
  const context = await browser.newContext({ ignoreHTTPSErrors: true, colorScheme, viewport });
  return context.newPage();
}

function opened(page: Page | undefined): Page {
  if (!page) throw new Error('a page is open only while tests run');
  return page;
}
