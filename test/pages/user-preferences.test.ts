import { expect } from 'chai';
import { usePage } from '../support/chromium.ts';
import { GROUPS, useSamples } from './served-samples.ts';
import { fetchInEach, openForShowing, showEach } from './shown-pages.ts';

describe('Preferences of the browser', () => {
  const page = usePage();
  const samples = useSamples();
  before(async () => {
    await openForShowing(page(), `${samples().url}/home`);
    await page().emulateMedia({ forcedColors: 'active', reducedMotion: 'reduce' });
  });

  for (const name of [
    ...GROUPS['the pages']!.names,
    ...GROUPS['the pages with other values']!.names,
  ])
    it(`controls keep an edge and focus keeps its outline with forced colors, and nothing moves with reduced motion (${name})`, async () => {
      const pages = await fetchInEach(samples().url, name, ['en']);
      const [shown] = await showEach<Found>(page(), pages, FIND);
      expect(shown?.value).to.deep.equal({ withoutEdge: [], withoutOutline: [], moving: [] });
    });
});

/** The HTML of elements. */
type Found = { withoutEdge: string[]; withoutOutline: string[]; moving: string[] };

/** Forced colors remove backgrounds and shadows: only borders and outlines show where a control is and what has the focus. */
const FIND = `(() => {
  const isVisible = (element) => element.checkVisibility() && element.getAttribute('aria-hidden') !== 'true';
  const htmlOf = (element) => element.outerHTML.slice(0, 200);
  const hasEdge = (element) => {
    const { borderTopStyle, borderTopWidth, textDecorationLine } = getComputedStyle(element);
    const hasBorder = borderTopStyle !== 'none' && parseFloat(borderTopWidth) > 0;
    return hasBorder || textDecorationLine.includes('underline');
  };
  const hasOutline = (element) => {
    element.focus({ focusVisible: true });
    const { outlineStyle, outlineWidth } = getComputedStyle(element.type === 'radio' ? element.closest('.level') : element);
    return outlineStyle !== 'none' && parseFloat(outlineWidth) > 0;
  };
  const moves = (element) => {
    const { animationName, transitionDuration, scrollBehavior } = getComputedStyle(element);
    return animationName !== 'none' || scrollBehavior === 'smooth' || transitionDuration.split(', ').some((time) => parseFloat(time) > 0);
  };
  const controls = [...document.querySelectorAll('button, select, textarea, input:not([type=hidden], [type=radio], [type=checkbox])')].filter(isVisible);
  const focusable = [...controls, ...document.querySelectorAll('a[href], summary')].filter(isVisible);
  return {
    withoutEdge: controls.filter((element) => !hasEdge(element)).map(htmlOf),
    withoutOutline: focusable.filter((element) => !hasOutline(element)).map(htmlOf),
    moving: [...document.querySelectorAll('*')].filter(moves).map(htmlOf),
  };
})()`;
