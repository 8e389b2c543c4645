import { expect } from 'chai';
import { decodeJwt } from 'jose';
import type { Level } from '../../src/permission-levels.ts';
import {
  isConsentPage,
  openBrowser,
  requireExternalRedirect,
  requirePage,
} from '../support/browser.ts';
import { connect, redeem, registerClient, requestAuthorization } from '../support/connection.ts';
import { createConnector } from '../support/management-api.ts';
import { authorizeUrl, discover } from '../support/oauth.ts';
import { onEachStore } from '../support/system.ts';

const LEVELS: readonly Level[] = ['full', 'analytics', 'operations'];
const ROUNDS = 3;

onEachStore('Consent pages of one browser that are sent at the same time', (system) => {
  it('CON-25 each page decides its own authorization, and none is lost', async () => {
    const browser = openBrowser(system().origins);
    await connect(system(), await createConnector(system()), { as: { browser } });
    for (let round = 0; round < ROUNDS; round += 1) {
      const pages = [];
      for (const level of LEVELS) {
        const { link } = await createConnector(system(), { level: 'full' });
        const { url, verifier, state, server, client } = await requestAuthorization(system(), {
          link,
        });
        const page = requirePage(await browser.visit(url));
        pages.push({ link, server, client, verifier, state, level, page });
      }
      const answers = await Promise.all(
        pages.map(({ page, level }) => browser.submit(page, { decision: 'approve', level })),
      );
      for (const [n, { link, server, client, verifier, state, level }] of pages.entries()) {
        const callback = requireExternalRedirect(answers[n] as (typeof answers)[number]);
        expect(callback.searchParams.get('state')).to.equal(state);
        const { body } = await redeem({ link, server, client, callback, verifier });
        const { aud, scope, client_id: id } = decodeJwt(String(body.access_token));
        expect({ aud, scope, id }).to.deep.equal({ aud: link, scope: level, id: client.id });
      }
    }
  });

  it('CON-25 one page is approved and another denied', async () => {
    const browser = openBrowser(system().origins);
    const connector = await createConnector(system());
    await connect(system(), connector, { as: { browser } });
    const { server } = await discover(connector.link);
    const open = async () => {
      const client = await registerClient(server);
      return requirePage(
        await browser.visit(authorizeUrl(server, client, { resource: connector.link }).url),
      );
    };
    const [approved, denied, later] = [await open(), await open(), await open()];
    const [first, second] = await Promise.all([
      browser.submit(approved, { decision: 'approve' }),
      browser.submit(denied, { decision: 'deny' }),
    ]);
    expect(requireExternalRedirect(first).searchParams.has('code')).to.equal(true);
    expect(requireExternalRedirect(second).searchParams.get('error')).to.equal('access_denied');
    expect(isConsentPage(requirePage(await browser.visit(later.url)))).to.equal(true);
  });
});
