import { expect } from 'chai';
import { changeAccount, showGrant } from '../support/management-api.ts';
import {
  isSignInPage,
  type Browser,
  openBrowser,
  type Person,
  requirePage,
} from '../support/browser.ts';
import { cookieHeader } from '../support/cookie-jar.ts';
import { useSystem } from '../support/system.ts';
import { connectWithRefreshToken } from '../connections/token-family.ts';
import {
  claimOf,
  grantIdOf,
  openAccountPage,
  submitAccountForm,
  textOf,
  formTokenOf,
} from '../support/account-page.ts';

describe('The forms of the connected apps page', () => {
  const system = useSystem();
  const at = (path = '/account') => new URL(path, system().auth);

  const open = (browser: Browser, person?: Person) => openAccountPage(system(), browser, person);

  const post = (browser: Browser, headers: Record<string, string>, body: Record<string, string>) =>
    fetch(at(), {
      method: 'POST',
      redirect: 'manual',
      headers: { cookie: cookieHeader(browser.jar, at()) ?? '', ...headers },
      body: new URLSearchParams(body),
    });

  it('CON-14 forms from another site, or without this session’s token, are rejected', async () => {
    const family = await connectWithRefreshToken(system());
    const browser = openBrowser(system().origins);
    const page = await open(browser);
    const grace = await open(openBrowser(system().origins), 'grace');
    const again = await open(openBrowser(system().origins));
    const form = { token: formTokenOf(page), decision: 'disconnect', grant: grantIdOf(family) };
    const own = { origin: system().auth, 'sec-fetch-site': 'same-origin' };
    const attempts: [Record<string, string>, Record<string, string>][] = [
      [{ ...own, origin: 'https://evil.example' }, form],
      [{ origin: 'null' }, form],
      [{ origin: 'null', 'sec-fetch-site': 'cross-site' }, form],
      [{ 'sec-fetch-site': 'cross-site' }, form],
      [{ 'sec-fetch-site': 'same-site' }, form],
      [own, { ...form, token: '' }],
      [own, { ...form, token: formTokenOf(grace) }],
      [own, { ...form, token: formTokenOf(again) }],
    ];
    for (const [headers, body] of attempts)
      expect((await post(browser, headers, body)).status).to.equal(403);
    expect((await post(browser, own, { ...form, decision: 'win' })).status).to.equal(400);
    expect(await showGrant(system(), grantIdOf(family))).to.include({ state: 'active' });
    // Where a proxy sets `Referrer-Policy: no-referrer`.
    expect((await post(browser, { ...own, origin: 'null' }, form)).status).to.equal(303);
    expect(await showGrant(system(), grantIdOf(family))).to.include({ state: 'ended' });
  });

  it('CON-14 a form cannot change another person’s connection', async () => {
    const family = await connectWithRefreshToken(system(), { person: 'grace' });
    const browser = openBrowser(system().origins);
    const page = await open(browser, 'ada');
    for (const choice of [{ decision: 'disconnect' }, { decision: 'lower', level: 'analytics' }]) {
      const answer = await submitAccountForm(browser, page, {
        ...choice,
        grant: grantIdOf(family),
      });
      expect(answer.status).to.equal(404);
      expect(textOf(answer)).to.include('doesn’t exist or has been removed');
    }
    expect(await showGrant(system(), grantIdOf(family))).to.include({
      state: 'active',
      level: 'operations',
    });
  });

  it('a sign-in completes once, in the browser that started it', async () => {
    const mine = openBrowser(system().origins);
    const pick = requirePage(await mine.visit(at()));
    await mine.submit(pick, { person: 'ada' });
    const callback = mine.visited.find(({ pathname }) => pathname === '/account/callback');
    if (!callback) throw new Error('the trip ends at the callback');
    const again = requirePage(await mine.visit(callback));
    const elsewhere = requirePage(await openBrowser(system().origins).visit(callback));
    for (const [page, text] of [
      [again, 'This sign-in page has expired'],
      [elsewhere, 'Your browser didn’t send a cookie'],
    ] as const) {
      expect(page.status).to.equal(400);
      expect(textOf(page))
        .to.include(text)
        .and.not.match(/the app\b/);
      expect(page.html).to.include('href="/account">Sign in to see your connected apps</a>');
    }

    const victim = openBrowser(system().origins);
    await victim.visit(at());
    const attacker = openBrowser(system().origins);
    const theirs = requirePage(await attacker.visit(at()));
    const answer = new URL(theirs.url);
    await attacker.submit(theirs, { person: 'grace' });
    const planted = attacker.visited.find(({ pathname }) => pathname === '/interaction/callback');
    expect(answer.origin).to.not.equal(system().auth);
    const page = requirePage(await victim.visit(planted ?? at()));
    expect(page.status).to.equal(400);
    expect(isSignInPage(requirePage(await victim.visit(at())))).to.equal(true);
  });

  it('a person whose account was disabled sees an explanation in place of the forms', async () => {
    const family = await connectWithRefreshToken(system(), { person: 'grace' });
    const browser = openBrowser(system().origins);
    await open(browser, 'grace');
    await changeAccount(system(), claimOf(family, 'sub'), 'disable');
    const page = await open(browser, 'grace');
    expect([page.status, textOf(page)]).to.satisfy(
      ([status, text]: [number, string]) => status === 403 && /Your account is disabled/.test(text),
    );
    await changeAccount(system(), claimOf(family, 'sub'), 'enable');
  });

  it('the account page is in the browser’s language', async () => {
    const browser = openBrowser(system().origins);
    await open(browser);
    const headers = {
      cookie: cookieHeader(browser.jar, at()) ?? '',
      'accept-language': 'de-AT, en;q=0.5',
    };
    const html = await (await fetch(at(), { headers })).text();
    expect(html).to.include('<html lang="de"').and.include('Abmelden');
  });

  it('HEAD and prefetch start no sign-in, and other paths like /account are 404', async () => {
    for (const name of ['sec-purpose', 'purpose'])
      expect(
        (await fetch(at(), { headers: { [name]: 'prefetch' }, redirect: 'manual' })).status,
      ).to.equal(405);
    expect((await fetch(at(), { method: 'HEAD', redirect: 'manual' })).status).to.equal(405);
    for (const path of ['/account/', '/Account', '/account/x'])
      expect((await fetch(at(path), { redirect: 'manual' })).status, path).to.equal(404);
  });
});
