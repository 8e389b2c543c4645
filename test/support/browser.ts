// A scripted browser over fetch with cookies, redirects and forms. It stops at redirects to other origins.
import type { Level } from '../../src/permission-levels.ts';
import { cookieHeader, storeCookies, type CookieJar } from './cookie-jar.ts';
import { fillForm, parseForms, type FormValues, type Form } from './html-forms.ts';

export type Page = {
  kind: 'page';
  url: URL;
  status: number;
  headers: Headers;
  html: string;
  forms: Form[];
};

/** A redirect to another origin, which the browser does not follow. */
export type ExternalRedirect = { kind: 'redirect'; url: URL };

export type Step = Page | ExternalRedirect;

export type Person = 'ada' | 'grace' | 'alan';

/** `switch` changes to the account `person` and approves. Without `level` and `stay` the browser sends the page's defaults. */
export type AuthorizeOptions = {
  person?: Person;
  level?: Level;
  decision?: 'approve' | 'deny' | 'switch';
  stay?: boolean;
};

export type Browser = {
  jar: CookieJar;
  /** Every URL loaded so far, including redirects. */
  visited: URL[];
  visit(url: URL | string): Promise<Step>;
  /** Fills in the form that has all these fields, and submits it. */
  submit(page: Page, filling: FormValues): Promise<Step>;
  /** Posts any form body, with the headers of a form on `page`. */
  post(page: Page, action: URL, body: URLSearchParams): Promise<Step>;
  /** Ends at the consent page, or at the page shown instead of it. */
  openConsent(url: URL | string, person?: Person): Promise<Page>;
  /** Completes the authorization; resolves to the redirect to the client. */
  authorize(url: URL | string, options?: AuthorizeOptions): Promise<URL>;
};

const MAX_REDIRECTS = 20;

/**
 * `origins` are those of the system: the browser follows redirects among them and stops at any other. `address` is its address in the
 * forwarding header of a proxy.
 */
export function openBrowser(origins: readonly string[], address?: string): Browser {
  const jar: CookieJar = [];
  const visited: URL[] = [];
  const state = { jar, visited, origins, address };
  const browser: Browser = {
    jar,
    visited,
    visit: (url) => followRedirects(state, new URL(url), { method: 'GET' }),
    submit: (page, filling) => {
      const form = requireForm(page, Object.keys(filling));
      return browser.post(page, form.action, fillForm(form, filling));
    },
    post: (page, action, body) =>
      followRedirects(state, action, { method: 'POST', body, headers: headersFrom(page, action) }),
    openConsent: (url, person) => openConsent(browser, url, person),
    authorize: (url, options) => authorize(browser, url, options),
  };
  return browser;
}

async function openConsent(browser: Browser, url: URL | string, person: Person = 'ada') {
  let page = requirePage(await browser.visit(url));
  if (isSignInPage(page)) page = requirePage(await browser.submit(page, { person }));
  return page;
}

async function authorize(
  browser: Browser,
  url: URL | string,
  options: AuthorizeOptions = {},
): Promise<URL> {
  const { person, level, decision = 'approve', stay } = options;
  let step = await browser.visit(url);
  if (step.kind === 'page' && isSignInPage(step))
    step = await browser.submit(step, { person: person ?? 'ada' });
  else if (step.kind === 'page' && decision === 'switch')
    step = await changeAccount(browser, step, person);
  if (step.kind === 'redirect') return step.url;
  const answer = await browser.submit(step, {
    decision: decision === 'deny' ? 'deny' : 'approve',
    ...(level ? { level } : {}),
    ...(stay === undefined ? {} : { stay: stay ? 'on' : false }),
  });
  if (answer.kind === 'redirect') return answer.url;
  throw new Error(`${decision} ended at a page: ${describePage(answer)}`);
}

async function changeAccount(browser: Browser, page: Page, person: Person = 'ada'): Promise<Step> {
  const signIn = requirePage(await browser.submit(page, { decision: 'switch' }));
  return browser.submit(signIn, { person });
}

export function isSignInPage(page: Page): boolean {
  return hasFormWith(page, ['person']);
}

export function isConsentPage(page: Page): boolean {
  return page.forms.some((form) =>
    form.controls.some(({ name, value }) => name === 'decision' && value === 'approve'),
  );
}

export function requirePage(step: Step): Page {
  if (step.kind === 'page') return step;
  throw new Error(`left for ${step.url.href} instead of showing a page`);
}

export function requireExternalRedirect(step: Step): URL {
  if (step.kind === 'redirect') return step.url;
  throw new Error(`stayed at a page: ${describePage(step)}`);
}

function requireForm(page: Page, names: string[]): Form {
  const form = page.forms.find((candidate) => hasFields(candidate, names));
  if (form) return form;
  throw new Error(`no form with ${names.join(', ')} at: ${describePage(page)}`);
}

function hasFormWith(page: Page, names: string[]): boolean {
  return page.forms.some((form) => hasFields(form, names));
}

function hasFields(form: Form, names: string[]): boolean {
  return names.every((name) => form.controls.some((control) => control.name === name));
}

export function describePage({ url, status, html }: Page): string {
  const text = html.replace(/<style[\s\S]*?<\/style>|<[^>]*>/g, ' ').replace(/\s+/g, ' ');
  return `${status} ${url.href} ${text.trim().slice(0, 600)}`;
}

/** Fetch standard: a page with the referrer policy `no-referrer` sends `Origin: null`. */
function headersFrom(page: Page, target: URL): Record<string, string> {
  const withheld = page.headers.get('referrer-policy') === 'no-referrer';
  const sameOrigin = page.url.origin === target.origin;
  return {
    origin: withheld ? 'null' : page.url.origin,
    'sec-fetch-site': sameOrigin ? 'same-origin' : 'same-site',
  };
}

type BrowserState = {
  jar: CookieJar;
  visited: URL[];
  origins: readonly string[];
  address: string | undefined;
};
type PageRequest = { method: string; body?: URLSearchParams; headers?: Record<string, string> };

async function followRedirects(
  { jar, visited, origins, address }: BrowserState,
  start: URL,
  request: PageRequest,
): Promise<Step> {
  let url = start;
  const from: Record<string, string> = address === undefined ? {} : { 'x-forwarded-for': address };
  let next = request;
  for (let redirects = 0; redirects < MAX_REDIRECTS; redirects += 1) {
    if (!origins.includes(url.origin)) return { kind: 'redirect', url };
    visited.push(url);
    const response = await load(jar, url, { ...next, headers: { ...from, ...next.headers } });
    const location = response.headers.get('location');
    if (response.status < 300 || response.status > 399 || !location) return readPage(url, response);
    // Cancelling the body would close the connection.
    await response.text();
    url = new URL(location, url);
    if (response.status !== 307 && response.status !== 308) next = { method: 'GET' };
  }
  throw new Error(`redirected more than ${MAX_REDIRECTS} times, last to ${url.href}`);
}

async function load(jar: CookieJar, url: URL, { method, body, headers }: PageRequest) {
  const cookie = cookieHeader(jar, url);
  const response = await fetch(url, {
    method,
    redirect: 'manual',
    headers: { accept: 'text/html', ...headers, ...(cookie ? { cookie } : {}) },
    ...(body ? { body } : {}),
  });
  storeCookies(jar, url, response.headers.getSetCookie());
  return response;
}

async function readPage(url: URL, response: Response): Promise<Page> {
  const html = await response.text();
  const { status, headers } = response;
  return { kind: 'page', url, status, headers, html, forms: parseForms(html, url) };
}
