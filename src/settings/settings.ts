// The validated settings, with defaults, addresses and secrets resolved.
import type { DeliveryTarget } from './audit-delivery.ts';
import type { Administrator, Entitlement } from './entitlements.ts';
import type { IdentityProvider } from './identity-provider.ts';
import type { ForwardProxy } from './forward-proxy.ts';
import type { Limits } from './limits.ts';
import type { Listeners } from './addresses.ts';
import type { ManagementKey } from './management-keys.ts';
import type { SettingsFile } from './schema.ts';
import type { TraceSettings } from './traces.ts';
import type { Upstream } from './upstreams.ts';

/** Durations in seconds, absolute paths. Contains secrets: never log it. */
export type Settings = Omit<
  SettingsFile,
  | 'audit'
  | 'listen'
  | 'identityProvider'
  | 'identityProviders'
  | 'entitlements'
  | 'limits'
  | 'management'
  | 'resourceServer'
> & {
  /** NODE_ENV is `production`, or other computers can reach a host. Production refuses development parts. */
  production: boolean;
  environmentName: 'production' | 'development';
  /** `lifetimes.usedClient` as it was set, if it was raised to `refreshTokenIdle`. */
  raisedUsedClient: number | undefined;
  /** How long a process accepts requests after SIGTERM while `/readyz` fails. */
  drain: number;
  /** Listen address of each host, in processes with its role. */
  listen: Listeners;
  /** At least one; people choose if there are several. */
  identityProviders: IdentityProvider[];
  entitlements: Entitlement[];
  management: { administrators: Administrator[] };
  audit: Omit<SettingsFile['audit'], 'delivery'> & { delivery: readonly DeliveryTarget[] };
  limits: Limits;
  resourceServer: Omit<SettingsFile['resourceServer'], 'upstream' | 'upstreams'>;
  /** The operator's MCP servers. Empty if the sample serves calls. */
  upstreams: readonly Upstream[];
  /** The proxy of the network, from HTTPS_PROXY, HTTP_PROXY and NO_PROXY. */
  forwardProxy: ForwardProxy;
  /** Undefined if traces are off. */
  traces: TraceSettings | undefined;
  /** Root secret of at least 32 characters, from which other keys are derived. */
  secret: string;
  /** Previous root secret during rotation, still accepted. */
  previousSecret: string | undefined;
  /** Bearer key of the management API with the role administrator, at least 32 characters. Undefined without the management role, unless it is set. */
  managementKey: string | undefined;
  /** Whether no setting has it, so that the data directory does. */
  hasOwnManagementKey: boolean;
  /** Those of `management.keys`. Empty without the management role. */
  managementKeys: readonly ManagementKey[];
};
