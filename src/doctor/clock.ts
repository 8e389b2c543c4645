import type { HttpResponse } from './http-client.ts';
import { type Finding, findingAbout } from './report.ts';

const WARNING_MS = 10_000;
const PROBLEM_MS = 30_000;

/** Compares the Date header (RFC 9110 section 6.6.1) with the local clock. */
export function checkDateHeader(about: string, response: HttpResponse): Finding {
  const date = Date.parse(response.header('date') ?? '');
  if (Number.isNaN(date))
    return findingAbout('clock', about).unknown('the response has no Date header');
  // The header has whole seconds; assume the middle of the second.
  return checkClock(about, date + 500, response);
}

/** `time` is the clock's time at some moment between `sentAt` and `receivedAt`. All are milliseconds since the epoch. */
export function checkClock(
  about: string,
  time: number,
  { sentAt, receivedAt }: Pick<HttpResponse, 'sentAt' | 'receivedAt'>,
): Finding {
  const finding = findingAbout('clock', about);
  const offset = time < sentAt ? time - sentAt : Math.max(0, time - receivedAt);
  if (Math.abs(offset) < WARNING_MS) return finding.ok('its clock agrees with the local clock');
  const seconds = Math.round(Math.abs(offset) / 1000);
  return finding[Math.abs(offset) < PROBLEM_MS ? 'warning' : 'problem']({
    what: `its clock is ${seconds} s ${offset < 0 ? 'behind' : 'ahead of'} the local clock`,
    why: 'tokens and sign-ins are refused as expired or not yet valid, and lifetimes are wrong',
    remedy: 'synchronize both clocks by NTP (timedatectl, chronyc tracking)',
  });
}
