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
      const [english = '', ...translations] = hasOtherTexts ? languages : languages.slice(0, 1);
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

          if (translations.length === 0) continue;
          it(`axe finds no violation, one first-level heading and landmarks in ${translations.join(', ')} (${name})`, async () => {
            const pages = await fetchInEach(samples().url, name, translations);
            const rules = { [CONTRAST]: { enabled: false } };
            const found = await runAxe(page(), pages, { rules });
            expect(found.map(({ language }) => language)).to.deep.equal(translations);
            for (const { language, value } of found) {
              expect(value.violations, language).to.deep.equal([]);
              expect(value.passes, language).to.include.members(['document-title', ...LANDMARKS]);
              expect(value.headings, language).to.equal(1);
            }
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
const NONE = { value: { violations: ['no result'], passes: [], headings: 0 } };

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
