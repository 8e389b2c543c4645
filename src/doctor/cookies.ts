// The cookies and headers that keep a browser safe, as they are after every proxy (RFC 6265bis section 4.1.3).
import { ACCOUNT_PATH } from '../authorization-server/interactions/account-session.ts';
import type { Deployment } from './deployment.ts';
import { type Finding, orOk, type Words, wordsOf } from './finding.ts';

const REMEDY =
  'have the proxy leave Set-Cookie alone (nginx: no proxy_cookie_flags, proxy_cookie_path or proxy_cookie_domain)';

export async function cookieFindings({ ask, authUrl }: Deployment): Promise<Finding[]> {
  const words = wordsOf('cookies', authUrl);
  const answer = await ask(authUrl + ACCOUNT_PATH);
  const isHttps = authUrl.startsWith('https:');
  const safety = isHttps
    ? transportFindings(authUrl, answer.header('strict-transport-security'))
    : [];
  if (answer.cookies.length === 0) {
    const reason = `no cookie was set (${answer.status})`;
    return [...safety, answer.status === 503 ? words.unknown(reason) : noCookie(words, reason)];
  }
  const found = answer.cookies.flatMap((cookie) => judge(words, cookie, isHttps));
  return [...safety, ...orOk(found, words.ok('cookies are as they have to be'))];
}

function noCookie(words: Words, reason: string): Finding {
  return words.problem({
    what: `the page of one's connected apps: ${reason}`,
    why: 'without cookies nobody can sign in',
    remedy: REMEDY,
  });
}

function judge(words: Words, cookie: string, isHttps: boolean): Finding[] {
  const [pair = '', ...rest] = cookie.split(';').map((part) => part.trim());
  const [name = ''] = pair.split('=');
  const attributes = rest.map((part) => part.toLowerCase());
  const has = (attribute: string) => attributes.includes(attribute);
  const faults: [boolean, string][] = [
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
  const wrong = faults.filter(([isWrong]) => isWrong).map(([, text]) => text);
  if (wrong.length === 0) return [];
  return [
    words.problem({
      what: `the cookie ${name} ${wrong.join(', ')}`,
      why: 'browsers drop it, so that nobody can sign in, or others can read or replace it',
      remedy: REMEDY,
    }),
  ];
}

function transportFindings(url: string, header: string | undefined): Finding[] {
  if (header) return [];
  return [
    wordsOf('headers', url).warning({
      what: 'Strict-Transport-Security is missing',
      why: 'the proxy takes security headers away, so that a first visit may go by plain http',
      remedy: 'have the proxy pass the headers of answers on',
    }),
  ];
}
