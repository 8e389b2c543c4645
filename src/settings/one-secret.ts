// Secrets that are one secret, or part of one: whoever is told one of them knows the other.
import { inProduction } from './production.ts';
import type { SettingsIssue } from './issues.ts';
import type { NamedSecrets } from './placeholder.ts';
import { hidden } from './source.ts';

/** Characters. What is shorter may be part of anything by chance. */
const SHORTEST = 16;
const ROOT = 'GATEHOUSE_SECRET';

/**
 * The later one of each pair is the mistake. `previous`: the root secret of before. `reason` is why this is production. One app at several
 * issuers, such as the tenants of one provider, has one secret there.
 */
export function checkDistinctSecrets(
  secrets: NamedSecrets,
  previous: string | undefined,
  reason: string,
): SettingsIssue[] {
  return secrets.flatMap(([setting, secret = '', app], index) => {
    const before = ['GATEHOUSE_PREVIOUS_SECRET', setting === ROOT ? '' : previous] as const;
    const others: NamedSecrets = [...secrets.slice(0, index), before];
    const other = others.find(
      ([, text, at]) => (app === undefined || at !== app) && areOne(text, secret),
    );
    if (!other) return [];
    const expected = `a secret of its own, not ${other[0]} or a part of it, ${inProduction(reason)}`;
    return [{ setting, given: hidden(secret), expected }];
  });
}

function areOne(first = '', second = ''): boolean {
  const [short = '', long = ''] = [first, second].toSorted((a, b) => a.length - b.length);
  return short.length >= SHORTEST && long.includes(short);
}
