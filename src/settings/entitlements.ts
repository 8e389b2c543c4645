// The rules of who may hold what, with the identity provider that a rule names turned into its issuer.
import type { Path } from './document.ts';
import { type IdentityProvider, providersIn } from './identity-provider.ts';
import type { Mistake } from './mistake.ts';
import type { RuleInFile, SettingsFile } from './schema.ts';
import { mistakeAt, type Source } from './source.ts';

type MatchInFile = RuleInFile['match'];

/** Whom a rule is for; `issuer`: only when this identity provider says so. */
export type Match = Omit<MatchInFile, 'provider'> & { provider?: never; issuer?: string };
export type Entitlement = Omit<RuleInFile, 'match'> & { match: Match };

type Providers = readonly IdentityProvider[];

/** The rules of `entitlements`, and those that name administrators. */
export function resolveRules(
  { entitlements, management }: Pick<SettingsFile, 'entitlements' | 'management'>,
  providers: Providers,
): { entitlements: Entitlement[]; management: { administrators: Match[] } } {
  return {
    entitlements: entitlements.map((rule) => ({ ...rule, match: resolved(rule.match, providers) })),
    management: {
      ...management,
      administrators: management.administrators.map((match) => resolved(match, providers)),
    },
  };
}

function resolved({ provider: id, ...match }: MatchInFile, providers: Providers): Match {
  if (id === undefined) return match;
  const provider = providers.find((candidate) => candidate.id === id);
  if (provider) return { ...match, issuer: provider.issuer };
  throw new Error(`a rule names the identity provider ${id}, which is not there`);
}

/**
 * Subjects and groups are names that one provider gave, and with another anybody may have the same; so with several providers such a rule
 * says which it means. A verified address is the same wherever it was verified.
 */
export function ruleMistakes(source: Source, file: Partial<SettingsFile>): Mistake[] {
  const given = providersIn(file).map(([, provider]) => provider);
  // Providers that are not right themselves are what has to be mended first.
  if (given.length === 0 && !file.developmentIdp) return [];
  const ids = given.flatMap(({ id }) => id ?? []);
  const known =
    ids.length > 0 ? `one of ${ids.join(', ')}` : 'nothing here without identityProviders';
  return matchesIn(file).flatMap(([path, match]) => {
    const at = [...path, 'provider'];
    if (match.provider !== undefined)
      return ids.includes(match.provider) ? [] : [mistakeAt(source, at, known)];
    const isAmbiguous = match.email === undefined && match.emailDomain === undefined;
    if (given.length < 2 || !isAmbiguous) return [];
    return [mistakeAt(source, at, `${known}, because there are several`)];
  });
}

function matchesIn({
  entitlements = [],
  management,
}: Partial<SettingsFile>): [Path, MatchInFile][] {
  const administrators = management?.administrators ?? [];
  return [
    ...entitlements.map(({ match }, n): [Path, MatchInFile] => [
      ['entitlements', n, 'match'],
      match,
    ]),
    ...administrators.map((match, n): [Path, MatchInFile] => [
      ['management', 'administrators', n],
      match,
    ]),
  ];
}
