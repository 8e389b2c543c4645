// One request as a client makes it, without following redirects: the answer, or in plain words why there is none.
import { Agent, request } from 'undici';

export type Question = {
  method?: 'GET' | 'POST' | 'OPTIONS';
  headers?: Record<string, string>;
  body?: string;
};

/** Times are milliseconds since the epoch, before and after. */
export type Answer = {
  status: number;
  /** Names in lower case; several of one name are joined with a comma and a space, cookies aside. */
  header: (name: string) => string | undefined;
  cookies: string[];
  text: string;
  asked: number;
  answered: number;
};

export type Ask = (url: string, question?: Question) => Promise<Answer>;

/** Nothing came back that is HTTP, or not in time. */
export class NoAnswer extends Error {
  override name = 'NoAnswer';
}

const PATIENCE_MS = 5000;
const MOST_BYTES = 1024 * 1024;

/**
 * `trusting` takes any certificate: one check judges those, so that the others can look behind a bad one. Nothing secret is ever sent
 * this way.
 */
export function openAsk({ trusting, signal }: { trusting: boolean; signal: AbortSignal }) {
  const dispatcher = new Agent({
    connect: { rejectUnauthorized: !trusting, timeout: PATIENCE_MS },
    maxResponseSize: MOST_BYTES,
  });
  const ask: Ask = async (url, { method = 'GET', headers = {}, body } = {}) => {
    const asked = Date.now();
    try {
      const answer = await request(url, {
        method,
        headers: { 'user-agent': 'gatehouse-doctor', ...headers },
        ...(body === undefined ? {} : { body }),
        dispatcher,
        signal: AbortSignal.any([signal, AbortSignal.timeout(PATIENCE_MS)]),
      });
      const text = await answer.body.text();
      const header = (name: string) => textOf(answer.headers[name]);
      const cookies = [answer.headers['set-cookie'] ?? []].flat();
      return { status: answer.statusCode, header, cookies, text, asked, answered: Date.now() };
    } catch (cause) {
      throw new NoAnswer(reasonOf(cause, new URL(url)), { cause });
    }
  };
  return { ask, close: () => dispatcher.destroy() };
}

function textOf(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value.join(', ') : value;
}

const REASONS: Record<string, string> = {
  ECONNREFUSED: 'nothing listens there (connection refused)',
  ECONNRESET: 'the connection was cut',
  UND_ERR_SOCKET: 'the connection was cut',
  EHOSTUNREACH: 'there is no way to that machine',
  ENETUNREACH: 'there is no way to that network',
  ERR_TLS_CERT_ALTNAME_INVALID: 'the certificate is for another name',
  CERT_HAS_EXPIRED: 'the certificate has expired',
  EPROTO: 'it does not speak TLS as it should',
};

function reasonOf(error: unknown, { hostname }: URL): string {
  const { name = '', code = '', message = '' } = error as NodeJS.ErrnoException;
  if (/ENOTFOUND|EAI_AGAIN/.test(code)) return `the name ${hostname} has no address (${code})`;
  if (/Abort|Timeout/i.test(name) || /TIMEOUT|TIMEDOUT/.test(code))
    return `no answer within ${PATIENCE_MS / 1000} s`;
  return REASONS[code] ?? (`${code} ${message}`.trim() || 'no answer');
}

/** The text as a JSON object, or undefined. */
export function jsonOf({ text }: Answer): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}

/** For people: status and kind of what came. */
export function kindOf(answer: Answer): string {
  const type = answer.header('content-type')?.split(';')[0] ?? 'no content type';
  const target = answer.header('location');
  return `${answer.status}${target ? `, a redirect to ${target}` : ` and ${type}`}`;
}
