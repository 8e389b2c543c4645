// The consent page: bytes and requests until it is readable, and its response time.
import { openBrowser } from '../support/browser.ts';
import { cookieHeader } from '../support/cookie-jar.ts';
import { registerClient } from '../support/connection.ts';
import { authorizeUrl, discover } from '../support/oauth.ts';
import { type Place, startGatehouse } from './subjects.ts';
import type { Part } from './part.ts';
import { atMost, type Report } from './targets.ts';
import { median, timeOf } from './timing.ts';

const MAX_BYTES = 40_000;
const MAX_REQUESTS = 2;
const MAX_MS = 10;
const FULL = { loads: 200, warmUp: 50 };
const QUICK = { loads: 2, warmUp: 1 };

const PHASE = 'consent page';

export const consentPage: Part = {
  phases: ({ quick }) => [[PHASE, quick ? 1 : 3]],
  measure(place, begin) {
    begin(PHASE);
    return measureConsentPage(place);
  },
};

/** Repeated loads by one person. */
async function measureConsentPage(place: Place): Promise<Report> {
  const { loads, warmUp } = place.quick ? QUICK : FULL;
  const gatehouse = await startGatehouse('sqlite', place);
  try {
    const { server } = await discover(gatehouse.resource);
    const client = await registerClient(server);
    const browser = openBrowser(gatehouse.origins);
    const { url } = authorizeUrl(server, client, { resource: gatehouse.resource });
    const page = await browser.openConsent(url, 'ada');
    const headers = { cookie: cookieHeader(browser.jar, page.url), accept: 'text/html' };
    const times = [];
    for (let load = 0; load < warmUp + loads; load += 1)
      times.push(await timeOf(() => load200(page.url, headers)));
    const parts = await Promise.all(
      neededBy(page.html).map((path) => load200(new URL(path, page.url), headers)),
    );
    const bytes = [page.html, ...parts].reduce((sum, text) => sum + Buffer.byteLength(text), 0);
    const ms = median(times.slice(warmUp));
    const requests = parts.length + 1;
    return {
      text: `The consent page, loaded ${loads} times by one person\n  ${bytes} bytes in ${requests} requests, ${ms.toFixed(1)} ms (median)`,
      targets: [
        atMost('size of the consent page with all that it loads', MAX_BYTES, 'bytes', bytes),
        atMost('the consent page is loaded', MAX_REQUESTS, 'requests', requests),
        atMost('median of the consent page', MAX_MS, 'ms', ms),
      ],
    };
  } finally {
    await gatehouse.stop();
  }
}

async function load200(url: URL, headers: Record<string, string>): Promise<string> {
  const response = await fetch(url, { headers, redirect: 'manual' });
  if (response.status === 200) return response.text();
  throw new Error(`${url.pathname} was answered ${response.status}`);
}

/** The resources that a browser needs to show the page, without the favicon. */
function neededBy(html: string): string[] {
  const found = html.matchAll(
    /<link rel="stylesheet" href="([^"]+)"|<(?:img|script)[^>]* src="([^"]+)"/g,
  );
  return [...found].map(([, style, other]) => style ?? other ?? '');
}
