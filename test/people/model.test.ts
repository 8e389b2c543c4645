// Random people, providers, rules, owners of domains and audiences against a small model of who may have which level, written from the
// contract. `npm run fuzz` runs it for longer.
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import * as fc from 'fast-check';
import { z } from 'zod';
import {
  openBrowser,
  type Page,
  requireExternalRedirect,
  requirePage,
} from '../support/browser.ts';
import { advanceClock, restoreClock } from '../support/clock.ts';
import { redeem, registerClient } from '../support/connection.ts';
import { type Github, GITHUB_CLIENT, startGithub } from '../support/github.ts';
import { type IdJagIssuer, startIdJagIssuer, validClaims } from '../support/id-jag-issuer.ts';
import { APP, GRANT_TYPE, preRegistered } from '../support/id-jag-system.ts';
import { LEVELS } from '../support/levels.ts';
import {
  changeAccount,
  type Connector,
  createConnector,
  readAudit,
  requestManagement,
} from '../support/management-api.ts';
import { isAccepted } from '../support/mcp.ts';
import { checkModel, FUZZ_SECONDS, MODEL_TIMEOUT_MS, seedIn } from '../support/model-run.ts';
import {
  authorizeUrl,
  type Client,
  discover,
  refresh,
  requestToken,
  type Server,
} from '../support/oauth.ts';
import {
  OPENID_CLIENT,
  type OpenIdProvider,
  startOpenIdProvider,
} from '../support/openid-provider.ts';
import { startSystem, type System } from '../support/system.ts';

/** Sequences of the short form. */
const RUNS = 4;
const COMMANDS = 10;
/** Each world has other rules. */
const WORLD_SECONDS = 60;

type Level = (typeof LEVELS)[number];
const SIGN_IN = ['example', 'partners', 'github'] as const;
type ProviderId = (typeof SIGN_IN)[number];
/** `same` asserts people under the issuer of the sign-in provider `example`. */
const TRUSTED = ['trusted', 'same'] as const;
type TrustedId = (typeof TRUSTED)[number];
type AsserterId = ProviderId | TrustedId;

type Criterion =
  | { anyone: true }
  | { subject: string }
  | { group: string }
  | { email: string }
  | { emailDomain: string }
  | { organization: string };
type Match = Criterion & { provider?: AsserterId };
type Rule = { match: Match; level: Level };

/** What an asserter says about a person. GitHub has organizations in place of groups. */
type Claims = { email: string; isVerified: boolean; groups: string[] };

/** The domains that the sign-in provider `example` owns. */
type World = { rules: Rule[]; owned: string[] };

// The model: who may have which level

const SUBJECTS = ['ada', 'grace', '583231'];
const GROUPS = ['analysts', 'staff', 'Analysts'];
const EMAILS = [
  'ada@example.com',
  'ADA@Example.COM',
  'grace@partner.example',
  'ada@mail.example.com',
  'ada@example.com@partner.example',
  'ada@example.com.',
];
const DOMAINS = ['example.com', 'partner.example', 'mail.example.com'];

const fold = (text: string) => text.toLowerCase();
const domainOf = (address: string) => fold(address.slice(address.lastIndexOf('@') + 1));

function domainIn(match: Match): string | undefined {
  if ('email' in match) return domainOf(match.email);
  return 'emailDomain' in match ? fold(match.emailDomain) : undefined;
}

/** The identity sources that may satisfy a rule. */
function acceptedBy({ owned }: World, match: Match): readonly AsserterId[] {
  if (match.provider) return [match.provider];
  return owned.includes(domainIn(match) ?? '') ? ['example'] : SIGN_IN;
}

function isMatch(world: World, match: Match, by: AsserterId, subject: string, claims: Claims) {
  if (!acceptedBy(world, match).includes(by)) return false;
  const { email, isVerified, groups } = claims;
  if ('anyone' in match) return true;
  if ('subject' in match) return match.subject === subject;
  if ('group' in match) return groups.includes(match.group);
  if ('organization' in match) {
    const [login = '', id] = match.organization.split('#');
    // The test's GitHub numbers the organizations of a person from 1.
    return id === undefined
      ? groups.some((each) => fold(each) === fold(login))
      : Number(id) >= 1 && Number(id) <= groups.length;
  }
  if (!isVerified) return false;
  return 'email' in match
    ? fold(match.email) === fold(email)
    : fold(match.emailDomain) === domainOf(email);
}

