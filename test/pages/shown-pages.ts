// Shows pages without a navigation, which takes longer than what a test looks at.
import type { Page } from 'playwright-core';

/** Returns the HTML of a sample page in each language. */
export function fetchInEach(url: string, name: string, languages: string[]): Promise<string[]> {
  return Promise.all(
    languages.map(async (language) =>
      (await fetch(`${url}/${name}?ui_locales=${language}`)).text(),
    ),
  );
}

/** Navigates to a page, and defines `show` for `showEach`. */
export async function openForShowing(page: Page, url: string): Promise<void> {
  await page.goto(url);
  await page.evaluate(DEFINE_SHOW);
}

/** Shows each page with all its `<details>` open, and returns its language with the value of `expression`, which is evaluated in it. */
export function showEach<T>(page: Page, pages: string[], expression: string) {
  return page.evaluate<{ language: string; value: T }[]>(`(async () => {
    const results = [];
    for (const html of ${JSON.stringify(pages)}) {
      await show(html);
      results.push({ language: document.documentElement.lang, value: await (${expression}) });
    }
    return results;
  })()`);
}

/** All pages have the same document type and the same head apart from the title, so that the stylesheet stays loaded. */
const DEFINE_SHOW = `globalThis.show = async (html) => {
  const { documentElement, head, title, body, compatMode } = new DOMParser().parseFromString(html, 'text/html');
  document.title = title;
  if (head.innerHTML !== document.head.innerHTML) throw new Error('another head: ' + head.innerHTML);
  if (compatMode !== document.compatMode) throw new Error('another document type');
  document.documentElement.lang = documentElement.lang;
  document.body.replaceWith(body);
  for (const details of document.querySelectorAll('details')) details.open = true;
  for (const image of document.images) await image.decode();
}`;
