import { expect } from 'chai';
import { createConnector } from '../support/management-api.ts';
import {
  isConsentPage,
  openBrowser,
  type Page,
  requireExternalRedirect,
  requirePage,
} from '../support/browser.ts';
import { requestAuthorization } from '../support/connection.ts';
import {
  type Github,
  GITHUB_CLIENT,
  type GithubBehaviour,
  startGithub,
} from '../support/github.ts';
import {
  OPENID_CLIENT,
  type OpenIdProvider,
  openIdSettings,
  startOpenIdProvider,
} from '../support/openid-provider.ts';
import { startSystem, type System } from '../support/system.ts';

type Person = { email: string; email_verified?: boolean; groups?: string[] };

describe('Rules with email domains, with several identity providers', () => {
  let example: OpenIdProvider;
  let partners: OpenIdProvider;
  let github: Github;
  let system: System;
  before(async () => {
    [example, partners] = await Promise.all([startOpenIdProvider(), startOpenIdProvider()]);
    github = await startGithub();
    const { file, settings } = openIdSettings(example, {
      identityProvider: undefined,
      identityProviders: [
        {
          id: 'example',
          name: 'Example',
          issuer: example.issuer,
          emailDomains: ['Example.com'],
          ...OPENID_CLIENT,
        },
        { id: 'partners', name: 'Partners', issuer: partners.issuer, ...OPENID_CLIENT },
        { id: 'github', kind: 'github', name: 'GitHub', issuer: github.issuer, ...GITHUB_CLIENT },
      ],
      management: { administrators: [{ email: 'ceo@example.com', provider: 'example' }] },
      entitlements: [
        { match: { emailDomain: 'example.com' }, level: 'operations' },
        { match: { email: 'ceo@example.com' }, level: 'full' },
      ],
    });
    system = await startSystem({ file, settings });
  });
  after(async () => {
    await system?.stop();
    await Promise.all([example, partners, github].map((provider) => provider.stop()));
  });

  const providers = () => ({ example, partners, github });
  type Id = keyof ReturnType<typeof providers>;

  function behave(id: Id, { email, ...claims }: Person) {
    if (id === 'github')
      github.setBehaviour({ emails: [{ email, primary: true, verified: true }] });
    else
      providers()[id].setBehaviour({
        claims: { sub: `${id} ${email}`, name: 'The CEO', email, email_verified: true, ...claims },
      });
  }

  async function authorize(
    id: Id,
    person: Person,
    audience?: Record<string, string>[],
  ): Promise<Page> {
    behave(id, person);
    const connector = await createConnector(system, {
      level: 'full',
      ...(audience ? { audience } : {}),
    });
    const browser = openBrowser([system.auth]);
    const { url } = await requestAuthorization(system, connector);
    const choice = requirePage(await browser.visit(url));
    const departure = requireExternalRedirect(await browser.submit(choice, { provider: id }));
    return requirePage(await browser.visit(providers()[id].approve(departure)));
  }

  async function offeredLevels(id: Id, person: Person): Promise<string[]> {
    const page = await authorize(id, person);
    expect(page.status).to.be.oneOf([200, 403]);
    expect(isConsentPage(page)).to.equal(page.status === 200);
    return page.forms.flatMap(({ controls }) =>
      controls.flatMap(({ name, value }) => (name === 'level' ? [String(value)] : [])),
    );
  }

  async function consoleStatus(id: Id, person: Person): Promise<number> {
    behave(id, person);
    const browser = openBrowser([system.management]);
    const departure = requireExternalRedirect(
      await browser.visit(new URL(`${system.management}/console/sign-in/${id}`)),
    );
    return requirePage(await browser.visit(providers()[id].approve(departure))).status;
  }

  it('ENT-03 a rule matches a verified address when the owner of its domain asserts it', async () => {
    expect((await offeredLevels('example', { email: 'CEO@example.com' })).at(-1)).to.equal('full');
    expect((await offeredLevels('example', { email: 'ada@EXAMPLE.com' })).at(-1)).to.equal(
      'operations',
    );
    expect(
      await offeredLevels('example', { email: 'ceo@example.com', email_verified: false }),
    ).to.deep.equal([]);
  });

  for (const id of ['partners', 'github'] as const) {
    for (const email of [
      'ceo@example.com',
      'CEO@EXAMPLE.COM',
      'ceo@example.com.',
      'x@mail.example.com',
    ]) {
      it(`ENT-03 ${email} matches no rule when ${id} asserts it`, async () => {
        expect(await offeredLevels(id, { email })).to.deep.equal([]);
      });
    }

    it(`ENT-09 a page does not name ${id} as the one that has to confirm an address of another domain`, async () => {
      const audience = [{ email: 'ceo@example.com', provider: 'example' }];
      const { status, html } = await authorize(id, { email: 'ceo@example.com' }, audience);
      expect(status).to.equal(403);
      expect(html).to.not.include('confirmed').and.not.include('ceo@example.com');
    });

    it(`ENT-03 the console refuses the address of an administrator when ${id} asserts it`, async () => {
      expect(await consoleStatus(id, { email: 'ceo@example.com' })).to.equal(403);
    });
  }

  it("ENT-03 the console accepts the address of an administrator when the domain's owner asserts it", async () => {
    expect(await consoleStatus('example', { email: 'ceo@example.com' })).to.equal(200);
  });
});

