import { expect } from 'chai';
import {
  type Browser,
  openBrowser,
  type Page,
  type Person,
  requireExternalRedirect,
  requirePage,
  type Step,
} from '../support/browser.ts';
import { type Connection, openConsent } from '../support/connection.ts';
import { createConnector } from '../support/management-api.ts';
import { call } from '../support/mcp.ts';
import { createDeployment, startDeployment, startSystem, type System } from '../support/system.ts';

const CALL = {
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name: 'list_datasets', arguments: {} },
};
const LIST = { jsonrpc: '2.0', id: 1, method: 'tools/list' };

/** Cookies are not separate by port, so the two systems need two hosts. */
async function startOnOtherHost(): Promise<System> {
  const place = await createDeployment();
  const moved = <T extends Record<string, unknown>>(values: T): T =>
    JSON.parse(JSON.stringify(values).replaceAll('//localhost:', '//127.0.0.1:'));
  const deployment = {
    ...place,
    facts: moved(place.facts),
    environment: moved(place.environment),
  };
  const system = await startDeployment(deployment);
  return {
    ...system,
    async stop() {
      await system.stop();
      await place.release();
    },
  };
}

/** A Gatehouse in front of the connect link of another one, where people have accounts of their own. */
describe("The person's own account at an MCP server that another Gatehouse protects", () => {
  let inner: System;
  let outer: System;
  let innerLink: string;
  let link: string;

  before(async function start() {
    inner = await startOnOtherHost();
    ({ link: innerLink } = await createConnector(inner, { name: 'Inner figures' }));
    outer = await startSystem({
      file: {
        resourceServer: {
          upstream: {
            url: innerLink,
            name: 'Figures',
            defaultLevel: 'analytics',
            credential: { kind: 'oauth' },
          },
        },
      },
    });
    ({ link } = await createConnector(outer, { name: 'Outer' }));
  });
  after(async () => {
    await outer?.stop();
    await inner?.stop();
  });

  /** Signs in and approves at the inner Gatehouse, until the browser is at the outer one again. */
  async function approveInside(page: Page, browser: Browser) {
    expect(page.url.origin).to.be.oneOf(inner.origins);
    const consent = await browser.openConsent(page.url, 'ada');
    return browser.submit(consent, { decision: 'approve' });
  }

  async function connectWith(
    person: Person,
    complete: (asked: Page, browser: Browser) => Promise<Step>,
  ): Promise<Connection> {
    const browser = openBrowser([...outer.origins, ...inner.origins]);
    const opened = await openConsent(outer, { link }, { as: { browser }, person });
    const asked = requirePage(await opened.decide({ decision: 'approve' }));
    const callback = requireExternalRedirect(await complete(asked, browser));
    const { body } = await opened.redeem(callback, { resource: link });
    const { link: _, server, client } = opened;
    return {
      link,
      server,
      client,
      browser,
      accessToken: String(body.access_token),
      refreshToken: body.refresh_token,
      scope: body.scope,
    };
  }

  it('after the approval the person connects the account, and calls are made with it', async () => {
    const { accessToken } = await connectWith('ada', async (asked, browser) => {
      expect(asked.html).to.contain('Connect your');
      const away = requirePage(await browser.submit(asked, { credential: 'now' }));
      return approveInside(away, browser);
    });
    const { status, rpc, text } = await call(link, accessToken, LIST);
    expect(status, text).to.equal(200);
    expect(rpc?.result?.tools?.length).to.be.above(0);
  });

  it('without the account the only answer to a call is the address where to connect it', async () => {
    const { accessToken } = await connectWith('grace', (asked, browser) =>
      browser.submit(asked, { credential: 'later' }),
    );
    const { rpc } = await call(link, accessToken, CALL);
    expect(rpc?.result?.isError).to.equal(true);
    expect(rpc?.result?.content?.[0]?.text).to.contain(`${outer.auth}/credentials/default?for=`);
  });
});
