// Asks what Gatehouse needs to know, reads the tools of the MCP server, and writes a settings file and a secret file.
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { isAbsolute, join, relative, resolve } from 'node:path';
import { InvalidArgumentError } from 'commander';
import { isLoopbackUrl } from '../settings/addresses.ts';
import { lowestLevel } from '../permission-levels.ts';
import type { Environment } from '../settings/environment.ts';
import { requireValidSettings } from '../settings/load.ts';
import { parseSettingsText } from '../settings/read-source.ts';
import type { Secrets } from '../settings/secret-file.ts';
import { type ClassifiedTool, SUGGESTED_LEVELS } from './levels.ts';
import { NotWritten, requireFreeNames, writeNewFiles } from './new-files.ts';
import { type Probe, probeIssuer, readTools, type ToolProbe } from './probes.ts';
import { askOpenQuestions, askText, askYesOrNo, type Streams } from './prompts.ts';
import { type Provider, PROVIDER } from './providers.ts';
import {
  type Answers,
  appIds,
  checkAnswers,
  DEFAULT_APPS,
  nameOf,
  openQuestions,
  providerOf,
  type Question,
  withSuggestions,
} from './questions.ts';
import {
  consoleRedirectUri,
  DATA_DIR,
  type Decisions,
  DEFAULT_STORE,
  redirectUri,
  SECRET_NAME,
  secretText,
  SETTINGS_NAME,
  settingsText,
} from './settings-text.ts';
import { HEADER_EXAMPLE, readUpstreamHeaders, type UpstreamHeader } from './upstream-headers.ts';

export type InitOptions = {
  /** The answers in the options of the command line. */
  given: Answers;
  folder: string;
  acceptsSuggestions: boolean;
  /** Plain http to an MCP server on another computer is intended. */
  privateNetwork: boolean;
  /** Each with a header name and the environment variable with its value. */
  upstreamHeaders: readonly string[];
  /** Contact neither the identity provider nor the MCP server. */
  offline: boolean;
  /** That of the process if undefined. */
  environment: Environment | undefined;
  /** Undefined if there is no terminal to ask on. */
  streams: Streams | undefined;
  /** Called for everything that needs attention but stops nothing. */
  warn: (text: string) => void;
};

export type InitResult = {
  /** Absolute paths. */
  files: string[];
  provider: Provider;
  /** To be registered at the identity provider. */
  redirectUri?: string;
  /** The same for the console, if it has a public address. */
  consoleRedirectUri?: string;
  /** The environment variables that the settings name. */
  variables: string[];
  tools: readonly ClassifiedTool[];
  warnings: string[];
  /** Suggested for a first connect link. */
  level: string;
};

/** Rejects with InvalidArgumentError, NotWritten, SettingsError or Cancelled, and has then left no file. */
export async function init(options: InitOptions): Promise<InitResult> {
  const { folder, environment } = options;
  requireFreeNames(folder, [SETTINGS_NAME, SECRET_NAME]);
  const answers = await completeAnswers(options);
  const warnings: string[] = [];
  const warn = (text: string) => {
    warnings.push(text);
    options.warn(text);
  };
  const decisions = await decide(answers, options, warn);
  const text = settingsText(decisions);
  const secrets = secretsFor(answers, folder, warn);
  const tree = parseSettingsText(text, SETTINGS_NAME);
  const { provider, authUrl, managementUrl, clientId, upstream } = decisions;
  const variables = upstream?.headers.map(({ variable }) => variable) ?? [];
  requireValidSettings({ tree, folder: resolve(folder) }, secrets, environment, variables);
  writeNewFiles(folder, [
    { name: SECRET_NAME, content: secretText(secrets), mode: 0o600 },
    { name: SETTINGS_NAME, content: text, mode: 0o644 },
  ]);
  return {
    files: [SETTINGS_NAME, SECRET_NAME].map((name) => resolve(folder, name)),
    provider,
    ...(clientId === undefined ? {} : { redirectUri: redirectUri(authUrl) }),
    ...(managementUrl === undefined
      ? {}
      : { consoleRedirectUri: consoleRedirectUri(managementUrl) }),
    variables,
    tools: upstream?.tools ?? [],
    warnings,
    level: upstream ? lowestLevel(SUGGESTED_LEVELS) : 'operations',
  };
}

const NO_TERMINAL = ', and there is no terminal for questions (--yes accepts the default of each)';

