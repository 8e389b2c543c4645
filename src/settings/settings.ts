// The settings as the rest of the program sees them: checked, complete, every address and secret resolved.
import type { Entitlement, Match } from './entitlements.ts';
import type { IdentityProvider } from './identity-provider.ts';
import type { Limits } from './limits.ts';
import type { Listeners } from './addresses.ts';
import type { SettingsFile } from './schema.ts';
import type { TraceSettings } from './traces.ts';

/** Durations in seconds, paths absolute. Holds secrets: never log it whole. */
export type Settings = Omit<
  SettingsFile,
  'listen' | 'identityProvider' | 'identityProviders' | 'entitlements' | 'limits' | 'management'
> & {
  /** NODE_ENV is `production`, or other computers can reach it: development parts are refused. */
  production: boolean;
  environmentName: 'production' | 'development';
  /** How long a process that was asked to stop takes requests, while balancers read that it is not ready. */
  drain: number;
  /** Where each host listens, in a process that plays its role. */
  listen: Listeners;
  /** One, or those that people choose from. */
  identityProviders: IdentityProvider[];
  entitlements: Entitlement[];
  management: { administrators: Match[] };
  limits: Limits;
  /** Where traces go; undefined where they are off. */
  traces: TraceSettings | undefined;
  /** The root secret, at least 32 characters: other keys are derived from it. */
  secret: string;
  /** The one before, while it is being replaced: what was made with it is still recognised. */
  previousSecret: string | undefined;
  /** The bearer key of the management API, at least 32 characters; undefined without the management role, unless given. */
  managementKey: string | undefined;
};
