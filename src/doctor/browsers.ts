import { ACCOUNT_PATH } from '../consent/account-session.ts';
import { ENDPOINTS, METADATA_PATH } from '../oauth/metadata.ts';
import { METADATA_PREFIX } from '../gateway/metadata.ts';
import type { Deployment } from './deployment.ts';
import type { HttpResponse } from './http-client.ts';
import { findingAbout, type Findings, okIfNone } from './report.ts';

const ORIGIN = 'https://inspector.example';
const REQUEST_HEADERS = ['authorization', 'content-type', 'mcp-protocol-version', 'traceparent'];

/** Sends CORS requests to every address that a web app calls (Fetch section 4.8). */
export async function checkPreflights(deployment: Deployment): Promise<Findings> {
  const { authUrl, resourceUrl } = deployment;
  const requests: [url: string, method: string][] = [
    [authUrl + METADATA_PATH, 'GET'],
    [resourceUrl + METADATA_PREFIX, 'GET'],
    [authUrl + ENDPOINTS.jwks, 'GET'],
    [authUrl + ENDPOINTS.registration, 'POST'],
    [authUrl + ENDPOINTS.token, 'POST'],
    [authUrl + ENDPOINTS.revocation, 'POST'],
  ];
  return Promise.all(requests.map(([url, method]) => checkPreflight(deployment, url, method)));
}

async function checkPreflight(
  { send }: Deployment,
  url: string,
  method: string,
): Promise<Findings> {
  const preflight = await send(url, {
    method: 'OPTIONS',
    headers: {
      origin: ORIGIN,
      'access-control-request-method': method,
      'access-control-request-headers': REQUEST_HEADERS.join(','),
    },
  });
  const actual = method === 'GET' ? await send(url, { headers: { origin: ORIGIN } }) : undefined;
  const finding = findingAbout('cors', url);
  const fault = preflightFault(preflight) ?? (actual && originFault(actual));
  if (fault === undefined) return finding.ok('web apps may send requests');
  return finding.problem({
    what: fault,
    why: 'browsers refuse requests of apps that run on web pages',
    remedy:
      'configure the proxy to forward OPTIONS, and neither to add nor to remove Access-Control headers, which Gatehouse sends',
  });
}

function preflightFault(response: HttpResponse): string | undefined {
  if (response.status !== 200 && response.status !== 204)
    return `the response to a preflight is ${response.status}`;
  const header = response.header('access-control-allow-headers') ?? '';
  const allowed = header.toLowerCase().split(/[,\s]+/);
  const missing = REQUEST_HEADERS.filter((name) => ![name, '*'].some((it) => allowed.includes(it)));
  const fault = originFault(response);
  if (fault !== undefined || missing.length === 0) return fault;
  return `the response to a preflight does not allow the header ${missing.join(', ')}`;
}

/** If two proxies add the header, its value is a list, which browsers refuse. */
function originFault(response: HttpResponse): string | undefined {
  const origin = response.header('access-control-allow-origin');
  if (origin === '*' || origin === ORIGIN) return undefined;
  return `Access-Control-Allow-Origin is ${origin ?? 'missing'}`;
}

const KEEP_COOKIES =
  'configure the proxy to keep Set-Cookie unchanged (nginx: no proxy_cookie_flags, proxy_cookie_path or proxy_cookie_domain)';

/** Checks cookie attributes and prefixes (RFC 6265bis section 4.1.3), Strict-Transport-Security and Referrer-Policy. */
export async function checkCookies({ send, authUrl }: Deployment): Promise<Findings> {
  const finding = findingAbout('cookies', authUrl);
  const headers = findingAbout('headers', authUrl);
  const response = await send(authUrl + ACCOUNT_PATH);
  const isHttps = authUrl.startsWith('https:');
  const policies = (response.header('referrer-policy') ?? '').split(',');
  const noCookie = `the account page sets no cookie (${response.status})`;
  const cookies = response.cookies.map((cookie) => {
    const { name, faults } = cookieFaults(cookie, isHttps);
    return (
      faults.length > 0 &&
      finding.problem({
        what: `the cookie ${name} ${faults.join(', ')}`,
        why: 'browsers discard it and nobody can sign in, or others can read or replace it',
        remedy: KEEP_COOKIES,
      })
    );
  });
  return [
    isHttps &&
      !response.header('strict-transport-security') &&
      headers.warning({
        what: 'Strict-Transport-Security is missing',
        why: 'the proxy removes security headers, so that browsers may use plain http for the first request',
        remedy: 'configure the proxy to forward response headers',
      }),
    // Later values of the header win. Browsers send `Origin: null` with forms under `no-referrer` (Fetch section 3.2).
    policies.at(-1)?.trim() === 'no-referrer' &&
      headers.warning({
        what: 'Referrer-Policy is no-referrer',
        why: 'browsers then hide which page sent a form; those without Fetch Metadata cannot approve anything',
        remedy: 'configure the proxy to leave Referrer-Policy as Gatehouse sends it: same-origin',
      }),
    cookies.length > 0
      ? okIfNone(cookies, finding.ok('cookies have the required attributes'))
      : response.status === 503
        ? finding.unknown(noCookie)
        : finding.problem({
            what: noCookie,
            why: 'nobody can sign in without cookies',
            remedy: KEEP_COOKIES,
          }),
  ];
}

function cookieFaults(cookie: string, isHttps: boolean): { name: string; faults: string[] } {
  const [pair = '', ...rest] = cookie.split(';').map((part) => part.trim());
  const [name = ''] = pair.split('=');
  const attributes = rest.map((part) => part.toLowerCase());
  const has = (attribute: string) => attributes.includes(attribute);
  const isBound = has('path=/') && !attributes.some((part) => part.startsWith('domain='));
  const faults = {
    'is not Secure': isHttps && !has('secure'),
    'is not HttpOnly': !has('httponly'),
    'is not SameSite=Lax': !has('samesite=lax') && !has('samesite=strict'),
    'has no prefix __Host- or __Secure-': isHttps && !/^__(Host|Secure)-/.test(name),
    'has another Path or a Domain, which __Host- does not allow':
      name.startsWith('__Host-') && !isBound,
  };
  return { name, faults: Object.entries(faults).flatMap(([text, is]) => (is ? text : [])) };
}
