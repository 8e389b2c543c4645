// The operator's MCP servers, with the credentials that Gatehouse sends to them.
import { DEFAULT_LEVELS, highestLevel, type Level, type Levels } from '../permission-levels.ts';
import { type CredentialSettings, readCredential } from './credentials.ts';
import type { Environment } from './environment.ts';
import type { SettingsFile, UpstreamInFile } from './schema.ts';
import { allOf, type Reading, readSecretFile, readVariable } from './secrets.ts';
import { hidden, issueAt, type Path, pathName, type Source } from './source.ts';

/** Durations in seconds. Contains secrets: never log it. */
export type Upstream = Omit<UpstreamInFile, 'headers' | 'defaultLevel' | 'credential'> & {
  /** Unique. Connectors and minted tokens name it. */
  id: string;
  name: string;
  /** Whether the settings have the name. Otherwise it is the host of the address, which people need not know. */
  isNamed: boolean;
  defaultLevel: Level;
  /** Names in lower case. Empty in a process without the resource server role, which sends no requests. */
  headers: Readonly<Record<string, string>>;
  /** Of the person who calls. Takes the place of a header of the same name. */
  credential?: CredentialSettings;
  /** The path in the settings file, for messages. */
  setting: string;
};

/** The id of `resourceServer.upstream`. */
export const DEFAULT_UPSTREAM = 'default';

/** A record that leads to an upstream. Records from before there were ids lead to DEFAULT_UPSTREAM. */
export type LeadsToUpstream = { upstream?: string | undefined };

/** Returns undefined if the settings no longer have the upstream, and if they have none. */
export function findUpstream(
  upstreams: readonly Upstream[],
  { upstream = DEFAULT_UPSTREAM }: LeadsToUpstream,
): Upstream | undefined {
  return upstreams.find(({ id }) => id === upstream);
}

/** Whether the settings have the MCP server of a record. Without upstreams, the sample serves the records that name none. */
export function isServed(upstreams: readonly Upstream[], record: LeadsToUpstream): boolean {
  if (upstreams.length === 0) return record.upstream === undefined;
  return findUpstream(upstreams, record) !== undefined;
}

type Listed = UpstreamInFile & { id?: string };

/** Returns the configured upstreams with their paths in the file. */
export function upstreamsIn({ resourceServer }: Partial<SettingsFile>): [Path, Listed][] {
  const { upstream, upstreams = [] } = resourceServer ?? {};
  return [
    ...(upstream ? [[['resourceServer', 'upstream'], upstream] as [Path, Listed]] : []),
    ...upstreams.map((each, n): [Path, Listed] => [['resourceServer', 'upstreams', n], each]),
  ];
}

export function readUpstreams(
  source: Source,
  file: Partial<SettingsFile>,
  environment: Environment,
): Reading<Upstream[]> {
  const { upstream, upstreams } = file.resourceServer ?? {};
  const { levels = DEFAULT_LEVELS } = file;
  const read = allOf(
    upstreamsIn(file).map(([path, each]) =>
      readUpstream(
        {
          source,
          environment,
          levels,
          sendsHeaders: sendsRequests(file),
          usesCredentials: sendsRequests(file) || hasRole(file, 'authorization-server'),
        },
        path,
        each,
      ),
    ),
  );
  if (!upstream || !upstreams) return read;
  return { issues: [issueAt(source, [...UPSTREAMS], ONE_OF_BOTH), ...read.issues] };
}

const UPSTREAMS: Path = ['resourceServer', 'upstreams'];
const ONE_OF_BOTH =
  'only one of resourceServer.upstream and resourceServer.upstreams: move the first into the list, with the id default so that its connectors keep working';

function sendsRequests(file: Partial<SettingsFile>): boolean {
  return hasRole(file, 'resource-server');
}

export function hasRole(
  { roles }: Partial<SettingsFile>,
  role: 'authorization-server' | 'resource-server',
) {
  return roles === undefined || roles.includes(role);
}

type HeaderContext = { source: Source; environment: Environment; sendsHeaders: boolean };

type Context = HeaderContext & { levels: Levels; usesCredentials: boolean };

function readUpstream(context: Context, path: Path, given: Listed): Reading<Upstream> {
  const {
    headers: named,
    credential: givenCredential,
    id = DEFAULT_UPSTREAM,
    name = new URL(given.url).host,
    defaultLevel = highestLevel(context.levels),
    ...others
  } = given;
  const { value: headers, issues } = readHeaders(
    context,
    [...path, 'headers'],
    Object.entries(named),
  );
  if (!headers) return { issues };
  const { value: caller, issues: callerIssues } = readCaller(path, given);
  if (!caller) return { issues: callerIssues };
  const callerNames = Object.keys(caller.headers).map(comparableHeader);
  const isTaken = (header: string) =>
    isReserved(header) || callerNames.includes(comparableHeader(header));
  const { value: credential, issues: credentialIssues } = givenCredential
    ? readCredential(
        { ...context, needsSecrets: context.usesCredentials, isReserved: isTaken },
        [...path, 'credential'],
        givenCredential,
      )
    : { issues: [] };
  if (credentialIssues.length > 0) return { issues: [...issues, ...credentialIssues] };
  const setting = pathName(path);
  const isNamed = given.name !== undefined;
  return {
    value: {
      ...others,
      id,
      name,
      isNamed,
      defaultLevel,
      headers,
      caller,
      ...(credential ? { credential } : {}),
      setting,
    },
    issues,
  };
}

