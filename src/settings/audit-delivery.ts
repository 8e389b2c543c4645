// The targets to which the audit log is delivered, with the secrets that Gatehouse uses there.
import { isIP } from 'node:net';
import * as z from 'zod';
import { auditEvents } from '../observability/labels.ts';
import { isLoopback } from './addresses.ts';
import type { SettingsIssue } from './issues.ts';
import type { SettingsFile } from './schema.ts';
import { allOf, type Reading, readSecretFile, readVariable } from './secrets.ts';
import { hidden, issueAt, type Path, pathName, type Source } from './source.ts';
import { readHeaders } from './upstreams.ts';
import { duration, headerValue, isDistinct, shortId } from './value-types.ts';

const MAX_TARGETS = 10;
const DEFAULT_MAX_AGE_SECONDS = 12 * 3600;

const ADDRESS =
  'the whole address of the receiver, such as https://siem.example.com/events, without a user name, a password or a #';
const EVENT = 'the name of an event of the audit log, such as call';

const isEvent = (name: string) => auditEvents.some((known) => known === name);

const oneOrTwo = (what: string) =>
  z
    .union([z.string().min(1), z.array(z.string().min(1)).min(1).max(2)], what)
    .meta({ valueType: 'text, or a list of two' });

const targetSchema = z.strictObject({
  id: shortId.describe(
    'Id of the target, in the console, in metrics and in commands. The place in the log is stored under this id.',
  ),
  kind: z
    .enum(['webhook', 'otlp'], 'webhook or otlp')
    .describe(
      '`webhook`: JSON, signed as Standard Webhooks describe. `otlp`: OpenTelemetry log records in protobuf over HTTP.',
    ),
  url: z
    .string(ADDRESS)
    .refine((text) => {
      const url = URL.parse(text);
      if (!url || !/^https?:$/.test(url.protocol)) return false;
      return url.username === '' && url.password === '' && !text.includes('#');
    }, ADDRESS)
    .meta({ valueType: 'URL' })
    .describe(
      'The whole address to which items are sent, for OTLP usually with `/v1/logs` at its end. Redirects are not followed. It must be https on a public host, unless `privateNetwork` is set.',
    ),
  privateNetwork: z
    .boolean('true or false')
    .default(false)
    .describe(
      'The receiver may be in your own network: accept every address, and plain http, for a network that nobody else can listen on.',
    ),
  events: z.array(z.string().refine(isEvent, EVENT)).min(1).optional().meta({
    description:
      'The [events](../src/management/README.md#audit-log) that are sent to this target.',
    defaultText: 'all',
  }),
  headers: z.record(z.string().min(1).max(128), headerValue).default({}).meta({
    description:
      'Headers of every request to the receiver, such as `Authorization: {env: SIEM_AUTHORIZATION}`. A value is a text, `{env: <variable>}` or `{file: <path>}`, read at the start and at a reload, and never shown.',
    valueType: 'header names with values',
  }),
  secretEnv: oneOrTwo('the name of an environment variable, or a list of two')
    .optional()
    .describe(
      'Webhooks: environment variables with the signing secret, `whsec_` and base64 of 24 to 64 random bytes. A variable may contain two on two lines. With two secrets, both signatures are sent, so that receivers can change from one to the other.',
    ),
  secretFile: oneOrTwo('the path of a file, or a list of two')
    .optional()
    .describe('Webhooks: files with the signing secret, in place of `secretEnv`.'),
  format: z.enum(['standard', 'array'], 'standard or array').optional().meta({
    description:
      'Webhooks: `standard` sends `{"type": "audit.items", "timestamp": …, "data": {"items": […]}}`, and `array` the bare list of items, for receivers that store each element of a list.',
    defaultText: '`standard`',
  }),
  maxAge: duration.optional().meta({
    description:
      'OTLP: an item that is older has the time of sending, and its own in the attribute `gatehouse.time`, because receivers refuse old records.',
    defaultText: '`12h`',
  }),
});

type TargetInFile = z.output<typeof targetSchema>;

export const deliverySchema = z
  .array(targetSchema, 'a list of targets, each with id, kind and url')
  .max(MAX_TARGETS, `at most ${MAX_TARGETS} targets`)
  .refine((targets) => isDistinct(targets.map(({ id }) => id)), 'a unique id for each')
  .default([])
  .describe(
    'Receivers of the audit log ([delivery](audit-delivery.md)). Each has its own place in the log, and delays no other. A new target gets the whole log.',
  );

/** Contains secrets: never log it. */
export type DeliveryTarget = Pick<TargetInFile, 'id' | 'url' | 'privateNetwork' | 'events'> & {
  /** Names in lower case. */
  headers: Readonly<Record<string, string>>;
} & (
    | { kind: 'webhook'; format: 'standard' | 'array'; secrets: readonly string[] }
    | { kind: 'otlp'; /** In seconds. */ maxAge: number }
  );

