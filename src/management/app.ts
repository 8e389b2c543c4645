// The management host: a listener of its own, on loopback unless an operator says otherwise, where connectors and tokens are made and revoked and keys rotated.
import type Koa from 'koa';
import type { Logger } from 'pino';
import type { Account } from '../accounts/account.ts';
import type { ClientSettings } from '../clients/clients.ts';
import type { Lifetimes } from '../grants/grant-life.ts';
import { createHost } from '../http/host.ts';
import type { SecretGuard } from '../http/secret-guard.ts';
import type { Level } from '../permission-level.ts';
import type { Store } from '../store/store.ts';
import { refuseForeignOrigin, requireAdministrator } from './administrator.ts';
import { managementApi } from './api.ts';

export type ManagementOptions = {
  /** The public base address of this host. */
  url: string;
  /** The base address of the authorization server: the issuer of minted tokens. */
  authUrl: string;
  /** The base address that connect links start with. */
  resourceUrl: string;
  /** In seconds: how long what a replaced signing key signed is good. */
  accessTokenLifetime: number;
  grantLifetimes: Lifetimes;
  /** In seconds: how long the record of an account is kept after a sign-in. */
  accountLifetime: number;
  /** In seconds: the absolute lifetime of a grant. */
  grantLifetime: number;
  /** The level that a person may hold. */
  entitledLevel: (account: Account) => Level | undefined;
  /** What the settings say of clients. */
  clients: ClientSettings;
  store: Store;
  /** What an administrator sends as bearer token. */
  key: string;
  /** Bounds how often a wrong one may be tried. */
  guardKey: SecretGuard;
  logger: Logger;
  isReady: () => Promise<void>;
  /** How many trusted proxies stand in front. */
  proxies?: number;
  /** Seconds since the epoch. */
  now?: () => number;
};

export function managementApp(options: ManagementOptions): Koa {
  const { url, key, guardKey, logger, isReady, proxies = 0 } = options;
  const app = createHost({ name: 'management', url, proxies, logger, isReady });
  app.use(refuseForeignOrigin(url));
  app.use(within('/api/v1', requireAdministrator(key, guardKey)));
  app.use(managementApi(options).routes());
  return app;
}

/** Routes match the same raw path in the same case, so none under `prefix` is reached without the step. */
function within(prefix: string, step: Koa.Middleware): Koa.Middleware {
  return function prefixed(ctx, next) {
    const isWithin = ctx.path === prefix || ctx.path.startsWith(`${prefix}/`);
    return isWithin ? step(ctx, next) : next();
  };
}