/** Asks, or accepts suggestions. Rejects with InvalidArgumentError, which names every wrong or missing option and what is expected. */
async function completeAnswers(options: InitOptions): Promise<Answers> {
  const { given, streams, acceptsSuggestions } = options;
  const known = acceptsSuggestions ? withSuggestions(given) : given;
  if (acceptsSuggestions || !streams) {
    const open = openQuestions(known).filter(({ isOptional }) => isOptional?.(known) !== true);
    const missing = open.map(
      (question) =>
        `  ${nameOf(question.flag)}: given nothing; expected ${wanted(question, known)}`,
    );
    const why = missing.length > 0 && !acceptsSuggestions ? NO_TERMINAL : '';
    requireNone(
      [...wrongOptions(known, options), ...unusedHeaders(known, options), ...missing],
      why,
    );
    return known;
  }
  requireNone(wrongOptions(known, options));
  const answers = await askOpenQuestions(known, streams);
  // An answer can contradict an option.
  requireNone([...wrongOptions(answers, options), ...unusedHeaders(answers, options)]);
  return answers;
}

function wanted({ description, example }: Question, answers: Answers): string {
  const such = example?.(answers);
  return such === undefined ? description : `${description}, such as ${such}`;
}

function wrongOptions(
  answers: Answers,
  { upstreamHeaders, environment }: Pick<InitOptions, 'upstreamHeaders' | 'environment'>,
): string[] {
  const { problems } = readUpstreamHeaders(upstreamHeaders, environment);
  return [
    ...checkAnswers(answers),
    ...problems.map((problem) => ({ flag: HEADER_FLAG, ...problem })),
  ].map(({ flag, given, expected }) => `  ${flag}: given ${given}; expected ${expected}`);
}

const HEADER_FLAG = '--upstream-header';

function unusedHeaders({ upstream }: Answers, { upstreamHeaders }: InitOptions): string[] {
  return upstream === undefined && upstreamHeaders.length > 0
    ? [`  ${HEADER_FLAG}: given a header; expected no value without --upstream`]
    : [];
}

function requireNone(problems: readonly string[], why = ''): void {
  if (problems.length === 0) return;
  throw new InvalidArgumentError([`options are wrong or missing${why}:`, ...problems].join('\n'));
}

type Warn = (text: string) => void;

/** Asks the identity provider and the MCP server at the same time. */
async function decide(answers: Answers, options: InitOptions, warn: Warn): Promise<Decisions> {
  const provider = providerOf(answers.idp) ?? PROVIDER.development;
  const { authUrl = '', resourceUrl = '', store = '', clientId, clientSecretFile } = answers;
  const { managementUrl, apps = DEFAULT_APPS } = answers;
  const issuer = provider.issuer.kind === 'fixed' ? provider.issuer.value : answers.issuer;
  const privateNetwork = await isPrivateNetwork(answers.upstream, options);
  const [discovery, upstream] = await Promise.all([
    issuer === undefined || provider.hasNoDiscovery || options.offline
      ? undefined
      : probeIssuer(issuer),
    answers.upstream === undefined
      ? undefined
      : readUpstream({ url: answers.upstream, authUrl, privateNetwork }, options),
  ]);
  if (discovery) reportProblem(discovery, warn);
  const tools = upstream?.tools;
  if (tools?.problem !== undefined) await confirmWithoutTools(tools, options);
  if (tools) reportProblem(tools, warn);
  if (answers.upstream !== undefined && new URL(answers.upstream).search !== '') warn(QUERY);
  return {
    authUrl,
    resourceUrl,
    managementUrl,
    apps: appIds(apps),
    store: hasPassword(store) ? undefined : store,
    provider,
    issuer,
    clientId,
    clientSecretFile: clientSecretFile && pathFrom(options.folder, clientSecretFile),
    upstream:
      answers.upstream === undefined
        ? undefined
        : {
            url: answers.upstream,
            privateNetwork,
            headers: upstream?.headers ?? [],
            tools: tools?.found ?? [],
          },
  };
}

type McpServer = { url: string; authUrl: string; privateNetwork: boolean };

