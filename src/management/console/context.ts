import type Koa from 'koa';
import type { Pages } from '../../pages/pages.ts';
import type { FormKeys } from '../../http/form-tokens.ts';
import type { RateLimit } from '../../http/rate-limits.ts';
import type { SignInSite } from '../../identity-providers/sign-in.ts';
import type { Match } from '../../settings/entitlements.ts';
import type { ManagementServices } from '../services.ts';
import type { Form } from './forms.ts';
import type { Session } from './sessions.ts';

export type ConsoleSettings = {
  pages: Pages;
  signIn: Pick<SignInSite, 'identityProviders' | 'accountKey'>;
  /** A person who matches one of these is an administrator. */
  administrators: readonly Match[];
  formKeys: FormKeys;
  rateLimit: RateLimit;
};

export type ConsoleOptions = ManagementServices &
  ConsoleSettings & { isHttps: boolean; version: string };

/** A request of a signed-in administrator, who is `options.by`. */
export type ConsoleContext = { options: ConsoleOptions; ctx: Koa.Context; session: Session };
export type Page = (context: ConsoleContext) => Promise<void>;
export type FormHandler = (context: ConsoleContext, form: Form) => Promise<void>;

/** Adds routes below `CONSOLE_PATH` that require a session. `page` redirects to sign-in without one. */
export type ConsoleRoutes = {
  page: (path: string, show: Page) => void;
  form: (path: string, handle: FormHandler) => void;
};

export const CONSOLE_PATH = '/console';
