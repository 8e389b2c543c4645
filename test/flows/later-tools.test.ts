import { expect } from 'chai';
import { openAccountPage, textOf } from '../support/account-page.ts';
import { openBrowser } from '../support/browser.ts';
import { advanceClock, restoreClock } from '../support/clock.ts';
import { connect } from '../support/connection.ts';
import { createConnector, requestManagement } from '../support/management-api.ts';
import { createDeployment, startDeployment, type System } from '../support/system.ts';
import { until } from '../support/until.ts';
import {
  type ListingUpstream,
  startListingUpstream,
  tool,
} from '../support/upstream/listing-upstream.ts';
import { readAgain } from '../support/upstream/read-again.ts';

const SENTENCE = 'Tools that were added after you allowed it, and that it can use too:';

describe('Tools that came after an approval', () => {
  let upstream: ListingUpstream;
  let system: System;
  let stop: () => Promise<void>;
  before(async () => {
    upstream = await startListingUpstream([tool('search_orders')]);
    const orders = { id: 'orders', url: upstream.url, defaultLevel: 'analytics' };
    const place = await createDeployment({ file: { resourceServer: { upstreams: [orders] } } });
    upstream.trustIssuer(place.facts.auth);
    system = await startDeployment(place);
    stop = async () => {
      restoreClock();
      await system.stop();
      await place.release();
    };
    await until('the first reading', async () => (await known()).includes('search_orders'));
  });
  after(async () => {
    await stop();
    await upstream.close();
  });

  async function known(): Promise<string[]> {
    const { tools } = (await requestManagement(system, 'GET', '/upstreams/orders')) as {
      tools: { name: string }[];
    };
    return tools.map(({ name }) => name);
  }

  const accountText = async () =>
    textOf(await openAccountPage(system, openBrowser(system.origins)));

  it('the account page names those that the app can use at its level, and no others', async () => {
    const link = await createConnector(system, { level: 'operations', tools: ['*', '!drop_*'] });
    await connect(system, link, { level: 'analytics' });
    expect(await accountText()).to.not.include(SENTENCE);
    advanceClock(10);
    upstream.list([
      tool('search_orders'),
      tool('find_orders', { title: 'Find' }),
      tool('drop_all'),
    ]);
    await readAgain(async () => (await known()).includes('find_orders'));
    // The catalog is stored before what the tools are.
    const text = await until('the page to name it', async () => {
      const shown = await accountText();
      return shown.includes(SENTENCE) && shown;
    });
    expect(text).to.include(`${SENTENCE} Find`);
    expect(text).to.not.include('drop_all').and.not.include('search_orders');
    advanceClock(10);
    await connect(system, link, { level: 'analytics' });
    // The app that was connected later had them from the start.
    expect((await accountText()).split(SENTENCE)).to.have.length(2);
  });
});
