// `npm run screenshots [-- <language> [<theme>]]` saves every sample page, narrow and wide, light and dark, in results/screenshots/.
// `npm run screenshots -- readme` saves the consent page that README.md shows.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Browser } from 'playwright-core';
import { openPages } from '../../src/pages/pages.ts';
import { launchChromium } from './chromium.ts';
import { CONSENT, rendering, SAMPLES, serveSamples, SHARED } from '../pages/sample-pages.ts';
import { withPalette } from './palette-png.ts';

const ROOT = join(import.meta.dirname, '../..');
/** German has the longest texts. */
const [language = 'de', theme] = process.argv.slice(2);

const CONSENT_OF_CLAUDE = rendering({
  view: 'consent',
  values: {
    ...CONSENT,
    client: { name: 'Claude', kind: 'metadata-document', host: 'claude.ai' },
    redirect: { destination: 'claude.ai', kind: 'elsewhere' },
  },
});

const server = await serveSamples(
  openPages(SHARED, theme === undefined ? undefined : resolve(theme)),
  { ...SAMPLES, readme: CONSENT_OF_CLAUDE },
);
const browser = await launchChromium(['--disable-lcd-text']);
const saved = await (language === 'readme'
  ? saveConsentPage(browser, server.url)
  : saveSamples(browser, server.url));
await browser.close();
await server.close();
console.log(saved);

async function saveSamples(chromium: Browser, url: string): Promise<string> {
  const directory = join(ROOT, 'results/screenshots', language);
  mkdirSync(directory, { recursive: true });
  for (const colorScheme of ['light', 'dark'] as const) {
    for (const width of [390, 1280]) {
      const viewport = { width, height: 800 };
      const page = await chromium.newPage({ colorScheme, viewport, locale: language });
      for (const name of Object.keys(SAMPLES)) {
        await page.goto(`${url}/${name}`);
        const path = join(directory, `${name}-${width}-${colorScheme}.png`);
        await page.screenshot({ path, fullPage: true });
      }
      await page.close();
    }
  }
  return directory;
}

/** Grayscale antialiasing keeps the file small. */
async function saveConsentPage(chromium: Browser, url: string): Promise<string> {
  const page = await chromium.newPage({ viewport: { width: 640, height: 400 }, locale: 'en' });
  await page.goto(`${url}/readme`);
  const path = join(ROOT, '.github/consent-page.png');
  writeFileSync(path, await withPalette(chromium, await page.screenshot({ fullPage: true })));
  return path;
}
