// The questions of init, each of which is also an option of the command line.
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { isLoopbackUrl } from '../settings/addresses.ts';
import { appCatalog } from '../settings/apps.ts';
import { settingsSchema, upstreamSchema } from '../settings/schema.ts';
import { shownPath } from '../settings/secrets.ts';
import { errorCode } from '../settings/source.ts';
import { issuer, origin } from '../settings/value-types.ts';
import {
  PROVIDER,
  type Provider,
  type ProviderKey,
  PROVIDERS,
  providerTitle,
} from './providers.ts';

export type Answers = {
  /** A ProviderKey, once it has been checked. */
  idp?: string;
  authUrl?: string;
  resourceUrl?: string;
  managementUrl?: string;
  /** Ids of the catalogue, separated by commas, or NO_APPS. */
  apps?: string;
  store?: string;
  issuer?: string;
  clientId?: string;
  /** From a file, whose path is resolved from the working directory. */
  clientSecretFile?: string;
  /** From a hidden prompt. */
  clientSecret?: string;
  upstream?: string;
};

export type Key = Exclude<keyof Answers, 'clientSecret'>;

export type Question = {
  key: Key;
  /** As in help. */
  flag: string;
  description: string;
  prompt: (answers: Answers) => string;
  /** Says what is expected of the option if there is nothing to ask. */
  notApplicable?: (answers: Answers) => string | undefined;
  isOptional?: (answers: Answers) => boolean;
  suggestion?: (answers: Answers) => string | undefined;
  example?: (answers: Answers) => string | undefined;
  /** Returns what is expected if the answer is wrong. */
  check: (text: string, answers: Answers) => string | undefined;
};

export const NO_APPS = 'none';

const DEVELOPMENT_AUTH_URL = 'http://localhost:4000';
const DEVELOPMENT_RESOURCE_URL = 'http://localhost:4001';

/** As in the settings. */
export const DEFAULT_APPS = settingsSchema.shape.clients.parse({}).apps.join(',');

const APP_IDS = appCatalog().map(({ id }) => id);

export const QUESTIONS: readonly Question[] = [
  {
    key: 'idp',
    flag: '--idp <provider>',
    description: `where people sign in: ${PROVIDERS.join(', ')}`,
    prompt: () => 'Where do people sign in?',
    suggestion: suggestedProvider,
    check: (text) =>
      PROVIDERS.some((key) => key === text) ? undefined : `one of ${PROVIDERS.join(', ')}`,
  },
  {
    key: 'authUrl',
    flag: '--auth-url <url>',
    description: 'public address of the authorization server, where people sign in',
    prompt: () => 'Public address of the authorization server, where people sign in',
    suggestion: ({ idp }) => (idp === 'development' ? DEVELOPMENT_AUTH_URL : undefined),
    example: () => 'https://auth.example.com',
    check: checkAddress,
  },
  {
    key: 'resourceUrl',
    flag: '--resource-url <url>',
    description: 'public address of the resource server, with which connect links start',
    prompt: () => 'Public address of the resource server, with which connect links start',
    suggestion: ({ idp, authUrl }) =>
      idp === 'development' ? DEVELOPMENT_RESOURCE_URL : authUrl?.replace('://auth.', '://mcp.'),
    example: () => 'https://mcp.example.com',
    check: checkAddress,
  },
  {
    key: 'managementUrl',
    flag: '--management-url <url>',
    description: 'public address of the console; without it, the console is on this computer only',
    prompt: () => 'Public address of the console (empty: on this computer only)',
    notApplicable: ({ idp }) => noClient(idp),
    isOptional: () => true,
    example: () => 'https://admin.example.com',
    check: checkAddress,
  },
  {
    key: 'apps',
    flag: '--apps <ids>',
    description: `hosted apps that people use, separated by commas: ${[...APP_IDS, NO_APPS].join(', ')}`,
    prompt: () => 'Which hosted apps do people use? Apps on their own computers need no entry',
    // Hosted apps cannot reach this computer.
    notApplicable: ({ idp }) => noClient(idp),
    suggestion: ({ idp }) => (noClient(idp) === undefined ? DEFAULT_APPS : undefined),
    isOptional: () => true,
    check: (text) =>
      text === NO_APPS || appIds(text).every((id) => APP_IDS.includes(id))
        ? undefined
        : `${NO_APPS}, or some of ${APP_IDS.join(', ')}`,
  },
  {
    key: 'store',
    flag: '--store <address>',
    description: 'database: sqlite:<file>, or the address of Redis',
    prompt: () => 'Database: SQLite for one process, or the address of Redis for several',
    suggestion: () => 'sqlite:gatehouse.sqlite',
    check: (text) => expectedBy(settingsSchema.shape.store, text),
  },
  {
    key: 'issuer',
    flag: '--issuer <url>',
    description: 'issuer of the identity provider, as in its discovery document',
    prompt: ({ idp }) => `Issuer of ${titleIn(idp)}`,
    notApplicable: ({ idp }) => noIssuer(idp),
    isOptional: ({ idp }) => askedIssuer(idp)?.isOptional === true,
    example: ({ idp }) => askedIssuer(idp)?.example,
    check: checkIssuer,
  },
  {
    key: 'clientId',
    flag: '--client-id <id>',
    description: 'client id that the identity provider gave to Gatehouse',
    prompt: ({ idp }) => `Client id that ${titleIn(idp)} gave to Gatehouse`,
    notApplicable: ({ idp }) => noClient(idp),
    check: (text) => (/^[\x21-\x7e]+$/.test(text) ? undefined : 'a client id, without spaces'),
  },
  {
    key: 'clientSecretFile',
    flag: '--client-secret-file <file>',
    description: 'file with the client secret that the identity provider gave to Gatehouse',
    prompt: ({ idp }) => `Client secret that ${titleIn(idp)} gave to Gatehouse (hidden)`,
    notApplicable: ({ idp }) => noClient(idp),
    isOptional: ({ idp }) => providerOf(idp)?.needsSecret !== true,
    check: checkSecretFile,
  },
  {
    key: 'upstream',
    flag: '--upstream <url>',
    description: 'your MCP server (Streamable HTTP); without it, Gatehouse serves its sample',
    prompt: () => 'Address of your MCP server (empty: the built-in sample)',
    isOptional: () => true,
    example: () => 'http://localhost:9000/mcp',
    check: (text) => expectedBy(upstreamSchema.shape.url, text),
  },
];

