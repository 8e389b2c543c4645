import { expect } from 'chai';
import { usePage } from '../support/chromium.ts';
import { GROUPS, useSamples } from './served-samples.ts';
import { fetchInEach, openForShowing, showEach } from './shown-pages.ts';

const WIDTH = 'document.documentElement.scrollWidth';

for (const [title, { names, languages, theme }] of Object.entries(GROUPS))
  describe(`${title} on narrow screens`, () => {
    const samples = useSamples(undefined, theme);
    const narrow = usePage({ width: 320 });
    const enlarged = usePage({ width: 640 });
    before(async () => {
      for (const page of [narrow(), enlarged()])
        await openForShowing(page, `${samples().url}/home`);
      await enlarged().evaluate("document.documentElement.style.fontSize = '200%'");
    });

    for (const name of names)
      it(`the page does not scroll horizontally at 320 pixels or with text at 200 % (${name})`, async () => {
        const pages = await fetchInEach(samples().url, name, languages);
        const of = (value: number) => languages.map((language) => ({ language, value }));
        expect(await showEach(narrow(), pages, WIDTH)).to.deep.equal(of(320));
        expect(await showEach(enlarged(), pages, WIDTH)).to.deep.equal(of(640));
      });
  });