describe('Rules with a GitHub organization', () => {
  let github: Github;
  let system: System;
  before(async () => {
    github = await startGithub();
    system = await startSystem({
      settings: { GATEHOUSE_DEVELOPMENT_IDP_URL: '' },
      file: {
        developmentIdp: undefined,
        management: { administrators: [] },
        identityProvider: {
          kind: 'github',
          issuer: github.issuer,
          organizations: true,
          ...GITHUB_CLIENT,
        },
        entitlements: [
          { match: { organization: 'acme-corp#4711' }, level: 'full' },
          { match: { organization: 'by-login' }, level: 'operations' },
          { match: { group: 'as-group' }, level: 'analytics' },
        ],
      },
    });
  });
  after(async () => {
    await system?.stop();
    await github.stop();
  });

  async function highestFor(user: number, organization: object): Promise<string | undefined> {
    const responses: GithubBehaviour['responses'] = {
      '/api/v3/user/orgs': { body: [organization] },
    };
    github.setBehaviour({ user: { id: user, login: `user-${user}` }, responses });
    const { link } = await createConnector(system, { level: 'full' });
    const browser = openBrowser([system.auth]);
    const { url } = await requestAuthorization(system, { link });
    const departure = requireExternalRedirect(await browser.visit(url));
    const page = requirePage(await browser.visit(github.approve(departure)));
    expect(page.status).to.be.oneOf([200, 403]);
    return page.forms
      .flatMap(({ controls }) => controls.filter(({ name }) => name === 'level'))
      .map(({ value }) => String(value))
      .at(-1);
  }

  const cases: [title: string, organization: object, level: string | undefined][] = [
    ['a rule with id and login matches the organization', { login: 'acme-corp', id: 4711 }, 'full'],
    [
      'a rule with id and login matches the organization after it was renamed',
      { login: 'acme-inc', id: 4711 },
      'full',
    ],
    [
      'a rule with id and login does not match another organization with that login',
      { login: 'acme-corp', id: 666 },
      undefined,
    ],
    [
      'a rule with id and login does not match an organization whose login is the text of the rule',
      { login: 'acme-corp#4711', id: 666 },
      undefined,
    ],
    [
      'a rule with a login alone matches any organization with that login',
      { login: 'By-Login', id: 5 },
      'operations',
    ],
    [
      'a group rule with a login alone matches any organization with that login',
      { login: 'as-group', id: 6 },
      'analytics',
    ],
  ];
  for (const [index, [title, organization, level]] of cases.entries()) {
    it(`ENT-06 ${title}`, async () => {
      expect(await highestFor(1000 + index, organization)).to.equal(level);
    });
  }
});
