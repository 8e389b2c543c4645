// `npm run screenshots [-- <language> [<theme>]]` saves every sample page, narrow and wide, light and dark, in results/screenshots/.
// `npm run screenshots -- console` saves every page of the console of a running Gatehouse, with real records, light and dark, in results/screenshots/console/.
// `npm run screenshots -- readme` saves the pictures that README.md shows: the consent page, and the connections of a running Gatehouse.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { CONSOLE_PATH, recordPath } from '../../src/management/console/address.ts';
import { openPages } from '../../src/pages/pages.ts';
import { launchChromium } from './chromium.ts';
import { startCompany } from './console-data.ts';
import { requestManagement } from './management-api.ts';
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
const saved = await save(browser, server.url);
await browser.close();
await server.close();
console.log(saved);

async function save(chromium: Browser, url: string): Promise<string> {
  if (language === 'console') return saveConsole(chromium);
  if (language === 'readme')
    return `${await saveConsentPage(chromium, url)}\n${await saveConnections(chromium)}`;
  return saveSamples(chromium, url);
}

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

/** Shows the pages of a running Gatehouse to its administrator. */
async function withConsole<T>(chromium: Browser, show: (shown: Console) => Promise<T>): Promise<T> {
  const company = await startCompany();
  const { system, connectors } = company;
  const list = async (path: string) =>
    ((await requestManagement(system, 'GET', path)) as { items: { id: string }[] }).items;
  const person = (await list('/accounts?q=katherine'))[0]?.id ?? '';
  const app = (await list('/clients?q=Claude'))[0]?.id ?? '';
  const machine = (await list('/clients?kind=machine'))[0]?.id ?? '';
  const connection = (await list('/grants'))[0]?.id ?? '';
  const connector = connectors[0]?.id ?? '';
  const pages = {
    overview: '/overview',
    audit: '/audit',
    attempts: '/attempts',
    connectors: '/connectors',
    connector: recordPath('connectors', connector).slice(CONSOLE_PATH.length),
    'connector-edit': `/connectors/${connector}/edit`,
    'connector-new': '/connectors/new',
    connections: '/grants?sort=person',
    connection: recordPath('grants', connection).slice(CONSOLE_PATH.length),
    people: '/accounts',
    person: recordPath('accounts', person).slice(CONSOLE_PATH.length),
    apps: '/clients',
    app: recordPath('clients', app).slice(CONSOLE_PATH.length),
    rules: '/rules',
    machines: '/machines',
    machine: recordPath('clients', machine).slice(CONSOLE_PATH.length),
    'machine-connector': '/machines/new',
    tokens: '/tokens',
    'token-new': '/tokens/new',
    'machine-new': `/connectors/${connector}/machine`,
    servers: '/servers',
    'tool-review': '/servers/orders/review',
    'person-tools': `${recordPath('accounts', person).slice(CONSOLE_PATH.length)}/tools?connector=${connector}`,
    'tool-reach': '/servers/orders/tools?tool=cancel_order',
    health: '/health',
    settings: '/settings',
    search: '/search?q=claude',
  };
  const open = async (options: BrowserContextOptions) => {
    const page = await chromium.newPage({ locale: 'en', ...options });
    await page.goto(system.management + CONSOLE_PATH);
    await page.getByRole('button', { name: /Ada Lovelace/ }).click();
    await page.waitForURL(`**${CONSOLE_PATH}/**`);
    return page;
  };
  const result = await show({ url: system.management + CONSOLE_PATH, pages, open });
  await company.stop();
  return result;
}

type Console = {
  url: string;
  pages: Record<string, string>;
  open: (options: BrowserContextOptions) => Promise<Page>;
};

function saveConsole(chromium: Browser): Promise<string> {
  const directory = join(ROOT, 'results/screenshots/console');
  mkdirSync(directory, { recursive: true });
  return withConsole(chromium, async ({ url, pages, open }) => {
    for (const width of [390, 1280]) {
      const page = await open({ viewport: { width, height: 800 } });
      for (const [name, path] of Object.entries(pages)) {
        await page.goto(url + path);
        for (const colorScheme of ['light', 'dark'] as const) {
          await page.emulateMedia({ colorScheme });
          const file = join(directory, `${name}-${width}-${colorScheme}.png`);
          await page.screenshot({ path: file, fullPage: true });
        }
      }
      await page.close();
    }
    return directory;
  });
}

function saveConnections(chromium: Browser): Promise<string> {
  return withConsole(chromium, async ({ url, pages, open }) => {
    const page = await open({ viewport: { width: 1280, height: 800 } });
    await page.goto(`${url}${pages.connections}`);
    const path = join(ROOT, '.github/console.png');
    writeFileSync(path, await withPalette(chromium, await page.screenshot()));
    return path;
  });
}
