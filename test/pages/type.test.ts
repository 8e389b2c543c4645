// How text is set: its sizes, its fonts, and that no word is cut.
import { expect } from 'chai';
import { usePage } from '../support/chromium.ts';
import { GROUPS, useSamples } from './served-samples.ts';
import { fetchInEach, openForShowing, showEach } from './shown-pages.ts';

describe('Type', () => {
  const page = usePage();

  for (const [title, { names, languages, theme }] of Object.entries(GROUPS)) {
    if (theme !== undefined) continue;
    const longest = languages[1] ?? 'en';
    describe(`the text of ${title}`, () => {
      const samples = useSamples();
      for (const width of [1280, 390])
        describe(`at ${width} pixels`, () => {
          before(async () => {
            await page().setViewportSize({ width, height: 800 });
            await openForShowing(page(), `${samples().url}/home`);
          });

          for (const name of names)
            it(`each text has a size of the scale and one of two fonts, no text is cut and no table is wider than the page, in ${longest} (${name})`, async () => {
              const pages = await fetchInEach(samples().url, name, [longest]);
              const [found] = await showEach<Found>(page(), pages, MEASURE);
              expect(found?.value).to.deep.equal({
                sizes: [],
                fonts: [],
                cut: [],
                broken: [],
                wide: [],
              });
            });
        });
    });
  }
});

/** Of the texts that are not as they should be. */
type Found = { sizes: string[]; fonts: string[]; cut: string[]; broken: string[]; wide: string[] };

/** Names that strangers chose may be cut after three lines, and are complete in the details. Names, ids and addresses can be one long word. On phones, words are hyphenated, but not in the console. */
const MEASURE = `(() => {
  const SIZES = ['12px', '13px', '14px', '16px', '17px', '22px'];
  const LONGEST_WORD = 20;
  const root = getComputedStyle(document.documentElement);
  const isVisible = (element) => element.checkVisibility({ visibilityProperty: true }) && !element.closest('.unseen, .skip:not(:focus), .inert');
  const isConsole = document.querySelector('.frame') !== null;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const texts = [];
  for (let node = walker.nextNode(); node; node = walker.nextNode())
    if (node.data.trim() && isVisible(node.parentElement)) texts.push(node);
  const shown = (node) => node.parentElement.outerHTML.slice(0, 120);
  const first = (family) => family.split(',')[0].trim();
  const families = [root.getPropertyValue('--font'), root.getPropertyValue('--font-code')].map(first);
  const sizes = texts.filter(({ parentElement }) => !parentElement.closest('h1, svg') && !SIZES.includes(getComputedStyle(parentElement).fontSize));
  const fonts = texts.filter(({ parentElement }) => !families.includes(first(getComputedStyle(parentElement).fontFamily)));
  const cut = texts.filter(({ parentElement: element }) => {
    const { overflowX, overflowY } = getComputedStyle(element);
    const isClipped = [overflowX, overflowY].includes('hidden');
    return isClipped && !element.matches('h1 > bdi.claim, bdi.cut') && (element.scrollWidth > element.clientWidth + 1 || element.scrollHeight > element.clientHeight + 1);
  });
  const broken = !isConsole ? [] : texts.filter(({ parentElement }) => !parentElement.closest('bdi, code, .code')).flatMap((node) => [...node.data.matchAll(/[\\p{L}\\p{N}]+/gu)].filter(({ 0: word, index }) => {
    if (word.length > LONGEST_WORD) return false;
    const range = document.createRange();
    range.setStart(node, index);
    range.setEnd(node, index + word.length);
    return new Set([...range.getClientRects()].map(({ top }) => Math.round(top))).size > 1;
  }).map(({ 0: word }) => word));
  const wide = [...document.querySelectorAll('.content table.items')].filter(({ scrollWidth, parentElement }) => scrollWidth > parentElement.clientWidth + 1).map(({ outerHTML }) => outerHTML.slice(0, 80));
  return { wide, sizes: sizes.map(shown), fonts: fonts.map(shown), cut: cut.map(shown), broken };
})()`;
