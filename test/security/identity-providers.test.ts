// Several identity providers, seen from outside: the choice, what is remembered of it, and that no answer counts for another provider (RFC 9700 section 4.4).
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { createConnector, type Connector } from '../support/administrator.ts';
import {
  asksConsent,
  type Browser,
  describePage,
  openBrowser,
  type Page,
  requireDeparture,
  requirePage,
  type Step,
} from '../support/browser.ts';
import { redeem, registerClient } from '../support/connection.ts';
import { freePorts } from '../support/free-ports.ts';
import { type Github, GITHUB_CLIENT, startGithub } from '../support/github.ts';
import { authorizeUrl, type Client, discover, type Server } from '../support/oauth.ts';
import {
  OPENID_CLIENT,
  type OpenIdProvider,
  startOpenIdProvider,
} from '../support/openid-provider.ts';
import { startSystem, type System } from '../support/system.ts';

const PERSON = { sub: '583231', name: 'Ada', email: 'ada@example.com', email_verified: true };
const COOKIE = 'gatehouse-provider';

describe('Several identity providers', () => {
  let example: OpenIdProvider;
  let partners: OpenIdProvider;
  let github: Github;
  let system: System;
  let connector: Connector;
  let server: Server;
  let client: Client;
  before(async () => {
    [example, partners] = await Promise.all([startOpenIdProvider(), startOpenIdProvider()]);
    github = await startGithub();
    const [nobodyThere = 0] = await freePorts(1);
    const away = { id: 'away', name: 'Away', issuer: `http://127.0.0.1:${nobodyThere}` };
    system = await startSystem({
      settings: { GATEHOUSE_DEVELOPMENT_IDP_URL: '' },
      file: {
        developmentIdp: undefined,
        identityProviders: [
          {
            id: 'example',
            name: 'Example Corp',
            issuer: example.issuer,
            emailDomains: ['example.com'],
            ...OPENID_CLIENT,
          },
          { id: 'partners', name: 'Partners', issuer: partners.issuer, ...OPENID_CLIENT },
          {
            id: 'github',
            kind: 'github',
            name: 'GitHub',
            issuer: github.issuer,
            organizations: true,
            ...GITHUB_CLIENT,
          },
          { ...away, emailDomains: ['away.example'], ...OPENID_CLIENT },
        ],
        management: { administrators: [{ subject: PERSON.sub, provider: 'github' }] },
        entitlements: [
          { match: { group: 'analysts', provider: 'partners' }, level: 'full' },
          { match: { emailDomain: 'example.com' }, level: 'operations' },
        ],
      },
    });
    connector = await createConnector(system, { level: 'full' });
    ({ server } = await discover(connector.link));
    client = await registerClient(server);
  });
  beforeEach(() => {
    for (const provider of [example, partners]) provider.behave({ claims: PERSON });
    github.behave({});
  });
  after(async () => {
    await system?.stop();
    await Promise.all([example, partners, github].map((provider) => provider.stop()));
  });

  const newBrowser = () => openBrowser([system.auth]);
  const isChoice = (page: Page) => /name="provider"/.test(page.html);
  const remembered = ({ jar }: Browser) => jar.find(({ name }) => name === COOKIE)?.value;

  /** `more` are parameters of the authorization request. */
  async function arrive(browser: Browser, more: Record<string, string> = {}) {
    const parameters = { resource: connector.link, scope: 'full' };
    const { url, verifier } = authorizeUrl(server, client, parameters);
    for (const [name, value] of Object.entries(more)) url.searchParams.set(name, value);
    return { step: await browser.visit(url), verifier };
  }

  async function choose(browser: Browser, page: Page, id: string): Promise<Step> {
    expect(isChoice(page), describePage(page)).to.equal(true);
    return browser.submit(page, { provider: id });
  }

  /** Where the provider sends the browser back to. */
  function comeBack(id: string, departure: URL): URL {
    if (id === 'github') return github.approve(departure);
    // An ID token of the other one would be for this sign-in, too.
    partners.approve(departure);
    return example.approve(departure);
  }

  async function signIn(browser: Browser, id: string) {
    const { step, verifier } = await arrive(browser);
    const departure = requireDeparture(await choose(browser, requirePage(step), id));
    return { page: requirePage(await browser.visit(comeBack(id, departure))), verifier };
  }

  async function tokenOf(id: string) {
    const browser = newBrowser();
    const { page, verifier } = await signIn(browser, id);
    expect(asksConsent(page), describePage(page)).to.equal(true);
    const callback = requireDeparture(await browser.submit(page, { decision: 'approve' }));
    const { body } = await redeem({ link: connector.link, server, client, callback, verifier });
    return decodeJwt(body.access_token ?? '');
  }

  async function expectRefused(browser: Browser, url: URL, status: number) {
    const page = requirePage(await browser.visit(url));
    expect(page.status, describePage(page)).to.equal(status);
    expect(asksConsent(page)).to.equal(false);
    return page;
  }

  it('are a choice, in the order of the settings, and each has a callback of its own', async () => {
    for (const id of ['example', 'partners', 'github']) {
      const browser = newBrowser();
      const page = requirePage((await arrive(browser)).step);
      const names = [...page.html.matchAll(/name="provider" value="(\w+)"/g)].map(([, n]) => n);
      expect(names).to.deep.equal(['example', 'partners', 'github', 'away']);
      expect(page.headers.get('cache-control')).to.equal('no-store');
      const { searchParams } = requireDeparture(await choose(browser, page, id));
      expect(searchParams.get('redirect_uri')).to.equal(
        `${system.auth}/interaction/callback/${id}`,
      );
    }
  });

  it('each sign people in, whom the consent page tells which it was', async () => {
    for (const [id, name] of [
      ['example', 'Example Corp'],
      ['partners', 'Partners'],
      ['github', 'GitHub'],
    ] as const) {
      const { page } = await signIn(newBrowser(), id);
      expect(asksConsent(page), describePage(page)).to.equal(true);
      expect(page.html).to.match(new RegExp(`ada@example\\.com.*${name}`));
    }
  });

  it('IDP-04 have accounts of their own: the same subject and address at two is two people', async () => {
    const subjects = [];
    for (const id of ['example', 'partners', 'github', 'example'])
      subjects.push((await tokenOf(id)).sub);
    expect(new Set(subjects).size).to.equal(3);
    expect(subjects[3]).to.equal(subjects[0]);
  });

  it('IDP-08 are believed about their own groups only', async () => {
    for (const provider of [example, partners])
      provider.behave({ claims: { ...PERSON, groups: ['analysts'] } });
    github.behave({ organizations: ['analysts'] });
    const levels = [];
    for (const id of ['example', 'partners', 'github']) levels.push((await tokenOf(id)).scope);
    expect(levels).to.deep.equal(['operations', 'full', 'operations']);
  });

  it('IDP-03 get no code of another: an answer at another’s callback is refused, and the right one still counts', async () => {
    const browser = newBrowser();
    const page = requirePage((await arrive(browser)).step);
    const departure = requireDeparture(await choose(browser, page, 'example'));
    const right = comeBack('example', departure);
    const exchanged = [example, partners, github].map(({ exchanges }) => exchanges.length);
    for (const [path, status] of [
      ['/interaction/callback/partners', 400],
      ['/interaction/callback/github', 400],
      ['/interaction/callback', 404],
      ['/interaction/callback/nobody', 404],
    ] as const)
      await expectRefused(browser, new URL(path + right.search, right), status);
    const flow = browser.visited.find(({ pathname }) => /^\/interaction\/[^/]+$/.test(pathname));
    for (const path of ['callback/partners', 'callback', 'callback/nobody'])
      await expectRefused(
        browser,
        new URL(`${flow?.pathname}/${path}${right.search}`, right),
        path === 'callback/partners' ? 400 : 404,
      );
    expect([example, partners, github].map(({ exchanges }) => exchanges.length)).to.deep.equal(
      exchanged,
    );
    expect(asksConsent(requirePage(await browser.visit(right)))).to.equal(true);
  });

  it('IDP-03 are refused when the answer names the issuer of another', async () => {
    for (const id of ['example', 'github']) {
      const browser = newBrowser();
      const page = requirePage((await arrive(browser)).step);
      const callback = comeBack(id, requireDeparture(await choose(browser, page, id)));
      callback.searchParams.set('iss', partners.issuer);
      await expectRefused(browser, callback, 400);
    }
  });

  it('IDP-02 sign nobody in with the ID token of another', async () => {
    partners.behave({ claims: { ...PERSON, iss: example.issuer } });
    const { page } = await signIn(newBrowser(), 'partners');
    expect([page.status, asksConsent(page)]).to.deep.equal([400, false]);
  });

  it('IDP-07 take no callback, and no provider, from a form of elsewhere or of nobody', async () => {
    const browser = newBrowser();
    const page = requirePage((await arrive(browser)).step);
    const [form] = page.forms;
    for (const [body, status] of [
      [{ provider: 'nobody' }, 404],
      [{}, 404],
    ] as const) {
      const sent = new URLSearchParams(body);
      const answer = requirePage(await browser.post(page, form!.action, sent));
      expect(answer.status).to.equal(status);
    }
    const evil = { ...page, url: new URL('https://evil.example/') };
    const sent = new URLSearchParams({ provider: 'example' });
    expect(requirePage(await browser.post(evil, form!.action, sent)).status).to.equal(403);
  });

  it('are not asked about when the app names an address at one of them, who is told', async () => {
    const browser = newBrowser();
    const departure = requireDeparture(
      (await arrive(browser, { login_hint: 'Ada@EXAMPLE.com' })).step,
    );
    expect(departure.origin).to.equal(example.issuer);
    expect(departure.searchParams.get('login_hint')).to.equal('Ada@EXAMPLE.com');
    for (const hint of [
      'ada@example.org',
      'ada',
      '@',
      'ada@example.com.evil.example',
      'a'.repeat(999),
    ])
      expect(
        isChoice(requirePage((await arrive(newBrowser(), { login_hint: hint })).step)),
      ).to.equal(true);
  });

  it('are told of an address only when it may be theirs', async () => {
    const browser = newBrowser();
    const page = requirePage((await arrive(browser, { login_hint: 'ada@example.org' })).step);
    const atGithub = requireDeparture(await choose(browser, page, 'github'));
    expect(atGithub.searchParams.get('login')).to.equal('ada@example.org');
    const away = requirePage((await arrive(newBrowser(), { login_hint: 'x@away.example' })).step);
    const other = newBrowser();
    const again = requirePage((await arrive(other, { login_hint: 'x@away.example' })).step);
    expect(isChoice(away)).to.equal(true);
    const atPartners = requireDeparture(await choose(other, again, 'partners'));
    expect(atPartners.searchParams.has('login_hint')).to.equal(false);
  });

  it('are remembered by a cookie with the name of the last one and nothing else', async () => {
    const browser = newBrowser();
    await signIn(browser, 'partners');
    expect(remembered(browser)).to.equal('partners');
    const { step } = await arrive(browser, { prompt: 'login' });
    const page = requirePage(step);
    const marked = (html: string) => /value="(\w+)"(?:(?!<\/button>)[^])*Used last time/.exec(html);
    expect(page.html.match(/Used last time/g)).to.have.length(1);
    expect(marked(page.html.slice(page.html.indexOf('value="partners"')))?.[1]).to.equal(
      'partners',
    );
    const departure = requireDeparture(await choose(browser, page, 'example'));
    expect(departure.searchParams.get('prompt')).to.equal('login');
    requirePage(await browser.visit(comeBack('example', departure)));
    expect(remembered(browser)).to.equal('example');
  });

  it('are not remembered when the sign-in there failed, and nothing is made of a forged cookie', async () => {
    const browser = newBrowser();
    const page = requirePage((await arrive(browser)).step);
    await choose(browser, page, 'away');
    expect(remembered(browser)).to.equal(undefined);
    await signIn(browser, 'partners');
    for (const value of ['nobody', '%3Cscript%3E', '']) {
      for (const cookie of browser.jar) if (cookie.name === COOKIE) cookie.value = value;
      const again = requirePage((await arrive(browser, { prompt: 'login' })).step);
      expect(again.status).to.equal(200);
      expect(again.html).to.not.match(/Used last time|<script/);
    }
  });

  it('may be changed by whoever wants another account', async () => {
    const browser = newBrowser();
    const { page } = await signIn(browser, 'example');
    const choice = requirePage(await browser.submit(page, { decision: 'switch' }));
    expect(choice.url.pathname).to.match(/^\/interaction\/[^/]+\/sign-in$/);
    const departure = requireDeparture(await choose(browser, choice, 'github'));
    expect(departure.searchParams.get('prompt')).to.equal('select_account');
    const consent = requirePage(await browser.visit(comeBack('github', departure)));
    expect(asksConsent(consent), describePage(consent)).to.equal(true);
    expect(consent.html).to.include('GitHub');
  });

  it('IDP-10 of which one is away: the choice says so, and the others work', async () => {
    const browser = newBrowser();
    const page = requirePage((await arrive(browser)).step);
    const told = requirePage(await choose(browser, page, 'away'));
    expect(told.status).to.equal(503);
    expect(told.headers.get('retry-after')).to.match(/^\d+$/);
    expect(told.html).to.match(/Away<\/[^>]+> ?cannot be reached|Away.{0,40}cannot be reached/);
    const departure = requireDeparture(await choose(browser, told, 'github'));
    const consent = requirePage(await browser.visit(comeBack('github', departure)));
    expect(asksConsent(consent)).to.equal(true);
  });

  it('IDP-06 of which one failed or was left on the way back: the choice says so, in our words', async () => {
    const browser = newBrowser();
    const page = requirePage((await arrive(browser)).step);
    const stopped = comeBack('partners', requireDeparture(await choose(browser, page, 'partners')));
    stopped.searchParams.delete('code');
    stopped.searchParams.set('error', 'access_denied');
    stopped.searchParams.set('error_description', '<script>canary');
    const told = requirePage(await browser.visit(stopped));
    expect([told.status, isChoice(told)]).to.deep.equal([400, true]);
    expect(told.html)
      .to.include('was not completed')
      .and.to.not.match(/canary|<script/);
    const next = comeBack('partners', requireDeparture(await choose(browser, told, 'partners')));
    partners.behave({ tokenStatus: 503 });
    const failed = requirePage(await browser.visit(next));
    expect([failed.status, isChoice(failed)]).to.deep.equal([503, true]);
    const last = comeBack('example', requireDeparture(await choose(browser, failed, 'example')));
    expect(asksConsent(requirePage(await browser.visit(last)))).to.equal(true);
  });

  it('IDP-08 make an administrator of the person whom the rule means, and not of the same subject elsewhere', async () => {
    for (const [id, status] of [
      ['github', 200],
      ['partners', 403],
    ] as const) {
      const browser = openBrowser([system.management]);
      const choice = requirePage(await browser.visit(`${system.management}/console`));
      expect(choice.html).to.include(`href="/console/sign-in/${id}"`);
      const departure = requireDeparture(
        await browser.visit(`${system.management}/console/sign-in/${id}`),
      );
      const back = comeBack(id, departure);
      expect(back.origin + back.pathname).to.equal(`${system.management}/console/callback/${id}`);
      expect(requirePage(await browser.visit(back)).status).to.equal(status);
    }
  });

  it('are chosen for the connected apps, too', async () => {
    const browser = newBrowser();
    const page = requirePage(await browser.visit(`${system.auth}/account`));
    const departure = requireDeparture(await choose(browser, page, 'github'));
    const back = comeBack('github', departure);
    const foreign = new URL(back.href.replace('/callback/github', '/callback/partners'));
    await expectRefused(browser, foreign, 400);
    const apps = requirePage(await browser.visit(back));
    expect([apps.status, apps.url.pathname]).to.deep.equal([200, '/account']);
    expect(apps.html).to.include('GitHub');
    const switching = requirePage(await browser.visit(`${system.auth}/account/sign-in`));
    const asked = requireDeparture(await choose(browser, switching, 'github'));
    expect(asked.searchParams.get('prompt')).to.equal('select_account');
  });
});
