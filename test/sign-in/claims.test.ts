// OpenID Connect Core sections 5.3, 5.4 and 5.6.2. What providers send is described at https://learn.microsoft.com/en-us/entra/identity-platform/id-token-claims-reference
// (groups overage) and https://developer.okta.com/docs/concepts/auth-servers/ (claims that are only at UserInfo).
import { expect } from 'chai';
import type { JWTPayload } from 'jose';
import { openIdentityProvider, type IdentityProvider } from '../../src/sign-in/provider.ts';
import { identityProviderSchema as settingsSchema } from '../../src/settings/identity-provider-schema.ts';
import { advanceClock, restoreClock } from '../support/clock.ts';
import {
  type Behaviour,
  OPENID_CLIENT,
  type OpenIdProvider,
  startOpenIdProvider,
} from '../support/openid-provider.ts';
import { identify as identifyAt, refusalOf } from './identify.ts';

const CALLBACK = 'http://localhost:4000/interaction/callback';
const SUBJECT = 'subject-1';
const NAMED = { name: 'Ada', email: 'ada@example.com' };
const COMPLETE = { ...NAMED, email_verified: true, groups: ['analysts'] };
/** A refresh token of the double says who refreshes. */
const REFRESH_TOKEN = Buffer.from(JSON.stringify({ sub: SUBJECT })).toString('base64url');

type Reading = (provider: IdentityProvider) => Promise<unknown>;