/** `reserved` are names, in lower case, that are refused beside those that every request has. */
export function readHeaders(
  context: HeaderContext,
  path: Path,
  headers: readonly (readonly [name: string, value: HeaderValue])[],
  reserved: readonly string[] = [],
): Reading<Upstream['headers']> {
  const all = headers.map(([header, value]) =>
    readHeader(context, [...path, header], header, value, reserved),
  );
  const names = headers.map(([header]) => header.toLowerCase());
  const isRepeated = new Set(names).size < names.length;
  const setting = pathName(path);
  const expected = 'each header once, whatever its case';
  const issues = [
    ...(isRepeated ? [{ setting, given: 'a header twice', expected }] : []),
    ...all.flatMap((reading) => reading.issues),
  ];
  if (issues.length > 0) return { issues };
  const values = all.flatMap(({ value }, n) => (value === undefined ? [] : [[names[n], value]]));
  return { value: Object.fromEntries(values), issues };
}

/** Reads the values of headers from environment variables, as the settings file names them: `{Authorization: {env: TOOLS_AUTHORIZATION}}`. */
export function readHeaderVariables(
  headers: readonly (readonly [name: string, variable: string])[],
  environment: Environment = process.env,
): Reading<Upstream['headers']> {
  const source = { document: undefined, variables: [], folder: '', environment, issues: [] };
  const named = headers.map(([name, env]) => [name, { env }] as const);
  return readHeaders({ source, environment, sendsHeaders: true }, [], named);
}

/** RFC 9110 section 5.6.2. */
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const HEADER_VALUE = /^[\x21-\x7e]([\t\x20-\x7e]*[\x21-\x7e])?$/;
const MAX_VALUE_LENGTH = 8192;

/** Gatehouse sets these, or the connection needs them (RFC 9110 section 7.6.1). */
const RESERVED_HEADERS =
  'accept accept-encoding connection content-encoding content-length content-type dpop expect gatehouse-caller host keep-alive last-event-id proxy-connection te traceparent tracestate trailer transfer-encoding upgrade user-agent'.split(
    ' ',
  );

function isReserved(name: string): boolean {
  return RESERVED_HEADERS.includes(name) || name.startsWith('mcp-');
}

/** Servers must not mistake a claim for a credential or for the origin of a web page, which MCP servers check. */
const NO_CLAIM_HEADERS = ['authorization', 'cookie', 'origin', 'proxy-authorization'];

/** Many servers read `_` and `-` in a name, and upper and lower case, as the same (RFC 3875 section 4.1.18). */
function comparableHeader(name: string): string {
  return name.toLowerCase().replaceAll('_', '-');
}

/** Returns the names of `caller.headers` in lower case. */
function readCaller(path: Path, { caller, headers }: Listed): Reading<Upstream['caller']> {
  const names = Object.keys(caller.headers);
  const taken = new Set(Object.keys(headers).map(comparableHeader));
  const comparable = names.map(comparableHeader);
  const issues = Object.entries(caller.headers).flatMap(([header, claim], n) => {
    const setting = pathName([...path, 'caller', 'headers', header]);
    const name = comparable[n] ?? '';
    const isOwn = isReserved(name) || name.startsWith('gatehouse-');
    if (!TOKEN.test(header))
      return [{ setting, given: 'this name', expected: 'a valid header name' }];
    if (isOwn || NO_CLAIM_HEADERS.includes(name)) {
      const expected = `a header other than ${[...RESERVED_HEADERS, ...NO_CLAIM_HEADERS].join(', ')}, mcp-… and gatehouse-…, also with _ for -`;
      return [{ setting, given: 'a header that has another meaning', expected }];
    }
    if (taken.has(name))
      return [{ setting, given: 'a header that is also in headers', expected: 'another name' }];
    if (comparable.indexOf(name) < n) {
      const expected = 'each header once, whatever its case, and with _ or -';
      return [{ setting, given: 'a header twice', expected }];
    }
    if (claim !== 'sub' && !caller.claims.includes(claim)) {
      const expected = `sub or one of caller.claims: add ${claim} to them, so that the consent page names it`;
      return [{ setting, given: claim, expected }];
    }
    return [];
  });
  if (issues.length > 0) return { issues };
  const lowerCased = Object.entries(caller.headers).map(([name, claim]) => [
    name.toLowerCase(),
    claim,
  ]);
  return { value: { ...caller, headers: Object.fromEntries(lowerCased) }, issues: [] };
}

type HeaderValue = UpstreamInFile['headers'][string];

function readHeader(
  context: HeaderContext,
  path: Path,
  header: string,
  given: HeaderValue,
  reserved: readonly string[],
): Reading<string | undefined> {
  const setting = pathName(path);
  if (!TOKEN.test(header))
    return { issues: [{ setting, given: 'this name', expected: 'a valid header name' }] };
  const name = header.toLowerCase();
  if (isReserved(name) || reserved.includes(name)) {
    const expected = `a header other than ${[...RESERVED_HEADERS, ...reserved].join(', ')} and mcp-…`;
    return { issues: [{ setting, given: 'a header that Gatehouse sets itself', expected }] };
  }
  if (!context.sendsHeaders) return { issues: [] };
  const { value, issues } = headerText(context, setting, given);
  if (value === undefined) return { issues };
  if (HEADER_VALUE.test(value) && value.length <= MAX_VALUE_LENGTH) return { value, issues: [] };
  const expected = `1 to ${MAX_VALUE_LENGTH} visible ASCII characters, on one line`;
  return { issues: [{ setting, given: hidden(value), expected }] };
}

function headerText(
  { source, environment }: HeaderContext,
  setting: string,
  given: HeaderValue,
): Reading<string> {
  if (typeof given === 'string') return { value: given.trim(), issues: [] };
  if ('file' in given)
    return readSecretFile(given.file, `${setting}.file`, { base: source.folder });
  return readVariable(environment, `${setting}.env`, given.env);
}
