import { statSync } from 'node:fs';
import { apiOf } from '../identity-providers/github.ts';
import {
  type Administrator,
  identitySourcesOf,
  domainOf,
  type Entitlement,
  type Match,
  organizationByLogin,
  organizationIn,
  ownerOf,
  type RuleNotice,
} from '../settings/entitlements.ts';
import { type Level, levelIds, type Levels } from '../permission-levels.ts';
import { proxyFor, shownProxy } from '../settings/forward-proxy.ts';
import type { Settings } from '../settings/settings.ts';
import type { ConfiguredDeployment } from './deployment.ts';
import { jsonObject, NoResponseError, type SendRequest } from './http-client.ts';
import {
  type Explanation,
  type Finding,
  findingAbout,
  type FindingFactory,
  okIfNone,
} from './report.ts';

/** Reports settings that are valid but may be unintended. */
export async function checkSettings({ settings }: ConfiguredDeployment): Promise<Finding[]> {
  return [
    ...okIfNone(
      settings.entitlements.flatMap((rule, n) => publicEntitlement(settings.levels, rule, n)),
      findingAbout('settings', 'entitlements').ok('no rule admits strangers'),
    ),
    ...registrationFindings(settings),
    ...lifetimeFindings(settings),
    ...logLevelFindings(settings),
    ...settings.management.administrators.flatMap(broadAdministrators),
    ...secretFileFindings(settings),
    ...forwardProxyFindings(settings),
  ];
}

/** Says which servers are reached through the proxy of the network. */
function forwardProxyFindings({
  forwardProxy,
  identityProviders,
  upstreams,
}: Pick<Settings, 'forwardProxy' | 'identityProviders' | 'upstreams'>): Finding[] {
  if (forwardProxy.http === undefined && forwardProxy.https === undefined) return [];
  const urls = [
    ...identityProviders.map(({ issuer }) => issuer),
    ...upstreams.map(({ url }) => url),
    'https://metadata-documents-of-apps',
  ];
  const ways = Map.groupBy(urls, (url) => {
    const proxy = proxyFor(url, forwardProxy);
    return proxy === undefined ? 'directly' : `through ${shownProxy(proxy)}`;
  });
  const shown = [...ways].map(
    ([way, of]) => `${way}: ${of.map((url) => new URL(url).host).join(', ')}`,
  );
  return [
    findingAbout('forward-proxy', 'HTTPS_PROXY').ok(`Gatehouse sends requests ${shown.join('; ')}`),
  ];
}

/** Reports modes in which nobody can connect a new app, or nobody signs in to allow one. */
function registrationFindings({ clients, management }: Settings): Finding[] {
  const finding = findingAbout('settings', 'clients.registration');
  const { registration, preRegistered, metadataDocuments, metadataDocumentHosts = [] } = clients;
  const isEmpty = [preRegistered, metadataDocuments, metadataDocumentHosts].every(
    (list) => list.length === 0,
  );
  if (registration === 'closed' && isEmpty)
    return [
      finding.warning({
        what: 'registration is closed, and the settings list no app',
        why: 'nobody can connect an app that is not connected already',
        remedy:
          'add apps to clients.preRegistered, clients.metadataDocuments or clients.metadataDocumentHosts, or set clients.registration to approval',
      }),
    ];
  if (registration === 'approval' && management.administrators.length === 0)
    return [
      finding.note({
        what: 'new apps wait for an administrator, and the console has none',
        why: 'only the command line and the API can allow them, so people may wait long',
        remedy:
          'add management.administrators, or look at gatehouse client list --state waiting regularly',
      }),
    ];
  return [finding.ok(`registration is ${registration}`)];
}

const OTHER_USERS = 0o007;
/** Every process of a container may read them. */
const CONTAINER_SECRETS = /^\/(var\/)?run\/secrets\//;

function secretFileFindings({ secretFile, managementKeys }: Settings): Finding[] {
  const canManage = 'a user who reads it can read the store and manage Gatehouse';
  const files = [
    ...(secretFile === undefined ? [] : [['secretFile', secretFile, canManage] as const]),
    ...managementKeys.flatMap(({ file, setting, name, role }) =>
      file === undefined
        ? []
        : [[setting, file, `a user who reads it has the role ${role} as key:${name}`] as const],
    ),
  ];
  return okIfNone(
    files
      .filter(([, file]) => mayOthersUse(file))
      .map(([setting, file, why]) =>
        findingAbout('secret-file', setting).warning({
          what: `other users of this computer may use ${file}`,
          why,
          remedy: `chmod 600 ${file}`,
        }),
      ),
    findingAbout('secret-file', 'secretFile').ok('no other user may use a file with secrets'),
  );
}

