import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { openBrowser, requirePage } from '../../support/browser.ts';
import { registerClient } from '../../support/connection.ts';
import { createConnector, requestManagement } from '../../support/management-api.ts';
import { authorizeUrl, discover } from '../../support/oauth.ts';
import { addressOf, mint } from '../../links/minted-tokens/minting.ts';
import { call } from '../../support/mcp.ts';
import { idOf, useIdJag } from '../../support/id-jag-system.ts';
import {
  PING,
  type ScriptedUpstream,
  startScriptedUpstream,
} from '../../support/upstream/scripted-upstream.ts';
import { changeSettings } from '../../support/settings-file.ts';
import { openSystemStore } from '../../support/system-store.ts';
import {
  ALL_CLAIMS,
  learnedLine,
  providerSettings,
  useCallers,
} from '../../support/upstream/caller-system.ts';

const ADA = {
  name: 'Ada Lovelace',
  email: 'ada@example.com',
  email_verified: true,
  groups: ['staff', 'club, north'],
};

describe('What the server learns about the person who calls', () => {
  const { setup, connectAs, claimsFor, headersFor, openPage, restartWith } = useCallers({
    name: 'Orders',
    caller: { claims: ALL_CLAIMS },
  });

  it('UPS-24 the caller header has every claim of the settings that the person has', async () => {
    const { issuer } = setup().providers.staff;
    expect(await claimsFor(await connectAs({ claims: ADA }))).to.deep.equal({
      name: 'Ada Lovelace',
      email: 'ada@example.com',
      email_verified: true,
      groups: ['staff', 'club, north'],
      idp: issuer,
      idp_sub: 'subject-1',
      provider: 'staff',
    });
  });

  it('the consent page says in one line what the server learns, and the grant keeps the claims that it named', async () => {
    const { page, grantId } = await connectAs({ claims: { ...ADA, groups: [] } });
    expect(learnedLine(page)).to.equal(
      'Orders learns your name, email address, sign-in service, and user ID.',
    );
    const { store } = await openSystemStore(setup().system);
    const stored = await store.get<{ callerClaims: string[] }>(`grant:${grantId}`);
    await store.close();
    expect(stored?.value.callerClaims).to.deep.equal([
      'name',
      'email',
      'issuer',
      'subject',
      'provider',
    ]);
  });

  const LINES: Record<string, string> = {
    en: 'Orders learns your name, email address, groups, sign-in service, and user ID.',
    de: 'Orders erfährt Ihren Namen, Ihre E‑Mail-Adresse, Ihre Gruppen, Ihren Anmeldedienst und Ihre Benutzer-ID.',
    es: 'Orders conocerá tu nombre, tu dirección de correo, tus grupos, tu servicio de inicio de sesión y tu identificador de usuario.',
    fr: 'Orders connaîtra votre nom, votre adresse e‑mail, vos groupes, votre service d’authentification et votre identifiant.',
    ja: 'Orders に伝わる情報：氏名、メールアドレス、グループ、サインインサービス、ユーザー ID',
    pt: 'Orders fica sabendo seu nome, seu endereço de e‑mail, seus grupos, seu serviço de login e seu ID de usuário.',
  };
  for (const [language, line] of Object.entries(LINES))
    it(`the consent page says what the server learns in the language ${language}`, async () => {
      const { page } = await connectAs({ claims: ADA, language });
      expect(learnedLine(page)?.replaceAll(/\s/g, ' ')).to.equal(line);
    });

  it('the account page and the grant of the management API say what the server learns', async () => {
    const { system } = setup();
    const { browser, grantId } = await connectAs({ claims: ADA, sub: 'visitor' });
    const page = requirePage(await browser.visit(new URL('/account', system.auth)));
    expect(page.html.replaceAll(/<[^>]*>/g, '')).to.include(LINES['en']);
    const grant = (await requestManagement(system, 'GET', `/grants/${grantId}`)) as object;
    expect(grant).to.deep.include({ callerClaims: ALL_CLAIMS });
  });

  it('UPS-24 an email address that is not verified is not among the claims, and the page does not name it', async () => {
    for (const claims of [
      { ...ADA, email_verified: false },
      { ...ADA, email_verified: 'true' },
      { ...ADA, email_verified: undefined },
    ]) {
      const caller = await connectAs({ claims });
      expect(learnedLine(caller.page)).to.not.include('email');
      expect(await claimsFor(caller)).to.not.have.any.keys('email', 'email_verified');
    }
  });

  it('UPS-24 an address that is verified after the approval is given only after the next one', async () => {
    const claims = { ...ADA, email_verified: false };
    const earlier = await connectAs({ claims, sub: 'late' });
    const later = await connectAs({ claims: ADA, sub: 'late' });
    expect(await claimsFor(later)).to.include({ email: ADA.email });
    expect(await claimsFor(earlier)).to.not.have.property('email');
  });

  it('a person whose name the provider does not say has no name among the claims', async () => {
    const caller = await connectAs({ claims: { groups: [] }, sub: 'nameless' });
    expect(learnedLine(caller.page)).to.equal('Orders learns your sign-in service and user ID.');
    expect(await claimsFor(caller)).to.have.all.keys('idp', 'idp_sub', 'provider');
  });

  it('changed claims of the person appear at the next call after the account was updated', async () => {
    const earlier = await connectAs({ claims: ADA, sub: 'changing' });
    expect(await claimsFor(earlier)).to.include({ name: 'Ada Lovelace' });
    await connectAs({ claims: { ...ADA, name: 'Ada King' }, sub: 'changing' });
    expect(await claimsFor(earlier)).to.include({ name: 'Ada King' });
    await connectAs({
      claims: { ...ADA, name: 'Ada King', email_verified: false },
      sub: 'changing',
    });
    expect(await claimsFor(earlier)).to.not.have.any.keys('email', 'email_verified');
  });

  it('UPS-24 people with the same subject at two providers are different callers', async () => {
    const staff = await connectAs({ claims: ADA, sub: 'same' });
    const partner = await connectAs({
      claims: { ...ADA, email_verified: false },
      sub: 'same',
      provider: 'partners',
    });
    const subs = await Promise.all(
      [staff.token, partner.token].map(async (token) => decodeJwt(token).sub),
    );
    expect(new Set(subs).size).to.equal(2);
    const { providers } = setup();
    expect(await claimsFor(partner)).to.include({
      idp: providers.partners.issuer,
      idp_sub: 'same',
      provider: 'partners',
    });
    expect(await claimsFor(partner)).to.not.have.property('email');
    expect(await claimsFor(staff)).to.include({ idp: providers.staff.issuer, provider: 'staff' });
  });

  it('UPS-24 of 10,000 groups, at most 100 names and 4 kB are sent, and the header says that there are more', async () => {
    const many = Array.from({ length: 10_000 }, (_, n) => `group-${n}`);
    const caller = await connectAs({ claims: { ...ADA, groups: many }, sub: 'many' });
    const claims = await claimsFor(caller);
    expect(claims).to.deep.include({ groups: many.slice(0, 100), groups_truncated: true });
    const long = Array.from({ length: 30 }, (_, n) => `${n}-${'ü'.repeat(200)}`);
    const { groups, groups_truncated } = await claimsFor(
      await connectAs({ claims: { ...ADA, groups: long }, sub: 'long' }),
    );
    expect(groups_truncated).to.equal(true);
    expect(Buffer.byteLength(JSON.stringify(groups))).to.be.within(3500, 4096);
    const few = await claimsFor(await connectAs({ claims: ADA, sub: 'few' }));
    expect(few).to.not.have.property('groups_truncated');
  });

  it('UPS-24 a text without a UTF-8 form is left out, and control characters arrive as they are', async () => {
    const groups = ['a\uD800', 'b\uDC00', 'line\r\nX-Admin: 1', 'c\u0000d'];
    const caller = await connectAs({ claims: { ...ADA, groups }, sub: 'sub\uD800' });
    const claims = await claimsFor(caller);
    expect(claims).to.deep.include({
      groups: ['line\r\nX-Admin: 1', 'c\u0000d'],
      groups_truncated: true,
    });
    expect(claims).to.not.have.property('idp_sub');
  });

  it('CON-27 an approval applies only to the claims that the page named', async () => {
    const { system } = setup();
    const { link } = await createConnector(system, { level: 'analytics' });
    const { server } = await discover(link);
    const client = await registerClient(server);
    const { url } = authorizeUrl(server, client, { resource: link });
    const browser = openBrowser([system.auth]);
    const page = await openPage(browser, url, { claims: { ...ADA, groups: [] }, sub: 'joins' });
    await connectAs({ claims: ADA, sub: 'joins' });
    const shown = requirePage(
      await browser.submit(page, { decision: 'approve', level: 'analytics' }),
    );
    expect(shown.status).to.equal(409);
    expect(learnedLine(page)).to.not.include('groups');
    expect(learnedLine(shown)).to.include('groups');
  });

  it('UPS-24 minted tokens have no claims about a person', async () => {
    const { system } = setup();
    const { token } = await mint(system, { level: 'analytics' });
    expect(await claimsFor({ link: addressOf(system), token })).to.deep.equal({});
  });

  it('UPS-24 machines have no claims about a person, nor do Gatehouse’s own requests', async () => {
    const { system, upstream } = setup();
    const { id: connector, link } = await createConnector(system, { level: 'analytics' });
    const wanted = { name: 'CI', connector, level: 'analytics' };
    const machine = (await requestManagement(system, 'POST', '/clients', wanted)) as {
      id: string;
      secret: string;
    };
    const { server } = await discover(link);
    const answer = await fetch(server.token_endpoint, {
      method: 'POST',
      headers: {
        authorization: `Basic ${Buffer.from(`${machine.id}:${machine.secret}`).toString('base64')}`,
      },
      body: new URLSearchParams({ grant_type: 'client_credentials', resource: link }),
    });
    const { access_token: token } = (await answer.json()) as { access_token: string };
    expect(await claimsFor({ link, token })).to.deep.equal({});
    const headers = await headersFor({ link, token });
    expect(decodeJwt(String(headers['gatehouse-caller'])).sub).to.equal(`machine:${machine.id}`);
    const [own] = upstream.discoveries;
    expect(own?.caller).to.have.all.keys('iss', 'aud', 'iat', 'exp', 'sub', 'client_id', 'level');
  });

  it('a reload of the settings applies to the next call and the next page', async () => {
    const earlier = await connectAs({ claims: ADA, sub: 'reloaded' });
    const { system, upstream } = setup();
    const undo = changeSettings(system, {
      resourceServer: {
        upstream: {
          url: upstream.url,
          defaultLevel: 'analytics',
          name: 'Tickets',
          caller: { claims: ['email'] },
        },
      },
    });
    try {
      await requestManagement(system, 'POST', '/settings/reload', {});
      const email = { email: ADA.email, email_verified: true };
      expect(await claimsFor(earlier)).to.deep.equal(email);
      const later = await connectAs({ claims: ADA, sub: 'reloaded' });
      expect(learnedLine(later.page)).to.equal('Tickets learns your email address.');
      undo();
      await requestManagement(system, 'POST', '/settings/reload', {});
      expect(await claimsFor(earlier)).to.include({ name: ADA.name });
      expect(await claimsFor(later)).to.deep.equal(email);
    } finally {
      undo();
    }
  });

  it('UPS-24 a claim that is added to the settings is given only of people who were told', async () => {
    await restartWith({ name: 'Orders', caller: { claims: ['name'] } });
    const earlier = await connectAs({ claims: ADA });
    expect(learnedLine(earlier.page)).to.equal('Orders learns your name.');
    await restartWith({ name: 'Orders', caller: { claims: ['name', 'email'] } });
    const later = await connectAs({ claims: ADA });
    expect(learnedLine(later.page)).to.equal('Orders learns your name and email address.');
    expect(await claimsFor(earlier)).to.deep.equal({ name: 'Ada Lovelace' });
    expect(await claimsFor(later)).to.deep.equal({
      name: 'Ada Lovelace',
      email: 'ada@example.com',
      email_verified: true,
    });
    await restartWith({ name: 'Orders', caller: { claims: ['email'] } });
    expect(await claimsFor(earlier)).to.deep.equal({});
    expect(await claimsFor(later)).to.not.have.property('name');
  });

  it('a server without a name is called by the name of the connector, and without claims the page has no line', async () => {
    await restartWith({ caller: { claims: ['groups'] } });
    const { page } = await connectAs({ claims: ADA });
    expect(learnedLine(page)).to.equal('The link learns your groups.');
    expect(learnedLine((await connectAs({ claims: { name: 'Ada' } })).page)).to.equal(undefined);
    await restartWith({ name: 'Orders' });
    const told = await connectAs({ claims: ADA });
    expect(learnedLine(told.page)).to.equal(undefined);
    expect(await claimsFor(told)).to.deep.equal({});
  });
});

