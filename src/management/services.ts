import type { Account } from '../accounts/account.ts';
import type { AuditServices } from '../audit/audit.ts';
import type { ClientSettings } from '../clients/clients.ts';
import type { Lifetimes } from '../grants/grant-lifetime.ts';
import type { Level } from '../permission-level.ts';
import type { Via } from '../settings/entitlements.ts';
import type { Store } from '../store/store.ts';

/** Passed to every management operation, by the API and by the console. Durations are in seconds. */
export type ManagementServices = {
  store: Store;
  metrics: AuditServices['metrics'];
  /** The issuer of minted tokens. */
  authUrl: string;
  /** The base address of connect links. */
  resourceUrl: string;
  /** How long a replaced signing key stays published. */
  accessTokenLifetime: number;
  lifetimes: Lifetimes;
  /** How long an account record is kept after the last sign-in. */
  accountLifetime: number;
  /** The absolute lifetime of a grant. */
  grantLifetime: number;
  /** The highest level that a person is entitled to, if any. */
  entitledLevel: (account: Account, via: Via) => Level | undefined;
  /** The clients named in the settings. */
  clients: ClientSettings;
  /** The account id of the administrator signed in to the console; absent with the management key. */
  by?: string;
  /** Seconds since the epoch. */
  now: () => number;
};
