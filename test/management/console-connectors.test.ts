import { expect } from 'chai';
import { type Page, requirePage } from '../support/browser.ts';
import type { Connector } from '../../src/links/connector.ts';
import { KEEP } from '../../src/store/store.ts';
import { advanceClock, restoreClock } from '../support/clock.ts';
import { connect } from '../support/connection.ts';
import { formTokenIn, useConsole } from '../support/console.ts';
import {
  createConnector,
  requestManagement,
  revokeConnector,
  showConnector,
} from '../support/management-api.ts';
import { openSystemStore } from '../support/system-store.ts';

describe('the console', () => {
  const { system, signIn, open, send, audited } = useConsole();

  describe('connectors', () => {
    /** The text of each <pre> sample. */
    function samplesIn({ html }: Page): string[] {
      const samples = [...html.matchAll(/<pre [^>]*><bdi[^>]*>([^<]*)<\/bdi>/g)];
      return samples.map(([, text = '']) => text.replaceAll('&#34;', '"'));
    }

    it('CSL-10 the form creates a connector and the page says how to connect with it', async () => {
      const { browser, page } = await signIn('/connectors/new');
      const made = requirePage(
        await browser.submit(page, { name: 'Ops team', level: 'admin', maxUses: '5', days: '30' }),
      );
      expect(made.url.pathname).to.match(/^\/console\/connectors\/[A-Za-z0-9]{22}$/);
      const id = made.url.pathname.slice(-22);
      const connector = await showConnector(system(), id);
      expect(connector).to.include({ name: 'Ops team', level: 'admin', maxUses: 5 });
      expect(connector['expiresAt']).to.be.a('string');
      const { link } = connector;
      for (const text of [
        link,
        `claude mcp add --transport http ops-team ${link}`,
        '.vscode/mcp.json',
        '.cursor/mcp.json',
        'mcp-remote',
        '>0 of 5<',
        `${system().auth}/account`,
      ])
        expect(made.html).to.include(text);
      const [item] = (await audited('connector_created')).slice(-1);
      const [entry] = (await audited('console_sign_in')).slice(-1);
      expect(item).to.include({ connector: id, by: `account:${entry?.account}` });
    });

    it('with one identity provider, the form says how the console shows groups', async () => {
      const { page } = await signIn('/connectors/new');
      expect(page.html)
        .to.include('The console shows a group as group:name@provider.')
        .and.not.include('add @ and its identity provider');
    });

    it('the form creates a connector that suggests a lower level, and its page shows it', async () => {
      const { browser, page } = await signIn('/connectors/new');
      const fields = { name: 'Desk', level: 'admin', suggestedLevel: 'analytics' };
      const made = requirePage(await browser.submit(page, fields));
      const connector = await showConnector(system(), made.url.pathname.slice(-22));
      expect(connector).to.include(fields);
      expect(made.html).to.match(/Suggested access<\/dt><dd>Totals only/);
    });

    it('the form creates a connector for some people, and its page and the list show them', async () => {
      const { browser, page } = await signIn('/connectors/new');
      const audience = ' email:Ada@example.com\r\n\r\ngroup:analysts \r\n';
      const fields = { name: 'For some', level: 'admin', audience };
      const made = requirePage(await browser.submit(page, fields));
      const connector = await showConnector(system(), made.url.pathname.slice(-22));
      expect(connector['audience']).to.deep.equal([
        { email: 'ada@example.com' },
        { group: 'analysts', provider: 'development' },
      ]);
      expect(made.html)
        .to.include('Who can connect</dt>')
        .and.include('group:analysts@development');
      expect((await signIn()).page.html).to.match(/email:ada@example\.com<\/bdi> and 1 more/);
    });

    describe('with the same settings as another one', () => {
      /** The values of the form, as a browser sends them with its first button. */
      const entriesIn = ({ forms }: Page) => {
        const [form] = forms.filter(({ action }) => action.pathname === '/console/connectors');
        const controls = form?.controls ?? [];
        return Object.fromEntries(
          controls
            .filter(({ name }) => !['token', 'idempotencyKey', 'preview'].includes(name))
            .map(({ name, value }) => [name, value]),
        );
      };

      it('the link on the page of a connector leads to the form with its settings, which creates an equal one', async () => {
        const wanted = {
          name: 'Front desk & bar',
          level: 'admin',
          suggestedLevel: 'analytics',
          audience: [{ email: 'ada@example.com' }, { group: 'analysts', provider: 'development' }],
          tools: ['club_*', '!prompt:brief'],
          maxUses: 7,
          calls: '500/1d',
        };
        const { id } = (await requestManagement(system(), 'POST', '/connectors', {
          ...wanted,
          expiresIn: '45d',
        })) as { id: string };
        const { browser, page } = await signIn(`/connectors/${id}`);
        expect(page.html)
          .to.include(`href="/console/connectors/new?from=${id}"`)
          .and.include('New connector with the same settings');
        const form = await open(browser, `/connectors/new?from=${id}`);
        expect(entriesIn(form)).to.deep.equal({
          name: 'Front desk & bar',
          level: 'admin',
          suggestedLevel: 'analytics',
          audience: 'email:ada@example.com\ngroup:analysts@development',
          tools: 'club_*\n!prompt:brief',
          maxUses: '7',
          calls: '500/1d',
          days: '45',
        });
        const made = requirePage(await browser.submit(form, { level: 'admin' }));
        const copy = await showConnector(system(), made.url.pathname.slice(-22));
        expect(copy.id).to.not.equal(id);
        expect(copy).to.deep.include(wanted);
        const seconds = (key: string) => Date.parse(String(copy[key])) / 1000;
        expect(seconds('expiresAt') - seconds('createdAt')).to.be.closeTo(45 * 86_400, 2);
      });

      it('the link is on the pages of used-up, expired and revoked connectors too', async () => {
        const created = { name: 'Over', level: 'analytics' } as const;
        const soon = new Date(Date.now() + 60_000).toISOString();
        const expired = await createConnector(system(), { ...created, expiresAt: soon });
        const usedUp = await createConnector(system(), { ...created, maxUses: 1 });
        await connect(system(), usedUp);
        const revoked = await createConnector(system(), created);
        await revokeConnector(system(), revoked.id);
        advanceClock(120);
        try {
          const { browser } = await signIn();
          for (const [{ id }, state] of [
            [expired, 'Expired'],
            [usedUp, 'Maximum reached'],
            [revoked, 'Revoked'],
          ] as const) {
            const { html } = await open(browser, `/connectors/${id}`);
            expect(html).to.include(`>${state}<`).and.include(`/console/connectors/new?from=${id}`);
          }
          const { days } = entriesIn(await open(browser, `/connectors/new?from=${expired.id}`));
          expect(days, 'less than a day').to.equal('1');
          const { days: none } = entriesIn(
            await open(browser, `/connectors/new?from=${usedUp.id}`),
          );
          expect(none, 'without an expiry').to.equal('');
        } finally {
          restoreClock();
        }
      });

      it('an unknown id, and a level or server that the settings do not have, fall back to the defaults, and the page says so', async () => {
        const { browser, page } = await signIn('/connectors/new');
        const defaults = entriesIn(page);
        for (const from of ['AAAAAAAAAAAAAAAAAAAAAA', 'x', '', encodeURIComponent('../<b>')]) {
          const form = await open(browser, `/connectors/new?from=${from}`);
          expect([form.status, entriesIn(form)]).to.deep.equal([200, defaults]);
          expect(form.html).to.not.include('id="partial"');
        }
        const gone = await createConnector(system(), { name: 'Gone', suggestedLevel: 'analytics' });
        const { store } = await openSystemStore(system());
        try {
          await store.update<Connector>(`connector:${gone.id}`, (current) =>
            current
              ? { value: { ...current, level: 'root', upstream: 'tickets' }, ttl: Infinity }
              : KEEP,
          );
        } finally {
          await store.close();
        }
        const form = await open(browser, `/connectors/new?from=${gone.id}`);
        expect(form.status).to.equal(200);
        expect(entriesIn(form)).to.deep.equal({ ...defaults, name: 'Gone' });
        expect(form.html)
          .to.include('id="partial"')
          .and.include('is no longer in the settings file. Check the MCP server');
      });
    });

    it('the instructions show complete files line by line', async () => {
      const { id, link } = await createConnector(system(), { name: 'Ops "team"' });
      const { page } = await signIn(`/connectors/${id}`);
      const [, vsCode, cursor, , , bridge] = samplesIn(page);
      const server = { type: 'http', url: link };
      expect(JSON.parse(vsCode ?? '')).to.deep.equal({ servers: { 'ops-team': server } });
      expect(JSON.parse(cursor ?? '')).to.have.nested.property('mcpServers.ops-team.url', link);
      expect(JSON.parse(bridge ?? '').mcpServers['ops-team'].args).to.include(link);
      expect(vsCode?.split('\n')).to.include('  "servers": {');
    });

    it('commands and files use the connector name in ASCII letters', async () => {
      const { id, link } = await createConnector(system(), { name: 'École & Büro' });
      const { page } = await signIn(`/connectors/${id}`);
      expect(page.html).to.include(`claude mcp add --transport http ecole-buro ${link}`);
    });

    it('CSL-07 a form that is sent twice creates one connector', async () => {
      const { browser, page } = await signIn('/connectors/new');
      const before = (await audited('connector_created')).length;
      for (const _ of [1, 2]) await browser.submit(page, { name: 'Once', level: 'analytics' });
      expect((await audited('connector_created')).length).to.equal(before + 1);
    });

    it('an invalid form is shown again with its values, and the problem is described at its field', async () => {
      const { browser, page } = await signIn('/connectors/new');
      const wrong = [
        [{ name: ' ', level: 'full' }, 'Enter a name of 1 to 80', 'name'],
        [
          { name: 'Kept', level: 'full', maxUses: '0' },
          'Maximum connections must be between',
          'uses',
        ],
        [
          { name: 'Kept', level: 'full', maxUses: 'x' },
          'Maximum connections must be between',
          'uses',
        ],
        [{ name: 'Kept', level: 'full', days: '-1' }, 'Enter a whole number of days', 'days'],
        [
          { name: 'Kept', level: 'admin', suggestedLevel: 'full' },
          'The suggested access can’t be higher',
          'suggested',
        ],
        [
          { name: 'Kept', level: 'full', audience: 'ada@example.com' },
          'Under “Who can connect”, start each line',
          'audience',
        ],
        [
          { name: 'Kept', level: 'full', audience: 'email:ada' },
          'Under “Who can connect”, start each line',
          'audience',
        ],
        [
          { name: 'Kept', level: 'full', audience: 'group:x@okta' },
          '>group:x@okta</textarea>',
          'audience',
        ],
        [{ name: 'Kept', level: 'root' }, 'Check the values', undefined],
      ] as const;
      for (const [fields, text, field] of wrong) {
        const answer = requirePage(await browser.submit(page, fields));
        expect(answer.status, JSON.stringify(fields)).to.equal(400);
        expect(answer.html).to.include(text);
        if (fields.name === 'Kept') expect(answer.html).to.include('value="Kept"');
        const faults = [...answer.html.matchAll(/<p class="fault" id="(\w+)-fault">/g)];
        expect(faults.map(([, id]) => id)).to.deep.equal(field ? [field] : []);
        if (field)
          expect(answer.html).to.match(
            new RegExp(
              ` id="${field}"[^>]* aria-invalid="true"[^>]* aria-describedby="${field}-fault `,
            ),
          );
      }
    });

    it('CSL-10 a connector is revoked and then deleted, each recorded with the administrator', async () => {
      const { id } = await createConnector(system(), { name: 'To be ended' });
      const { browser, page } = await signIn(`/connectors/${id}`);
      const token = formTokenIn(page);
      const revoked = await send(browser, page, `/connectors/${id}/revoke`, { token });
      expect(revoked.html).to.include('Revoked').and.not.include('claude mcp add');
      expect((await showConnector(system(), id)).state).to.equal('revoked');
      const gone = await send(browser, revoked, `/connectors/${id}/delete`, { token });
      expect(gone.url.pathname).to.equal('/console/connectors');
      expect(gone.html)
        .to.include('The connector “<bdi class="fact">To be ended</bdi>” was deleted.')
        .and.not.include(`/console/connectors/${id}`);
      const another = await open(browser, '/connectors?done=deleted&about=another');
      expect(another.html).to.include('Connector deleted.');
      for (const event of ['connector_revoked', 'connector_deleted']) {
        const [item] = (await audited(event)).slice(-1);
        expect(item).to.include({ connector: id });
        expect(item?.['by']).to.match(/^account:[\w-]{27}$/);
      }
    });
  });
});
