import axe from 'axe-core';
import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { usePage } from '../support/chromium.ts';
import { GROUPS, useSamples } from './served-samples.ts';
import { fetchInEach, openForShowing, showEach } from './shown-pages.ts';

/** Rules that measure the layout. In every page they depend on the width and the length of texts. */
const LAYOUT = ['target-size', 'scrollable-region-focusable'];
/** Depends on colors and layout, not on texts: a color never belongs to a language. It takes as long as all other rules. */
const CONTRAST = 'color-contrast';
const LANDMARKS = [
  'landmark-one-main',
  'landmark-no-duplicate-banner',
  'landmark-no-duplicate-contentinfo',
];

describe('Accessibility', () => {
  const page = usePage();

  for (const [title, { names, languages, hasOtherTexts, theme }] of Object.entries(GROUPS))
    describe(`the accessibility of ${title}`, () => {
      const samples = useSamples(undefined, theme);
      const [english = '', longest = '', ...others] = languages;
      before(async () => {
        await openForShowing(page(), `${samples().url}/home`);
        await page().evaluate(axe.source);
      });

      describe('on a wide screen, in light colors', () => {
        before(() => look('light', 1280));

        for (const name of names)
          it(`axe finds no violation, one first-level heading and landmarks in English (${name})`, async () => {
            const pages = await fetchInEach(samples().url, name, [english]);
            const [{ value } = NONE] = await runAxe(page(), pages, {});
            expect(value.violations).to.deep.equal([]);
            expect(value.passes).to.include.members(['document-title', CONTRAST, ...LANDMARKS]);
            expect(value.headings).to.equal(1);
          });
      });

      describe('on a narrow screen, in dark colors', () => {
        before(() => look('dark', 390));

        for (const name of names) {
          it(`axe finds no violation that depends on colors or width in English (${name})`, async () => {
            const pages = await fetchInEach(samples().url, name, [english]);
            const runOnly = [CONTRAST, ...LAYOUT];
            const [{ value } = NONE] = await runAxe(page(), pages, { runOnly });
            expect(value.violations).to.deep.equal([]);
            expect(value.passes).to.include(CONTRAST);
          });

          if (!hasOtherTexts) continue;
          it(`axe finds no violation, one first-level heading and landmarks in ${longest} (${name})`, async () => {
            const pages = await fetchInEach(samples().url, name, [longest]);
            const rules = { [CONTRAST]: { enabled: false } };
            const [{ language, value } = NONE] = await runAxe(page(), pages, { rules });
            expect(language).to.equal(longest);
            expect(value.violations).to.deep.equal([]);
            expect(value.passes).to.include.members(['document-title', ...LANDMARKS]);
            expect(value.headings).to.equal(1);
          });

          if (others.length === 0) continue;
          it(`the page has the elements of the English one, none without its text, in ${others.join(', ')} (${name})`, async () => {
            const pages = await fetchInEach(samples().url, name, [english, ...others]);
            const [original, ...translated] = await showEach<string[]>(page(), pages, OUTLINE);
            expect(translated.map(({ language }) => language)).to.deep.equal(others);
            for (const { language, value } of translated)
              expect(value, language).to.deep.equal(original?.value);
          });
        }
      });
    });

  async function look(colorScheme: 'light' | 'dark', width: number): Promise<void> {
    await page().emulateMedia({ colorScheme });
    await page().setViewportSize({ width, height: 800 });
  }
});

type Found = { violations: string[]; passes: string[]; headings: number };
const NONE = { language: 'none', value: { violations: ['no result'], passes: [], headings: 0 } };

/**
 * The elements of a page with their attributes, each with whether it has text. Pages with the same outline differ only in their words, which axe
 * does not read. A sentence may have its marked words in any order.
 */
const OUTLINE = `(() => {
  const isWords = (name) => ['alt', 'title', 'placeholder', 'aria-label'].includes(name);
  const hasWords = (text) => text.trim() !== '';
  const outline = (element) => {
    const attributes = [...element.attributes].map(({ name, value }) =>
      name + '=' + (isWords(name) ? hasWords(value) : value));
    const children = [...element.children].map(outline);
    const isSentence = [...element.childNodes].some((node) => node.nodeType === 3 && hasWords(node.data));
    if (isSentence) children.sort();
    return [element.localName, ...attributes.sort(), hasWords(element.textContent), ...children].join('\\n');
  };
  return [String(hasWords(document.title)), ...outline(document.body).split('\\n')];
})()`;

/** Details only of violations, which takes a third of the time. */
function runAxe(page: Page, pages: string[], options: axe.RunOptions) {
  const all = { ...options, resultTypes: ['violations'], selectors: false, preload: false };
  return showEach<Found>(
    page,
    pages,
    `axe.run(${JSON.stringify(all)}).then(({ violations, passes }) => ({
      violations: violations.map(({ id, nodes }) => id + ': ' + nodes.map((node) => node.html).join(' ')),
      passes: passes.map(({ id }) => id),
      headings: document.querySelectorAll('h1').length,
    }))`,
  );
}
