import axe from 'axe-core';
import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { usePage } from '../support/chromium.ts';
import { GROUPS, useSamples } from './served-samples.ts';
import { fetchInEach, openForShowing, showEach } from './shown-pages.ts';

/** Rules that measure the layout. In every page they depend on the width and the length of texts. */
const LAYOUT = ['target-size', 'scrollable-region-focusable'];
/** Rules that compare texts. */
const LABELS = ['landmark-unique', 'label-content-name-mismatch', 'image-redundant-alt'];
const CONTRAST = 'color-contrast';
/** Rules that depend on colors and layout, not on texts: a color never belongs to a language. */
const COLORS = [CONTRAST, 'link-in-text-block'];
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
      const [english = '', ...others] = languages;
      const longest = others[0] ?? english;
      before(async () => {
        await openForShowing(page(), `${samples().url}/home`);
        await page().evaluate(axe.source);
        await page().evaluate(MEASURE_CONTRAST_ONCE);
      });

      describe('on a wide screen, in light colors', () => {
        before(() => look('light', 1280));

        for (const name of names)
          it(`axe finds no violation, one first-level heading and landmarks in English (${name})`, async () => {
            const pages = await fetchInEach(samples().url, name, [english]);
            const [{ value } = NONE] = await runAxe(page(), pages, {});
            expect(value.violations).to.deep.equal([]);
            expect(value.incomplete).to.not.include(CONTRAST);
            expect(value.passes).to.include.members(['document-title', CONTRAST, ...LANDMARKS]);
            expect(value.headings).to.equal(1);
          });
      });

      describe('on a narrow screen, in dark colors', () => {
        before(() => look('dark', 390));

        for (const name of names) {
          it(`axe finds no violation that depends on colors, width or lengths of texts in ${longest} (${name})`, async () => {
            const pages = await fetchInEach(samples().url, name, [longest]);
            const runOnly = [...COLORS, ...LAYOUT, ...LABELS];
            const [{ language, value } = NONE] = await runAxe(page(), pages, { runOnly });
            expect(language).to.equal(longest);
            expect(value.violations).to.deep.equal([]);
            expect(value.incomplete).to.not.include(CONTRAST);
            expect(value.passes).to.include(CONTRAST);
          });

          if (!hasOtherTexts) continue;
          it(`the page has the elements of the English one, none without its text, in ${others.join(', ')} (${name})`, async () => {
            const pages = await fetchInEach(samples().url, name, languages);
            const outlines = await page().evaluate<Outline[]>(outlinesOf(pages));
            expect(outlines.map(({ language }) => language)).to.deep.equal(languages);
            for (const { language, outline } of outlines)
              expect(outline, language).to.deep.equal(outlines[0]?.outline);
          });
        }
      });
    });

  async function look(colorScheme: 'light' | 'dark', width: number): Promise<void> {
    await page().emulateMedia({ colorScheme });
    await page().setViewportSize({ width, height: 800 });
  }
});

type Outline = { language: string; outline: string[] };
type Found = { violations: string[]; incomplete: string[]; passes: string[]; headings: number };
const NONE = {
  language: 'none',
  value: { violations: ['no result'], incomplete: [], passes: [], headings: 0 },
};

/**
 * The elements of a page with their attributes, each with whether it has text. Pages with the same outline differ only in their words, which
 * only the rules of `LABELS` read. A sentence may have its marked words in any order.
 */
const outlinesOf = (pages: string[]) => `(() => {
  const isWords = (name) => ['alt', 'title', 'placeholder', 'aria-label', 'data-copy', 'data-copied', 'data-copied-text'].includes(name);
  const hasWords = (text) => text.trim() !== '';
  const outline = (element) => {
    const attributes = [...element.attributes].map(({ name, value }) =>
      name + '=' + (isWords(name) ? hasWords(value) : value));
    const children = [...element.children].map(outline);
    const isSentence = [...element.childNodes].some((node) => node.nodeType === 3 && hasWords(node.data));
    if (isSentence) children.sort();
    return [element.localName, ...attributes.sort(), hasWords(element.textContent), ...children].join('\\n');
  };
  return ${JSON.stringify(pages)}.map((html) => {
    const { title, body, documentElement } = new DOMParser().parseFromString(html, 'text/html');
    return {
      language: documentElement.lang,
      outline: [String(hasWords(title)), ...outline(body).split('\\n')],
    };
  });
})()`;

/**
 * Measuring contrast takes as long as all other rules. Pages share their styles, so that an element with the same ancestors as one of an
 * earlier page has its colors. Headings are measured in every page. axe measures only visible elements with text of their own.
 */
const MEASURE_CONTRAST_ONCE = `(() => {
  axe.configure({ rules: [{ id: '${CONTRAST}', selector: ':not([data-measured])' }] });
  const measured = new Set();
  const hasText = ({ childNodes }) =>
    [...childNodes].some((node) => node.nodeType === 3 && node.data.trim() !== '');
  const mark = (element, parents, look) => {
    const attributes = [...element.attributes].map(({ name, value }) =>
      ['class', 'type', 'role'].includes(name) ? name + '=' + value : name);
    const isChecked = element.matches(':checked, :has(:checked)');
    const path = [parents, element.localName, ...attributes, isChecked].join(' ');
    for (const child of element.children) mark(child, path, look);
    if (element.localName === 'h1' || !hasText(element) || !element.checkVisibility()) return;
    if (measured.has(look + path)) element.dataset.measured = '';
    measured.add(look + path);
  };
  globalThis.markMeasured = () =>
    mark(document.body, '', innerWidth + ' ' + matchMedia('(prefers-color-scheme: dark)').matches);
})()`;

/** Details only of violations, which takes a third of the time. */
function runAxe(page: Page, pages: string[], options: axe.RunOptions) {
  const all = { ...options, resultTypes: ['violations'], selectors: false, preload: false };
  return showEach<Found>(
    page,
    pages,
    `(markMeasured(), axe.run(${JSON.stringify(all)}).then(({ violations, incomplete, passes }) => ({
      violations: violations.map(({ id, nodes }) => id + ': ' + nodes.map((node) => node.html).join(' ')),
      incomplete: incomplete.map(({ id }) => id),
      passes: passes.map(({ id }) => id),
      headings: document.querySelectorAll('h1').length,
    })))`,
  );
}
