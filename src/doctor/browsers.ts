import { ACCOUNT_PATH } from '../authorization-server/interactions/account-session.ts';
import { ENDPOINTS, METADATA_PATH } from '../authorization-server/metadata.ts';
import { METADATA_PREFIX } from '../resource-server/metadata.ts';
import type { Deployment } from './deployment.ts';
import type { HttpResponse } from './http-client.ts';
import { type Finding, findingAbout, type FindingFactory, okIfNone } from './report.ts';

const ORIGIN = 'https://inspector.example';
const REQUEST_HEADERS = ['authorization', 'content-type', 'mcp-protocol-version', 'traceparent'];

/** Sends CORS requests to every address that a web app calls (Fetch section 4.8). */
export async function checkPreflights(deployment: Deployment): Promise<Finding[]> {
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

async function checkPreflight({ send }: Deployment, url: string, method: string): Promise<Finding> {
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
  const allowed = (response.header('access-control-allow-headers') ?? '')
    .toLowerCase()
    .split(/[,\s]+/);
  const missing = REQUEST_HEADERS.filter(
    (name) => !allowed.includes(name) && !allowed.includes('*'),
  );
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
export async function checkCookies({ send, authUrl }: Deployment): Promise<Finding[]> {
  const finding = findingAbout('cookies', authUrl);
  const response = await send(authUrl + ACCOUNT_PATH);
  const isHttps = authUrl.startsWith('https:');
  const headers = isHttps
    ? transportSecurityFindings(authUrl, response.header('strict-transport-security'))
    : [];
  headers.push(...referrerPolicyFindings(authUrl, response.header('referrer-policy')));
  if (response.cookies.length === 0) {
    const reason = `the account page sets no cookie (${response.status})`;
    const isUnavailable = response.status === 503;
    return [...headers, isUnavailable ? finding.unknown(reason) : noCookie(finding, reason)];
  }
  const found = response.cookies.flatMap((cookie) => cookieFindings(finding, cookie, isHttps));
  return [...headers, ...okIfNone(found, finding.ok('cookies have the required attributes'))];
}

function noCookie(finding: FindingFactory, what: string): Finding {
  return finding.problem({ what, why: 'nobody can sign in without cookies', remedy: KEEP_COOKIES });
}

function cookieFindings(finding: FindingFactory, cookie: string, isHttps: boolean): Finding[] {
  const [pair = '', ...rest] = cookie.split(';').map((part) => part.trim());
  const [name = ''] = pair.split('=');
  const attributes = rest.map((part) => part.toLowerCase());
  const has = (attribute: string) => attributes.includes(attribute);
  const faults: [isFaulty: boolean, text: string][] = [
    [isHttps && !has('secure'), 'is not Secure'],
    [!has('httponly'), 'is not HttpOnly'],
    [!has('samesite=lax') && !has('samesite=strict'), 'is not SameSite=Lax'],
    [isHttps && !/^__(Host|Secure)-/.test(name), 'has no prefix __Host- or __Secure-'],
    [
      name.startsWith('__Host-') &&
        (!has('path=/') || attributes.some((a) => a.startsWith('domain='))),
      'has another Path or a Domain, which __Host- does not allow',
    ],
  ];
  const texts = faults.filter(([isFaulty]) => isFaulty).map(([, text]) => text);
  if (texts.length === 0) return [];
  return [
    finding.problem({
      what: `the cookie ${name} ${texts.join(', ')}`,
      why: 'browsers discard it and nobody can sign in, or others can read or replace it',
      remedy: KEEP_COOKIES,
    }),
  ];
}

/** Later values of the header win. Browsers send `Origin: null` with forms under `no-referrer` (Fetch section 3.2). */
function referrerPolicyFindings(url: string, header = ''): Finding[] {
  if (header.split(',').at(-1)?.trim() !== 'no-referrer') return [];
  return [
    findingAbout('headers', url).warning({
      what: 'Referrer-Policy is no-referrer',
      why: 'browsers then hide which page sent a form; those without Fetch Metadata cannot approve anything',
      remedy: 'configure the proxy to leave Referrer-Policy as Gatehouse sends it: same-origin',
    }),
  ];
}

function transportSecurityFindings(url: string, header: string | undefined): Finding[] {
  if (header) return [];
  return [
    findingAbout('headers', url).warning({
      what: 'Strict-Transport-Security is missing',
      why: 'the proxy removes security headers, so that browsers may use plain http for the first request',
      remedy: 'configure the proxy to forward response headers',
    }),
  ];
}
