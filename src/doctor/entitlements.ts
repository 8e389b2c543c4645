// Rules about people that may not do what their author expects, and the ids of the GitHub organizations that they name.
import { apiOf } from '../authorization-server/interactions/github.ts';
import { assertersOf, domainOf, type Match, ownerOf } from '../settings/entitlements.ts';
import {
  organizationByLogin,
  organizationIn,
  type RuleNotice,
  ruleNotices,
} from '../settings/entitlements.ts';
import type { Settings } from '../settings/settings.ts';
import { type Ask, jsonOf, NoAnswer } from './ask.ts';
import { type Deployment, settingsOf } from './deployment.ts';
import { type Finding, type Trouble, type Words, wordsOf } from './finding.ts';

export async function entitlementFindings(deployment: Deployment): Promise<Finding[]> {
  const settings = settingsOf(deployment);
  const changed = ruleNotices(settings).filter(({ kind }) => kind === 'changed-meaning');
  return [
    ...changed.map(({ setting, what, why, remedy }) =>
      wordsOf('entitlements', setting).warning({ what, why, remedy }),
    ),
    ...settings.entitlements.flatMap(({ match }, n) =>
      unownedDomain(settings, `entitlements[${n}]`, match),
    ),
    ...(await organizationFindings(settings, deployment.askTrusted)),
  ];
}

/** Any of several sign-in providers can assert an address of a domain that none of them owns. */
function unownedDomain(settings: Settings, setting: string, match: Match): Finding[] {
  const domain = domainOf(match);
  if (domain === undefined || match.from.issuers.length < 2) return [];
  if (ownerOf(match, assertersOf(settings))) return [];
  return [
    wordsOf('entitlements', setting).warning({
      what: `every sign-in provider may assert addresses at ${domain}`,
      why: 'a provider that verifies addresses carelessly, or is run by others, can let its people in as yours',
      remedy: `add ${domain} to emailDomains of the provider whose people have these addresses, or write provider in match`,
    }),
  ];
}

async function organizationFindings(settings: Settings, ask: Ask): Promise<Finding[]> {
  const asserters = assertersOf(settings);
  const { entitlements, management } = settings;
  const rules: [string, Match][] = [
    ...entitlements.map(({ match }, n): [string, Match] => [`entitlements[${n}]`, match]),
    ...management.administrators.map((match, n): [string, Match] => [
      `management.administrators[${n}]`,
      match,
    ]),
  ];
  const findings: Finding[] = [];
  for (const [setting, match] of rules) {
    const named = organizationIn(match, asserters);
    if (!named) continue;
    const words = wordsOf('entitlements', setting);
    const found = await lookUp(ask, named);
    const [notice] = organizationByLogin(setting, match, asserters);
    findings.push(
      notice ? words.warning(pinned(notice, named, found)) : compared(words, named, found),
    );
  }
  return findings;
}

/** The notice of startup, with the id to write. */
function pinned({ what, why, remedy }: RuleNotice, named: Named, found: Found): Trouble {
  if (found.id === undefined)
    return {
      what: `${what}; its id could not be looked up: ${found.reason}`,
      why,
      remedy: `${remedy}, and ${addressOf(named)} shows it`,
    };
  return {
    what,
    why,
    remedy: `write organization: "${found.login}#${found.id}" in place of the login, if that is the organization you mean`,
  };
}

function compared(words: Words, { login, id }: Named, found: Found): Finding {
  if (found.id === id) return words.ok(`${login} is the login of the organization ${id}`);
  if (found.id === undefined && found.reason !== NOT_THERE)
    return words.unknown(`the id of ${login} could not be looked up: ${found.reason}`);
  const what =
    found.id === undefined ? NOT_THERE : `the organization with this login is ${found.id}`;
  return words.note({
    what: `${login} is not the login of the organization ${id}: ${what}`,
    why: 'the rule matches the id, so a reader of the settings may assume another organization',
    remedy: 'correct the login if the organization was renamed, or the id if it is wrong',
  });
}

type Named = NonNullable<ReturnType<typeof organizationIn>>;

const NOT_THERE = 'there is no organization with this login';

type Found = { login: string; id: string } | { id?: never; reason: string };

/** https://docs.github.com/en/rest/orgs/orgs#get-an-organization: public, and needs no secret. */
async function lookUp(ask: Ask, named: Named): Promise<Found> {
  try {
    const answer = await ask(addressOf(named), {
      headers: { accept: 'application/vnd.github+json', 'x-github-api-version': '2022-11-28' },
    });
    if (answer.status === 404) return { reason: NOT_THERE };
    const { login, id } = jsonOf(answer) ?? {};
    const isOrganization = typeof login === 'string' && Number.isSafeInteger(id);
    if (answer.status !== 200 || !isOrganization)
      return { reason: `GitHub answered with status ${answer.status}` };
    return { login, id: String(id) };
  } catch (error) {
    if (error instanceof NoAnswer) return { reason: error.message };
    throw error;
  }
}

function addressOf({ issuer, login }: Named): string {
  return `${apiOf(new URL(issuer).origin)}/orgs/${encodeURIComponent(login)}`;
}
