// Better Auth in the comparison: its mcp plugin on SQLite. Its pages send JSON to its own endpoints, and so does this test.
import { join } from 'node:path';
import { z } from 'zod';
import type { Browser, Step } from '../../support/browser.ts';
import { cookieHeader, storeCookies } from '../../support/cookie-jar.ts';
import { freePorts } from '../../support/free-ports.ts';
import { type Arrival, type Implementation, newFolder, startPeer } from './implementation.ts';

const ADA = { email: 'ada@example.com', password: 'a password' };

export const betterAuth: Implementation = {
  id: 'better-auth',
  name: 'Better Auth, SQLite',
  isInstalled: true,
  async start(place) {
    const [port = 0] = await freePorts(1);
    const directory = await newFolder(place, 'better-auth');
    const metadataPath = '/.well-known/oauth-authorization-server/api/auth';
    const args = [join(directory, 'auth.sqlite')];
    const process = { script: 'better-auth-server.js', port, args, metadataPath, directory };
    const { origin, ...started } = await startPeer(process);
    return {
      ...started,
      origins: [origin],
      scope: 'operations offline_access',
      links: [`${origin}/one/mcp`, `${origin}/two/mcp`],
      open: `${origin}/open`,
      agree,
      stop: started.server.stop,
    };
  },
};

async function agree(browser: Browser, url: URL): Promise<Arrival> {
  let step = await visit(browser, url);
  if (isAt(step, '/sign-in')) step = await answer(browser, step, '/sign-in/email', ADA);
  if (!isAt(step, '/consent')) return { step, asked: false };
  const consent = { accept: true };
  return { step: await answer(browser, step, '/oauth2/consent', consent), asked: true };
}

function isAt(step: Step, path: string): boolean {
  return step.kind === 'page' && step.url.pathname === path;
}

/** Sends the requests of its client library, and follows the URL in the response. */
async function answer(browser: Browser, { url }: Step, path: string, body: object): Promise<Step> {
  const target = new URL(`/api/auth${path}`, url);
  const response = await fetch(target, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      origin: url.origin,
      cookie: cookieHeader(browser.jar, target),
    },
    body: JSON.stringify({ ...body, oauth_query: url.search.slice(1) }),
  });
  storeCookies(browser.jar, target, response.headers.getSetCookie());
  return follow(browser, target, await response.text());
}

/** It redirects navigations only, and tells scripts the URL; fetch cannot send navigation headers. */
async function visit(browser: Browser, url: URL): Promise<Step> {
  const step = await browser.visit(url);
  const isTold = step.kind === 'page' && step.status === 200 && step.html.startsWith('{');
  return isTold ? follow(browser, step.url, step.html) : step;
}

function follow(browser: Browser, from: URL, answer: string): Promise<Step> {
  const { url } = z.looseObject({ url: z.string() }).parse(JSON.parse(answer));
  return visit(browser, new URL(url, from));
}