/** Asks for a header on a terminal if the MCP server refuses a request without one. */
async function readUpstream(
  { url, authUrl, privateNetwork }: McpServer,
  options: InitOptions,
): Promise<{ headers: readonly UpstreamHeader[]; tools?: ToolProbe }> {
  const { upstreamHeaders, environment, offline, streams, acceptsSuggestions } = options;
  const given = readUpstreamHeaders(upstreamHeaders, environment);
  const isReadable = isReadableOnTheWay(url) && !privateNetwork;
  if (isReadable && given.headers.length > 0) throw new InvalidArgumentError(READABLE);
  if (offline) return { headers: given.headers };
  const tools = await readTools(url, authUrl, given);
  const canAsk = streams && !acceptsSuggestions && !isReadable && given.headers.length === 0;
  if (!tools.isRefused || !canAsk) return { headers: given.headers, tools };
  const text = await askText(
    `${tools.problem}. Header with the credential that it requires, and the environment variable with its value (empty: none)`,
    {
      placeholder: HEADER_EXAMPLE,
      check: (answer) => readUpstreamHeaders([answer], environment).problems[0]?.expected,
    },
    streams,
  );
  if (text === '') return { headers: [], tools };
  const asked = readUpstreamHeaders([text], environment);
  return { headers: asked.headers, tools: await readTools(url, authUrl, asked) };
}

const READABLE = `the address of the MCP server is plain http, so others on the way can read the value of ${HEADER_FLAG}: use https, or --private-network if nobody else can listen on the network`;

const QUERY = `the address of the MCP server has a query, which everybody who can read ${SETTINGS_NAME} sees; if it is a credential, send it in a header from a file instead: resourceServer.upstream.headers`;

function reportProblem({ problem, remedy }: Probe<unknown>, warn: Warn): void {
  if (problem !== undefined) warn(`${problem}; ${remedy}`);
}

/** Throws NotWritten if the person wants to repair the server first. */
async function confirmWithoutTools(
  { problem = '', found }: Probe<ClassifiedTool[]>,
  { streams, acceptsSuggestions }: InitOptions,
): Promise<void> {
  if (!streams || acceptsSuggestions || found.length > 0) return;
  const isConfirmed = await askYesOrNo(`${problem}. Go on without its tools?`, streams);
  if (!isConfirmed) throw new NotWritten(`${problem}. Nothing was written`);
}

/** Plain http to another computer. Settings accept every spelling of a URL. */
function isReadableOnTheWay(url: string): boolean {
  return new URL(url).protocol === 'http:' && !isLoopbackUrl(url);
}

/** Plain http to another computer is refused in production unless the network is private. */
async function isPrivateNetwork(
  url: string | undefined,
  { privateNetwork, streams, acceptsSuggestions }: InitOptions,
): Promise<boolean> {
  if (url === undefined || !isReadableOnTheWay(url)) return false;
  if (privateNetwork || !streams || acceptsSuggestions) return privateNetwork;
  const { host } = new URL(url);
  return askYesOrNo(`The address is plain http. Is the network to ${host} private?`, streams);
}

function hasPassword(store = ''): boolean {
  return /^redis.*(@|[?&]sentinelPassword=)/.test(store);
}

/** A path in the folder stays relative, so that the folder can be moved. */
function pathFrom(folder: string, file: string): string {
  const path = relative(resolve(folder), resolve(file));
  return path.startsWith('..') || isAbsolute(path) ? resolve(file) : `./${path}`;
}

function secretsFor(answers: Answers, folder: string, warn: Warn): Secrets {
  const { clientSecret, store = '' } = answers;
  return {
    GATEHOUSE_SECRET: randomSecret(),
    GATEHOUSE_MANAGEMENT_KEY: randomSecret(),
    ...(store === DEFAULT_STORE ? earlierSecrets(folder, warn) : {}),
    ...(clientSecret === undefined ? {} : { GATEHOUSE_IDENTITY_PROVIDER_SECRET: clientSecret }),
    ...(hasPassword(store) ? { GATEHOUSE_STORE: store } : {}),
  };
}

function randomSecret(): string {
  return randomBytes(32).toString('base64url');
}

/** Returns the secrets that an earlier start generated for the store in the folder, which no other root secret can read. */
function earlierSecrets(folder: string, warn: Warn): Secrets {
  const path = (name: string) => join(folder, DATA_DIR, name);
  if (!existsSync(path(DEFAULT_STORE.slice('sqlite:'.length)))) return {};
  const read = (name: string) =>
    existsSync(path(name)) ? readFileSync(path(name), 'utf8').trim() : undefined;
  const [secret, key] = [read('secret'), read('management.key')];
  if (secret === undefined)
    warn(
      `there is a store in ${path('')} already; set its root secret in ${SECRET_NAME}, or remove the store`,
    );
  return {
    ...(secret === undefined ? {} : { GATEHOUSE_SECRET: secret }),
    ...(key === undefined ? {} : { GATEHOUSE_MANAGEMENT_KEY: key }),
  };
}
