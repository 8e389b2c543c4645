// What the answer of a receiver means for a batch.
import type { IncomingHttpHeaders } from 'node:http';
import { causesOf, rootMessage } from '../../error-causes.ts';
import { AddressNotPublic } from '../../http/guarded-request.ts';
import { printable } from '../../printable-text.ts';
import type { DeliveryTarget } from '../../settings/audit-delivery.ts';
import { tlsFault } from '../../tls-errors.ts';

/** `body` has the first 64 kB. */
export type Answer = { status: number; headers: IncomingHttpHeaders; body: Buffer };

/**
 * `halve`: the batch is too large, or one of its items is refused. `hold`: everything would be refused. `retry`: after `wait` seconds, if the
 * receiver says so.
 */
export type Verdict =
  | { kind: 'accept' }
  | { kind: 'halve' | 'hold'; reason: string }
  | { kind: 'retry'; reason: string; wait: number | undefined };

const HALVING = [400, 413];
const HOLDING = [401, 403, 404, 405, 410, 415];

export function verdictOnAnswer(target: DeliveryTarget, answer: Answer, now: number): Verdict {
  const { status } = answer;
  if (status >= 200 && status < 300) return { kind: 'accept' };
  const reason = reasonOf(target, answer);
  if (HALVING.includes(status)) return { kind: 'halve', reason };
  if (HOLDING.includes(status) || (status >= 300 && status < 400)) return { kind: 'hold', reason };
  return { kind: 'retry', reason, wait: retryAfter(answer.headers['retry-after'], now) };
}

/** `error` ended the attempt before there was an answer. */
export function verdictOnError(target: DeliveryTarget, error: unknown): Verdict {
  const fault = tlsFault(error);
  if (fault) return { kind: 'hold', reason: `the receiver ${fault.what}: ${fault.remedy}` };
  if (error instanceof AddressNotPublic) {
    const reason = `${error.message}; for a receiver in your own network, set privateNetwork`;
    return { kind: 'hold', reason };
  }
  const isLate = causesOf(error).some(({ name }) => name === 'TimeoutError');
  const reason = isLate ? 'no answer in time' : wordsOf(target, rootMessage(error));
  return { kind: 'retry', reason, wait: undefined };
}

function reasonOf(target: DeliveryTarget, { status, headers, body }: Answer): string {
  const said = body.toString('utf8').replaceAll(/<[^>]*>/g, ' ');
  const to = status < 400 && headers.location ? `redirects to ${headers.location}` : said;
  const words = wordsOf(target, to);
  return words === '' ? `HTTP ${status}` : `HTTP ${status}: ${words}`;
}

/** On one line and shortened, without the secrets that a receiver repeats. */
export function wordsOf(target: DeliveryTarget, text: string): string {
  return printable(hideSecrets(target, text));
}

const MIN_SECRET_LENGTH = 6;

function hideSecrets({ url, headers, ...kind }: DeliveryTarget, text: string): string {
  const secrets = [
    ...Object.values(headers).flatMap((value) => [value, ...value.split(/[\s,;=]+/)]),
    ...partsOf(new URL(url)),
    ...('secrets' in kind ? kind.secrets.flatMap((secret) => [secret, secret.slice(6)]) : []),
  ].filter((secret) => secret.length >= MIN_SECRET_LENGTH);
  return secrets
    .toSorted((one, other) => other.length - one.length)
    .reduce((shown, secret) => shown.replaceAll(secret, '[hidden]'), text);
}

/** Short steps of a path are words of any answer. */
const MIN_SECRET_STEP = 16;

function partsOf({ pathname, searchParams }: URL): string[] {
  const steps = pathname.split('/').filter((step) => step.length >= MIN_SECRET_STEP);
  return [...searchParams.values(), pathname, ...steps];
}

/** Also the longest time between two attempts. */
export const MAX_WAIT_SECONDS = 3600;

/** Seconds, or a date (RFC 9110 section 10.2.3). Undefined for anything else, and for a time that is over. */
function retryAfter(value: string | undefined, now: number): number | undefined {
  if (value === undefined) return undefined;
  const seconds = /^\d{1,15}$/.test(value) ? Number(value) : secondsUntil(value, now);
  return seconds !== undefined && seconds > 0 ? Math.min(seconds, MAX_WAIT_SECONDS) : undefined;
}

/** Dates in the three forms of RFC 9110 section 5.6.7 begin with the name of a day. */
function secondsUntil(value: string, now: number): number | undefined {
  const time = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)/.test(value) ? Date.parse(value) : NaN;
  return Number.isNaN(time) ? undefined : time / 1000 - now;
}
