import { get } from 'node:http';
import { expect } from 'chai';
import { type Browser, describePage, openBrowser, requirePage } from '../support/browser.ts';
import { createConnector, readAudit } from '../support/management-api.ts';
import { advanceClock } from '../support/clock.ts';
import { startSystem, type System, useSystem } from '../support/system.ts';
import { formTokenIn, useConsole } from '../support/console.ts';

const MINUTE = 60;
const HOUR = 60 * MINUTE;

/** Sends the target as it is written, which `fetch` would normalize. */
function statusOfTarget(url: string): Promise<number | undefined> {
  const { port } = new URL(url);
  const path = url.slice(new URL(url).origin.length);
  return new Promise((resolve, reject) => {
    const sent = get({ host: '127.0.0.1', port, path }, (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    sent.on('error', reject);
  });
}

describe('the console', () => {
  const { system, origins, consoleUrl, open, signIn, send, audited } = useConsole();

  describe('sign-in', () => {
    it('CSL-01 an administrator signs in at the identity provider and returns to the requested page', async () => {
      const { id } = await createConnector(system(), { name: 'Asked for' });
      const { page } = await signIn(`/connectors/${id}`);
      expect(page.status, describePage(page)).to.equal(200);
      expect(page.url.href).to.equal(consoleUrl(`/connectors/${id}`));
      expect(page.html).to.include('Asked for').and.include('Ada Lovelace');
      const [item] = (await audited('console_sign_in')).slice(-1);
      expect(item).to.include({ outcome: 'done', by: `account:${item?.account}` });
    });

    it('CSL-02 sign-ins in two tabs both complete, and each returns to the page of its tab', async () => {
      const browser = openBrowser(origins());
      const earlier = requirePage(await browser.visit(consoleUrl('/tokens')));
      const later = requirePage(await browser.visit(consoleUrl('/connectors')));
      for (const [tab, path] of [
        [earlier, '/tokens'],
        [later, '/connectors'],
      ] as const) {
        const page = requirePage(await browser.submit(tab, { person: 'ada' }));
        expect(page.status, describePage(page)).to.equal(200);
        expect(page.url.href).to.equal(consoleUrl(path));
      }
    });

    it('CSL-14 a sign-in never returns to an address that the request chose', async () => {
      const evil = 'https://evil.example/';
      for (const [path, returned] of [
        [`/connectors?returnTo=${evil}&next=${evil}`, consoleUrl('/connectors')],
        [`/connectors?return_to=//evil.example`, consoleUrl('/connectors')],
      ] as const) {
        const { page } = await signIn(path);
        expect(page.url.href, path).to.equal(returned);
      }
      for (const path of [
        '//evil.example/',
        '/..//evil.example',
        '/%2f%2fevil.example',
        '\\\\evil',
      ]) {
        const target = consoleUrl('') + path;
        expect(await statusOfTarget(target), path).to.equal(404);
      }
    });

    it('the bare address of the host leads to the console', async () => {
      const browser = openBrowser(origins());
      const people = requirePage(await browser.visit(system().management));
      const page = requirePage(await browser.submit(people, { person: 'ada' }));
      expect(page.url.href).to.equal(consoleUrl('/overview'));
    });

    it('CSL-01 a person who is not an administrator is refused with a page', async () => {
      const { browser, page } = await signIn('', 'grace');
      expect(page.status).to.equal(403);
      expect(page.html)
        .to.include('You can’t open the console')
        .and.include('<bdi class="name">grace@example.com</bdi>')
        .and.include(`href="${system().auth}/account"`)
        .and.not.include('name="token"');
      expect(browser.jar.map(({ name }) => name)).not.to.include('gatehouse-console');
      const [item] = (await audited('console_sign_in')).slice(-1);
      expect(item).to.include({ outcome: 'refused' });
      const again = requirePage(await browser.visit(consoleUrl('/sign-in')));
      const inside = requirePage(await browser.submit(again, { person: 'ada' }));
      expect(inside.status, describePage(inside)).to.equal(200);
    });

    it('CSL-11 the management key does not open the console', async () => {
      const response = await fetch(consoleUrl('/connectors'), {
        headers: { authorization: `Bearer ${system().managementKey}` },
        redirect: 'manual',
      });
      expect(response.status).to.equal(303);
      expect(response.headers.get('location')).to.match(/^http:\/\/localhost:\d+\/auth/);
    });

    it('CSL-03 a malformed session cookie does not open the console', async () => {
      for (const value of ['', 'x', 'A'.repeat(43), '../console-session:x']) {
        const response = await fetch(consoleUrl('/connectors'), {
          headers: { cookie: `gatehouse-console=${value}` },
          redirect: 'manual',
        });
        expect(response.status, value).to.equal(303);
      }
    });

    it('CSL-11 a console session does not open the API', async () => {
      const { browser } = await signIn();
      const page = await browser.visit(`${system().management}/api/v1/connectors`);
      expect(requirePage(page).status).to.equal(401);
    });

    it('CSL-04 a session ends after half an hour without a request', async () => {
      const { browser } = await signIn();
      advanceClock(25 * MINUTE);
      expect((await open(browser, '/connectors')).url.pathname).to.equal('/console/connectors');
      advanceClock(25 * MINUTE);
      expect(await isSignedIn(browser)).to.equal(true);
      advanceClock(30 * MINUTE + 1);
      expect(await isSignedIn(browser)).to.equal(false);
    });

    it('CSL-04 a session ends after eight hours', async () => {
      const { browser } = await signIn();
      for (let passed = 20 * MINUTE; passed < 8 * HOUR; passed += 20 * MINUTE) {
        advanceClock(20 * MINUTE);
        expect(await isSignedIn(browser), `after ${passed} s`).to.equal(true);
      }
      advanceClock(20 * MINUTE);
      expect(await isSignedIn(browser)).to.equal(false);
    });

    async function isSignedIn({ jar }: Browser): Promise<boolean> {
      const cookie = jar.map(({ name, value }) => `${name}=${value}`).join('; ');
      const response = await fetch(consoleUrl('/connectors'), {
        headers: { cookie },
        redirect: 'manual',
      });
      await response.arrayBuffer();
      return response.status === 200;
    }

    it('CSL-04 signing out invalidates every copy of the cookie', async () => {
      const { browser, page } = await signIn();
      const copy = browser.jar.map(({ name, value }) => `${name}=${value}`).join('; ');
      const out = await send(browser, page, '/sign-out', { token: formTokenIn(page) });
      expect(out.html).to.include('You’re signed out');
      const headers = { cookie: copy };
      const response = await fetch(consoleUrl('/connectors'), { headers, redirect: 'manual' });
      expect(response.status).to.equal(303);
    });

    it('CSL-01 disabling an account ends its console session', async () => {
      const own = await startSystem();
      try {
        const browser = openBrowser([...own.origins, own.management]);
        const page = requirePage(await browser.visit(`${own.management}/console/connectors`));
        await browser.submit(page, { person: 'ada' });
        expect(await isLetIn(own, browser)).to.equal(true);
        const [item] = (await readAudit(own)).filter(({ event }) => event === 'console_sign_in');
        await fetch(`${own.management}/api/v1/accounts/${item?.account}/disable`, {
          method: 'POST',
          headers: { authorization: `Bearer ${own.managementKey}` },
        });
        expect(await isLetIn(own, browser)).to.equal(false);
      } finally {
        await own.stop();
      }
    });

    async function isLetIn(own: System, { jar }: Browser): Promise<boolean> {
      const cookie = jar.map(({ name, value }) => `${name}=${value}`).join('; ');
      const address = `${own.management}/console/connectors`;
      const response = await fetch(address, { headers: { cookie }, redirect: 'manual' });
      return response.status === 200;
    }
  });
});

describe('without administrators in the settings', () => {
  const system = useSystem({ file: { management: undefined } });

  it('CSL-01 the console does not exist without administrators in the settings', async () => {
    for (const path of ['', '/connectors', '/sign-in', '/callback']) {
      const { status } = await fetch(`${system().management}/console${path}`);
      expect(status, path).to.equal(404);
    }
  });
});
