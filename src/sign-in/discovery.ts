// A provider's discovery document (OpenID Connect Discovery 1.0 section 4): read on first use, again after some time, and after a failure that a
// change of it can explain.
import * as openid from 'openid-client';
import type { IdentityProvider as IdentityProviderSettings } from '../settings/identity-provider.ts';
import { clientAuthenticationMethod } from './discovered-choices.ts';
import { notSetUp, permanentDiscoveryFailure, providerUnavailable } from './errors.ts';
import { fetchFromProvider } from './fetch.ts';
import { providerClient, TIMEOUT_SECONDS } from './oauth-client.ts';

const MAX_AGE_MS = 10 * 60_000;
/** Between two reads, so that failures do not cause many. */
const MIN_INTERVAL_MS = 2000;

export type Discovery = {
  /** Gatehouse as a client of the provider. Rejects with an HttpError as long as the document could not be read. */
  config: () => Promise<openid.Configuration>;
  /** Reads document and keys again after a failure of `failed`. Resolves to undefined if that is not possible now. Never rejects. */
  reread: (failed: openid.Configuration) => Promise<openid.Configuration | undefined>;
};

/** Retries after a failure, because the provider may start later. While a document cannot be read again, the last one counts. */
export function openDiscovery(settings: IdentityProviderSettings): Discovery {
  let known: openid.Configuration | undefined;
  let readAt = 0;
  let triedAt = 0;
  let reading: Promise<openid.Configuration> | undefined;

  async function read(): Promise<openid.Configuration> {
    triedAt = Date.now();
    const found = await discover(settings);
    readAt = triedAt;
    // Without the keys of the last one, which may have been replaced.
    known = found;
    return found;
  }
  const readOnce = () => {
    reading ??= read().finally(() => {
      reading = undefined;
    });
    return reading;
  };
  const mayRead = (age: number) => Date.now() - Math.max(triedAt, readAt) >= age;

  return {
    async config() {
      if (!known) return readOnce();
      const isOld = Date.now() - readAt >= MAX_AGE_MS;
      return isOld && mayRead(MIN_INTERVAL_MS)
        ? readOnce().catch(() => known ?? readOnce())
        : known;
    },
    async reread(failed) {
      if (known === failed && mayRead(MIN_INTERVAL_MS)) await readOnce().catch(() => undefined);
      return known === failed ? undefined : known;
    },
  };
}

async function discover(settings: IdentityProviderSettings): Promise<openid.Configuration> {
  const { issuer, clientId } = settings;
  try {
    // Not rebuilt from its metadata, which would lose that Microsoft's shared endpoints have an issuer for each tenant.
    return await openid.discovery(new URL(issuer), clientId, undefined, authentication(settings), {
      execute: [
        openid.enableNonRepudiationChecks,
        ...(issuer.startsWith('http:') ? [openid.allowInsecureRequests] : []),
      ],
      timeout: TIMEOUT_SECONDS,
      [openid.customFetch]: fetchFromProvider,
    });
  } catch (cause) {
    const wrong = permanentDiscoveryFailure(cause);
    if (wrong === undefined) throw providerUnavailable(settings, cause);
    throw notSetUp(`the discovery document of ${issuer} ${wrong}: check the issuer`);
  }
}

/** A client of its own for one refresh or UserInfo request about this person, whose issuer is that of the person. */
export function clientFor(
  shared: openid.Configuration,
  settings: IdentityProviderSettings,
  { issuer }: { issuer: string },
): openid.Configuration {
  const found = shared.serverMetadata();
  // Few providers list the algorithms of signed UserInfo responses (Core section 5.3.2). The keys are those of ID tokens.
  const userinfo_signing_alg_values_supported =
    found.userinfo_signing_alg_values_supported ?? found.id_token_signing_alg_values_supported;
  const server = Object.assign(found, { issuer, userinfo_signing_alg_values_supported });
  const config = providerClient(server, settings.clientId, authentication(settings));
  openid.enableNonRepudiationChecks(config);
  copyKeys(shared, config);
  return config;
}

/** Copies the provider's public keys, so that they are fetched rarely. */
export function copyKeys(from: openid.Configuration, to: openid.Configuration): void {
  const keys = openid.getJwksCache(from);
  if (keys) openid.setJwksCache(to, keys);
}

function authentication(settings: IdentityProviderSettings): openid.ClientAuth {
  const { clientSecret } = settings;
  if (clientSecret === undefined) return openid.None();
  const methods = {
    client_secret_basic: openid.ClientSecretBasic(clientSecret),
    client_secret_post: openid.ClientSecretPost(clientSecret),
  };
  return (server, ...request) =>
    methods[clientAuthenticationMethod(settings, server)](server, ...request);
}
