// Chromium. All test files of a run share one, because its start takes longer than most tests.
import type { Context, Suite } from 'mocha';
import {
  type Browser,
  type BrowserContext,
  type BrowserServer,
  chromium,
  type Page,
} from 'playwright-core';
import type { CookieJar } from './cookie-jar.ts';
import { CHROMIUM, requireProgram } from './programs.ts';

/** The shared browser finds this host on the loopback interface. */
export const HOSTED_APP = 'app.example.com';

/** The environment variable with the address of a Chromium that the processes of a run share. */
export const SHARED_CHROMIUM = 'TEST_CHROMIUM';

/** Without this, Chromium starts a process for each site that a page visits. */
const ONE_PROCESS_FOR_ALL_SITES = '--disable-site-isolation-trials';
const RESOLVE_HOSTED_APP = `--host-resolver-rules=MAP ${HOSTED_APP} 127.0.0.1`;

/** The caller closes the browser. */
export function launchChromium(more: readonly string[] = []): Promise<Browser> {
  return chromium.launch(withArguments(more));
}

/** Starts a Chromium for several processes. They find it if its `wsEndpoint()` is in `SHARED_CHROMIUM`. The caller closes it. */
export function serveChromium(): Promise<BrowserServer> {
  const args = [RESOLVE_HOSTED_APP, ONE_PROCESS_FOR_ALL_SITES];
  return chromium.launchServer({ ...withArguments(args), host: '127.0.0.1' });
}

function withArguments(more: readonly string[]) {
  return {
    executablePath: requireProgram(CHROMIUM),
    args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', ...more],
  };
}

const shared = new Map<boolean, Promise<Browser>>();

function openShared(current: Suite, siteIsolation: boolean): Promise<Browser> {
  const known = shared.get(siteIsolation);
  if (known) return known;
  const opening = openBrowser(siteIsolation);
  shared.set(siteIsolation, opening);
  // A worker of a parallel run has more files to come; Playwright ends the browser with the process.
  if (process.env.MOCHA_WORKER_ID === undefined)
    rootOf(current).afterAll('close Chromium', async () => {
      await (await opening).close();
      shared.delete(siteIsolation);
    });
  return opening;
}

function openBrowser(siteIsolation: boolean): Promise<Browser> {
  if (siteIsolation) return launchChromium([RESOLVE_HOSTED_APP]);
  const address = process.env[SHARED_CHROMIUM];
  return address === undefined
    ? launchChromium([RESOLVE_HOSTED_APP, ONE_PROCESS_FOR_ALL_SITES])
    : chromium.connect(address);
}

function rootOf(suite: Suite): Suite {
  return suite.parent ? rootOf(suite.parent) : suite;
}

export type PageOptions = {
  width?: number;
  colorScheme?: 'light' | 'dark';
  /** Whether sites are in separate processes, as in people's browsers. For tests of what one site can do to another. */
  siteIsolation?: boolean;
};

/**
 * One page for all tests of the surrounding `describe`, because opening one takes longer than a navigation. Each test starts without
 * cookies, and other pages that a test opened are closed after it. Call the result in a test or hook.
 */
export function usePage(options: PageOptions = {}): () => Page {
  let page: Page | undefined;
  before(async function () {
    page = await (await openContext(this, options)).newPage();
  });
  beforeEach(() => page?.context().clearCookies());
  afterEach(async () => {
    for (const other of page?.context().pages() ?? []) if (other !== page) await other.close();
  });
  after(() => page?.context().close());
  return () => opened(page);
}

/** Copies the cookies of a scripted browser, so that a test can start after a sign-in. */
export async function addCookies(page: Page, jar: CookieJar): Promise<void> {
  const cookies = jar.map(({ name, value, host, path, secure }) => {
    return { name, value, domain: host, path, secure };
  });
  await page.context().addCookies(cookies);
}

async function openContext(
  { test }: Context,
  { width = 1280, colorScheme = 'light', siteIsolation = false }: PageOptions,
): Promise<BrowserContext> {
  if (!test?.parent) throw new Error('call it in a describe');
  const browser = await openShared(test.parent, siteIsolation);
  const viewport = { width, height: 800 };
  return browser.newContext({ ignoreHTTPSErrors: true, colorScheme, viewport });
}

function opened(page: Page | undefined): Page {
  if (!page) throw new Error('a page is open only while tests run');
  return page;
}
