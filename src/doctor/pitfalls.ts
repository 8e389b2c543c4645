// Settings that are accepted and may still not be meant: who gets in, and for how long things last.
import type { Entitlement } from '../settings/entitlements.ts';
import type { Settings } from '../settings/settings.ts';
import { type Deployment, settingsOf } from './deployment.ts';
import { type Finding, orOk, wordsOf } from './finding.ts';

const DAY = 86_400;
const LONG = { accessToken: 4 * 3600, refreshTokenIdle: 90 * DAY, refreshTokenAbsolute: 366 * DAY };
const ANYBODY =
  /^(gmail|googlemail|outlook|hotmail|live|yahoo|icloud|proton|protonmail|gmx|aol)\./i;

export async function pitfallFindings(deployment: Deployment): Promise<Finding[]> {
  const settings = settingsOf(deployment);
  return [
    ...orOk(
      settings.entitlements.flatMap(entitlementFindings),
      wordsOf('settings', 'entitlements').ok('nobody gets in by chance'),
    ),
    ...lifetimeFindings(settings),
    ...logFindings(settings),
  ];
}

function entitlementFindings({ match, level }: Entitlement, index: number): Finding[] {
  const words = wordsOf('settings', `entitlements[${index}]`);
  const isPublic = ANYBODY.test(match.emailDomain ?? '');
  if (!match.anyone && !isPublic) return [];
  const who = match.anyone
    ? 'everybody who can sign in at the identity provider'
    : `everybody with an address at ${match.emailDomain}`;
  const trouble = {
    what: `${who} may hold ${level}`,
    why: 'where the identity provider lets strangers in, or holds guests, they get it too',
    remedy: 'name groups, domains of your own or people instead, if this is not meant',
  };
  const isHigh = isPublic || level === 'admin' || level === 'full';
  return [isHigh ? words.warning(trouble) : words.note(trouble)];
}

function lifetimeFindings({ lifetimes }: Settings): Finding[] {
  const names = Object.keys(LONG) as (keyof typeof LONG)[];
  const long = names.filter((name) => lifetimes[name] > LONG[name]);
  const found = long.map((name) =>
    wordsOf('settings', `lifetimes.${name}`).note({
      what: `it is ${textOf(lifetimes[name])}`,
      why: 'what leaks, and what nobody thinks of any more, goes on working for as long',
      remedy: 'leave the default (1h, 30d, 90d), unless you need it',
    }),
  );
  const all = names.map((name) => `${name} ${textOf(lifetimes[name])}`).join(', ');
  return orOk(found, wordsOf('settings', 'lifetimes').ok(all));
}

function textOf(seconds: number): string {
  return seconds % DAY === 0 ? `${seconds / DAY}d` : `${Math.round(seconds / 360) / 10}h`;
}

function logFindings({ production, logLevel }: Settings): Finding[] {
  if (!production || !/^(trace|debug|silent)$/.test(logLevel)) return [];
  const isSilent = logLevel === 'silent';
  return [
    wordsOf('settings', 'logLevel').note({
      what: `the log level is ${logLevel}`,
      why: isSilent ? 'when something fails nobody can see why' : 'the log fills with details',
      remedy: 'set logLevel to info',
    }),
  ];
}
