// The pages for everybody: any width, light or dark, keyboard or screen reader, in a real browser.
import axe from 'axe-core';
import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { useChromium } from './chromium.ts';
import { SAMPLES } from './sample-pages.ts';

describe('the pages, for everybody', () => {
  const shown = useChromium(SAMPLES);
  const open = (name: string) => shown().page.goto(`${shown().url}/${name}`);

  for (const name of Object.keys(SAMPLES)) {
    for (const colorScheme of ['light', 'dark'] as const) {
      it(`${name}, ${colorScheme}: axe finds nothing, narrow and wide`, async () => {
        await shown().page.emulateMedia({ colorScheme });
        for (const width of [390, 1280]) {
          await shown().page.setViewportSize({ width, height: 800 });
          await open(name);
          await shown().page.evaluate(axe.source);
          const found = await shown().page.evaluate<axe.AxeResults>('axe.run()');
          expect(found.violations.map(describeViolation)).to.deep.equal([]);
          expect(found.passes.map((rule) => rule.id)).to.include('color-contrast');
        }
      });
    }

    it(`${name} needs no sideways scrolling at 320 pixels`, async () => {
      await shown().page.setViewportSize({ width: 320, height: 640 });
      await open(name);
      expect(await shown().page.evaluate('document.documentElement.scrollWidth')).to.equal(320);
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

    it(`${name} loads all it uses under the content security policy`, async () => {
      const blocked: string[] = [];
      shown().page.on('console', (message) => blocked.push(message.text()));
      shown().page.on('requestfailed', (request) => blocked.push(request.url()));
      await open(name);
      const styled = await shown().page.evaluate(
        "getComputedStyle(document.querySelector('main')).borderRadius",
      );
      expect(styled).to.equal('14px');
      expect(blocked.filter((line) => /policy|refused|http:/i.test(line))).to.deep.equal([]);
    });
  }
});

const OPERABLE =
  "[...document.querySelectorAll('a[href], button:not([aria-hidden]), input:not([type=hidden])')]";

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
