// What a help desk asks about connected apps. Each question is answered in Chromium, from the overview, with at most three clicks; a search counts as one.
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import type { Page } from 'playwright-core';
import { type Browser, openBrowser, requirePage } from '../support/browser.ts';
import { addCookies, usePage } from '../support/chromium.ts';
import { type Company, startCompany } from '../support/console-data.ts';
import { requestManagement } from '../support/management-api.ts';
import { until } from '../support/until.ts';

const MOST = 3;

class Desk {
  clicks = 0;
  readonly #page: Page;

  constructor(page: Page) {
    this.#page = page;
  }

  async search(words: string): Promise<void> {
    await this.#page.getByRole('searchbox', { name: 'Search everything' }).fill(words);
    await Promise.all([this.#page.waitForURL(/search\?q=/), this.#page.keyboard.press('Enter')]);
    this.clicks += 1;
  }

  /** In the row of `beside` if there are several. */
  async click(link: string, beside?: string): Promise<void> {
    const all = beside === undefined ? this.#page : this.#page.locator('tr', { hasText: beside });
    await all.getByRole('link', { name: link, exact: true }).first().click();
    this.clicks += 1;
  }

  async open(summary: string, beside: string): Promise<void> {
    const row = this.#page.locator('tr', { hasText: beside }).first();
    await row.locator('summary', { hasText: summary }).click();
    this.clicks += 1;
  }

  /** What the page shows now. */
  text(): Promise<string> {
    return this.#page.locator('#content').innerText();
  }
}

describe('The ten questions of a help desk', () => {
  const tab = usePage();
  let company: Company;
  let reference: string;
  let administrator: Browser;
  before(async () => {
    company = await startCompany(5);
    const { system, connections } = company;
    administrator = openBrowser([...system.origins, system.management]);
    const signIn = requirePage(await administrator.visit(`${system.management}/console`));
    await administrator.submit(signIn, { person: 'ada' });
    type Attempts = { items: { reference?: string }[] };
    reference = await until('the attempt of a person without access', async () => {
      const { items } = (await requestManagement(
        system,
        'GET',
        '/attempts?end=refused',
      )) as Attempts;
      return items[0]?.reference;
    });
    const [, grace] = connections;
    const { jti: _jti, ...claims } = decodeJwt(grace?.accessToken ?? '');
    type Grants = { items: { id: string }[] };
    const { items } = (await requestManagement(
      system,
      'GET',
      `/grants?account=${String(claims.sub)}`,
    )) as Grants;
    await requestManagement(system, 'DELETE', `/grants/${items[0]?.id}`);
  });
  after(() => company.stop());

  async function desk(): Promise<Desk> {
    await addCookies(tab(), administrator.jar);
    await tab().goto(`${company.system.management}/console/overview`);
    return new Desk(tab());
  }

  const QUESTIONS: Record<string, { ask: (desk: Desk) => Promise<void>; answer: RegExp[] }> = {
    'A person read a page with a reference. Why did they get no access?': {
      ask: (desk) => desk.search(reference),
      answer: [/No entitlement in the settings file/, /alan\.turing@example\.com/],
    },
    'What may this person use, and through which rule?': {
      ask: async (desk) => {
        await desk.search('katherine');
        await desk.click('Katherine Johnson');
      },
      answer: [/Finance reports\s+Level admin\s+entitlements\[1\]/],
    },
    'Which groups of this person arrived, and when?': {
      ask: async (desk) => {
        await desk.search('katherine');
        await desk.click('Katherine Johnson');
      },
      answer: [/Groups, as they arrived\s+finance\s+staff/, /Last described by the provider/],
    },
    'Which apps has this person connected, and when were they last used?': {
      ask: (desk) => desk.search('edsger'),
      answer: [/Claude Code\s+Active\s+edsger\.dijkstra@example\.com/, /Last active/],
    },
    'Why did this person’s app stop working, and what helps?': {
      ask: async (desk) => {
        await desk.search('grace');
        await desk.click('Cursor', 'grace.hopper@example.com');
      },
      answer: [/An administrator ended the connection/, /connect the app again/],
    },
    'Who can use this tool, and through what?': {
      ask: async (desk) => {
        await desk.search('cancel_order');
        await desk.click('cancel_order');
      },
      answer: [/Operations/],
    },
    'Who is connected through this connector?': {
      ask: async (desk) => {
        await desk.click('Connectors');
        await desk.click('Finance reports');
      },
      answer: [/ada\.lovelace@example\.com/, /katherine\.johnson@example\.com/],
    },
    'Which of several apps with one name does this person use?': {
      ask: async (desk) => {
        await desk.search('ada lovelace claude');
        await desk.click('Claude Code', 'ada.lovelace@example.com');
      },
      answer: [/Ada Lovelace|ada\.lovelace@example\.com/, /Redirect host/],
    },
    'What did this person’s apps call last?': {
      ask: async (desk) => {
        await desk.search('katherine');
        await desk.click('Katherine Johnson');
        await desk.click('See calls only');
      },
      answer: [/called search_orders for Katherine Johnson/],
    },
    'Which token ends next?': {
      ask: async (desk) => {
        await desk.click('Tokens');
        await desk.click('Expires');
      },
      answer: [/Spreadsheet[\s\S]*Nightly report/],
    },
  };

  for (const [question, { ask, answer }] of Object.entries(QUESTIONS))
    it(`${question} The console answers with at most ${MOST} clicks.`, async () => {
      const asked = await desk();
      await ask(asked);
      const text = await until(
        'the answer',
        async () => {
          const shown = await asked.text();
          return answer.every((part) => part.test(shown)) && shown;
        },
        20,
      ).catch(() => asked.text());
      for (const part of answer) expect(text).to.match(part);
      expect(asked.clicks).to.be.at.most(MOST);
    });

  it('every list has a text for each heading, and is sorted by each in the address', async () => {
    await desk();
    const { management } = company.system;
    for (const list of [
      'connectors',
      'grants',
      'accounts',
      'clients',
      'rules',
      'tokens',
      'attempts',
    ]) {
      await tab().goto(`${management}/console/${list}`);
      expect(await tab().content(), list).to.not.match(/console\.\w+\.\w+/);
      const links = await tab().locator('.items thead a').all();
      const addresses = await Promise.all(links.map((link) => link.getAttribute('href')));
      expect(addresses.length, list).to.be.at.least(3);
      for (const address of addresses)
        expect(address, list).to.match(new RegExp(`^/console/${list}\\?sort=-?\\w+$`));
    }
    await tab().goto(`${management}/console/accounts?sort=-title`);
    const names = await tab().locator('.items h3').allInnerTexts();
    expect(names).to.deep.equal(names.toSorted().toReversed());
    expect(names[0]).to.equal('Katherine Johnson');
  });
});
