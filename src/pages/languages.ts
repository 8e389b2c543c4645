// Which language a page is in: `ui_locales` (OpenID Connect Core section 3.1.2.1) before `Accept-Language`, by lookup (RFC 4647 section 3.4).
import type Koa from 'koa';
import { requestContext } from '../http/request-context.ts';

export const FALLBACK = 'en';

const MOST_WISHES = 20;
const LONGEST_TAG = 35;

export function wishesOf(ctx: Koa.Context): string[] {
  const asked: unknown = requestContext(ctx).uiLocales ?? ctx.query.ui_locales;
  const locales = typeof asked === 'string' ? asked.split(' ', MOST_WISHES) : [];
  return [...locales, ...ctx.acceptsLanguages().slice(0, MOST_WISHES)];
}

/** The first wish that is available, as it is or with less of it: `de-AT` is served by `de`. */
export function chooseLanguage(available: readonly string[], wishes: readonly string[]): string {
  const known = new Map(available.map((language) => [language.toLowerCase(), language]));
  for (const wish of wishes.filter(({ length }) => length <= LONGEST_TAG)) {
    for (const range of widening(wish.toLowerCase())) {
      const found = known.get(range);
      if (found !== undefined) return found;
    }
  }
  return FALLBACK;
}

/** `pt-pt`, then `pt`. */
export function widening(tag: string): string[] {
  const subtags = tag.split('-');
  return subtags.map((_, index) => subtags.slice(0, subtags.length - index).join('-'));
}
