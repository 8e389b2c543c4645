import { expect } from 'chai';
import { formTokenOf } from '../support/account-page.ts';
import { openBrowser, requirePage } from '../support/browser.ts';
import { openConsent } from '../support/connection.ts';
import {
  type Connected,
  openAddress,
  textOf,
  UPSTREAM,
  usePersonalUpstream,
} from '../support/credentials/system.ts';

const SCOPES = { analytics: ['read'], operations: ['list'], full: ['admin'] };
const OF_LEVEL = ['read', 'list'];

describe('An MCP server that needs more scopes than the person has given', () => {
  const { service, system, link, connectAs } = usePersonalUpstream({
    kind: 'oauth',
    scopes: SCOPES,
  });
  let ada: Connected;

  before(async () => {
    service().grants = (asked) => asked.filter((scope) => scope !== 'list');
    ada = await connectAs('ada');
  });
  afterEach(() => {
    service().needs = [];
  });

  const lastAsked = () => service().authorizations.at(-1)?.get('scope')?.split(' ');

  it('at the approval the scopes of its level are asked for', () => {
    expect(lastAsked()).to.deep.equal(OF_LEVEL);
  });

  it('its own page asks for the scopes of the levels of the connections, and not of the highest level', async () => {
    const account = requirePage(await ada.browser.visit(`${system().auth}/account`));
    await ada.browser.submit(account, { upstream: UPSTREAM, decision: 'end-credential' });
    const page = await openAddress(await ada.call(), ada.browser);
    expect(page.html).to.contain('list').and.not.contain('admin');
    await ada.browser.submit(page, { credential: 'now' });
    expect(lastAsked()).to.deep.equal(OF_LEVEL);
    expect(textOf(await ada.call())).to.equal('ada');
  });

  it('CRD-34 a form with a level that the page did not offer is refused before the service is asked for anything', async () => {
    const browser = openBrowser([...system().origins, service().origin]);
    const { page } = await openConsent(
      system(),
      { link: link() },
      {
        as: { browser },
        person: 'grace',
      },
    );
    const before = service().authorizations.length;
    const body = new URLSearchParams({
      token: formTokenOf(page),
      decision: 'approve',
      level: 'full',
      credential: 'now',
    });
    const refused = requirePage(await browser.post(page, new URL(page.url), body));
    expect(refused.status).to.equal(400);
    expect(service().authorizations).to.have.length(before);
  });

  it('a scope beyond the level is not asked for', async () => {
    service().needs = ['read', 'admin'];
    expect((await ada.call()).text).to.not.contain('/credentials/');
  });

  it('the granted and the missing scopes are asked for together, once, and the account stays connected meanwhile', async () => {
    service().needs = ['list'];
    for (const _ of [1, 2]) {
      const text = textOf(await ada.call());
      expect(text).to.contain('needs more access').and.contain('/credentials/tools?for=');
    }
    const asked = await ada.call();
    service().needs = [];
    expect(textOf(await ada.call())).to.equal('ada');
    service().needs = ['list'];
    // The person does not give it.
    const page = await openAddress(asked, ada.browser);
    await ada.browser.submit(page, { credential: 'now' });
    expect(lastAsked()).to.deep.equal(OF_LEVEL);
    expect((await ada.call()).text).to.not.contain('/credentials/');
  });

  it('after the person gave it the same call succeeds', async () => {
    const grace = await connectAs('grace');
    service().user = 'grace';
    service().needs = ['list'];
    const page = await openAddress(await grace.call(), grace.browser);
    service().grants = (given) => given;
    await grace.browser.submit(page, { credential: 'now' });
    expect(textOf(await grace.call())).to.equal('grace');
  });
});