/** On Windows, the mode says nothing about other users. */
function mayOthersUse(file: string): boolean {
  const isChecked = process.platform !== 'win32' && !CONTAINER_SECRETS.test(file);
  return isChecked && (statSync(file).mode & OTHER_USERS) !== 0;
}

const PUBLIC_MAIL =
  /^(gmail|googlemail|outlook|hotmail|live|yahoo|icloud|proton|protonmail|gmx|aol)\./i;

function publicEntitlement(
  levels: Levels,
  { match, level }: Entitlement,
  index: number,
): Finding[] {
  const finding = findingAbout('settings', `entitlements[${index}]`);
  const isPublicDomain = PUBLIC_MAIL.test(match.emailDomain ?? '');
  if (!match.anyone && !isPublicDomain) return [];
  const who = match.anyone
    ? 'everybody who can sign in at the identity provider'
    : `everybody with an address at ${match.emailDomain}`;
  const explanation = {
    what: `${who} may have ${level}`,
    why: 'strangers and guests at the identity provider have this level too',
    remedy: 'if this is not intended, match groups, your own domains or people instead',
  };
  const isHigh = isPublicDomain || isInUpperHalf(levels, level);
  return [isHigh ? finding.warning(explanation) : finding.note(explanation)];
}

/** A whole company should not manage Gatehouse, and strangers should not even read there. */
function broadAdministrators({ emailDomain, role }: Administrator, index: number): Finding[] {
  if (emailDomain === undefined) return [];
  if (role === 'viewer' && !PUBLIC_MAIL.test(emailDomain)) return [];
  return [
    findingAbout('settings', `management.administrators[${index}]`).warning({
      what: `everybody with an address at ${emailDomain} has the role ${role} in the console`,
      why:
        role === 'viewer'
          ? 'they read who connected what, and the audit log'
          : 'each of them can create connectors and minted tokens, and disconnect people',
      remedy: 'match a group or people instead, or set role: viewer for colleagues who only read',
    }),
  ];
}

function isInUpperHalf(levels: Levels, level: Level): boolean {
  return levelIds(levels).indexOf(level) >= levels.length / 2;
}

const HOUR_SECONDS = 3600;
const DAY_SECONDS = 86_400;
const LONG_LIFETIMES = {
  accessToken: 4 * HOUR_SECONDS,
  refreshTokenIdle: 90 * DAY_SECONDS,
  refreshTokenAbsolute: 366 * DAY_SECONDS,
};

function lifetimeFindings({ lifetimes }: Settings): Finding[] {
  const names = Object.keys(LONG_LIFETIMES) as (keyof typeof LONG_LIFETIMES)[];
  const long = names.filter((name) => lifetimes[name] > LONG_LIFETIMES[name]);
  const found = long.map((name) =>
    findingAbout('settings', `lifetimes.${name}`).note({
      what: `the lifetime is ${durationText(lifetimes[name])}`,
      why: 'leaked and forgotten tokens work for this long',
      remedy: 'use the default (1h, 30d, 90d), unless you need it',
    }),
  );
  const all = names.map((name) => `${name} ${durationText(lifetimes[name])}`).join(', ');
  return okIfNone(found, findingAbout('settings', 'lifetimes').ok(all));
}

function durationText(seconds: number): string {
  return seconds % DAY_SECONDS === 0
    ? `${seconds / DAY_SECONDS}d`
    : `${Math.round((10 * seconds) / HOUR_SECONDS) / 10}h`;
}

function logLevelFindings({ production, logLevel }: Settings): Finding[] {
  if (!production || !/^(trace|debug|silent)$/.test(logLevel)) return [];
  return [
    findingAbout('settings', 'logLevel').note({
      what: `the log level is ${logLevel}`,
      why:
        logLevel === 'silent'
          ? 'the log does not show why something fails'
          : 'the log fills with details',
      remedy: 'set logLevel to info',
    }),
  ];
}

