// What axe does not measure of WCAG 2.2 AA: the size of targets, what covers the focus, and what only a pointer reaches.
import { expect } from 'chai';
import { usePage } from '../support/chromium.ts';
import { GROUPS, useSamples } from './served-samples.ts';
import { fetchInEach, openForShowing, showEach } from './shown-pages.ts';

describe('Targets and focus', () => {
  const page = usePage();

  for (const [title, { names, languages, theme }] of Object.entries(GROUPS)) {
    if (theme !== undefined) continue;
    const longest = languages[1] ?? 'en';
    describe(`the targets and the focus of ${title}`, () => {
      const samples = useSamples();
      for (const width of [1280, 390])
        describe(`at ${width} pixels`, () => {
          before(async () => {
            await page().setViewportSize({ width, height: 800 });
            await openForShowing(page(), `${samples().url}/home`);
          });

          for (const name of names)
            it(`every target that is not in a sentence has 24 by 24 pixels, and nothing covers the control with the focus, in ${longest} (${name})`, async () => {
              const pages = await fetchInEach(samples().url, name, [longest]);
              const [found] = await showEach<Found>(page(), pages, MEASURE);
              expect(found?.value).to.deep.equal({ small: [], covered: [] });
            });
        });
    });
  }

  describe('the stylesheet', () => {
    const samples = useSamples();

    it('what a pointer rests on changes only how it looks', async () => {
      await page().goto(`${samples().url}/home`);
      const found = await page().evaluate<string[]>(HOVER_RULES);
      expect(found).to.include('text-decoration-line').and.to.include('background-color');
      const looks =
        /^(color|cursor|text-decoration.*|background.*|border.*-(color|style|width)|border-image-.*)$/;
      expect(found.filter((property) => !looks.test(property))).to.deep.equal([]);
    });
  });
});

type Found = { small: string[]; covered: string[] };

/** A control in a sentence may have the height of its line. A box with a label has the size of the label too. */
const MEASURE = `(() => {
  const name = (element) => element.outerHTML.slice(0, 160);
  const isVisible = (element) => element.checkVisibility({ visibilityProperty: true }) && element.getClientRects().length > 0 && !element.closest('.skip, .inert');
  const isInSentence = (element) => getComputedStyle(element).display === 'inline' &&
    [...element.parentElement.childNodes].some((node) => node.nodeType === 3 && /\\p{L}/u.test(node.data));
  const boxOf = (element) => {
    const label = element.labels?.[0];
    const boxes = [element, ...(label && isVisible(label) ? [label] : [])].map((each) => each.getBoundingClientRect());
    return { width: Math.max(...boxes.map(({ width }) => width)), height: Math.max(...boxes.map(({ height }) => height)) };
  };
  const controls = [...document.querySelectorAll('a[href], button, input:not([type=hidden]), select, textarea, summary')].filter(isVisible);
  const isSmall = (element) => { const { width, height } = boxOf(element); return width < 24 || height < 24; };
  const small = controls.filter((element) => isSmall(element) && !isInSentence(element)).map(name);
  const covered = controls.filter((element) => {
    if (element.disabled) return false;
    element.focus();
    const { left, right, top, bottom } = element.getClientRects()[0];
    return ![[left + 2, top + 2], [right - 2, bottom - 2], [(left + right) / 2, (top + bottom) / 2]].some(([x, y]) => {
      const at = document.elementFromPoint(x, y);
      return at && (element.contains(at) || at.contains(element) || [...(element.labels ?? [])].some((label) => label.contains(at)));
    });
  }).map(name);
  return { small, covered };
})()`;

const HOVER_RULES = `(() => {
  const rulesIn = (rules) => [...rules].flatMap((rule) => [rule, ...('cssRules' in rule ? rulesIn(rule.cssRules) : [])]);
  const hovered = [...document.styleSheets].flatMap((sheet) => rulesIn(sheet.cssRules)).filter(({ selectorText = '' }) => selectorText.includes(':hover'));
  return [...new Set(hovered.flatMap(({ style }) => [...style]))];
})()`;
