// Attempts in the console: the list, the search by the reference of a page, and the pages of a person and an app.
import { expect } from 'chai';
import { openBrowser } from '../support/browser.ts';
import { openConsent } from '../support/connection.ts';
import { useConsole } from '../support/console.ts';
import { createConnector, requestManagement } from '../support/management-api.ts';
import { until } from '../support/until.ts';

type Found = { id: string; account?: string; reference?: string; end?: string };

describe('Attempts in the console', () => {
  const { system, signIn, open } = useConsole();
  const openConsole = async (path: string) => open((await signIn()).browser, path);

  async function refusedPerson(): Promise<Required<Found> & { client: string }> {
    const connector = await createConnector(system());
    const { client, page } = await openConsent(system(), connector, {
      person: 'alan',
      as: { browser: openBrowser(system().origins) },
    });
    const [, reference = ''] = /<dd class="code">([\w-]{12})<\/dd>/.exec(page.html) ?? [];
    const found = await until('the attempt', async () => {
      const listed = await requestManagement(system(), 'GET', `/attempts?client=${client.id}`);
      return (listed as { items: Found[] }).items.find(({ end }) => end === 'refused');
    });
    const { id, account = '', end = '' } = found;
    return { id, account, end, reference, client: client.id };
  }

  it('the list of a new system says what leaves no attempt', async () => {
    const { html } = await openConsole('/attempts');
    expect(html).to.include('custom apps');
  });

  it('the reference of a page finds its attempt with the reason', async () => {
    const { reference } = await refusedPerson();
    await refusedPerson();
    const { html } = await openConsole(`/attempts?q=${reference}`);
    expect(html.match(/class="row"/g)).to.have.length(1);
    expect(html).to.include('No entitlement in the settings file matches this person.');
    expect(html).to.include(reference).and.include('The person saw the consent page');
  });

  it('a reference is found among the attempts that the other filters leave', async () => {
    const [one, other] = [await refusedPerson(), await refusedPerson()];
    const list = async (filters: Record<string, string>) => {
      const query = new URLSearchParams({ q: one.reference, ...filters });
      return (
        (await requestManagement(system(), 'GET', `/attempts?${query}`)) as { items: Found[] }
      ).items;
    };
    const soon = new Date(Date.now() + 60_000).toISOString();
    for (const [name, filters, count] of [
      ['alone', {}, 1],
      ['with its filters', { client: one.client, account: one.account, end: 'refused' }, 1],
      ['of another app', { client: other.client }, 0],
      ['of another person', { account: 'x'.repeat(27) }, 0],
      ['with another end', { end: 'connected' }, 0],
      ['before the time', { since: soon }, 0],
    ] as const)
      expect(await list(filters as Record<string, string>), name).to.have.length(count);
  });

  it('the search in everything shows the reason and leads to the person, with one click each', async () => {
    const { reference, account } = await refusedPerson();
    const { html } = await openConsole(`/search?q=${reference}`);
    expect(html).to.include('No entitlement in the settings file matches this person.');
    expect(html).to.include(`href="/console/accounts/${account}"`);
    expect(html).to.match(/<h3 id="attempts-0"><a href="\/console\/clients\//);
  });

  it('the pages of the person and of the app have their attempts, and lead to all of them', async () => {
    const { account, client } = await refusedPerson();
    for (const [path, filter] of [
      [`/accounts/${account}`, `account=${account}`],
      [`/clients/${client}`, `client=${client}`],
    ] as const) {
      const { html } = await openConsole(path);
      expect(html).to.include('No entitlement in the settings file matches this person.');
      expect(html).to.include(`/console/attempts?${filter}`);
    }
    const { html } = await openConsole(`/attempts?account=${account}&end=connected`);
    expect(html).to.include('No results.');
  });
});
