// The page on which people choose where to sign in, what it remembers, and what it says when a provider fails.
import type Koa from 'koa';
import { HttpError } from '../../http/errors.ts';
import type { Pages, ViewValues } from '../../http/pages.ts';
import { COOKIE } from '../engine/configuration.ts';
import { NOT_SET_UP, UNAVAILABLE } from './code-exchange.ts';
import type { IdentityProvider } from './identity-provider.ts';
import type { IdentityProviders } from './identity-providers.ts';
import { requestContext } from '../../http/request-context.ts';

export type ChoiceOptions = {
  identityProviders: IdentityProviders;
  pages: Pages;
  isHttps: boolean;
};

type Values = ViewValues['sign-in'];

const REMEMBERED = 180 * 86_400;

/** `action`: the path that the form is posted to. */
export function showChoice(
  { identityProviders, pages, ...options }: ChoiceOptions,
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

/** Signs in at a provider by `going`. When that fails, and there are others, the page says so and the person may choose again. */
export async function chooseInstead(
  options: ChoiceOptions,
  ctx: Koa.Context,
  action: string,
  { name = '' }: IdentityProvider,
  going: () => Promise<void>,
): Promise<void> {
  try {
    await going();
  } catch (error) {
    const reason = reasonIn(error);
    if (!reason || options.identityProviders.length < 2) throw error;
    const { code, message, status, headers, cause, isLoggedAsError } = error as HttpError;
    requestContext(ctx).failure = {
      code,
      detail: message,
      ...(isLoggedAsError ? { cause } : {}),
    };
    ctx.set(headers);
    const reference = reason === 'notSetUp' ? { reference: requestContext(ctx).requestId } : {};
    await showChoice(options, ctx, action, { trouble: { name, reason, ...reference }, status });
  }
}

function reasonIn(error: unknown): NonNullable<Values['trouble']>['reason'] | undefined {
  if (!(error instanceof HttpError)) return undefined;
  if (error.about === UNAVAILABLE) return 'unavailable';
  if (error.about === NOT_SET_UP) return 'notSetUp';
  return error.about === 'sign_in_stopped' ? 'stopped' : undefined;
}

/** The id of the provider, and nothing about the person. It only marks a choice on the page, so nobody gains by forging it. */
export function rememberChoice(
  { isHttps }: Pick<ChoiceOptions, 'isHttps'>,
  ctx: Koa.Context,
  { id }: IdentityProvider,
): void {
  if (id === undefined) return;
  const maxAge = REMEMBERED * 1000;
  ctx.cookies.set(choiceCookie({ isHttps }), id, { ...COOKIE, signed: false, maxAge });
}

function choiceCookie({ isHttps }: Pick<ChoiceOptions, 'isHttps'>): string {
  return `${isHttps ? '__Host-' : ''}gatehouse-provider`;
}
