// Run as $BROWSER by a client under test: opens the URL it is given, signs in as Ada, approves, and follows the answer to the client.
import { openBrowser } from './browser.ts';

const [, , url = ''] = process.argv;
const origins = process.env.TEST_ORIGINS?.split(',') ?? [];

const callback = await openBrowser(origins).authorize(url);
const response = await fetch(callback);
if (!response.ok) throw new Error(`the client's own page answered ${response.status}`);
