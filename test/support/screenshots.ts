// Takes a picture of every sample page, narrow and wide, light and dark: `npm run screenshots [-- <language> [<theme>]]`, into results/screenshots/.
import { mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { openPages } from '../../src/http/pages.ts';
import { launchChromium } from '../http/chromium.ts';
import { SAMPLES, serveSamples, SHARED } from '../http/sample-pages.ts';

/** German is the longest of the languages. */
const [language = 'de', theme] = process.argv.slice(2);
const directory = join(import.meta.dirname, '../../results/screenshots', language);
mkdirSync(directory, { recursive: true });

const server = await serveSamples(
  openPages(SHARED, theme === undefined ? undefined : resolve(theme)),
);
const browser = await launchChromium();
for (const colorScheme of ['light', 'dark'] as const) {
  for (const width of [390, 1280]) {
    const viewport = { width, height: 800 };
    const page = await browser.newPage({ colorScheme, viewport, locale: language });
    for (const name of Object.keys(SAMPLES)) {
      await page.goto(`${server.url}/${name}`);
      const path = join(directory, `${name}-${width}-${colorScheme}.png`);
      await page.screenshot({ path, fullPage: true });
    }
    await page.close();
  }
}
await browser.close();
await server.close();
console.log(directory);
