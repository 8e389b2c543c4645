import { expect } from 'chai';
import { usePage } from '../support/chromium.ts';
import { GROUPS, useSamples } from './served-samples.ts';
import { fetchInEach, openForShowing, showEach } from './shown-pages.ts';

const WIDTH = 'document.documentElement.scrollWidth';

describe('Narrow screens', () => {
  const page = usePage();

  for (const [title, { names, languages, theme }] of Object.entries(GROUPS))
    describe(`${title} on narrow screens`, () => {
      const samples = useSamples(undefined, theme);
      const narrow = new Map<string, Width[]>();
      const enlarged = new Map<string, Width[]>();
      before(async () => {
        await page().setViewportSize({ width: 320, height: 800 });
        await openForShowing(page(), `${samples().url}/home`);
        const pages = await Promise.all(
          names.map((name) => fetchInEach(samples().url, name, languages)),
        );
        const measure = async (widths: Map<string, Width[]>) => {
          const all = await showEach<number>(page(), pages.flat(), WIDTH);
          for (const [index, name] of names.entries())
            widths.set(name, all.slice(index * languages.length, (index + 1) * languages.length));
        };
        await measure(narrow);
        await page().setViewportSize({ width: 640, height: 800 });
        await page().evaluate("document.documentElement.style.fontSize = '200%'");
        await measure(enlarged);
      });

      for (const name of names)
        it(`the page does not scroll horizontally at 320 pixels or with text at 200 % (${name})`, () => {
          const of = (value: number) => languages.map((language) => ({ language, value }));
          expect(narrow.get(name)).to.deep.equal(of(320));
          expect(enlarged.get(name)).to.deep.equal(of(640));
        });
    });
});

type Width = { language: string; value: number };