describe('What the server learns about a person with an address in a domain that a provider owns', () => {
  const CEO = { name: 'ceo@example.com', email: 'CEO@example.com', email_verified: true };
  const { setup, connectAs, claimsFor } = useCallers(
    { name: 'Orders', caller: { claims: ALL_CLAIMS } },
    {},
    { staff: ['example.com'] },
  );

  it('ENT-09 the server gets an address of the domain when the owner asserts it', async () => {
    const caller = await connectAs({ claims: CEO });
    expect(await claimsFor(caller)).to.include({ email: CEO.email, email_verified: true });
    expect(caller.page.html).to.include(CEO.email);
  });

  it('ENT-09 an address of the domain that another provider asserts reaches neither the server nor a page', async () => {
    const { system } = setup();
    const asserted = { ...CEO, email: CEO.name };
    const caller = await connectAs({ claims: asserted, provider: 'partners' });
    expect(await claimsFor(caller)).to.have.all.keys('idp', 'idp_sub', 'provider');
    expect(learnedLine(caller.page)).to.equal('Orders learns your sign-in service and user ID.');
    const account = requirePage(await caller.browser.visit(new URL('/account', system.auth)));
    for (const { html } of [caller.page, account]) expect(html).to.not.include('ceo@example.com');
    const id = String(decodeJwt(caller.token).sub);
    expect(await requestManagement(system, 'GET', `/accounts/${id}`)).to.include({
      name: 'subject-1',
      emailVerified: false,
    });
  });

  it('ENT-09 an address that was verified before its domain got an owner does not reach the server', async () => {
    const { system, providers } = setup();
    const claims = { ...CEO, name: 'ceo@later.example', email: 'ceo@later.example' };
    const caller = await connectAs({ claims, provider: 'partners', sub: 'earlier' });
    expect(await claimsFor(caller)).to.include({ name: claims.name, email: claims.email });
    const owned = { staff: ['example.com', 'later.example'] };
    const undo = changeSettings(system, { identityProviders: providerSettings(providers, owned) });
    try {
      await requestManagement(system, 'POST', '/settings/reload', {});
      expect(await claimsFor(caller)).to.have.all.keys('idp', 'idp_sub', 'provider');
      const page = requirePage(await caller.browser.visit(new URL('/account', system.auth)));
      expect(page.html).to.not.include(claims.email);
    } finally {
      undo();
      await requestManagement(system, 'POST', '/settings/reload', {});
    }
  });
});