/** Reports rules about people that may match others than intended, and compares GitHub organizations with their ids. */
export async function checkRules({
  settings,
  sendVerified,
}: ConfiguredDeployment): Promise<Finding[]> {
  return [
    ...settings.entitlements.flatMap(({ match }, n) =>
      unownedDomain(settings, `entitlements[${n}]`, match),
    ),
    ...(await checkOrganizations(settings, sendVerified)),
  ];
}

/** Without an owner, any of several providers can assert an address of the domain. */
function unownedDomain(settings: Settings, setting: string, match: Match): Finding[] {
  const domain = domainOf(match);
  if (domain === undefined || match.from.issuers.length < 2) return [];
  if (ownerOf(match, identitySourcesOf(settings))) return [];
  return [
    findingAbout('entitlements', setting).warning({
      what: `every identity provider may assert addresses at ${domain}`,
      why: 'a provider that others operate, or that does not verify addresses, can admit its own users under your domain',
      remedy: `add ${domain} to emailDomains of the provider that owns it, or set provider in match`,
    }),
  ];
}

type NamedOrganization = NonNullable<ReturnType<typeof organizationIn>>;

async function checkOrganizations(settings: Settings, send: SendRequest): Promise<Finding[]> {
  const identitySources = identitySourcesOf(settings);
  const { entitlements, management } = settings;
  const rules: [setting: string, match: Match][] = [
    ...entitlements.map(({ match }, n): [string, Match] => [`entitlements[${n}]`, match]),
    ...management.administrators.map((match, n): [string, Match] => [
      `management.administrators[${n}]`,
      match,
    ]),
  ];
  const findings: Finding[] = [];
  for (const [setting, match] of rules) {
    const named = organizationIn(match, identitySources);
    if (!named) continue;
    const finding = findingAbout('entitlements', setting);
    const found = await fetchOrganization(send, named);
    const [notice] = organizationByLogin(setting, match, identitySources);
    findings.push(
      notice ? finding.warning(withId(notice, named, found)) : compareId(finding, named, found),
    );
  }
  return findings;
}

/** Adds the organization's id to the notice that startup logs. */
function withId(
  { what, why, remedy }: RuleNotice,
  named: NamedOrganization,
  found: FoundOrganization,
): Explanation {
  if (found.id === undefined)
    return {
      what: `${what}; its id could not be looked up: ${found.reason}`,
      why,
      remedy: `${remedy}, and ${organizationUrl(named)} shows it`,
    };
  return {
    what,
    why,
    remedy: `if this is the right organization, write organization: "${found.login}#${found.id}" in place of the login`,
  };
}

function compareId(
  finding: FindingFactory,
  { login, id }: NamedOrganization,
  found: FoundOrganization,
): Finding {
  if (found.id === id) return finding.ok(`${login} is the login of the organization ${id}`);
  if (found.id === undefined && found.reason !== NOT_FOUND)
    return finding.unknown(`the id of ${login} could not be looked up: ${found.reason}`);
  const what =
    found.id === undefined ? NOT_FOUND : `the organization with this login is ${found.id}`;
  return finding.note({
    what: `${login} is not the login of the organization ${id}: ${what}`,
    why: 'the rule matches the id, so a reader of the settings may assume another organization',
    remedy: 'correct the login if the organization was renamed, or the id if it is wrong',
  });
}

const NOT_FOUND = 'there is no organization with this login';

type FoundOrganization = { login: string; id: string } | { id?: never; reason: string };

/** https://docs.github.com/en/rest/orgs/orgs#get-an-organization needs no authentication. */
async function fetchOrganization(
  send: SendRequest,
  named: NamedOrganization,
): Promise<FoundOrganization> {
  try {
    const response = await send(organizationUrl(named), {
      headers: { accept: 'application/vnd.github+json', 'x-github-api-version': '2022-11-28' },
    });
    if (response.status === 404) return { reason: NOT_FOUND };
    const { login, id } = jsonObject(response) ?? {};
    const isOrganization = typeof login === 'string' && Number.isSafeInteger(id);
    if (response.status !== 200 || !isOrganization)
      return { reason: `GitHub answered with status ${response.status}` };
    return { login, id: String(id) };
  } catch (error) {
    if (error instanceof NoResponseError) return { reason: error.message };
    throw error;
  }
}

function organizationUrl({ issuer, login }: NamedOrganization): string {
  return `${apiOf(new URL(issuer).origin)}/orgs/${encodeURIComponent(login)}`;
}
