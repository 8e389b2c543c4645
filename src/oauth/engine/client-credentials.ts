// Access tokens for machines (RFC 6749 section 4.4; MCP extension oauth-client-credentials).
import { errors, type Provider, type TokenEndpointGrantContext } from 'oidc-provider';
import { findClientRefusal } from '../../clients/clients.ts';
import { credentialsText, findMachine } from '../../clients/machines.ts';
import { canonicalResource, connectLink } from '../../links/connect-link.ts';
import { isUsable } from '../../links/connector.ts';
import { grantLifetimes, isActive } from '../../connections/grant-lifetime.ts';
import { grantedLevel } from '../../connections/grant-record.ts';
import { findGrant, updateGrant } from '../../connections/grants.ts';
import { highestLevelIn, isLevel, levelsUpTo } from '../../permission-levels.ts';
import type { Services } from '../../services.ts';
import type { Settings } from '../../settings/settings.ts';
import { KEEP } from '../../store/store.ts';
import { CLIENT_CREDENTIALS, ENDPOINTS } from '../metadata.ts';
import { dpopVerifier } from './dpop.ts';
import { invalidClientAuth, mapStoreErrors } from './errors.ts';
import { type DescribeResource, issueAccessToken, type IssuedToken } from './issue-token.ts';
import type { TokenPolicy } from './resource-indicators.ts';

export type ClientCredentialsContext = {
  settings: Settings;
  services: Services;
  policy: TokenPolicy;
};

type Parameters = { scope?: string; resource?: string | string[] };
type Context = TokenEndpointGrantContext<Parameters>;
type Authorized = Pick<IssuedToken, 'grantId' | 'resource' | 'scopes' | 'gty'>;

const ASK = 'ask an administrator for a new machine';
/** The time of a machine's last token is accurate to this. */
const USE_INTERVAL_SECONDS = 60;

/** Registers the grant type with a provider. */
export function clientCredentialsGrantType(context: ClientCredentialsContext) {
  const { services, settings } = context;
  const verifyProof = dpopVerifier({
    store: services.store,
    now: services.now,
    nonceKey: services.keys.dpopNonces,
    tokenEndpoint: settings.authUrl + ENDPOINTS.token,
  });
  return (provider: Provider, describeResource: DescribeResource): void => {
    const exchange = mapStoreErrors(async (ctx: Context) => {
      const proof = await verifyProof(ctx);
      const authorized = await authorize(context, ctx);
      await proof?.consume();
      if (!(await issueAccessToken(ctx, { ...authorized, describeResource, proof }))) throw ended();
      await recordToken(context, authorized.grantId);
    });
    provider.registerGrantType<Parameters>(
      CLIENT_CREDENTIALS,
      exchange,
      ['scope', 'resource'],
      ['resource'],
    );
  };
}

/** Writes nothing. Rejects with `invalid_client`, `invalid_target` or `unauthorized_client`. */
async function authorize(
  { settings, services: { store, now }, policy }: ClientCredentialsContext,
  ctx: Context,
): Promise<Authorized> {
  const { levels, lifetimes, resourceUrl } = settings;
  const { client, params } = ctx.oidc;
  const [machine, refusal] = await Promise.all([
    findMachine(store, client.clientId),
    findClientRefusal(store, client.clientId, settings.clients),
  ]);
  if (!machine || refusal)
    throw invalidClientAuth(`the machine was revoked or blocked, or has expired: ${ASK}`);
  if (machine.credentials !== credentialsOf(client))
    throw invalidClientAuth('the secret or key of this machine was replaced: use the new one');
  const resource = connectLink(resourceUrl, machine.connector);
  requireResource(params.resource, resource);
  const [connector, grant] = await Promise.all([
    policy.refreshConnector(machine.connector),
    findGrant(store, machine.grantId),
  ]);
  if (!connector || !isUsable(connector, now(), settings))
    throw unauthorized(`the connect link was revoked, has expired or is not configured: ${ASK}`);
  if (!grant || !isActive(grant.value, grantLifetimes(lifetimes), now())) throw ended();
  const granted = grantedLevel(grant.value);
  if (granted === undefined || !isLevel(levels, granted))
    throw unauthorized(`the level of this machine no longer exists: ${ASK}`);
  // `issueAccessToken` limits these to the grant, the connector and the proof.
  const scopes = levelsUpTo(levels, highestLevelIn(levels, params.scope) ?? granted);
  return { grantId: machine.grantId, resource, scopes, gty: CLIENT_CREDENTIALS };
}

/** Those with which the client authenticated: the engine caches clients for some seconds. */
function credentialsOf({ clientSecret: secret, jwks, jwksUri }: Context['oidc']['client']): string {
  return credentialsText({ secret, jwks, jwksUri });
}

/** RFC 8707 section 2. The parameter is required, so that a machine says what it connects to. */
function requireResource(requested: string | string[] | undefined, expected: string): void {
  const named = [requested ?? []].flat().map(canonicalResource);
  if (named.length === 0)
    throw new errors.InvalidTarget('resource is required: the connect link of this machine');
  if (named.some((each) => each !== expected))
    throw new errors.InvalidTarget('resource must be the connect link of this machine');
}

/** RFC 6749 section 5.2. */
function unauthorized(description: string): Error {
  return new errors.UnauthorizedClient(description);
}

function ended(): Error {
  return unauthorized(`an administrator ended the connection of this machine: ${ASK}`);
}

async function recordToken(
  { settings, services: { store, now } }: ClientCredentialsContext,
  grantId: string,
): Promise<void> {
  const moment = now();
  const lifetimes = grantLifetimes(settings.lifetimes);
  await updateGrant(
    store,
    grantId,
    (record) =>
      record.machine && moment - (record.machine.usedAt ?? 0) >= USE_INTERVAL_SECONDS
        ? { ...record, machine: { ...record.machine, usedAt: Math.floor(moment) } }
        : KEEP,
    { lifetimes, now: moment },
  );
}
