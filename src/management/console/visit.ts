// What the pages of the console are made with: the settings, the visit of a signed-in administrator, and how a page is added.
import type Koa from 'koa';
import type { Pages } from '../../http/pages.ts';
import type { RateLimit } from '../../http/rate-limits.ts';
import type { Match } from '../../settings/entitlements.ts';
import type { ManagementServices } from '../services.ts';
import type { Form } from './forms.ts';
import type { Session } from './sessions.ts';
import type { ConsoleSignIn } from './sign-in.ts';

export type ConsoleSettings = {
  pages: Pages;
  signIn: ConsoleSignIn;
  /** Whoever one of these fits. */
  administrators: readonly Match[];
  rateLimit: RateLimit;
};

/** `url` is the public base address of the management host. */
export type ConsoleOptions = ManagementServices &
  ConsoleSettings & { url: string; version: string };

/** What a handler of a page gets: the services with who acts, and the session. */
export type Visit = { options: ConsoleOptions; ctx: Koa.Context; session: Session };
export type Pagelike = (visit: Visit) => Promise<void>;
export type Formlike = (visit: Visit, form: Form) => Promise<void>;

/** Adds a page, and a form: whoever is not signed in signs in first. */
export type Sections = {
  page: (path: string, show: Pagelike) => void;
  form: (path: string, act: Formlike) => void;
};

export const CONSOLE = '/console';
