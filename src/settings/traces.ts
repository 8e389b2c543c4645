// Where traces go and how many: the standard variables of OpenTelemetry (its SDK and OTLP exporter specifications), read only when traces are on.
import { isLoopbackUrl } from './addresses.ts';
import { inProduction } from './checks.ts';
import type { Environment } from './environment.ts';
import type { SettingsIssue } from './issues.ts';
import type { SettingsFile } from './schema.ts';
import type { Reading } from './secrets.ts';
import { hidden } from './source.ts';

export type TraceSettings = {
  /** Where they are posted to: OTLP over HTTP, in JSON. */
  url: string;
  /** Secrets. */
  headers: Record<string, string>;
  /** Of the service, `service.name` among them. */
  attributes: Record<string, string>;
  /** The share of requests that are traced, 0 to 1. */
  ratio: number;
  /** Milliseconds: for one delivery, and from a span that ended until it is sent. */
  timeout: number;
  delay: number;
  /** Spans: how many wait at most, and how many are sent together. */
  queue: number;
  batch: number;
};

const SERVICE_NAME = 'service.name';
const DEFAULT_ENDPOINT = 'http://localhost:4318';
const ADDRESS =
  'an address such as https://collector.example.com:4318, without a user name, a password or a # (secrets go into OTEL_EXPORTER_OTLP_HEADERS)';
const PAIRS = 'name=value, with commas between several and %-escapes for what is not plain';
const SAMPLERS = ['always_on', 'always_off', 'traceidratio'];
const LONGEST = 60_000;

/** Undefined without a mistake where traces are off. `reason` is why this is production, if it is. */
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
  read(exporterNames('PROTOCOL'), 'http/json: traces go out as JSON over HTTP', oneOf('http/json'));
  read(['OTEL_TRACES_EXPORTER'], 'otlp or none', oneOf('otlp'));
  const count = (name: string, most: number) =>
    read([name], `a whole number from 1 to ${most}`, wholeNumber(most));
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
      read(exporterNames('TIMEOUT'), `milliseconds, at most ${LONGEST}`, wholeNumber(LONGEST)) ??
      10_000,
    delay: count('OTEL_BSP_SCHEDULE_DELAY', LONGEST) ?? 5000,
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

/** That of traces alone comes before that of everything. */
function exporterNames(what: string): string[] {
  return [`OTEL_EXPORTER_OTLP_TRACES_${what}`, `OTEL_EXPORTER_OTLP_${what}`];
}

/** The address for traces is taken as it is; to the one for everything the path is added. */
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

/** What is sent there, and the headers that are secrets, could be read on the way. */
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

/** No request continues the trace of its sender, so with `parentbased_` and without are the same. */
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

/** Reads the first of the variables that is set. What was given is never shown: half of it are secrets, and people mix them up. */
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

/** `a=1,b=2`, as W3C Baggage has it. */
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

/** Only what may stand in a header (RFC 9110 section 5.5). */
export function headerPairs(text: string): Record<string, string> | undefined {
  const headers = pairs(text);
  const isHeader = ([name, value]: [string, string]) =>
    /^[\w!#$%&'*+.^`|~-]+$/.test(name) && /^[\x20-\x7e]*$/.test(value);
  return headers && Object.entries(headers).every(isHeader) ? headers : undefined;
}
