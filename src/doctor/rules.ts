import { type MissingGroups, missingGroupsText } from '../people/arrived-groups.ts';
import { apiOf } from '../sign-in/github.ts';
import {
  domainOf,
  identitySourcesOf,
  type Match,
  organizationByLogin,
  organizationIn,
  ownerOf,
  rulesOf,
} from '../settings/entitlements.ts';
import type { Settings } from '../settings/settings.ts';
import type { ConfiguredDeployment } from './deployment.ts';
import { jsonObject, NoResponseError, type SendRequest } from './http-client.ts';
import { findingAbout, type Findings } from './report.ts';

/** Reports rules about people that may match others than intended, and compares GitHub organizations with their ids. */
export async function checkRules({
  settings,
  sendToProvider,
  listRecords,
}: ConfiguredDeployment): Promise<Findings> {
  const rules = rulesOf(settings);
  const findings: Findings[] = rules
    .slice(0, settings.entitlements.length)
    .map(([setting, match]) => unownedDomain(settings, setting, match));
  for (const [setting, match] of rules)
    findings.push(await organizationFinding(settings, setting, match, sendToProvider));
  const missing = (await listRecords())?.missingGroups ?? [];
  return [...findings, ...missing.map(groupsFinding)];
}

function groupsFinding(missing: MissingGroups): Findings {
  return findingAbout('entitlements', missing.provider).warning({
    what: missingGroupsText(missing),
    why: 'a rule about a group matches nobody then, and people see only that they have no access',
    remedy: missing.remedy,
  });
}

/** Without an owner, any of several providers can assert an address of the domain. */
function unownedDomain(settings: Settings, setting: string, match: Match): Findings {
  const domain = domainOf(match);
  return (
    domain !== undefined &&
    match.from.issuers.length > 1 &&
    !ownerOf(match, identitySourcesOf(settings)) &&
    findingAbout('entitlements', setting).warning({
      what: `every identity provider may assert addresses at ${domain}`,
      why: 'a provider that others operate, or that does not verify addresses, can admit its own users under your domain',
      remedy: `add ${domain} to emailDomains of the provider that owns it, or set provider in match`,
    })
  );
}

type NamedOrganization = NonNullable<ReturnType<typeof organizationIn>>;

/** Adds the organization's id to the notice that startup logs, or compares it. */
async function organizationFinding(
  settings: Settings,
  setting: string,
  match: Match,
  send: SendRequest,
): Promise<Findings> {
  const identitySources = identitySourcesOf(settings);
  const named = organizationIn(match, identitySources);
  if (!named) return undefined;
  const { login, id } = named;
  const finding = findingAbout('entitlements', setting);
  const found = await fetchOrganization(send, named);
  const [notice] = organizationByLogin(setting, match, identitySources);
  if (notice && found.id === undefined)
    return finding.warning({
      what: `${notice.what}; its id could not be looked up: ${found.reason}`,
      why: notice.why,
      remedy: `${notice.remedy}, and ${organizationUrl(named)} shows it`,
    });
  if (notice)
    return finding.warning({
      what: notice.what,
      why: notice.why,
      remedy: `if this is the right organization, write organization: "${found.login}#${found.id}" in place of the login`,
    });
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

type FoundOrganization =
  { login: string; id: string } | { id?: never; login?: never; reason: string };

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
