import type Koa from 'koa';
import { requestContext } from '../http/request-context.ts';
import type { Pages } from './pages.ts';

export type ErrorPage = {
  /** The key below `errors` in the message files: an error code, or a more specific key. */
  about: string;
  /** For the app's developer. Shown only for errors without texts, which the app's request causes. */
  description?: string;
  status: number;
  returnTo?: { href: string; host: string };
  /** How people remove the server in their app. */
  removals?: { app: string; steps: string }[];
  /** Where to start again if no app waits for a response. */
  start?: 'account' | 'console' | 'device' | undefined;
};

export async function sendErrorPage(
  pages: Pages,
  ctx: Koa.Context,
  { about: error, description, status, returnTo, removals, start }: ErrorPage,
): Promise<void> {
  // Connecting again does not help a browser that refuses cookies.
  const about = error === 'expired' && !ctx.req.headers.cookie ? 'no_cookies' : error;
  const hasTexts = pages.hasErrorTexts(about);
  const { requestId: reference, rightAddress } = requestContext(ctx);
  const detail = hasTexts || start ? undefined : description;
  await pages.render(
    ctx,
    'error',
    {
      about: hasTexts ? about : 'other',
      reference,
      ...(detail === undefined ? {} : { detail }),
      ...(start && rightAddress === undefined ? { start } : {}),
      ...(rightAddress === undefined ? {} : { rightAddress }),
      ...(returnTo ? { returnTo } : {}),
      ...(removals ? { removals } : {}),
    },
    status,
  );
}