/** -1 if the person gets no access. */
function rankOf(
  world: World,
  { ceiling, audience }: Link,
  by: AsserterId,
  subject: string,
  claims: Claims,
): number {
  const matching = (match: Match) => isMatch(world, match, by, subject, claims);
  const ranks = world.rules
    .filter(({ match }) => matching(match))
    .map(({ level }) => LEVELS.indexOf(level));
  if (audience.length > 0 && !audience.some(matching)) return -1;
  return Math.min(LEVELS.indexOf(ceiling), Math.max(-1, ...ranks));
}

// Random worlds

const level = fc.constantFrom(...LEVELS);
const asserter = fc.constantFrom(...SIGN_IN, ...TRUSTED);
const aboutAddress = fc.oneof(
  fc.record({ email: fc.constantFrom('ada@example.com', 'Grace@Partner.example') }),
  fc.record({ emailDomain: fc.constantFrom(...DOMAINS, 'Example.com') }),
);
const aboutGroup = fc.record({ group: fc.constantFrom(...GROUPS) });
const byAsserter = fc.oneof(
  fc.constant({ anyone: true as const }),
  fc.record({ subject: fc.constantFrom(...SUBJECTS) }),
  aboutGroup,
  aboutAddress,
);
/** Rules that the settings accept: others are refused at the start. */
const match: fc.Arbitrary<Match> = fc.oneof(
  fc.tuple(byAsserter, asserter).map(([criterion, provider]) => ({ ...criterion, provider })),
  aboutAddress,
  fc
    .constantFrom('staff', 'Staff', 'staff#1', 'other#2', 'staff#9')
    .map((organization) => ({ organization, provider: 'github' as const })),
);
const isValid = (owned: string[]) => (found: Match) =>
  !owned.includes(domainIn(found) ?? '') || [undefined, 'example'].includes(found.provider);

const audienceRule = fc.oneof(
  fc
    .tuple(fc.oneof(aboutGroup, aboutAddress), asserter)
    .map(([criterion, provider]): Match => ({ ...criterion, provider })),
  aboutAddress,
);
const world = fc.subarray(DOMAINS).chain((owned) =>
  fc.record({
    owned: fc.constant(owned),
    rules: fc.array(fc.record({ match: match.filter(isValid(owned)), level }), {
      minLength: 3,
      maxLength: 10,
    }),
    links: fc.array(
      fc.record({
        ceiling: level,
        audience: fc.oneof(
          fc.constant([]),
          fc.array(audienceRule.filter(isValid(owned)), { minLength: 1, maxLength: 3 }),
        ),
      }),
      { minLength: 3, maxLength: 3 },
    ),
  }),
);
const claims: fc.Arbitrary<Claims> = fc.record({
  email: fc.constantFrom(...EMAILS),
  isVerified: fc.boolean(),
  groups: fc.subarray(GROUPS),
});

type Link = { ceiling: Level; audience: Match[] };
type Real = {
  world: World;
  system: System;
  server: Server;
  client: Client;
  links: (Link & Connector)[];
  openId: Record<'example' | 'partners', OpenIdProvider>;
  github: Github;
  issuer: IdJagIssuer;
};

/** What the identity sources said last, by account and by way, and the connections. */
type Person = { id: string; isDisabled: boolean; said: Partial<Record<AsserterId, Claims>> };
type Held = {
  by: AsserterId;
  subject: string;
  person: Person;
  link: Link & Connector;
  rank: number;
  token: string;
  refreshToken?: string | undefined;
  /** Made before the account was disabled. */
  isEnded: boolean;
};
type Model = { people: Map<string, Person>; held: Held[] };

/** The sign-in provider `example` and the trusted issuer `same` share an issuer, and so their accounts. */
function personOf({ people }: Model, by: AsserterId, subject: string): Person | undefined {
  return people.get(`${by === 'same' ? 'example' : by} ${subject}`);
}

