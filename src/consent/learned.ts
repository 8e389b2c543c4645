// What pages say about the claims that the server behind a connector learns.
import type { Learned } from '../pages/values.ts';
import type { CallerClaim } from '../settings/schema.ts';
import type { Settings } from '../settings/settings.ts';
import { findUpstream, type LeadsToUpstream } from '../settings/upstreams.ts';

/** `server` is its name. */
export type LearnedClaims = { server: string; claims: readonly CallerClaim[] };

/** Returns the claims that the settings still have. Undefined if there are none. */
export function learnedBy(
  { upstreams }: Pick<Settings, 'upstreams'>,
  connector: LeadsToUpstream & { name: string },
  told: readonly CallerClaim[],
): LearnedClaims | undefined {
  const upstream = findUpstream(upstreams, connector);
  const claims = told.filter((claim) => upstream?.caller.claims.includes(claim));
  if (!upstream || claims.length === 0) return undefined;
  // The host that names a server without a name is no word for people.
  return { server: upstream.isNamed ? upstream.name : connector.name, claims };
}

/** Issuer and provider are the same to a person. */
export function learnedValues({ server, claims }: LearnedClaims): Learned {
  const named = claims.map((claim) =>
    claim === 'issuer' || claim === 'provider' ? 'service' : claim,
  );
  return { server, claims: [...new Set(named)] };
}
