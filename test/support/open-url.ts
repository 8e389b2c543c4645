// Run as $BROWSER by a client under test: opens the URL it is given, signs in as Ada, approves, and follows the answer to the client.
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { isLevel } from '../../src/permission-level.ts';
import { openBrowser } from './browser.ts';

const [, , url = ''] = process.argv;
const origins = process.env.TEST_ORIGINS?.split(',') ?? [];
/** Holds the level to pick this one time; without it the page's own choice is sent. */
const levelFile = process.env.TEST_LEVEL_FILE ?? '';

// A person reads the page. Clients count on that, and lose an answer that comes before they wait for it.
await delay(500);
const level = existsSync(levelFile) ? readFileSync(levelFile, 'utf8') : undefined;
rmSync(levelFile, { force: true });
const callback = await openBrowser(origins).authorize(url, isLevel(level) ? { level } : {});
const response = await fetch(callback);
if (!response.ok) throw new Error(`the client's own page answered ${response.status}`);
