// Enterprise-managed authorization (ID-JAG): an identity provider vouches for a person and an app, and the app gets an access token (RFC 7523).
import { decodeJwt, decodeProtectedHeader } from 'jose';
import {
  errors,
  type Provider,
  type ResourceServer,
  type TokenEndpointGrantContext,
} from 'oidc-provider';
import { revokedSince } from '../../clients/clients.ts';
import { type Connector, isUsable } from '../../connectors/connector.ts';
import { highestLevelIn, type Level, levelsUpTo, lowest } from '../../permission-level.ts';
import type { TrustedIssuer } from '../../settings/identity-provider-schema.ts';
import { JWT_BEARER } from '../metadata.ts';
import {
  admittedAccount,
  rememberAccount,
  testimonyOf,
  type VouchedAccountOptions,
} from './id-jag-account.ts';
import { type VouchedGrantOptions, findOrCreateGrant } from './id-jag-grant.ts';
import { keyProver, type KeyOptions, type ProvenKey } from './id-jag-key.ts';
import { ALGORITHMS, type IdJag, judgeClaims, judgeHeader } from './id-jag-judgement.ts';
import { type IdJagRefusal, refusedBecause } from './id-jag-refusals.ts';
import { type SignatureCheck, signatureCheck } from './issuer-keys.ts';
import { redirectDestination } from './redirect-uris.ts';
import { mapStoreErrors } from './errors.ts';

export type IdJagOptions = VouchedGrantOptions &
  VouchedAccountOptions &
  KeyOptions & { authUrl: string; issuers: readonly TrustedIssuer[] };

type Parameters = { assertion?: string; scope?: string; resource?: string | string[] };
type Context = TokenEndpointGrantContext<Parameters>;
type DescribeResource = (ctx: Context, resource: string) => Promise<ResourceServer>;
type Known = { issuer: TrustedIssuer; isSigned: SignatureCheck };

/** To be made once: it keeps the keys of the issuers. What it returns adds the grant type to an engine, when there are issuers. */
export function idJagGrantType(options: IdJagOptions) {
  const issuers = options.issuers.map((issuer) => ({
    issuer,
    isSigned: signatureCheck(issuer, ALGORITHMS),
  }));
  const provenKey = keyProver(options, options.now);
  return (provider: Provider, describeResource: DescribeResource): void => {
    if (issuers.length === 0) return;
    const exchange = mapStoreErrors(async (ctx: Context) => {
      const { assertion } = ctx.oidc.params;
      if (!assertion) throw new errors.InvalidRequest('missing required parameter: assertion');
      const key = await provenKey(ctx);
      const jag = await judgedAssertion(options, issuers, ctx, assertion);
      await key?.use();
      await issueToken(ctx, describeResource, await grantFor(options, ctx, jag), key);
    });
    provider.registerGrantType<Parameters>(
      JWT_BEARER,
      exchange,
      ['assertion', 'scope', 'resource'],
      ['resource'],
    );
  };
}

async function judgedAssertion(
  { authUrl, policy, now }: IdJagOptions,
  issuers: readonly Known[],
  { oidc }: Context,
  assertion: string,
): Promise<IdJag> {
  const { header, claims } = decoded(assertion);
  refuse(judgeHeader(header));
  const known = issuers.find(({ issuer }) => issuer.issuer === claims.iss);
  if (!known) throw refusedBecause('unknown_issuer');
  if (!(await known.isSigned(assertion))) throw refusedBecause('bad_signature');
  const { issuer } = known;
  const { clientId } = oidc.client;
  const { resource } = oidc.params;
  const expected = { issuer, authUrl, resourceUrl: policy.resourceUrl, clientId, resource };
  const jag = judgeClaims(claims, { ...expected, now: now() });
  if (typeof jag === 'string') throw refusedBecause(jag);
  return jag;
}

function decoded(assertion: string) {
  try {
    return { header: decodeProtectedHeader(assertion), claims: decodeJwt(assertion) };
  } catch {
    throw refusedBecause('malformed');
  }
}

function refuse(reason: IdJagRefusal | undefined): void {
  if (reason) throw refusedBecause(reason);
}

type Granted = { grantId: string; resource: string; level: Level };

/** Everything is judged before anything is written; using the assertion up is the last step, so that a client whose request failed may repeat it. */
async function grantFor(options: IdJagOptions, ctx: Context, jag: IdJag): Promise<Granted> {
  const { store, policy, now } = options;
  const { client, params } = ctx.oidc;
  const used = `assertion:${jag.person.issuer}\n${jag.id}`;
  const [connector, revoked, usedBefore] = await Promise.all([
    policy.refreshConnector(jag.connectorId),
    revokedSince(store, client.clientId),
    store.get(used),
  ]);
  if (usedBefore) throw refusedBecause('replayed');
  if (revoked !== undefined) throw refusedBecause('client_revoked');
  const usable = requireUsable(connector, now());
  const testimony = testimonyOf(options, jag);
  const account = await admittedAccount(options, jag, testimony);
  const level = lowest(usable.level, account.entitled, jag.level ?? 'full');
  const grantId = await findOrCreateGrant(options, {
    account,
    connector: usable,
    level,
    resource: jag.resource,
    client: describedClient(client),
    assertion: [jag.person.issuer, jag.id, jag.issuedAt],
  });
  await rememberAccount(options, testimony);
  if (!(await store.add(used, { at: Math.floor(now()) }, jag.overAt - now())))
    throw refusedBecause('replayed');
  const asked = highestLevelIn(params.scope);
  return { grantId, resource: jag.resource, level: asked ? lowest(level, asked) : level };
}

function requireUsable(connector: Connector | undefined, now: number): Connector {
  if (!connector) throw refusedBecause('unknown_resource');
  if (!isUsable(connector, now)) throw refusedBecause('connector_over');
  return connector;
}

function describedClient({ clientId, clientName, redirectUris }: Context['oidc']['client']) {
  const [redirectUri] = redirectUris ?? [];
  return {
    id: clientId,
    name: clientName ?? clientId,
    redirectHost: redirectUri === undefined ? '' : redirectDestination(redirectUri),
  };
}

/** No refresh token: the next assertion takes its place (draft section 4.4.3). */
async function issueToken(
  ctx: Context,
  describeResource: DescribeResource,
  { grantId, resource, level }: Granted,
  key: ProvenKey | undefined,
): Promise<void> {
  const { provider, client } = ctx.oidc;
  const grant = await provider.Grant.find(grantId);
  if (!grant?.accountId) throw refusedBecause('grant_over');
  ctx.oidc.entity('Grant', grant);
  const { accountId } = grant;
  const token = new provider.AccessToken({ client, accountId, grantId, gty: JWT_BEARER });
  token.resourceServer = new provider.ResourceServer(
    resource,
    await describeResource(ctx, resource),
  );
  const { scopes } = token.resourceServer;
  const wanted = levelsUpTo(level).filter((scope) => scopes.has(scope));
  token.scope = grant.getResourceScopeFiltered(resource, wanted);
  if (key) token.setThumbprint('jkt', key.thumbprint);
  ctx.oidc.entity('AccessToken', token);
  ctx.body = {
    access_token: await token.save(),
    expires_in: token.expiration,
    token_type: token.tokenType,
    scope: token.scope,
  };
}
