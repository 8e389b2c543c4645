// The pages for everybody: any language, any width, light or dark, large letters, keyboard or screen reader, in a real browser.
import axe from 'axe-core';
import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { useChromium } from './chromium.ts';
import { EXAMPLE_THEME, firstAndOthers, SAMPLES } from './sample-pages.ts';

const LANGUAGES = ['en', 'de', 'fr', 'es', 'pt', 'ja'];
/** The one it is written in, and the longest. */
const TWO_LANGUAGES = ['en', 'de'];

/** Together both schemes and both widths. */
const LOOKS = [
  { colorScheme: 'light', width: 1280 },
  { colorScheme: 'dark', width: 390 },
] as const;

function claimsAbout(names: string[], languages: string[], theme?: string): void {
  const shown = useChromium(SAMPLES, theme);
  const open = async (name: string, language = 'en') => {
    await shown().page.goto(`${shown().url}/${name}?ui_locales=${language}`);
    await shown().page.evaluate(UNFOLD);
  };

  for (const name of names) {
    it(`${name}: axe finds nothing, light and dark, narrow and wide, in ${languages.join(', ')}`, async function () {
      this.timeout(60_000);
      const { page } = shown();
      await page.addInitScript({ content: axe.source });
      for (const language of languages) {
        await open(name, language);
        for (const { colorScheme, width } of LOOKS) {
          await page.emulateMedia({ colorScheme });
          await page.setViewportSize({ width, height: 800 });
          const found = await page.evaluate<axe.AxeResults>(RUN_AXE);
          expect(found.violations.map(describeViolation), language).to.deep.equal([]);
          expect(found.passes.map((rule) => rule.id)).to.include('color-contrast');
        }
      }
    });

    it(`${name} needs no sideways scrolling at 320 pixels, nor with letters twice as large`, async () => {
      const { page } = shown();
      for (const language of languages) {
        await page.setViewportSize({ width: 320, height: 640 });
        await open(name, language);
        expect(await page.evaluate(WIDTH), language).to.equal(320);
        await page.setViewportSize({ width: 640, height: 640 });
        await page.evaluate("document.documentElement.style.fontSize = '200%'");
        expect(await page.evaluate(WIDTH), language).to.equal(640);
      }
    });

    it(`${name}: everything that can be operated is reached by keyboard, and shows it`, async () => {
      await open(name);
      const reached = await walkByKeyboard(shown().page);
      const all = await shown().page.evaluate<string[]>(
        `${OPERABLE}.map((element) => element.outerHTML)`,
      );
      expect(reached.map(({ html }) => html)).to.have.members(all);
      for (const { html, outlined } of reached) expect(outlined, html).to.equal(true);
    });

    it(`${name} has one heading of the first level, and landmarks`, async () => {
      await open(name);
      const { page } = shown();
      expect(await page.getByRole('heading', { level: 1 }).count()).to.equal(1);
      for (const landmark of ['banner', 'main', 'contentinfo'] as const)
        expect(await page.getByRole(landmark).count(), landmark).to.equal(1);
    });

    it(`${name} loads the page and the stylesheet, and the browser has nothing to say`, async () => {
      const { page } = shown();
      const said: string[] = [];
      const asked: string[] = [];
      page.on('console', (message) => said.push(message.text()));
      page.on('requestfailed', (request) => said.push(request.url()));
      page.on('request', (request) => asked.push(new URL(request.url()).pathname));
      await open(name);
      const styled = await page.evaluate(
        "getComputedStyle(document.querySelector('main')).borderRadius",
      );
      expect(styled).to.equal('14px');
      const logo = theme === undefined ? [] : ['/assets/logo.svg'];
      const needed = asked.filter((path) => path !== '/assets/icon.svg');
      expect(needed).to.deep.equal([`/${name}`, '/assets/style.css', ...logo]);
      // To Chromium, a page with the status of an error is one.
      expect(said.filter((line) => !/status of [45]\d\d/.test(line))).to.deep.equal([]);
    });
  }
}

const { first, others } = firstAndOthers();

describe('the pages, for everybody', () => claimsAbout(first, LANGUAGES));

describe('the pages with other values, for everybody', () => claimsAbout(others, TWO_LANGUAGES));

describe('the pages in the example theme, for everybody', () =>
  claimsAbout(['consent', 'error', 'home'], ['en', 'nl'], EXAMPLE_THEME));

/** Only violations are looked into closely, which takes a third of the time; of the rest it is said that it was looked at. */
const RUN_AXE = "axe.run({ resultTypes: ['violations'] })";

/** What is folded away is looked at too. */
const UNFOLD = "for (const details of document.querySelectorAll('details')) details.open = true";

const WIDTH = 'document.documentElement.scrollWidth';
const OPERABLE =
  '[...document.querySelectorAll(\'a[href], button:not([aria-hidden]), input:not([type=hidden]), select, summary, [tabindex="0"]\')].filter((element) => element.checkVisibility())';

function describeViolation({ id, nodes }: axe.Result): string {
  return `${id}: ${nodes.map((node) => node.html).join(' ')}`;
}

/** What gets the focus from the first Tab until the page's end; inside a group of radio buttons the arrows lead on. */
async function walkByKeyboard(page: Page): Promise<{ html: string; outlined: boolean }[]> {
  const reached = new Map<string, { html: string; outlined: boolean; radio: boolean }>();
  let key = 'Tab';
  for (;;) {
    await page.keyboard.press(key);
    const focused = await page.evaluate<{ html: string; outlined: boolean; radio: boolean } | null>(
      FOCUSED,
    );
    const seen = focused === null || reached.has(focused.html);
    if (seen && key === 'Tab') return [...reached.values()];
    if (focused && !seen) reached.set(focused.html, focused);
    key = focused?.radio && !seen ? 'ArrowDown' : 'Tab';
  }
}

const FOCUSED = `(() => {
  const element = document.activeElement;
  if (element === document.body) return null;
  const shown = element.closest('.level') ?? element;
  const outlined = getComputedStyle(shown).outlineStyle === 'solid';
  return { html: element.outerHTML, outlined, radio: element.type === 'radio' };
})()`;
