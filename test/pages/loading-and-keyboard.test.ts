import { expect } from 'chai';
import { usePage } from '../support/chromium.ts';
import { GROUPS, useSamples } from './served-samples.ts';
import { fetchInEach, openForShowing, showEach } from './shown-pages.ts';

describe('Loading and keyboard', () => {
  const shown = usePage();
  const warnings: string[] = [];
  const requested: string[] = [];
  before(async () => {
    const page = shown();
    page.on('console', (message) => warnings.push(message.text()));
    page.on('requestfailed', (request) => {
      // A navigation cancels requests of the previous page, such as that for its icon.
      if (request.failure()?.errorText !== 'net::ERR_ABORTED') warnings.push(request.url());
    });
    page.on('request', (request) => {
      const { pathname } = new URL(request.url());
      // Chromium loads the icon of a tab at any time after the page.
      if (pathname !== '/assets/icon.svg') requested.push(pathname);
    });
    // A page of another test would have left the stylesheet in the cache.
    const session = await page.context().newCDPSession(page);
    await session.send('Network.setCacheDisabled', { cacheDisabled: true });
  });

  function forgetRequests(): void {
    warnings.length = 0;
    requested.length = 0;
  }

  /** Chromium logs a page with an error status. */
  const expectNoWarning = () =>
    expect(warnings.filter((line) => !/status of [45]\d\d/.test(line))).to.deep.equal([]);

  async function expectKeyboardReachesAll(): Promise<void> {
    const page = shown();
    const { controls, keys } = await page.evaluate<Walk>(PREPARE_WALK);
    await Promise.all(keys.map((key) => page.keyboard.down(key)));
    for (const key of new Set(keys)) await page.keyboard.up(key);
    const focused = await page.evaluate<Focused[]>('globalThis.focused');
    expect(focused.map(({ html }) => html)).to.have.members(controls);
    for (const { html, outlined } of focused) expect(outlined, html).to.equal(true);
  }

  for (const [title, { names, theme }] of Object.entries(GROUPS))
    describe(title, () => {
      const samples = useSamples(undefined, theme);
      // All pages of a theme load the same files. A logo belongs to the body, so that pages with one are navigated to.
      const isNavigated = (name: string) => theme !== undefined || name === 'home';

      for (const name of names.filter(isNavigated))
        describe(`${name} after a navigation`, () => {
          before(async () => {
            forgetRequests();
            await shown().goto(`${samples().url}/${name}?ui_locales=en`);
          });

          it(`the page loads only its stylesheet and logo, without a browser warning (${name})`, async () => {
            const styled = await shown().evaluate(
              "getComputedStyle(document.querySelector('main')).borderRadius",
            );
            expect(styled).to.equal('14px');
            const logo = theme === undefined ? [] : ['/assets/logo.svg'];
            expect(requested).to.deep.equal([`/${name}`, '/assets/style.css', ...logo]);
            expectNoWarning();
          });

          it(`every control is reachable by keyboard and has a visible focus (${name})`, () =>
            expectKeyboardReachesAll());
        });

      describe('shown in a loaded page', () => {
        before(() => openForShowing(shown(), `${samples().url}/home`));

        for (const name of names.filter((each) => !isNavigated(each)))
          it(`the page loads nothing more, and every control is reachable by keyboard and has a visible focus (${name})`, async () => {
            forgetRequests();
            await showEach(shown(), await fetchInEach(samples().url, name, ['en']), 'null');
            await expectKeyboardReachesAll();
            expect(requested).to.deep.equal([]);
            expectNoWarning();
          });
      });
    });
});

type Walk = { controls: string[]; keys: string[] };
type Focused = { html: string; outlined: boolean };

/**
 * Opens all `<details>` and records what gets the focus. Returns the visible controls, and the keys that visit them: Tab, and inside
 * a group of radio buttons, where Tab stops once, arrow keys until the first one has the focus again.
 */
const PREPARE_WALK = `(() => {
  for (const details of document.querySelectorAll('details')) details.open = true;
  globalThis.focused = [];
  const seen = new Set();
  document.body.addEventListener('focusin', ({ target }) => {
    if (seen.has(target)) return;
    seen.add(target);
    const shown = target.type === 'radio' ? target.closest('.level') ?? target : target;
    const outlined = getComputedStyle(shown).outlineStyle === 'solid';
    focused.push({ html: target.outerHTML, outlined });
  });
  const controls = [...document.querySelectorAll('a[href], button:not([aria-hidden]), input:not([type=hidden]), select, textarea, summary, [tabindex="0"]')]
    .filter((element) => element.checkVisibility());
  const keys = controls.flatMap((element) => {
    // Each part of a date is a stop, and so is the button of its calendar.
    if (String(element.type).startsWith('date')) return Array(8).fill('Tab');
    if (element.type !== 'radio') return ['Tab'];
    const group = controls.filter(({ type, name }) => type === 'radio' && name === element.name);
    const stop = group.find(({ checked }) => checked) ?? group[0];
    return element === stop ? ['Tab', ...group.map(() => 'ArrowDown')] : [];
  });
  return { controls: controls.map((element) => element.outerHTML), keys };
})()`;
