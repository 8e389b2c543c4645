// `gatehouse doctor` sends a probe to see how the proxies in front change a request. Probes are signed with the root secret.
import { createHmac, type KeyObject } from 'node:crypto';
import { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import type Koa from 'koa';
import { constantTimeEqual } from '../constant-time.ts';
import { clientAddress } from './canonical-host.ts';

export const PROBE_HEADER = 'gatehouse-probe';
export const PROBE_PURPOSE = 'proxy probes';

/** Allows for different clocks. */
const MAX_AGE_SECONDS = 900;
const PROBE = /^(\d{1,12})\.([\w-]{43})$/;

/** The request as it arrived. */
export type ObservedRequest = {
  host: string;
  /** From left to right. */
  forwardedFor: string[];
  forwardedProto: string;
  /** The client's address for rate limits and the log, with this number of `proxies`. */
  address: string;
  proxies: number;
};

/** Returns the value of the header. `now` is in seconds. */
export function createProbe(key: KeyObject, now: number): string {
  const time = String(Math.floor(now));
  return `${time}.${mac(key, time)}`;
}

export function isValidProbe(keys: readonly KeyObject[], value: string, now: number): boolean {
  const [, time = '', sent = ''] = PROBE.exec(value) ?? [];
  if (time === '' || Math.abs(now - Number(time)) > MAX_AGE_SECONDS) return false;
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

export const STREAM_TYPE = 'text/event-stream';
/** From the first event of a probed stream to its last one. */
export const PROBE_STREAM_MS = 1000;

/** A stream of two events, with the headers of streams of MCP servers. Shows whether proxies pass the first one on before the last. */
export function respondWithProbeStream(ctx: Koa.Context): void {
  ctx.type = STREAM_TYPE;
  ctx.set('X-Accel-Buffering', 'no');
  ctx.body = Readable.from(probeEvents());
}

async function* probeEvents() {
  yield 'data: first\n\n';
  await delay(PROBE_STREAM_MS);
  yield 'data: last\n\n';
}

function mac(key: KeyObject, time: string): string {
  return createHmac('sha256', key).update(`probe\n${time}`).digest('base64url');
}