function learn(model: Model, by: AsserterId, subject: string, token: string, said: Claims): Person {
  const known = personOf(model, by, subject);
  const id = String(decodeJwt(token).sub);
  if (known) expect(id).to.equal(known.id);
  const person = known ?? { id, isDisabled: false, said: {} };
  person.said[by] = said;
  model.people.set(`${by === 'same' ? 'example' : by} ${subject}`, person);
  return person;
}

const offered = ({ forms }: Page) =>
  forms.flatMap(({ controls }) =>
    controls.flatMap(({ name, value }) => (name === 'level' ? [String(value)] : [])),
  );

class SignIn implements fc.AsyncCommand<Model, Real> {
  readonly what: { by: ProviderId; subject: string; said: Claims; at: number };
  constructor(what: SignIn['what']) {
    this.what = what;
  }
  check = () => true;
  toString = () => `sign in ${JSON.stringify(this.what)}`;

  async run(model: Model, real: Real): Promise<void> {
    const { by, said, at } = this.what;
    const subject = by === 'github' ? '583231' : this.what.subject;
    const { system, server, client } = real;
    const link = real.links[at] as Real['links'][number];
    const known = personOf(model, by, subject);
    if (known) known.said[by] = said;
    const rank = known?.isDisabled ? -1 : rankOf(real.world, link, by, subject, said);
    const { url, verifier } = authorizeUrl(server, client, { resource: link.link });
    const browser = openBrowser([system.auth]);
    const choice = requirePage(await browser.visit(url));
    const departure = requireExternalRedirect(await browser.submit(choice, { provider: by }));
    const page = requirePage(await browser.visit(approveAs(real, by, subject, said, departure)));
    expect(offered(page)).to.deep.equal(LEVELS.slice(0, rank + 1));
    expect(page.status).to.equal(rank < 0 ? 403 : 200);
    await expectExplained(real, { by, link, rank, account: await lastSignedIn(system) });
    if (said.isVerified && by !== 'github' && PLAIN_ADDRESS.test(said.email))
      await expectExplained(real, {
        by,
        link,
        rank: rankOf(real.world, link, by, 'somebody unknown', said),
        email: said.email,
        groups: said.groups,
      });
    if (rank < 0) return;
    const highest = String(LEVELS[rank]);
    const callback = requireExternalRedirect(
      await browser.submit(page, { decision: 'approve', level: highest, stay: 'on' }),
    );
    const { body } = await redeem({ link: link.link, server, client, callback, verifier });
    expect(body.scope).to.equal(`${highest} offline_access`);
    const token = String(body.access_token);
    const person = learn(model, by, subject, token, said);
    const refreshToken = body.refresh_token;
    model.held.push({ by, subject, person, link, rank, token, refreshToken, isEnded: false });
  }
}

type Explained = {
  by: AsserterId;
  link: Connector;
  rank: number;
  account?: string;
  email?: string;
  groups?: string[];
};

const explanation = z.object({
  entitlements: z.array(z.object({ rule: z.string(), miss: z.string().optional() })),
  access: z.array(
    z.object({
      level: z.string().nullable(),
      rule: z.string().optional(),
      reason: z.string().optional(),
    }),
  ),
});

/** Checks that the explanation of a decision says what was decided. */
async function expectExplained(
  { system }: Real,
  { by, link, rank, ...person }: Explained,
): Promise<void> {
  const body = { ...person, provider: by, connector: link.id };
  const { entitlements, access } = explanation.parse(
    await requestManagement(system, 'POST', '/access/explain', body),
  );
  const [{ level, rule, reason } = { level: undefined }] = access;
  expect(level).to.equal(LEVELS[rank] ?? null);
  const matching = entitlements.filter(({ miss }) => miss === undefined).map((each) => each.rule);
  if (level === null) expect(reason).to.be.oneOf(REFUSALS);
  else expect(matching).to.include(rule);
  if (reason === 'no_rule') expect(matching).to.deep.equal([]);
}

/** Others are refused as an option. */
const PLAIN_ADDRESS = /^[^@]+@[^@]+\.\w+$/;
const REFUSALS = ['no_rule', 'not_in_audience', 'account_disabled'];