export function readDelivery(
  source: Source,
  { audit }: Partial<SettingsFile>,
): Reading<DeliveryTarget[]> {
  return allOf(
    (audit?.delivery ?? []).map((target, n) =>
      readTarget(source, ['audit', 'delivery', n], target),
    ),
  );
}

function readTarget(source: Source, path: Path, target: TargetInFile): Reading<DeliveryTarget> {
  const { id, kind, url, privateNetwork, events } = target;
  const headers = readHeaders(
    { source, environment: source.environment, sendsHeaders: true },
    [...path, 'headers'],
    Object.entries(target.headers),
    ['webhook-id', 'webhook-timestamp', 'webhook-signature'],
  );
  const secrets = readSecrets(source, path, target);
  const issues = [
    ...checkAddress(source, path, target),
    ...checkMembers(source, path, target),
    ...headers.issues,
    ...secrets.issues,
  ];
  if (issues.length > 0 || !headers.value) return { issues };
  const common = { id, url, privateNetwork, events, headers: headers.value };
  const { format = 'standard', maxAge = DEFAULT_MAX_AGE_SECONDS } = target;
  const value: DeliveryTarget =
    kind === 'webhook'
      ? { ...common, kind, format, secrets: secrets.value ?? [] }
      : { ...common, kind, maxAge };
  return { value, issues };
}

/** What the guard of outgoing requests would refuse anyway, so that it shows at the start. */
function checkAddress(
  source: Source,
  path: Path,
  { url, privateNetwork }: TargetInFile,
): SettingsIssue[] {
  const { protocol, hostname } = new URL(url);
  const host = hostname.replace(/^\[|\]$/g, '');
  if (privateNetwork || (protocol === 'https:' && isIP(host) === 0 && !isLoopback(host))) return [];
  const expected = `an https address with a public host name (or ${pathName([...path, 'privateNetwork'])}: true for a receiver in your own network)`;
  return [issueAt(source, [...path, 'url'], expected, JSON.stringify(new URL(url).origin))];
}

const MEMBERS_OF_OTHER_KIND = {
  webhook: ['maxAge'],
  otlp: ['secretEnv', 'secretFile', 'format'],
} as const;

function checkMembers(source: Source, path: Path, target: TargetInFile): SettingsIssue[] {
  const { kind, secretEnv, secretFile } = target;
  const unused = MEMBERS_OF_OTHER_KIND[kind].filter((member) => target[member] !== undefined);
  const isUnsigned = kind === 'webhook' && secretEnv === undefined && secretFile === undefined;
  return [
    ...unused.map((member) => ({
      setting: pathName([...path, member]),
      given: 'a value',
      expected: `no value, because the kind is ${kind}`,
    })),
    ...(isUnsigned
      ? [issueAt(source, path, 'secretEnv or secretFile, because webhooks are signed', 'neither')]
      : []),
  ];
}

/** `text` may have two secrets on two lines. */
function readSecrets(
  source: Source,
  path: Path,
  { kind, secretEnv = [], secretFile = [] }: TargetInFile,
): Reading<string[]> {
  if (kind !== 'webhook') return { value: [], issues: [] };
  const texts = [
    ...[secretEnv].flat().map((name) => {
      const setting = pathName([...path, 'secretEnv']);
      return { setting, reading: readVariable(source.environment, setting, name) };
    }),
    ...[secretFile].flat().map((file) => {
      const setting = pathName([...path, 'secretFile']);
      return { setting, reading: readSecretFile(file, setting, { base: source.folder }) };
    }),
  ];
  const found = texts.flatMap(({ setting, reading }) =>
    (reading.value?.split('\n') ?? []).map((line) => ({ setting, secret: line.trim() })),
  );
  const secrets = found.filter(({ secret }) => secret !== '');
  const wrong = secrets.filter(({ secret }) => !isSigningSecret(secret));
  const issues = [
    ...texts.flatMap(({ reading }) => reading.issues),
    ...wrong.map(({ setting, secret }) => ({ setting, given: hidden(secret), expected: SECRET })),
    ...(secrets.length > 2
      ? [issueAt(source, path, 'one or two signing secrets', `${secrets.length} of them`)]
      : []),
  ];
  return issues.length > 0 ? { issues } : { value: secrets.map(({ secret }) => secret), issues };
}

const SECRET = 'whsec_ and the base64 of 24 to 64 random bytes';

function isSigningSecret(text: string): boolean {
  const [, encoded = ''] = /^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(text) ?? [];
  const bytes = Buffer.from(encoded, 'base64');
  return bytes.toString('base64') === encoded && bytes.length >= 24 && bytes.length <= 64;
}
