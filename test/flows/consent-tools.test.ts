import { expect } from 'chai';
import { textOf } from '../support/account-page.ts';
import { SAMPLE_WORDS } from '../support/consent.ts';
import { advanceClock, restoreClock } from '../support/clock.ts';
import { createConnector, requestManagement } from '../support/management-api.ts';
import { openConsent } from '../support/connection.ts';
import { startSystem, type System } from '../support/system.ts';
import { until } from '../support/until.ts';
import {
  type ChangingUpstream,
  type ListedTool,
  startChangingV2,
} from '../support/upstream/changing-upstream.ts';

const READ = { readOnlyHint: true };
const ADD = { readOnlyHint: false, destructiveHint: false };
const TOOLS: ListedTool[] = [
  { name: 'search', title: 'Search <tickets>', annotations: READ },
  { name: 'show', annotations: { ...READ, title: 'Show a ticket' } },
  { name: 'comment', title: 'Comment on a ticket', annotations: ADD },
  ...Array.from({ length: 6 }, (_, n) => ({ name: `remove-${n}`, title: `Remove ${n}` })),
];

describe('The tools on the consent page', () => {
  let upstream: ChangingUpstream;
  let system: System;
  let link: string;
  before(async () => {
    upstream = await startChangingV2(TOOLS);
    system = await startSystem({
      file: {
        levels: [{ id: 'read' }, { id: 'write' }, { id: 'full' }],
        entitlements: [{ match: { subject: 'ada' }, level: 'full' }],
        resourceServer: { upstream: { url: upstream.url, toolLevels: 'annotations' } },
      },
    });
    upstream.trustIssuer(system.auth);
    link = (await createConnector(system, { name: 'Desk', level: 'full' })).link;
    await untilKnown('show');
  });
  after(async () => {
    restoreClock();
    await system.stop();
    await upstream.close();
  });

  async function untilKnown(tool: string): Promise<void> {
    await until(`${tool} to be known`, async () => {
      const { items } = (await requestManagement(system, 'GET', '/upstreams')) as {
        items: { tools: { name: string }[] }[];
      };
      return items.some(({ tools }) => tools.some(({ name }) => name === tool));
    });
  }

  /** The process reads the tools only if it last did so more than five seconds ago. */
  async function changeTools(tools: ListedTool[], last: string): Promise<void> {
    advanceClock(6);
    await upstream.setTools(tools);
    await untilKnown(last);
  }

  /** The titles that the page shows at each level, the collapsed ones after a `…`. */
  async function shownTools(): Promise<Record<string, string[]>> {
    const { page } = await openConsent(system, { link });
    const [, ...levels] = page.html.split('<div class="level">');
    return Object.fromEntries(
      levels.map((html) => {
        const [level = ''] = /(?<=value=")\w+/.exec(html) ?? [];
        const [open = '', rest] = html.split('</fieldset>')[0]?.split('<details') ?? [];
        const titles = (part: string) =>
          [...part.matchAll(/<bdi class="tool">(.*?)<\/bdi>/g)].map(([, title = '']) => title);
        return [level, [...titles(open), ...(rest === undefined ? [] : ['…', ...titles(rest)])]];
      }),
    );
  }

  it('each level lists the titles of the tools that it opens, the highest first, collapsed below the first three', async () => {
    const removing = Array.from({ length: 6 }, (_, n) => `Remove ${n}`);
    const reading = ['Search &lt;tickets&gt;', 'Show a ticket'];
    expect(await shownTools()).to.deep.equal({
      read: ['…', ...reading],
      write: ['…', 'Comment on a ticket', ...reading],
      full: ['…', ...removing, 'Comment on a ticket', ...reading],
    });
    const { html } = (await openConsent(system, { link })).page;
    const titles = ['Remove 0', 'Remove 1', 'Remove 2'].map((title) => `<bdi>${title}</bdi>`);
    expect(html).to.include(`${titles.join(' · ')} · 6 more tools</p>`);
  });

  it('CON-26 an approval of a page whose tools changed meanwhile shows the page again', async () => {
    const { decide } = await openConsent(system, { link });
    const list = { name: 'list', title: 'List queues', annotations: READ };
    await changeTools([...TOOLS, list], 'list');
    expect(JSON.stringify(await shownTools())).to.include('List queues');
    const again = await decide({ decision: 'approve', level: 'read' });
    if (!('html' in again)) throw new Error('the approval was accepted');
    expect(again.status).to.equal(409);
    expect(again.html).to.contain('List queues');
  });

  for (const language of ['de', 'en', 'es', 'fr', 'ja', 'pt'])
    it(`the neutral texts contain no word about the sample (${language})`, async () => {
      const { browser, again } = await openConsent(system, { link });
      const url = again();
      url.searchParams.set('ui_locales', language);
      const { html } = await browser.openConsent(url);
      expect(html).to.contain(`<html lang="${language}"`);
      expect(html).to.match(/(Level|Stufe|Nivel|Niveau|レベル|Nível) write/);
      expect(textOf({ html })).to.not.match(SAMPLE_WORDS);
    });

  it('CON-26 the page stays small whatever the upstream lists, and counts what it does not list', async () => {
    const hostile = { name: `\u202E${'x'.repeat(500)}` };
    const many = Array.from({ length: 1900 }, (_, n) => ({ name: `${n}-`.padEnd(512, 'x') }));
    await changeTools([hostile, ...many], '1899-'.padEnd(512, 'x'));
    const { html } = (await openConsent(system, { link })).page;
    expect(html).to.include('>0-xxx');
    expect(html.length).to.be.below(200_000);
    expect(html).to.include(' · 1,898 more tools</p>');
    expect(html).to.not.include('\u202E');
    expect(html).to.include(`\uFFFD${'x'.repeat(119)}…</bdi>`);
  });
});
