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

for (const [title, { names, languages, theme }] of Object.entries(GROUPS))
  describe(`the accessibility of ${title}`, () => {
    const samples = useSamples(undefined, theme);
    const bright = usePage({ colorScheme: 'light', width: 1280 });
    const dark = usePage({ colorScheme: 'dark', width: 390 });
    before(async () => {
      for (const page of [bright(), dark()]) {
        await openForShowing(page, `${samples().url}/home`);
        await page.evaluate(axe.source);
      }
    });

    for (const name of names) {
      it(`axe finds no violation in both color schemes and widths, in ${languages.join(', ')} (${name})`, async () => {
        const pages = await fetchInEach(samples().url, name, languages);
        const found = await runAxe(bright(), pages, (isFirst) =>
          isFirst ? {} : { rules: { [CONTRAST]: { enabled: false } } },
        );
        const inTheDark = await runAxe(dark(), pages, (isFirst) => ({
          runOnly: isFirst ? [CONTRAST, ...LAYOUT] : LAYOUT,
        }));
        expect(found.map(({ language }) => language)).to.deep.equal(languages);
        for (const { language, value } of [...found, ...inTheDark])
          expect(value.violations, language).to.deep.equal([]);
        for (const [inEnglish, ...others] of [found, inTheDark]) {
          expect(inEnglish?.value.passes).to.include(CONTRAST);
          for (const { value } of others) expect(value.passes).not.to.include(CONTRAST);
        }
        for (const { value } of found) expect(value.passes).to.include('document-title');
      });

      it(`the page has one first-level heading and landmarks (${name})`, async () => {
        const page = bright();
        await showEach(page, await fetchInEach(samples().url, name, ['en']), 'null');
        expect(await page.getByRole('heading', { level: 1 }).count()).to.equal(1);
        for (const landmark of ['banner', 'main', 'contentinfo'] as const)
          expect(await page.getByRole(landmark).count(), landmark).to.equal(1);
      });
    }
  });

type Found = { violations: string[]; passes: string[] };

/** `optionsOf` is called with whether the page is the first. */
async function runAxe(
  page: Page,
  pages: string[],
  optionsOf: (isFirst: boolean) => axe.RunOptions,
) {
  const [first = '', ...others] = pages;
  return [
    ...(await showEach<Found>(page, [first], axeWith(optionsOf(true)))),
    ...(await showEach<Found>(page, others, axeWith(optionsOf(false)))),
  ];
}

/** Details only of violations, which takes a third of the time. */
function axeWith(options: axe.RunOptions): string {
  const all = { ...options, resultTypes: ['violations'], selectors: false, preload: false };
  return `axe.run(${JSON.stringify(all)}).then(({ violations, passes }) => ({
    violations: violations.map(({ id, nodes }) => id + ': ' + nodes.map((node) => node.html).join(' ')),
    passes: passes.map(({ id }) => id),
  }))`;
}
