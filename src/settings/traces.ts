// Trace settings from the standard OpenTelemetry variables (SDK and OTLP exporter specifications), read only if traces are on.
import { isLoopbackUrl } from './addresses.ts';
import { inProduction } from './checks.ts';
import type { Environment } from './environment.ts';
import type { SettingsIssue } from './issues.ts';
import type { SettingsFile } from './schema.ts';
import type { Reading } from './secrets.ts';
import { hidden } from './source.ts';

export type TraceSettings = {
  /** Address of the collector: OTLP over HTTP, in JSON. */
  url: string;
  /** Secrets. */
  headers: Record<string, string>;
  /** Resource attributes, including `service.name`. */
  attributes: Record<string, string>;
  /** Sampling ratio, 0 to 1. */
  ratio: number;
  /** Milliseconds: limit of one export, and time from the end of a span to its export. */
  timeout: number;
  delay: number;
  /** Maximum number of spans in the queue, and in one export. */
  queue: number;
  batch: number;
};

const SERVICE_NAME = 'service.name';
const DEFAULT_ENDPOINT = 'http://localhost:4318';
const ADDRESS =
  'an address such as https://collector.example.com:4318, without a user name, a password or a # (secrets go into OTEL_EXPORTER_OTLP_HEADERS)';
const PAIRS = 'name=value pairs separated by commas, with special characters percent-encoded';
const SAMPLERS = ['always_on', 'always_off', 'traceidratio'];
const MAX_EXPORTER_MS = 60_000;

/** The value is undefined if traces are off. `reason` says why this is production. */
export function readTraces(
  environment: Environment,
  { observability }: Partial<SettingsFile>,
  reason: string | undefined,
): Reading<TraceSettings> {
  if (!observability?.traces || isTurnedOff(environment)) return { issues: [] };
  const issues: SettingsIssue[] = [];
  const read = openReader(environment, issues);
  const url = readAddress(read) ?? tracesAt(DEFAULT_ENDPOINT);
  if (reason && isOpen(url) && !observability.privateNetwork)
    issues.push(notPrivate(environment, url, reason));
  read(exporterNames('PROTOCOL'), 'http/json, the only supported protocol', oneOf('http/json'));
  read(['OTEL_TRACES_EXPORTER'], 'otlp or none', oneOf('otlp'));
  const count = (name: string, max: number) =>
    read([name], `a whole number from 1 to ${max}`, wholeNumber(max));
  const queue = count('OTEL_BSP_MAX_QUEUE_SIZE', 65_536) ?? 2048;
  const value = {
    url,
    headers: {
      ...read(['OTEL_EXPORTER_OTLP_HEADERS'], PAIRS, headerPairs),
      ...read(['OTEL_EXPORTER_OTLP_TRACES_HEADERS'], PAIRS, headerPairs),
    },
    attributes: readAttributes(read),
    ratio: readRatio(read),
    timeout:
      read(
        exporterNames('TIMEOUT'),
        `milliseconds, at most ${MAX_EXPORTER_MS}`,
        wholeNumber(MAX_EXPORTER_MS),
      ) ?? 10_000,
    delay: count('OTEL_BSP_SCHEDULE_DELAY', MAX_EXPORTER_MS) ?? 5000,
    queue,
    batch: Math.min(queue, count('OTEL_BSP_MAX_EXPORT_BATCH_SIZE', 8192) ?? 256),
  };
  return { value, issues };
}

function isTurnedOff(environment: Environment): boolean {
  return (
    environment['OTEL_SDK_DISABLED']?.toLowerCase() === 'true' ||
    environment['OTEL_TRACES_EXPORTER'] === 'none'
  );
}

/** The variable for traces takes precedence over the general one. */
function exporterNames(what: string): string[] {
  return [`OTEL_EXPORTER_OTLP_TRACES_${what}`, `OTEL_EXPORTER_OTLP_${what}`];
}

/** The general endpoint gets the path `/v1/traces`; the endpoint for traces is used as it is. */
function readAddress(read: Read): string | undefined {
  return (
    read(['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'], ADDRESS, (text) => addressIn(text)?.href) ??
    read(['OTEL_EXPORTER_OTLP_ENDPOINT'], ADDRESS, (text) => addressIn(text) && tracesAt(text))
  );
}

