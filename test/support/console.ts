// People in the management console.
import { type Browser, openBrowser, type Page, type Person, requirePage } from './browser.ts';
import { readAudit } from './management-api.ts';
import { type SystemOptions, useSystem } from './system.ts';

/** One system for all tests of the surrounding `describe`; call the returned functions while a test runs. */
export function useConsole(options: SystemOptions = {}) {
  const system = useSystem(options);

  const origins = () => [...system().origins, system().management];
  const consoleUrl = (path: string) => `${system().management}/console${path}`;

  async function open(browser: Browser, path = '', person: Person = 'ada'): Promise<Page> {
    const page = requirePage(await browser.visit(consoleUrl(path)));
    if (!page.forms.some(({ controls }) => controls.some(({ name }) => name === 'person')))
      return page;
    return requirePage(await browser.submit(page, { person }));
  }

  async function signIn(path = '/connectors', person: Person = 'ada') {
    const browser = openBrowser(origins());
    return { browser, page: await open(browser, path, person) };
  }

  async function send(browser: Browser, page: Page, path: string, fields: Record<string, string>) {
    return requirePage(
      await browser.post(page, new URL(consoleUrl(path)), new URLSearchParams(fields)),
    );
  }

  const audited = async (event: string) =>
    (await readAudit(system())).filter((item) => item.event === event);

  return { system, origins, consoleUrl, open, signIn, send, audited };
}

/** The form token of a page. */
export function formTokenIn(page: Page): string {
  const controls = page.forms.flatMap((form) => form.controls);
  return String(controls.find(({ name }) => name === 'token')?.value);
}