/** A problem with an option, which names it. */
export type OptionIssue = { flag: string; given: string; expected: string };

/** Returns all problems with the answers, in the order of the questions. */
export function checkAnswers(answers: Answers): OptionIssue[] {
  return QUESTIONS.flatMap(({ key, flag, notApplicable, check }) => {
    const text = answers[key];
    // Without a provider, the provider is what is missing.
    const isEarly = notApplicable !== undefined && providerOf(answers.idp) === undefined;
    if (text === undefined || isEarly) return [];
    const expected = notApplicable?.(answers) ?? check(text, answers);
    const given = key === 'clientSecretFile' ? shownPath(text) : shown(text);
    return expected === undefined ? [] : [{ flag: nameOf(flag), given, expected }];
  });
}

/** The questions that have no answer yet. */
export function openQuestions(answers: Answers): Question[] {
  return QUESTIONS.filter(({ key, notApplicable }) => {
    const hasSecret = key === 'clientSecretFile' && answers.clientSecret !== undefined;
    return answers[key] === undefined && !hasSecret && notApplicable?.(answers) === undefined;
  });
}

/** Answers every open question that has a suggestion. */
export function withSuggestions(answers: Answers): Answers {
  let complete = answers;
  for (const { key, suggestion } of QUESTIONS) {
    const text = complete[key] ?? suggestion?.(complete);
    if (text !== undefined) complete = { ...complete, [key]: text };
  }
  return complete;
}

export function appIds(text: string): string[] {
  return text === NO_APPS ? [] : text.split(',').map((id) => id.trim());
}

export function nameOf(flag: string): string {
  return flag.split(' ', 1)[0] ?? flag;
}

export function providerOf(key: string | undefined): Provider | undefined {
  return PROVIDERS.some((known) => known === key) ? PROVIDER[key as ProviderKey] : undefined;
}

function suggestedProvider(answers: Answers): ProviderKey | undefined {
  const { authUrl, resourceUrl, clientId, clientSecretFile } = answers;
  if ([answers.issuer, clientId, clientSecretFile].some((given) => given !== undefined))
    return 'oidc';
  return [authUrl, resourceUrl].every(isLocal) ? 'development' : undefined;
}

function isLocal(url: string | undefined): boolean {
  return url === undefined || (URL.canParse(url) && isLoopbackUrl(url));
}

function expectedBy(
  schema: {
    safeParse: (text: string) => { error?: { issues: { message: string }[] } | undefined };
  },
  text: string,
): string | undefined {
  return schema
    .safeParse(text)
    .error?.issues.map(({ message }) => message)
    .join(', ');
}

function checkAddress(text: string, { idp }: Answers): string | undefined {
  const expected = expectedBy(origin, text);
  if (expected !== undefined || isLocal(text)) return expected;
  if (idp === 'development')
    return 'an address on this computer such as http://localhost:4000, because the development identity provider has no passwords';
  return text.startsWith('https:')
    ? undefined
    : 'an https address, because other computers can reach it';
}

/** In a sentence. */
function titleIn(key: string | undefined): string {
  return providerTitle(providerOf(key) ?? PROVIDER.oidc);
}

function askedIssuer(key: string | undefined) {
  const asked = providerOf(key)?.issuer;
  return asked?.kind === 'asked' ? asked : undefined;
}

function noIssuer(key: string | undefined): string | undefined {
  const own = providerOf(key)?.issuer;
  if (own?.kind === 'asked') return undefined;
  return own?.kind === 'fixed'
    ? `no value, because the issuer of ${key} is always ${own.value}`
    : noClient(key);
}

function noClient(key: string | undefined): string | undefined {
  if (providerOf(key) === undefined) return 'no value without --idp';
  return key === 'development'
    ? 'no value, because the development identity provider needs none'
    : undefined;
}

function checkIssuer(text: string, { idp }: Answers): string | undefined {
  const asked = askedIssuer(idp);
  const expected = expectedBy(issuer, text);
  if (expected !== undefined || !asked?.pattern.test(text))
    return `an address of the form ${asked?.example ?? 'https://login.example.com'}`;
  return isLocal(text) || text.startsWith('https:') ? undefined : 'an https address';
}

function checkSecretFile(file: string): string | undefined {
  try {
    return readFileSync(resolve(file), 'utf8').trim() === ''
      ? 'a file that contains the client secret (it is empty)'
      : undefined;
  } catch (cause) {
    return `a readable file (${errorCode(cause)})`;
  }
}

/** An address may contain a password. */
function shown(text: string): string {
  return /[:/].*@/.test(text) ? `a value of ${text.length} characters` : JSON.stringify(text);
}
