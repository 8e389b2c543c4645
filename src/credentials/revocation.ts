// Revokes ended credentials at their service (RFC 7009). What the service does not take is tried again for a day, and delays nothing.
import { randomUUID } from 'node:crypto';
import * as openid from 'openid-client';
import type { Services } from '../services.ts';
import type { Settings } from '../settings/settings.ts';
import { findUpstream, type Upstream } from '../settings/upstreams.ts';
import type { Credential, ServiceClient } from './credential.ts';
import { openidConfiguration, secretFor, trustedHostsOf } from './service.ts';

type PendingRevocation = {
  upstream: string;
  service: ServiceClient;
  tokens: string[];
};

const DAY_SECONDS = 86_400;
const PENDING = 'credential-revocations:all';
const pendingKey = (id: string) => `credential-revocation:${id}`;

export type RevocationSettings = Pick<
  Settings,
  'upstreams' | 'forwardProxy' | 'identityProviders' | 'secret'
>;

type RevocationServices = Pick<Services, 'store' | 'now' | 'logger'>;

/** Resolves when it is stored that the tokens must be revoked. The attempts go on. */
export async function revokeAtService(
  settings: RevocationSettings,
  services: RevocationServices,
  { upstream, service, refreshToken, token }: Credential,
): Promise<void> {
  if (!service?.revocationEndpoint) return;
  const id = randomUUID();
  const tokens = [refreshToken, token].filter((each) => each !== undefined);
  const pending: PendingRevocation = { upstream, service, tokens };
  await services.store.addMember(PENDING, id, Infinity);
  await services.store.set(pendingKey(id), pending, DAY_SECONDS);
  void attempt(settings, services, id).catch(() => undefined);
}

/** One attempt for each that waits. */
export async function retryRevocations(
  settings: RevocationSettings,
  services: RevocationServices,
): Promise<void> {
  for (const id of await services.store.members(PENDING))
    await attempt(settings, services, id).catch(() => undefined);
}

async function attempt(
  settings: RevocationSettings,
  { store, logger }: RevocationServices,
  id: string,
): Promise<void> {
  const pending = (await store.get<PendingRevocation>(pendingKey(id)))?.value;
  if (!pending) return store.removeMember(PENDING, id);
  const upstream: Upstream | undefined = findUpstream(settings.upstreams, pending);
  const { service, tokens } = pending;
  const network = {
    // Also of what the settings have lost or moved by now.
    trustedHosts: new Set([
      ...(service.trustedHosts ?? []),
      ...(upstream ? trustedHostsOf(upstream) : []),
    ]),
    forwardProxy: settings.forwardProxy,
  };
  const config = openidConfiguration(service, secretFor(settings, upstream, service), network);
  try {
    for (const token of tokens)
      await openid.tokenRevocation(config, token).catch((error: unknown) => {
        if (!isNoToken(error)) throw error;
      });
  } catch {
    logger.warn({ what: pending.upstream }, 'a service did not revoke an ended credential yet');
    return;
  }
  await store.delete(pendingKey(id));
  await store.removeMember(PENDING, id);
}

/** Services that end the access token with the refresh token answer so, although RFC 7009 section 2.2 has no such error. */
function isNoToken(error: unknown): boolean {
  return error instanceof openid.ResponseBodyError && error.error === 'invalid_token';
}
