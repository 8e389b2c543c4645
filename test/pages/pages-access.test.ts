import axe from 'axe-core';
import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { useChromium } from './chromium.ts';
import { EXAMPLE_THEME, firstAndOthers, SAMPLES } from './sample-pages.ts';

const LANGUAGES = ['en', 'de', 'fr', 'es', 'pt', 'ja'];
/** English, and the language with the longest words. */
const TWO_LANGUAGES = ['en', 'de'];

type Look = { colorScheme: 'light' | 'dark'; width: number };

const BRIGHT_AND_WIDE: Look = { colorScheme: 'light', width: 1280 };
/** Both color schemes and both widths. */
const LOOKS: Look[] = [BRIGHT_AND_WIDE, { colorScheme: 'dark', width: 390 }];

async function lookAs(page: Page, { colorScheme, width }: Look): Promise<void> {
  await page.emulateMedia({ colorScheme });
  await page.setViewportSize({ width, height: 800 });
}

function testAccessibility(names: string[], languages: string[], theme?: string): void {
  const shown = useChromium(SAMPLES, { theme, isKept: true });
  const addressOf = (name: string, language = 'en') =>
    `${shown().url}/${name}?ui_locales=${language}`;
  const open = async (name: string, language = 'en', look = BRIGHT_AND_WIDE) => {
    const { page } = shown();
    await lookAs(page, look);
    await page.goto(addressOf(name, language));
    await page.evaluate(UNFOLD);
  };

  for (const name of names) {
    it(`axe finds no violation in both color schemes and widths, in ${languages.join(', ')} (${name})`, async function () {
      this.timeout(60_000);
      const { page } = shown();
      await open(name);
      await page.evaluate(axe.source);
      for (const language of languages) {
        const answer = await fetch(addressOf(name, language));
        // A navigation would unload axe, which takes longer to load than to run.
        await page.setContent(await answer.text());
        expect(await page.evaluate('document.documentElement.lang')).to.equal(language);
        await page.evaluate(UNFOLD);
        for (const look of LOOKS) {
          await lookAs(page, look);
          const { violations, passes } = await page.evaluate<Found>(RUN_AXE);
          expect(violations.map(describeViolation), language).to.deep.equal([]);
          expect(passes).to.include('color-contrast');
        }
      }
    });

    it(`the page does not scroll horizontally at 320 pixels or with text at 200 % (${name})`, async () => {
      const { page } = shown();
      for (const language of languages) {
        await open(name, language, { colorScheme: 'light', width: 320 });
        expect(await page.evaluate(WIDTH), language).to.equal(320);
        await page.setViewportSize({ width: 640, height: 800 });
        await page.evaluate("document.documentElement.style.fontSize = '200%'");
        expect(await page.evaluate(WIDTH), language).to.equal(640);
      }
    });

    it(`every control is reachable by keyboard and has a visible focus (${name})`, async () => {
      await open(name);
      const reached = await walkByKeyboard(shown().page);
      const all = await shown().page.evaluate<string[]>(
        `${OPERABLE}.map((element) => element.outerHTML)`,
      );
      expect(reached.map(({ html }) => html)).to.have.members(all);
      for (const { html, outlined } of reached) expect(outlined, html).to.equal(true);
    });

    it(`the page has one first-level heading and landmarks (${name})`, async () => {
      await open(name);
      const { page } = shown();
      expect(await page.getByRole('heading', { level: 1 }).count()).to.equal(1);
      for (const landmark of ['banner', 'main', 'contentinfo'] as const)
        expect(await page.getByRole(landmark).count(), landmark).to.equal(1);
    });

    it(`the page loads only its stylesheet and logo, without a browser warning (${name})`, async () => {
      const page = await shown().openFresh();
      const warnings: string[] = [];
      const requested: string[] = [];
      page.on('console', (message) => warnings.push(message.text()));
      page.on('requestfailed', (request) => warnings.push(request.url()));
      page.on('request', (request) => requested.push(new URL(request.url()).pathname));
      await page.goto(addressOf(name));
      const styled = await page.evaluate(
        "getComputedStyle(document.querySelector('main')).borderRadius",
      );
      await page.close();
      expect(styled).to.equal('14px');
      const logo = theme === undefined ? [] : ['/assets/logo.svg'];
      const needed = requested.filter((path) => path !== '/assets/icon.svg');
      expect(needed).to.deep.equal([`/${name}`, '/assets/style.css', ...logo]);
      // Chromium logs a page with an error status.
      expect(warnings.filter((line) => !/status of [45]\d\d/.test(line))).to.deep.equal([]);
    });
  }
}

const { first, others } = firstAndOthers();

describe('the accessibility of the pages', () => testAccessibility(first, LANGUAGES));

describe('the accessibility of the pages with other values', () =>
  testAccessibility(others, TWO_LANGUAGES));

describe('the accessibility of the pages in the example theme', () =>
  testAccessibility(['consent', 'error', 'home'], ['en', 'nl'], EXAMPLE_THEME));

type Found = { violations: axe.Result[]; passes: string[] };

/** Details only of violations, which takes a third of the time. */
const RUN_AXE = `axe.run({ resultTypes: ['violations'], selectors: false, preload: false })
  .then(({ violations, passes }) => ({ violations, passes: passes.map(({ id }) => id) }))`;

/** Opens all `<details>`. */
const UNFOLD = "for (const details of document.querySelectorAll('details')) details.open = true";

const WIDTH = 'document.documentElement.scrollWidth';
const OPERABLE =
  '[...document.querySelectorAll(\'a[href], button:not([aria-hidden]), input:not([type=hidden]), select, summary, [tabindex="0"]\')].filter((element) => element.checkVisibility())';

function describeViolation({ id, nodes }: axe.Result): string {
  return `${id}: ${nodes.map((node) => node.html).join(' ')}`;
}

/** Returns the elements that get the focus, by Tab and, in a group of radio buttons, by arrow keys. */
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