describe('The claims of a person', () => {
  let provider: OpenIdProvider;
  beforeEach(async () => {
    provider = await startOpenIdProvider();
  });
  afterEach(async () => {
    restoreClock();
    await provider.stop();
  });

  type Opening = Parameters<typeof openIdentityProvider>[2];

  function open(more: object = {}, rulesUse?: Opening) {
    const settings = { issuer: provider.issuer, recheck: '1h', ...OPENID_CLIENT, ...more };
    return openIdentityProvider(
      { ...settingsSchema.parse(settings), embedded: false },
      CALLBACK,
      rulesUse,
    );
  }

  const signIn = (opened = open()) => identifyAt(opened, provider.approve);

  /** What a recheck answers about a person whose claims were these. */
  const recheck = (opened = open(), known: object = {}) =>
    opened.recheck({
      token: REFRESH_TOKEN,
      person: {
        issuer: provider.issuer,
        subject: SUBJECT,
        name: 'Ada',
        emailVerified: false,
        groups: [],
        ...known,
      },
      keep: async () => {},
    });

  const READERS: Record<string, Reading> = {
    'a sign-in': (opened) => signIn(opened),
    'a recheck': async (opened) => {
      const answer = await recheck(opened);
      return typeof answer === 'string' ? answer : answer.identity;
    },
  };

  for (const [what, read] of Object.entries(READERS)) {
    const readWith = (behaviour: Behaviour, more?: object) => {
      provider.setBehaviour(behaviour);
      return read(open(more));
    };

    it(`groups and email_verified are read from UserInfo if the ID token lacks them (${what})`, async () => {
      const body = { sub: SUBJECT, ...COMPLETE };
      const identity = await readWith({ claims: NAMED, userinfo: { status: 200, body } });
      expect(identity).to.deep.include({ emailVerified: true, groups: ['analysts'] });
    });

    it(`IDP-12 UserInfo verifies only the address that it has itself (${what})`, async () => {
      for (const [email, emailVerified] of [
        ['ADA@example.com', true],
        ['boss@example.com', false],
      ] as const) {
        const body = { sub: SUBJECT, email, email_verified: true };
        const identity = await readWith({ claims: NAMED, userinfo: { status: 200, body } });
        expect(identity).to.include({ email: 'ada@example.com', emailVerified });
      }
    });

    it(`IDP-12 an ID token that says that the address is not verified is right (${what})`, async () => {
      const body = { sub: SUBJECT, ...COMPLETE };
      const claims = { ...NAMED, email_verified: false };
      for (const emailVerified of ['provider', 'always'])
        expect(
          await readWith({ claims, userinfo: { status: 200, body } }, { emailVerified }),
        ).to.include({ emailVerified: false });
    });

    it(`a signed UserInfo response is read (${what})`, async () => {
      const body = { sub: SUBJECT, iss: provider.issuer, aud: OPENID_CLIENT.clientId, ...COMPLETE };
      const userinfo = { status: 200, body, signature: 'ours' as const };
      expect(await readWith({ claims: NAMED, userinfo })).to.deep.include({
        emailVerified: true,
        groups: ['analysts'],
      });
    });

    it(`UserInfo is not asked with userInfo: false, nor if nothing is missing (${what})`, async () => {
      await readWith({ claims: NAMED }, { userInfo: false });
      await readWith({ claims: COMPLETE });
      await readWith(
        { claims: { ...COMPLETE, email_verified: undefined } },
        { emailVerified: 'always' },
      );
      expect(provider.requests).to.not.include('/userinfo');
    });

    it(`null is a claim that is missing (${what})`, async () => {
      const claims = { name: null, email: null, groups: null } as unknown as JWTPayload;
      const body = { sub: SUBJECT, ...COMPLETE };
      expect(await readWith({ claims, userinfo: { status: 200, body } })).to.deep.include({
        name: 'Ada',
        email: 'ada@example.com',
        groups: ['analysts'],
      });
    });

    it(`groupsClaim finds a nested claim in either place (${what})`, async () => {
      const body = { sub: SUBJECT, realm_access: { roles: ['analysts'] } };
      const behaviour = { claims: { ...NAMED, realm_access: {} }, userinfo: { status: 200, body } };
      const groupsClaim = 'realm_access.roles';
      expect(await readWith(behaviour, { groupsClaim })).to.deep.include({ groups: ['analysts'] });
    });

    it(`only emailVerified: always verifies an address about which the provider says nothing (${what})`, async () => {
      const behaviour = { claims: { ...NAMED, groups: [] } };
      expect(await readWith(behaviour)).to.include({ emailVerified: false });
      expect(await readWith(behaviour, { emailVerified: 'always' })).to.include({
        email: 'ada@example.com',
        emailVerified: true,
      });
    });

    for (const status of [401, 403, 404])
      it(`the ID token is enough if UserInfo answers ${status}, and a notice says so (${what})`, async () => {
        expect(
          await readWith({ claims: { groups: ['analysts'] }, userinfo: { status, body: {} } }),
        ).to.deep.include({ groups: ['analysts'] });
        const { notices = [] } = await signIn();
        expect(notices.map(({ reason }) => reason)).to.deep.equal([
          `the UserInfo endpoint gave no valid claims: HTTP ${status}`,
        ]);
      });

    it(`a UserInfo response with the subject alone changes nothing (${what})`, async () => {
      const behaviour = {
        claims: { ...NAMED, groups: ['a'] },
        userinfo: { status: 200, body: { sub: SUBJECT } },
      };
      expect(await readWith(behaviour)).to.deep.include({
        ...NAMED,
        emailVerified: false,
        groups: ['a'],
      });
    });

    it(`groups that were left out because they are too many are recognised, with a notice (${what})`, async () => {
      const OVERAGE: JWTPayload[] = [
        {
          _claim_names: { groups: 'src1' },
          _claim_sources: { src1: { endpoint: 'https://graph.example' } },
        },
        { hasgroups: true },
      ];
      for (const claims of OVERAGE) {
        expect(
          await readWith({ claims: { ...NAMED, ...claims } }, { userInfo: false }),
        ).to.deep.include({
          groups: [],
          groupsOmitted: true,
        });
        const { notices = [] } = await signIn(open({ userInfo: false }));
        expect(notices.map(({ what }) => what)).to.match(/too many \(groups overage\)/);
      }
      expect(
        await readWith(
          { claims: { ...NAMED, groups: ['a'], hasgroups: true } },
          { userInfo: false },
        ),
      ).to.not.have.property('groupsOmitted');
    });

    it(`groups that cannot be read are a notice with their type (${what})`, async () => {
      await readWith({ claims: { ...COMPLETE, groups: 7 } });
      const { groups, notices } = await signIn();
      expect(groups).to.deep.equal([]);
      expect(notices?.map(({ what }) => what)).to.deep.equal([
        'the claim groups of a person has a number: rules about groups may not match',
      ]);
    });

    it(`IDP-12 an address with two at signs, or with a blank, is none (${what})`, async () => {
      for (const email of [
        'ada@evil.example@example.com',
        'ada @example.com',
        'ada\u202E@example.com',
        '@example.com',
      ]) {
        const identity = await readWith({ claims: { ...COMPLETE, email } });
        expect(identity, email).to.not.have.property('email');
        expect(identity, email).to.include({ emailVerified: false });
      }
    });

    it(`IDP-12 a name has no control or bidirectional characters, and is on one line (${what})`, async () => {
      const name = 'Ada\u202E\u2066 \u0007Love\u200Blace\r\n Byron \u{1F469}\u200D\u{1F52C}';
      expect(await readWith({ claims: { ...COMPLETE, name } })).to.include({
        name: 'Ada Lovelace Byron \u{1F469}\u200D\u{1F52C}',
      });
      expect(await readWith({ claims: { ...COMPLETE, name: '\u202E\u0007' } })).to.include({
        name: 'ada@example.com',
      });
    });
  }

  describe('at a sign-in', () => {
    it('UserInfo is asked at its new address if it has moved', async () => {
      const opened = open();
      provider.setBehaviour({ claims: COMPLETE });
      await signIn(opened);
      const body = JSON.stringify({ sub: SUBJECT, ...COMPLETE });
      const moved = '/moved/userinfo';
      provider.setBehaviour({
        claims: NAMED,
        metadata: { userinfo_endpoint: provider.issuer + moved },
        responses: {
          [moved]: (_req, res) =>
            res.writeHead(200, { 'content-type': 'application/json' }).end(body),
        },
      });
      advanceClock(60);
      expect(await signIn(opened)).to.deep.include({ groups: ['analysts'] });
      expect(provider.requests.filter((path) => path.endsWith('/userinfo'))).to.deep.equal([
        '/userinfo',
        moved,
      ]);
    });

    it('IDP-12 an ID token with an empty subject is refused', async () => {
      for (const sub of ['', ' ']) {
        provider.setBehaviour({ claims: { ...COMPLETE, sub } });
        expect(await refusalOf(signIn())).to.include({
          status: 400,
          message: 'the ID token has an empty sub',
        });
      }
    });

    it('a fault of UserInfo is a 503 only if a rule uses a claim that is missing', async () => {
      provider.setBehaviour({
        claims: { ...NAMED, groups: ['a'] },
        userinfo: { status: 502, body: {} },
      });
      expect(await refusalOf(signIn(open({}, ['email_verified'])))).to.include({ status: 503 });
      expect(await signIn(open({}, ['email', 'groups']))).to.deep.include({ groups: ['a'] });
    });

    const UNUSABLE: Record<string, Behaviour['userinfo']> = {
      'is about another person': { status: 200, body: { ...COMPLETE, sub: 'subject-2' } },
      'names nobody': { status: 200, body: COMPLETE },
      'is signed by another key': {
        status: 200,
        body: { sub: SUBJECT, ...COMPLETE },
        signature: 'stranger',
      },
      'is signed with the client secret': {
        status: 200,
        body: { sub: SUBJECT, ...COMPLETE },
        signature: 'secret',
      },
      'is an unsigned JWT': { status: 200, body: { sub: SUBJECT, ...COMPLETE }, signature: 'none' },
      'is a JWT for another client': {
        status: 200,
        body: { sub: SUBJECT, aud: 'other', ...COMPLETE },
        signature: 'ours',
      },
    };
    for (const [what, userinfo] of Object.entries(UNUSABLE))
      it(`IDP-12 a UserInfo response that ${what} gives nothing, and refuses the sign-in if a rule needs it`, async () => {
        provider.setBehaviour({
          claims: { ...NAMED, groups: ['a'] },
          ...(userinfo ? { userinfo } : {}),
        });
        expect(await refusalOf(signIn())).to.include({ status: 400, logLevel: 'warn' });
        const { notices, ...identity } = await signIn(open({}, ['email', 'groups']));
        expect(identity).to.deep.include({ groups: ['a'], emailVerified: false });
        expect(notices).to.have.length(1);
      });
  });

  describe('at a recheck', () => {
    const had = { email: 'ada@example.com', emailVerified: true, groups: ['analysts'] };
    const rejection = async (answer: Promise<unknown>) => {
      const [settled] = await Promise.allSettled([answer]);
      return settled?.status === 'rejected' ? (settled.reason as Error).message : settled?.value;
    };

    for (const status of [401, 403])
      it(`CNX-14 a provider that refreshes and answers ${status} at UserInfo, which had claims before, needs the person`, async () => {
        for (const claims of [NAMED, undefined]) {
          const tokens = claims ? {} : { id_token: undefined };
          provider.setBehaviour({
            ...(claims ? { claims } : {}),
            tokens,
            userinfo: { status, body: {} },
          });
          expect(await recheck(open(), had)).to.equal('sign-in');
        }
      });

    for (const status of [401, 403])
      it(`CNX-14 a provider that answers ${status} at UserInfo for one person, and claims for others, needs that person`, async () => {
        const opened = open();
        provider.setBehaviour({
          claims: NAMED,
          userinfo: { status: 200, body: { sub: SUBJECT, ...COMPLETE } },
        });
        await signIn(opened);
        provider.setBehaviour({ claims: NAMED, userinfo: { status, body: {} } });
        const person = { ...had, emailVerified: false, groups: [] };
        expect(await recheck(opened, person)).to.equal('sign-in');
      });

    it('CNX-14 a fault of UserInfo, which had claims before, is no answer', async () => {
      for (const status of [404, 429, 500]) {
        provider.setBehaviour({ claims: NAMED, userinfo: { status, body: {} } });
        expect(await rejection(recheck(open(), had))).to.include(`HTTP ${status}`);
      }
    });

    it('UserInfo may fail if it never had claims of the person', async () => {
      for (const status of [401, 404, 500]) {
        provider.setBehaviour({ claims: NAMED, userinfo: { status, body: {} } });
        const answer = await recheck(open(), { ...had, emailVerified: false, groups: [] });
        expect(answer).to.have.deep.nested.property('identity.groups', []);
      }
    });

    it('without an ID token and with userInfo: false there is no answer', async () => {
      provider.setBehaviour({
        tokens: { id_token: undefined },
        userinfo: { status: 200, body: { sub: SUBJECT } },
      });
      expect(await rejection(recheck(open({ userInfo: false })))).to.match(/no ID token/);
    });
  });
});
