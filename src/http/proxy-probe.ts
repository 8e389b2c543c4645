// A probe tells `gatehouse doctor` what proxies make of a request on its way in; only who has the root secret can ask.
import { createHmac, type KeyObject } from 'node:crypto';
import type Koa from 'koa';
import { constantTimeEqual } from '../constant-time.ts';
import { clientAddress } from './canonical-host.ts';

export const PROBE_HEADER = 'gatehouse-probe';
export const PROBE_PURPOSE = 'proxy probes';

/** Seconds; clocks may differ a little. */
const GOOD_FOR = 900;
const FORM = /^(\d{1,12})\.([\w-]{43})$/;

/** What arrived, before any of it was made canonical. `forwardedFor` from left to right. */
export type ObservedRequest = {
  host: string;
  forwardedFor: string[];
  forwardedProto: string;
  /** Whom rate limits and the log take the client for, with this many `proxies` in the settings. */
  address: string;
  proxies: number;
};

/** The value of the header; `now` in seconds. */
export function createProbe(key: KeyObject, now: number): string {
  const time = String(Math.floor(now));
  return `${time}.${mac(key, time)}`;
}

export function isValidProbe(keys: readonly KeyObject[], value: string, now: number): boolean {
  const [, time = '', sent = ''] = FORM.exec(value) ?? [];
  if (time === '' || Math.abs(now - Number(time)) > GOOD_FOR) return false;
  return keys.some((key) => constantTimeEqual(mac(key, time), sent));
}

export function observedRequest(ctx: Koa.Context, proxies: number): ObservedRequest {
  const { headers } = ctx.req;
  const hops = String(headers['x-forwarded-for'] ?? '').split(',');
  return {
    host: headers.host ?? '',
    forwardedFor: hops.map((hop) => hop.trim()).filter((hop) => hop !== ''),
    forwardedProto: String(headers['x-forwarded-proto'] ?? ''),
    address: clientAddress(ctx, proxies),
    proxies,
  };
}

function mac(key: KeyObject, time: string): string {
  return createHmac('sha256', key).update(`probe\n${time}`).digest('base64url');
}