async function lastSignedIn(system: System): Promise<string> {
  const items = (await readAudit(system)).filter(({ event }) => event === 'signed_in');
  return String(items.at(-1)?.account);
}

function approveAs(real: Real, by: ProviderId, subject: string, said: Claims, departure: URL): URL {
  const { email, isVerified, groups } = said;
  if (by === 'github') {
    const emails = [{ email, primary: true, verified: isVerified }];
    real.github.setBehaviour({ emails, organizations: groups });
    return real.github.approve(departure);
  }
  const told = { sub: subject, name: 'Ada', email, email_verified: isVerified, groups };
  real.openId[by].setBehaviour({ claims: told });
  return real.openId[by].approve(departure);
}

class Assert implements fc.AsyncCommand<Model, Real> {
  readonly what: { by: TrustedId; subject: string; said: Claims; at: number };
  constructor(what: Assert['what']) {
    this.what = what;
  }
  check = () => true;
  toString = () => `assert ${JSON.stringify(this.what)}`;

  async run(model: Model, real: Real): Promise<void> {
    const { by, subject, said, at } = this.what;
    const { system, server, issuer } = real;
    const link = real.links[at] as Real['links'][number];
    const known = personOf(model, by, subject);
    const rank = known?.isDisabled ? -1 : rankOf(real.world, link, by, subject, said);
    const of = by === 'same' ? real.openId.example.issuer : issuer.issuer;
    const assertion = await issuer.sign({
      ...validClaims(of),
      aud: system.auth,
      client_id: APP.id,
      resource: link.link,
      sub: subject,
      name: 'Ada',
      email: said.email,
      email_verified: said.isVerified,
      groups: said.groups,
    });
    const { status, body } = await requestToken(server, APP, { grant_type: GRANT_TYPE, assertion });
    expect([status, body.scope]).to.deep.equal(
      rank < 0 ? [400, undefined] : [200, String(LEVELS[rank])],
    );
    // What a refused assertion says counts for the people who are known.
    if (rank < 0) {
      if (known && !known.isDisabled) known.said[by] = said;
      return;
    }
    const token = String(body.access_token);
    const person = learn(model, by, subject, token, said);
    await expectExplained(real, { by, link, rank, account: person.id });
    model.held.push({ by, subject, person, link, rank, token, isEnded: false });
  }
}

/** Disables or enables a person, whose earlier connections stay ended. */
class Change implements fc.AsyncCommand<Model, Real> {
  readonly nth: number;
  constructor(nth: number) {
    this.nth = nth;
  }
  check = ({ people }: Readonly<Model>) => people.size > 0;
  toString = () => `disable or enable ${this.nth}`;

  async run({ people, held }: Model, { system }: Real): Promise<void> {
    const person = [...people.values()][this.nth % people.size] as Person;
    await changeAccount(system, person.id, person.isDisabled ? 'enable' : 'disable');
    person.isDisabled = !person.isDisabled;
    // The times of ends are whole seconds, and each is after the one before.
    advanceClock(2);
    for (const each of held) if (each.person === person) each.isEnded = true;
  }
}

/** Uses an earlier connection: what it may do follows what was said about the person last, by the same way. */
class Use implements fc.AsyncCommand<Model, Real> {
  readonly nth: number;
  constructor(nth: number) {
    this.nth = nth;
  }
  check = ({ held }: Readonly<Model>) => held.length > 0;
  toString = () => `use ${this.nth}`;

  async run({ held }: Model, { world: of, server, client }: Real): Promise<void> {
    const used = held[this.nth % held.length] as Held;
    const { by, subject, person, link, rank, token, isEnded } = used;
    const now = rankOf(of, link, by, subject, person.said[by] as Claims);
    const isAllowed = !isEnded && now >= rank;
    expect(await isAccepted(link.link, token)).to.equal(isAllowed);
    if (used.refreshToken === undefined) return;
    const { status, body } = await refresh(server, client, used.refreshToken);
    if (isEnded || now < 0)
      return expect([status, body.error]).to.deep.equal([400, 'invalid_grant']) as never;
    expect(body.scope).to.equal(`${String(LEVELS[Math.min(now, rank)])} offline_access`);
    used.refreshToken = body.refresh_token;
    expect(await isAccepted(link.link, body.access_token)).to.equal(true);
  }
}

