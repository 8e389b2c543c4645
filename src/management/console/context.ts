import type Koa from 'koa';
import type { ManagementRole } from '../../settings/management-roles.ts';
import type { ManagementContext } from '../context.ts';
import type { DoneValues } from './done.ts';
import type { Form } from './forms.ts';
import type { Session } from './sessions.ts';

/** A request of a signed-in administrator, who is `management.by`. */
export type ConsoleContext = {
  management: ManagementContext;
  ctx: Koa.Context;
  session: Session;
  /** What the last action did. */
  done?: DoneValues;
};
export type Page = (context: ConsoleContext) => Promise<void>;
export type FormHandler = (context: ConsoleContext, form: Form) => Promise<void>;

/** Adds routes below `CONSOLE_PATH` that require a session. `page` redirects to sign-in without one. `form` requires a role. */
export type ConsoleRoutes = {
  page: (path: string, show: Page) => void;
  form: (path: string, role: ManagementRole, handle: FormHandler) => void;
};

/** Returns `by` of a person in the console. */
export function accountManager(accountId: string): string {
  return `account:${accountId}`;
}
