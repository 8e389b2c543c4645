// Step-up sign-in: whether a sign-in is recent enough, and of the right class, for a level (OpenID Connect Core section 2: `auth_time`, `acr`).
// Pure: no I/O, no clock.
import { isAtLeast, type Level, levelsUpTo } from '../permission-levels.ts';
import type { StepUp } from '../settings/identity-provider-schema.ts';
import type { Settings } from '../settings/settings.ts';
import { isSameIssuer } from '../settings/value-types.ts';
import type { Account } from './account.ts';

/** When (seconds since the epoch) and how a person signed in, as a signed token states it. */
export type Authentication = { authTime?: number; acr?: string };

export type StepUpProblem = 'auth_time_missing' | 'auth_time_too_old' | 'acr_not_accepted';

export type StepUpSettings = Pick<Settings, 'levels' | 'identityProviders'>;

const MAX_CLOCK_SKEW_SECONDS = 60;

/** Ignores claims of another type. */
export function authenticationIn({
  auth_time: authTime,
  acr,
}: {
  auth_time?: unknown;
  acr?: unknown;
}): Authentication {
  return {
    ...(typeof authTime === 'number' ? { authTime } : {}),
    ...(typeof acr === 'string' ? { acr } : {}),
  };
}

/** Returns what a sign-in lacks; undefined if it is recent enough and of an accepted class. A time in the future does not count. */
export function stepUpProblem(
  { maxAge, acrValues }: StepUp,
  { authTime, acr }: Authentication,
  now: number,
): StepUpProblem | undefined {
  if (maxAge !== undefined && authTime === undefined) return 'auth_time_missing';
  if (maxAge !== undefined && authTime !== undefined) {
    const age = now - authTime;
    if (age > maxAge + MAX_CLOCK_SKEW_SECONDS || age < -MAX_CLOCK_SKEW_SECONDS)
      return 'auth_time_too_old';
  }
  if (acrValues && (acr === undefined || !acrValues.includes(acr))) return 'acr_not_accepted';
  return undefined;
}

/** Returns the settings of the provider where an account signs in; undefined if it is no longer configured. */
export function providerOf(
  { identityProviders }: Pick<Settings, 'identityProviders'>,
  { issuer, providerIssuer = issuer }: Pick<Account, 'issuer' | 'providerIssuer'>,
): Settings['identityProviders'][number] | undefined {
  return identityProviders.find((each) => isSameIssuer(each.issuer, providerIssuer));
}

/** Returns `stepUp` of the provider where the account signs in, if this level needs it. */
export function stepUpFor(
  settings: StepUpSettings,
  account: Pick<Account, 'issuer' | 'providerIssuer'>,
  level: Level,
): StepUp | undefined {
  const { levels } = settings;
  const provider = providerOf(settings, account);
  const needed = provider?.stepUp?.levels.some((lowest) => isAtLeast(levels, level, lowest));
  return needed ? provider?.stepUp : undefined;
}

/**
 * Returns the highest level up to `level` that an assertion of a trusted issuer may give. Undefined if there is none. `stepUp` of the sign-in
 * provider with the same issuer applies; if there is no such provider, that of every provider.
 */
export function assertedLevel(
  settings: StepUpSettings,
  { issuer, authentication }: { issuer: string; authentication: Authentication },
  level: Level,
  now: number,
): Level | undefined {
  const { levels, identityProviders } = settings;
  const same = identityProviders.filter((each) => isSameIssuer(each.issuer, issuer));
  const applicable = same.length > 0 ? same : identityProviders;
  return levelsUpTo(levels, level).findLast((each) =>
    applicable.every((provider) => {
      const stepUp = stepUpFor(settings, provider, each);
      return stepUp === undefined || stepUpProblem(stepUp, authentication, now) === undefined;
    }),
  );
}
