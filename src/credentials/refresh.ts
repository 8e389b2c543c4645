// Renews the tokens of a credential: one process at a time, and the rotated token is stored before anything else (RFC 6749 section 6).
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import * as openid from 'openid-client';
import type { Store } from '../store/store.ts';
import {
  type Credential,
  isExpired,
  LEASE_SECONDS,
  type ServiceClient,
  type Tokens,
  withLease,
  withoutLease,
  withRefreshed,
} from './credential.ts';
import { announce, deleteCredential, findCredential, updateCredential } from './credentials.ts';
import { errorCodeOf, scopesIn, tokensIn } from './obtain.ts';
import { openidConfiguration } from './service.ts';
import { membersOfAnswer, type ServiceNetwork } from './service-fetch.ts';

export type RefreshServices = {
  store: Store;
  /** Seconds since the epoch. */
  now: () => number;
  network: ServiceNetwork;
  /** The secret of our client there. */
  secretOf: (service: ServiceClient) => string | undefined;
  /** Of tokens that came after their credential had ended. */
  revoke: (tokens: Credential) => Promise<void>;
};

/**
 * `ask`: the person must act, and the credential is kept. `failed`: the service cannot be used now; `code` is its error, or undefined.
 * `otherProvider`: the person signs in where no token can be exchanged.
 */
export type Refreshed =
  | { credential: Credential }
  | { ended: Credential }
  | { ask: true }
  | { otherProvider: true }
  | { failed: { code: string | undefined } };

/** The service will never take this refresh token again. */
const ENDING = ['invalid_grant', 'bad_refresh_token', 'invalid_refresh_token'];
const MAX_SAVE_ATTEMPTS = 20;
const SAVE_RETRY_MS = 500;
const POLL_MS = 50;

/**
 * Renews the token `used`, unless the store has a newer one by then. Waits for another process that does. Never rejects for what the service
 * answers.
 */
export async function refreshCredential(
  services: RefreshServices,
  owner: Pick<Credential, 'account' | 'upstream'>,
  used: string,
): Promise<Refreshed> {
  const { store, now } = services;
  const by = randomUUID();
  const started = performance.now();
  for (;;) {
    let isOwn = false;
    const found = await updateCredential(store, owner, (current) => {
      const leased = current.token === used ? withLease(current, by, now()) : undefined;
      isOwn = leased !== undefined;
      return leased;
    });
    if (!found) return { ask: true };
    if (found.token !== used) return { credential: found };
    if (isOwn) return renew(services, found, by);
    if (performance.now() - started > LEASE_SECONDS * 1000) return { failed: { code: undefined } };
    await delay(POLL_MS);
  }
}

async function renew(
  services: RefreshServices,
  credential: Credential,
  by: string,
): Promise<Refreshed> {
  const { store, now } = services;
  const { refreshToken, service } = credential;
  const release = async (outcome: Refreshed) => {
    await updateCredential(
      store,
      credential,
      ifLeased(by, (current) => withoutLease(current)),
    );
    return outcome;
  };
  if (refreshToken === undefined || !service) {
    const isDead = isExpired(credential, now()) || refreshToken === undefined;
    return release(isDead ? { ask: true } : { credential });
  }
  let saved: Credential | undefined;
  let isSpent = false;
  const replace = (next: (current: Credential) => Credential) =>
    keepTrying(() =>
      updateCredential(store, credential, (current) =>
        current.refreshToken === refreshToken ? next(current) : undefined,
      ),
    );
  const keep = async (response: Response) => {
    const answer = membersOfAnswer(await response.text()) ?? {};
    const scopes = scopesIn(answer);
    let tokens: Partial<Tokens> & Pick<Tokens, 'token'>;
    try {
      tokens = { ...tokensIn(answer, now()), ...(scopes ? { scopes } : {}) };
    } catch (error) {
      // Beside an access token that cannot be used, the old refresh token is spent all the same.
      const { refresh_token: rotated } = answer;
      isSpent = typeof rotated === 'string' && rotated !== refreshToken;
      if (typeof rotated === 'string')
        await replace((current) => ({ ...current, refreshToken: rotated }));
      throw error;
    }
    saved = await replace((current) => withRefreshed(current, tokens));
    // Not if the person has connected again: at some services, it would end the new one.
    if (!saved) await services.revoke(withRefreshed(credential, tokens));
    await announce(store, credential);
  };
  const secret = services.secretOf(service);
  // The settings name another client by now, which has its own refresh tokens.
  if (service.auth !== 'none' && secret === undefined) return release({ ask: true });
  const config = openidConfiguration(service, secret, services.network, keep);
  const { resource } = service;
  const parameters: Record<string, string> = resource === undefined ? {} : { resource };
  const send = () => openid.refreshTokenGrant(config, refreshToken, parameters);
  try {
    // A lost answer may have had the only valid token: services take the old one once more.
    await send().catch((error: unknown) => {
      if (saved || isSpent || error instanceof openid.ResponseBodyError) throw error;
      return isLost(error) ? send() : Promise.reject(error);
    });
  } catch (error) {
    if (!saved) return refused(services, credential, by, error);
  }
  return saved ? { credential: saved } : { ask: true };
}

/** No answer has arrived, or none that can be read. A status that says why is an answer. */
function isLost(error: unknown): boolean {
  const { cause } = error instanceof Error ? error : {};
  return !(cause instanceof Response) || cause.ok;
}

async function refused(
  { store, now }: RefreshServices,
  credential: Credential,
  by: string,
  error: unknown,
): Promise<Refreshed> {
  const { refreshToken } = credential;
  const code = isTemporary(error) ? undefined : errorCodeOf(error);
  const needsPerson = wantsInteraction(error);
  const isSecondDoubt = code === 'invalid_request' && credential.doubted === refreshToken;
  const isEnding = code !== undefined && (ENDING.includes(code) || isSecondDoubt) && !needsPerson;
  if (isEnding) {
    const ended = await deleteCredential(
      store,
      credential,
      (current) => current.refreshToken === refreshToken,
    );
    if (ended) return { ended };
    const newer = await findCredential(store, credential);
    return newer ? { credential: newer } : { ask: true };
  }
  const doubted = code === 'invalid_request' ? refreshToken : undefined;
  await updateCredential(
    store,
    credential,
    ifLeased(by, (current) => withoutLease(current, { at: now(), doubted })),
  );
  return needsPerson ? { ask: true } : { failed: { code } };
}

/** Whatever the body says: a service under load, or a proxy before it. Errors of 500 and above have no body for openid-client. */
export function isTemporary(error: unknown): boolean {
  return error instanceof openid.ResponseBodyError && [408, 429].includes(error.status);
}

/** Microsoft Entra ID asks for another factor or a consent so. */
export function wantsInteraction(error: unknown): boolean {
  if (!(error instanceof openid.ResponseBodyError)) return false;
  const { claims, suberror } = error.cause as { claims?: unknown; suberror?: unknown };
  return (
    error.error === 'interaction_required' ||
    error.error === 'consent_required' ||
    error.error === 'login_required' ||
    claims !== undefined ||
    suberror !== undefined
  );
}

function ifLeased(by: string, next: (current: Credential) => Credential) {
  return (current: Credential) => (current.refreshing?.by === by ? next(current) : undefined);
}

export async function keepTrying<T>(save: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1)
    try {
      return await save();
    } catch (error) {
      if (attempt === MAX_SAVE_ATTEMPTS) throw error;
      await delay(SAVE_RETRY_MS);
    }
}
