import { expect } from 'chai';
import { unescapeHtml } from '../support/html-forms.ts';
import { requirePage } from '../support/browser.ts';
import { formTokenIn, useConsole } from '../support/console.ts';
import { createConnector, listGrants, requestManagement } from '../support/management-api.ts';
import { discover, requestToken } from '../support/oauth.ts';

describe('machines in the console', () => {
  const { system, signIn, open, send, audited } = useConsole();

  async function token(link: string, id: string, secret: string): Promise<number> {
    const { server } = await discover(link);
    const client = { id, secret, method: 'client_secret_basic', redirectUri: '' } as const;
    const parameters = { grant_type: 'client_credentials', resource: link };
    return (await requestToken(server, client, parameters)).status;
  }

  /** The client id and the secret of a page that shows them. */
  function credentialsIn(html: string) {
    const [, id = ''] = /data-copied-text="Copy Client ID of [^"]*">([^<]+)</.exec(html) ?? [];
    const [, secret = ''] = /id="secret"[^>]*>([^<]+)</.exec(html) ?? [];
    return { id, secret: unescapeHtml(secret) };
  }

  it('an administrator creates a machine, sees its secret once, replaces it and revokes the machine', async () => {
    const connector = await createConnector(system(), { level: 'operations', name: 'Numbers' });
    const { browser, page } = await signIn(`/connectors/${connector.id}`);
    expect(page.html).to.include(`/console/connectors/${connector.id}/machine`);
    const form = await browser.visit(
      `${system().management}/console/connectors/${connector.id}/machine`,
    );
    if (!('html' in form)) throw new Error('no page');
    expect(form.html).to.include('value="operations"').and.not.include('value="admin"');
    const key = form.forms
      .flatMap(({ controls }) => controls)
      .find(({ name }) => name === 'idempotencyKey');
    const fields = {
      token: formTokenIn(form),
      idempotencyKey: String(key?.value),
      name: 'Nightly job',
      level: 'analytics',
      days: '',
      keys: '',
    };
    const path = `/connectors/${connector.id}/machine`;
    const wrong = await send(browser, form, path, { ...fields, keys: 'http://keys.example.com' });
    expect(wrong.status).to.equal(400);
    expect(wrong.html)
      .to.include('The JWKS URL must start with https://')
      .and.match(/<input id="keys"[^>]*aria-invalid="true"[^>]*aria-describedby="keys-fault /)
      .and.include('id="keys-fault"');
    const made = await send(browser, form, path, fields);
    const { id, secret } = credentialsIn(made.html);
    expect(await token(connector.link, id, secret)).to.equal(200);
    const again = await send(browser, form, path, fields);
    expect(again.html).not.to.include(secret);
    expect((await listGrants(system(), { connector: connector.id })).items).to.have.length(1);

    const app = await browser.visit(`${system().management}/console/clients/${id}`);
    if (!('html' in app)) throw new Error('no page');
    expect(app.html)
      .to.match(/<dt>Last used<\/dt>/)
      .and.not.include('>Allowed<');
    for (const [action, brief] of [
      ['revokeMachine', 'Revoke: this machine loses its access for good.'],
      ['replaceKey', 'New secret: the old secret or key and its tokens stop working at once.'],
    ])
      expect(app.html)
        .to.include(`id="record-${action}-brief">${brief}<`)
        .and.include(`aria-describedby="record record-${action}-brief"`);
    expect(app.html).to.include('An administrator created this machine').and.not.include(secret);
    expect(app.html).to.match(/<a href="\/console\/machines" aria-current="page">Machines</);
    expect(app.html)
      .to.include('To replace it, create a new machine.')
      .and.not.include('The person can connect it again.')
      .and.not.include('/console/accounts/machine');
    const shown = await browser.visit(`${system().management}/console/connectors/${connector.id}`);
    expect('html' in shown && shown.html).to.match(
      new RegExp(`<dt>Machine</dt><dd><a href="/console/clients/${id}"`),
    );
    const unused = { name: 'Unused job', connector: connector.id, level: 'analytics' };
    await requestManagement(system(), 'POST', '/clients', unused);
    for (const section of ['grants', 'machines']) {
      const shownUnused = await browser.visit(
        `${system().management}/console/${section}?q=unused+job`,
      );
      expect('html' in shownUnused && shownUnused.html, section).to.include('Never used');
    }
    const list = await browser.visit(`${system().management}/console/grants`);
    expect('html' in list && list.html)
      .to.include('Nightly job')
      .and.not.include('/console/accounts/machine');
    const replaced = await send(browser, app, '/clients/machine-key', {
      token: formTokenIn(app),
      id,
    });
    const renewed = credentialsIn(replaced.html);
    expect(await token(connector.link, id, renewed.secret)).to.be.oneOf([200, 401]);
    expect(renewed.secret).not.to.equal(secret);
    await send(browser, app, '/clients/revoke', { token: formTokenIn(app), id });
    const ended = await browser.visit(`${system().management}/console/clients/${id}`);
    expect('html' in ended && ended.html).not.to.include('/console/clients/allow');
    const [created] = await audited('machine_created');
    expect(created).to.include({ clientId: id, connector: connector.id });
  });

  it('machines have a list of their own, with the connector, the access and the expiry of each', async () => {
    const connector = await createConnector(system(), { level: 'operations', name: 'Warehouse' });
    const body = { connector: connector.id, name: 'Stock count', level: 'analytics' };
    await requestManagement(system(), 'POST', '/clients', body);
    const { browser } = await signIn();
    const list = await open(browser, '/machines?q=stock');
    const row = /<tr class="row"[\s\S]*?<\/tr>/.exec(list.html)?.[0] ?? '';
    expect(row)
      .to.include('Stock count')
      .and.include(`<a href="/console/connectors/${connector.id}"><bdi>Warehouse</bdi></a>`)
      .and.include('Totals only')
      .and.match(/of-time[^>]*><span class="cell-head">Expires</);
    expect(list.html).to.include('href="/console/machines/new"');
    const token = formTokenIn(list);
    const [, id = ''] = /name="id\.0" value="([^"]+)"/.exec(list.html) ?? [];
    const asked = await send(browser, list, '/machines/several', {
      token,
      which: 'ticked',
      'id.0': id,
    });
    expect(asked.html).to.include('Ends 1 connection.').and.include('>Revoke 1 machine<');
    const done = requirePage(await browser.submit(asked, { confirm: 'yes' }));
    expect(done.html).to.include('Machines revoked.');
    const revoked = await open(browser, '/machines?state=revoked');
    expect(revoked.html).to.include('Stock count');
  });

  it('machines are sorted by the names of their connectors', async () => {
    for (const name of ['Sorted C', 'Sorted A', 'Sorted D', 'Sorted B']) {
      const connector = await createConnector(system(), { level: 'operations', name });
      const body = { connector: connector.id, name: `Machine of ${name}`, level: 'analytics' };
      await requestManagement(system(), 'POST', '/clients', body);
    }
    const { browser } = await signIn();
    const { html } = await open(browser, '/machines?q=machine+of+sorted&sort=connector');
    const names = [...html.matchAll(/<bdi>(Sorted \w)</g)].map(([, name]) => name);
    expect(names).to.deep.equal(['Sorted A', 'Sorted B', 'Sorted C', 'Sorted D']);
  });

  it('the connector of a new machine is found by its name on the server, among all active ones', async () => {
    for (let number = 1; number <= 21; number += 1)
      await createConnector(system(), { name: `Line ${number}` });
    const last = await createConnector(system(), { name: 'Last of all' });
    const ended = await createConnector(system(), { name: 'Last of last year' });
    await requestManagement(system(), 'DELETE', `/connectors/${ended.id}`);
    const { browser } = await signIn();
    const all = await open(browser, '/machines/new');
    expect(all.html).to.include('Only the first 20 are shown.');
    const found = await open(browser, '/machines/new?q=last');
    const [, ...links] = found.html.split(`<a href="/console/connectors/${last.id}/machine"`);
    expect(links).to.have.length(1);
    expect(found.html)
      .to.include('Last of all')
      .and.not.include('last year')
      .and.not.include('Only the first');
  });
});
