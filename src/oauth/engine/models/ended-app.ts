// Whether an administrator has ended an app while a person approved it.
import { errors, type KoaContextWithOIDC } from 'oidc-provider';
import { findEndedState } from '../../../clients/clients.ts';
import { APP_ENDS, type AppEnd } from '../../../connections/app-ends.ts';
import type { GrantRecord } from '../../../connections/grant-record.ts';
import { isKeptOut } from '../../../connections/kept-out.ts';
import { releaseReservedUse } from '../../../links/connectors.ts';
import { engineRequest } from '../engine-request.ts';
import type { GrantModelOptions } from './options.ts';
import type { RequestGrants } from './request-grants.ts';

/**
 * Why the app of a grant has no access. Call it after the grant was read: a decision of an administrator ends the grants that are listed then, and is
 * stored before. A decision that did not find this grant is found here. Judges the name that the person saw, with all redirect URIs that the app has now.
 */
export async function findAppEnd(
  { store }: Pick<GrantModelOptions, 'store'>,
  { oidc }: KoaContextWithOIDC,
  { client: seen, grant }: GrantRecord,
): Promise<AppEnd | undefined> {
  const { redirect_uri: requested } = oidc.params ?? {};
  const app = {
    id: String(grant.clientId),
    name: seen.name,
    redirectUris: [
      ...(oidc.client?.redirectUris ?? []),
      ...(typeof requested === 'string' ? [requested] : []),
    ],
    usesDevice: seen.redirectHost === '',
  };
  const [state, keptOut] = await Promise.all([
    findEndedState(store, app.id, app),
    isKeptOut(store, String(grant.accountId), app),
  ]);
  if (state) return APP_ENDS[state];
  return keptOut ? APP_ENDS.keptOut : undefined;
}

/**
 * Ends the grant, which the app may have used if the browser sent the request twice. Returns the error for the person's page, which is recorded as a
 * refusal.
 */
export async function endApproval(
  { store }: Pick<GrantModelOptions, 'store'>,
  records: RequestGrants,
  ctx: KoaContextWithOIDC,
  grantId: string,
  { connector, grant }: GrantRecord,
  { reason, refusal, code, message }: AppEnd,
): Promise<Error> {
  await records.end(grantId, reason);
  // Not one of a grant that was used.
  await releaseReservedUse(store, connector, grantId);
  const parties = { account: grant.accountId, clientId: grant.clientId, connector };
  engineRequest(ctx).refusal = { reason: refusal, ...parties };
  const error = new errors.CustomOIDCProviderError(code, message);
  return Object.assign(error, {
    status: 403,
    statusCode: 403,
    expose: true,
    allow_redirect: false,
  });
}
