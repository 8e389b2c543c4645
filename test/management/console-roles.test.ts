import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { type Browser, openBrowser, type Page, requirePage } from '../support/browser.ts';
import { formTokenIn, useConsole } from '../support/console.ts';
import { createConnector, readAudit } from '../support/management-api.ts';
import { createDeployment, startDeployment } from '../support/system.ts';

const ADMINISTRATORS = [
  { subject: 'ada' },
  { subject: 'grace', role: 'operator' },
  { subject: 'alan', role: 'viewer' },
];

/** The role that each form of the console requires. */
const FORMS: Record<string, 'operator' | 'administrator'> = {
  '/connectors': 'operator',
  '/connectors/<id>/edit': 'operator',
  '/tokens/<id>/edit': 'operator',
  '/clients/<id>/edit': 'operator',
  '/connectors/<id>/revoke': 'operator',
  '/connectors/<id>/delete': 'operator',
  '/tokens': 'operator',
  '/tokens/revoke': 'operator',
  '/clients/revoke': 'operator',
  '/clients/allow': 'operator',
  '/rules/block': 'operator',
  '/grants/end': 'operator',
  '/grants/keep-out': 'operator',
  '/accounts/disable': 'administrator',
  '/accounts/enable': 'administrator',
  '/accounts/forget': 'administrator',
  '/settings': 'administrator',
};

describe('roles in the console', () => {
  const { system, open, signIn, send } = useConsole({
    file: { management: { administrators: ADMINISTRATORS } },
  });

  it('ADM-03 ROL-03 every form requires its role, and the page of a refusal names it', async () => {
    const { id } = await createConnector(system());
    for (const [person, allowed] of [
      ['alan', []],
      ['grace', ['operator']],
    ] as const) {
      const { browser, page } = await signIn('/connectors', person);
      const before = await readAudit(system());
      const refused = Object.entries(FORMS).filter(([, role]) => !allowed.includes(role as never));
      for (const [form, role] of refused) {
        const fields = { token: formTokenIn(page), id, name: 'Never', level: 'analytics' };
        const answer = await send(browser, page, form.replace('<id>', id), fields);
        expect(answer.status, `${form} as ${person}`).to.equal(403);
        expect(answer.html).to.include('You don’t have permission').and.include(`“${role}”`);
      }
      expect(await readAudit(system())).to.deep.equal(before);
    }
    const { browser, page } = await signIn('/connectors', 'grace');
    const fields = { token: formTokenIn(page) };
    expect((await send(browser, page, `/connectors/${id}/revoke`, fields)).status).to.equal(200);
  });

  it('ROL-03 pages show only the forms that the role may send', async () => {
    const { id } = await createConnector(system());
    const paths = ['/connectors', `/connectors/${id}`, '/tokens', '/accounts', '/audit', '/health'];
    const formsOf = async (person: 'ada' | 'grace' | 'alan') => {
      const { browser } = await signIn('', person);
      const pages: Page[] = [];
      for (const path of paths) pages.push(await open(browser, path));
      const form = await open(browser, '/connectors/new');
      expect(form.status, person).to.equal(person === 'alan' ? 403 : 200);
      const edit = await open(browser, `/connectors/${id}/edit`);
      expect(edit.status, person).to.equal(person === 'alan' ? 403 : 200);
      const links = pages.some(({ html }) => html.includes(`/connectors/${id}/edit"`));
      expect(links, person).to.equal(person !== 'alan');
      expect(pages.map(({ status }) => status)).to.deep.equal(paths.map(() => 200));
      const all = [...pages, form, await open(browser, '/tokens/new')].flatMap(
        ({ forms }) => forms,
      );
      const posted = all.filter(({ method }) => method === 'POST');
      const actions = posted.map(({ action }) => action.pathname);
      return [...new Set(actions)].map((path) => path.replace(id, '<id>')).sort();
    };
    const reading = ['/console/sign-out'];
    const operating = ['/console/connectors', '/console/connectors/<id>/revoke', '/console/tokens'];
    const managing = ['/console/accounts/disable', '/console/accounts/forget'];
    expect(await formsOf('alan')).to.deep.equal(reading);
    expect(await formsOf('grace')).to.deep.equal([...reading, ...operating].sort());
    expect(await formsOf('ada')).to.deep.equal([...reading, ...operating, ...managing].sort());
  });

  it('each page says who is signed in with which role', async () => {
    expect((await signIn('/connectors', 'alan')).page.html).to.match(
      /<bdi[^>]*>Alan Turing<\/bdi>, viewer/,
    );
    expect((await signIn('/connectors', 'ada')).page.html).to.match(
      /<bdi[^>]*>Ada Lovelace<\/bdi>, administrator/,
    );
  });

  it('ROL-04 a role that is lowered applies to sessions that are open', async () => {
    const place = await createDeployment({
      file: { management: { administrators: [{ subject: 'ada' }] } },
    });
    const config = join(place.facts.dataDir, 'settings.yaml');
    const form = async (browser: Browser, page: Page) => {
      const fields = { token: formTokenIn(page), name: 'Nightly', level: 'analytics' };
      const address = new URL(`${place.facts.management}/console/tokens`);
      const posted = { ...fields, idempotencyKey: 'A'.repeat(43) };
      return requirePage(await browser.post(page, address, new URLSearchParams(posted)));
    };
    let running = await startDeployment(place);
    try {
      const origins = [...place.facts.origins, place.facts.management];
      const browser = openBrowser(origins);
      const tokens = `${place.facts.management}/console/tokens`;
      const people = requirePage(await browser.visit(tokens));
      const page = requirePage(await browser.submit(people, { person: 'ada' }));
      await running.stop();
      const lowered = (await readFile(config, 'utf8')).replace(
        '{"subject":"ada"}',
        '{"subject":"ada","role":"viewer"}',
      );
      await writeFile(config, lowered);
      running = await startDeployment(place);
      expect((await form(browser, page)).status).to.equal(403);
      const again = requirePage(await browser.visit(tokens));
      expect(again.html).to.include(', viewer').and.not.include('name="level"');
    } finally {
      await running.stop();
      await place.release();
    }
  });
});
