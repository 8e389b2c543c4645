// The connected apps page (/account).
import { decodeJwt } from 'jose';
import { isSignInPage, type Browser, type Page, type Person, requirePage } from './browser.ts';
import type { TokenFamily } from '../connections/token-family.ts';
import type { System } from './system.ts';

export type AccountFormValues = {
  decision?: string;
  grant?: string;
  level?: string;
  token?: string;
};

export const claimOf = ({ accessToken }: Pick<TokenFamily, 'accessToken'>, name: string) =>
  String(decodeJwt(accessToken)[name]);
export const grantIdOf = (family: Pick<TokenFamily, 'accessToken'>) => claimOf(family, 'grant_id');
export const formTokenOf = ({ html }: Page) => /name="token" value="([^"]+)"/.exec(html)?.[1] ?? '';
export const textOf = ({ html }: Pick<Page, 'html'>) =>
  html.replace(/<[^>]*>/g, ' ').replace(/\s+/g, ' ');

/** Posts the form as the page's buttons do. */
export async function submitAccountForm(
  browser: Browser,
  page: Page,
  choice: AccountFormValues,
): Promise<Page> {
  const body = new URLSearchParams({ token: formTokenOf(page), ...choice });
  return requirePage(await browser.post(page, new URL('/account', page.url), body));
}

/** Opens the page as `person`, signing in if asked. */
export async function openAccountPage(
  system: System,
  browser: Browser,
  person: Person = 'ada',
): Promise<Page> {
  const page = requirePage(await browser.visit(new URL('/account', system.auth)));
  return isSignInPage(page) ? requirePage(await browser.submit(page, { person })) : page;
}

/** Opens the consent page on which a connection gets more access. */
export async function openRaisePage(browser: Browser, page: Page, grant: string): Promise<Page> {
  return submitAccountForm(browser, page, { decision: 'raise', grant });
}