const person = { subject: fc.constantFrom('ada', 'grace'), said: claims, at: fc.nat(2) };
const commands = fc.commands(
  [
    fc.record({ by: fc.constantFrom(...SIGN_IN), ...person }).map((what) => new SignIn(what)),
    fc.record({ by: fc.constantFrom(...TRUSTED), ...person }).map((what) => new Assert(what)),
    fc.nat(9).map((nth) => new Change(nth)),
    fc.nat(20).map((nth) => new Use(nth)),
    fc.nat(20).map((nth) => new Use(nth)),
  ],
  { maxCommands: COMMANDS, size: 'max' },
);

describe('Levels of random people under random rules', function () {
  this.timeout(MODEL_TIMEOUT_MS);
  let parties: Pick<Real, 'openId' | 'github' | 'issuer'>;
  before(async () => {
    const [example, partners, github, issuer] = await Promise.all([
      startOpenIdProvider(),
      startOpenIdProvider(),
      startGithub(),
      startIdJagIssuer(),
    ]);
    parties = { openId: { example, partners }, github, issuer };
  });
  after(() => {
    const { openId, github, issuer } = parties;
    return Promise.all([openId.example, openId.partners, github, issuer].map((one) => one.stop()));
  });

  async function start({ owned, rules, links }: World & { links: Link[] }) {
    const { openId, github, issuer } = parties;
    const openIdProvider = (id: 'example' | 'partners', more: object = {}) => ({
      id,
      name: id,
      issuer: openId[id].issuer,
      ...OPENID_CLIENT,
      ...more,
    });
    const trusts = (id: TrustedId, of: string) => ({
      id,
      issuer: of,
      jwks: { keys: [issuer.jwk()] },
      clients: [APP.id],
    });
    const system = await startSystem({
      settings: { GATEHOUSE_DEVELOPMENT_IDP_URL: '' },
      file: {
        developmentIdp: undefined,
        management: { administrators: [] },
        identityProviders: [
          openIdProvider('example', { emailDomains: owned }),
          openIdProvider('partners'),
          {
            id: 'github',
            name: 'GitHub',
            kind: 'github',
            issuer: github.issuer,
            organizations: true,
            ...GITHUB_CLIENT,
          },
        ],
        entitlements: rules,
        clients: { preRegistered: [preRegistered(APP)] },
        authorization: {
          trustedIssuers: [trusts('trusted', issuer.issuer), trusts('same', openId.example.issuer)],
        },
      },
    });
    const created = [];
    for (const { ceiling, audience } of links) {
      const restricted =
        audience.length > 0 ? { audience: audience as Record<string, string>[] } : {};
      const connector = await createConnector(system, { level: ceiling, ...restricted });
      created.push({ ...connector, ceiling, audience });
    }
    const { server } = await discover(String(created[0]?.link));
    const client = await registerClient(server);
    return { world: { owned, rules }, system, server, client, links: created, ...parties };
  }

  it('MOD-03 nobody gets more than rules, owners of domains, audience and link allow, by any way and at any time, and an explanation says what is decided', async () => {
    const started = performance.now();
    const left = () => FUZZ_SECONDS - (performance.now() - started) / 1000;
    do {
      const [drawn] = fc.sample(world, { numRuns: 1, ...seedIn('FUZZ_WORLD') });
      const real = await start(drawn as World & { links: Link[] });
      // What is stored about people outlives a sequence.
      const model: Model = { people: new Map(), held: [] };
      let approved = 0;
      try {
        const property = fc.asyncProperty(commands, async (sequence) => {
          model.held = [];
          await fc.asyncModelRun(() => ({ model, real }), sequence);
          approved += model.held.length;
        });
        await checkModel('entitlements', property, RUNS, {
          seconds: Math.min(left(), WORLD_SECONDS),
        });
      } catch (error) {
        const given = JSON.stringify(drawn);
        throw new Error(`with ${given}:\n${(error as Error).message}`, { cause: error });
      } finally {
        restoreClock();
        await real.system.stop();
      }
      if (left() > 0) console.log(`      ${approved} approvals`);
    } while (left() > 0);
  });
});