describe('What the server learns about a person whom a trusted issuer asserts', () => {
  let upstream: ScriptedUpstream;
  const file: Record<string, unknown> = {};
  before(async () => {
    upstream = await startScriptedUpstream();
    const caller = { claims: ALL_CLAIMS };
    file['resourceServer'] = { upstream: { url: upstream.url, caller } };
  });
  const { setup, obtainToken } = useIdJag({}, file);
  after(() => upstream.close());

  it('UPS-24 a connection by ID-JAG has the claims of the settings, as the issuer asserts them', async () => {
    const { system, idp, connector } = setup();
    upstream.trustIssuer(system.auth);
    const claimsWith = async (asserted: object) => {
      const { token } = await obtainToken('ada', { ...asserted });
      await call(connector.link, token, PING);
      return upstream.received.at(-1)?.caller;
    };
    expect(await claimsWith({ name: 'Ada', email: 'ada@example.com', email_verified: true }))
      .to.include({
        name: 'Ada',
        email: 'ada@example.com',
        email_verified: true,
        idp: idp.issuer,
        idp_sub: 'ada',
        provider: idOf(idp.issuer),
      })
      .and.to.deep.include({ groups: ['staff'] });
    const later = await claimsWith({ email: 'ada@elsewhere.example', email_verified: false });
    expect(later).to.include({ name: 'Ada' }).and.to.not.have.property('email');
  });
});
