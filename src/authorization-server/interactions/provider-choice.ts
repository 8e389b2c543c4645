// The page on which a person chooses an identity provider. It marks the last choice, and reports a provider that failed.
import type Koa from 'koa';
import { HttpError } from '../../http/errors.ts';
import type { Pages, ViewValues } from '../../pages/pages.ts';
import { COOKIE } from '../engine/configuration.ts';
import { NOT_SET_UP, STOPPED, UNAVAILABLE } from '../../identity-providers/errors.ts';
import type { IdentityProvider, IdentityProviders } from '../../identity-providers/provider.ts';
import { requestContext } from '../../http/request-context.ts';

export type ProviderChoiceOptions = {
  identityProviders: IdentityProviders;
  pages: Pages;
  isHttps: boolean;
};

type Values = ViewValues['sign-in'];

const COOKIE_SECONDS = 180 * 86_400;

/** `action` is the path to which the form is posted. */
export function showProviderChoice(
  { identityProviders, pages, ...options }: ProviderChoiceOptions,
  ctx: Koa.Context,
  action: string,
  { trouble, status = 200 }: { trouble?: Values['trouble']; status?: number } = {},
): Promise<void> {
  const last = ctx.cookies.get(choiceCookie(options), { signed: false });
  const providers = identityProviders.map(({ id = '', name = '' }) => ({
    id,
    name,
    isLast: id === last,
  }));
  const values = { action, providers, ...(trouble ? { trouble } : {}) };
  return pages.render(ctx, 'sign-in', values, status);
}

/** Runs a step of a sign-in at `provider`. If the step fails and other providers are configured, shows the provider choice with the reason. */
export async function offerChoiceOnFailure(
  options: ProviderChoiceOptions,
  ctx: Koa.Context,
  action: string,
  { name = '' }: IdentityProvider,
  step: () => Promise<void>,
): Promise<void> {
  try {
    await step();
  } catch (error) {
    const reason = failureReason(error);
    if (!reason || options.identityProviders.length < 2) throw error;
    const { code, message, status, headers, cause, isLoggedAsError } = error as HttpError;
    requestContext(ctx).failure = {
      code,
      detail: message,
      ...(isLoggedAsError ? { cause } : {}),
    };
    ctx.set(headers);
    const reference = reason === 'notSetUp' ? { reference: requestContext(ctx).requestId } : {};
    await showProviderChoice(options, ctx, action, {
      trouble: { name, reason, ...reference },
      status,
    });
  }
}

function failureReason(error: unknown): NonNullable<Values['trouble']>['reason'] | undefined {
  if (!(error instanceof HttpError)) return undefined;
  if (error.about === UNAVAILABLE) return 'unavailable';
  if (error.about === NOT_SET_UP) return 'notSetUp';
  return error.about === STOPPED ? 'stopped' : undefined;
}

/** Stores the provider's id in a cookie. It is unsigned because it only marks a button on the page. */
export function rememberProviderChoice(
  { isHttps }: Pick<ProviderChoiceOptions, 'isHttps'>,
  ctx: Koa.Context,
  { id }: IdentityProvider,
): void {
  if (id === undefined) return;
  const maxAge = COOKIE_SECONDS * 1000;
  ctx.cookies.set(choiceCookie({ isHttps }), id, { ...COOKIE, signed: false, maxAge });
}

function choiceCookie({ isHttps }: Pick<ProviderChoiceOptions, 'isHttps'>): string {
  return `${isHttps ? '__Host-' : ''}gatehouse-provider`;
}
