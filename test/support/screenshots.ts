// Takes a picture of every sample page, narrow and wide, light and dark: `node test/support/screenshots.ts <directory>`.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { openPages } from '../../src/http/pages.ts';
import { launchChromium } from '../http/chromium.ts';
import { SAMPLES, serveSamples } from '../http/sample-pages.ts';

const [directory] = process.argv.slice(2);
if (!directory) {
  console.error('usage: node test/support/screenshots.ts <directory>');
  process.exit(1);
}
mkdirSync(directory, { recursive: true });

const pages = openPages({ productName: 'Gatehouse', supportContact: 'it-desk@example.com' });
const server = await serveSamples(pages);
const browser = await launchChromium();
for (const colorScheme of ['light', 'dark'] as const) {
  for (const width of [390, 1280]) {
    const page = await browser.newPage({ colorScheme, viewport: { width, height: 800 } });
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
