// People who connect an app: discovery, registration, the pages of the identity provider and of Gatehouse, and calls.
import { expect } from 'chai';
import {
  type Browser,
  isConsentPage,
  openBrowser,
  type Page,
  requirePage,
} from '../support/browser.ts';
import { registerClient } from '../support/connection.ts';
import { callTool } from '../support/mcp.ts';
import {
  authorizeUrl,
  type Client,
  discover,
  exchange,
  refresh,
  requestToken,
  type Server,
} from '../support/oauth.ts';
import type { Place } from './machine.ts';

/** An app, a machine or a program with a token, connected through a link. */
export type Connected = {
  who: string;
  link: string;
  /** Id of the app. */
  client?: string;
  accessToken: string;
  /** Gets the next access token. Undefined for a token that lasts. */
  renew?: () => Promise<{ status: number; accessToken: string | undefined }>;
};

type Attempt = {
  server: Server;
  client: Client;
  browser: Browser;
  verifier: string;
  /** The consent page, or the page in its place. */
  page: Page;
};

/** A person adds the link to an app and signs in at the provider. */
export async function tryToConnect(place: Place, link: string, person: string): Promise<Attempt> {
  const { server } = await discover(link);
  const client = await registerClient(server);
  const browser = openBrowser([place.urls.auth, place.urls.provider]);
  const { url, verifier } = authorizeUrl(server, client, { resource: link });
  const signIn = requirePage(await browser.visit(url));
  const page = requirePage(await browser.submit(signIn, { login: person, password: 'known' }));
  return { server, client, browser, verifier, page };
}

export async function connectApp(place: Place, link: string, person: string): Promise<Connected> {
  const { server, client, browser, verifier, page } = await tryToConnect(place, link, person);
  expect(isConsentPage(page), `${person}: ${page.html}`).to.equal(true);
  const answer = await browser.submit(page, { decision: 'approve' });
  if (answer.kind === 'page') throw new Error(`${person} stays at ${answer.url.href}`);
  const { body } = await exchange(
    server,
    client,
    { callback: answer.url, verifier },
    { resource: link },
  );
  let refreshToken = body.refresh_token;
  const renew = async () => {
    const next = await refresh(server, client, refreshToken);
    refreshToken = next.body.refresh_token ?? refreshToken;
    return { status: next.status, accessToken: next.body.access_token };
  };
  const accessToken = String(body.access_token);
  return { who: `the app of ${person}`, link, client: client.id, accessToken, renew };
}

/** A program with a client secret (OAuth client credentials). */
export async function connectMachine(
  link: string,
  { id, secret }: { id: string; secret: string },
): Promise<Connected> {
  const { server } = await discover(link);
  const client: Client = { id, secret, method: 'client_secret_basic', redirectUri: '' };
  const renew = async () => {
    const { status, body } = await requestToken(server, client, {
      grant_type: 'client_credentials',
      resource: link,
    });
    return { status, accessToken: body.access_token };
  };
  const { accessToken } = await renew();
  return { who: 'the machine', link, accessToken: String(accessToken), renew };
}

/** The reference that a page without access shows. */
export function referenceOn({ html }: Page): string {
  const [, reference] = /<dd class="code">([^<]+)<\/dd>/.exec(html) ?? [];
  if (reference === undefined) throw new Error(`a page without a reference: ${html}`);
  return reference;
}

/** Calls a tool with the token, gets the next one and calls again. */
export async function expectAlive(each: Connected): Promise<void> {
  await expectCall(each);
  if (!each.renew) return;
  const { status, accessToken } = await each.renew();
  expect(status, `${each.who} renews`).to.equal(200);
  each.accessToken = String(accessToken);
  await expectCall(each);
}

async function expectCall({ who, link, accessToken }: Connected): Promise<void> {
  const { status, text, rpc } = await callTool(link, accessToken, 'whoami');
  expect(status, `${who} calls: ${text}`).to.equal(200);
  expect(rpc?.result?.isError ?? rpc?.error, `${who} calls: ${text}`).to.equal(undefined);
}

/** Neither the token nor its successor opens anything. */
export async function expectEnded({ who, link, accessToken, renew }: Connected): Promise<void> {
  const { status } = await callTool(link, accessToken, 'whoami');
  expect(status, `${who} calls`).to.be.oneOf([401, 403, 410]);
  if (renew) expect((await renew()).status, `${who} renews`).to.be.oneOf([400, 401]);
}
