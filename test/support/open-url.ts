// Runs as $BROWSER of a client under test: opens the URL, signs in as Ada, approves, and follows the redirect to the client.
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { isLevel } from '../../src/permission-level.ts';
import { openBrowser } from './browser.ts';

const [, , url = ''] = process.argv;
const origins = process.env.TEST_ORIGINS?.split(',') ?? [];
/** A file with the level to pick once; without it the page's default is sent. */
const levelFile = process.env.TEST_LEVEL_FILE ?? '';

// Clients expect a delay and miss a redirect that arrives before they listen for it.
await delay(500);
const level = existsSync(levelFile) ? readFileSync(levelFile, 'utf8') : undefined;
rmSync(levelFile, { force: true });
const callback = await openBrowser(origins).authorize(url, isLevel(level) ? { level } : {});
const response = await fetch(callback);
if (!response.ok) throw new Error(`the client's own page answered ${response.status}`);