function addressIn(text: string): URL | undefined {
  const url = URL.parse(text);
  if (!url || !/^https?:$/.test(url.protocol) || text.includes('#')) return undefined;
  return url.username === '' && url.password === '' ? url : undefined;
}

function tracesAt(endpoint: string): string {
  const url = new URL(endpoint);
  url.pathname = `${url.pathname.replace(/\/$/, '')}/v1/traces`;
  return url.href;
}

/** Others could read the traces and the secret headers on the network. */
function isOpen(url: string): boolean {
  return new URL(url).protocol === 'http:' && !isLoopbackUrl(url);
}

function notPrivate(environment: Environment, url: string, reason: string): SettingsIssue {
  const setting = exporterNames('ENDPOINT').find((name) => environment[name]) ?? '';
  const expected = `an https address (or observability.privateNetwork: true on a private network), ${inProduction(reason)}`;
  return { setting, given: JSON.stringify(new URL(url).origin), expected };
}

function readAttributes(read: Read): Record<string, string> {
  const attributes = read(['OTEL_RESOURCE_ATTRIBUTES'], PAIRS, pairs) ?? {};
  const name = read(['OTEL_SERVICE_NAME'], 'a name', (text) => text);
  return { [SERVICE_NAME]: 'gatehouse', ...attributes, ...(name ? { [SERVICE_NAME]: name } : {}) };
}

/** Requests never continue a caller's trace, so `parentbased_` makes no difference. */
function readRatio(read: Read): number {
  const expected = `one of ${SAMPLERS.flatMap((name) => [name, `parentbased_${name}`]).join(', ')}`;
  const sampler = read(['OTEL_TRACES_SAMPLER'], expected, (text) => {
    const name = text.replace(/^parentbased_/, '');
    return SAMPLERS.includes(name) ? name : undefined;
  });
  if (sampler !== 'traceidratio') return sampler === 'always_off' ? 0 : 1;
  return read(['OTEL_TRACES_SAMPLER_ARG'], 'a number from 0 to 1', share) ?? 1;
}

export type Parse<T> = (text: string) => T | undefined;
export type Read = <T>(
  names: readonly string[],
  expected: string,
  parse: Parse<T>,
) => T | undefined;

/** Reads the first variable that is set. Never shows its value, which may be a secret set in the wrong variable. */
export function openReader(environment: Environment, issues: SettingsIssue[]): Read {
  return (names, expected, parse) => {
    const setting = names.find((name) => environment[name]);
    const text = setting && environment[setting]?.trim();
    if (!text) return undefined;
    const value = parse(text);
    if (value === undefined) issues.push({ setting, given: hidden(text), expected });
    return value;
  };
}

export function share(text: string): number | undefined {
  return /^(0?\.\d+|0|1(\.0+)?|0\.)$/.test(text) ? Number(text) : undefined;
}

export function wholeNumber(most: number): Parse<number> {
  return (text) => (/^[1-9]\d{0,8}$/.test(text) && Number(text) <= most ? Number(text) : undefined);
}

export function oneOf(known: string): Parse<string> {
  return (text) => (text === known ? text : undefined);
}

/** Parses `a=1,b=2` (W3C Baggage). */
export function pairs(text: string): Record<string, string> | undefined {
  try {
    const entries = text.split(',').map((pair): [string, string] => {
      const [, name = '', value = ''] = /^\s*([^=\s]+)\s*=\s*(.*?)\s*$/.exec(pair) ?? [];
      return [decodeURIComponent(name), decodeURIComponent(value)];
    });
    return entries.every(([name]) => name !== '') ? Object.fromEntries(entries) : undefined;
  } catch {
    return undefined;
  }
}

/** Accepts only valid header names and values (RFC 9110 section 5.5). */
export function headerPairs(text: string): Record<string, string> | undefined {
  const headers = pairs(text);
  const isHeader = ([name, value]: [string, string]) =>
    /^[\w!#$%&'*+.^`|~-]+$/.test(name) && /^[\x20-\x7e]*$/.test(value);
  return headers && Object.entries(headers).every(isHeader) ? headers : undefined;
}
