import { expect } from 'chai';
import type { Finding } from '../../src/doctor/report.ts';
import type { RuleInFile } from '../../src/settings/schema.ts';
import { freePorts } from '../support/free-ports.ts';
import { type Github, GITHUB_CLIENT, startGithub } from '../support/github.ts';
import { upstreamAt } from './fault.ts';
import { type GoodDeployment, startGoodDeployment } from './good-deployment.ts';

describe('doctor with several identity providers', () => {
  let good: GoodDeployment;
  let github: Github;
  before(async () => {
    good = await startGoodDeployment();
    github = await startGithub();
  });
  after(async () => {
    await good.stop();
    await github.stop();
  });

  /** Returns the findings about the providers. `secret` is that of GitHub. */
  async function examine(secret = GITHUB_CLIENT.clientSecret): Promise<Finding[]> {
    const [single] = good.settings.identityProviders;
    if (!single) throw new Error('the deployment has no identity provider');
    const identityProviders = [
      { ...single, id: 'example', listed: true, name: 'Example Corp' },
      {
        ...single,
        id: 'github',
        listed: true,
        kind: 'github' as const,
        name: 'GitHub',
        issuer: github.issuer,
        clientId: GITHUB_CLIENT.clientId,
        clientSecret: secret,
      },
    ];
    const settings = { ...good.settings, identityProviders };
    return good.examine({ settings }, ['identity-provider']);
  }

  const problems = (findings: Finding[]) =>
    findings.filter(({ outcome }) => outcome === 'problem').map(({ check }) => check);
  const callbackOf = (id: string) => `${good.settings.authUrl}/interaction/callback/${id}`;

  it('the callback of a single provider is reported if there are several', async () => {
    const findings = await examine();
    expect(problems(findings)).to.deep.equal(['callback']);
    expect(JSON.stringify(findings)).to.include(`register exactly ${callbackOf('example')} there`);
  });

  it('each provider has its own callback and secret, and only the wrong secret is reported', async () => {
    good.provider.misbehave({ callback: callbackOf('example') });
    const findings = await examine();
    expect(problems(findings)).to.deep.equal([]);
    const text = JSON.stringify(findings);
    expect(text).to.include(callbackOf('github')).and.include(callbackOf('example'));
    const wrong = await examine('another-secret');
    expect(problems(wrong)).to.deep.equal(['client-secret']);
    expect(JSON.stringify(wrong)).to.not.include('another-secret');
  });

  it('a provider that does not list email_verified is a note if an MCP server is to learn the address', async () => {
    const [single] = good.settings.identityProviders;
    if (!single) throw new Error('the deployment has no identity provider');
    const notesWith = async (
      claim: 'email' | 'name',
      claims_supported: string[] | undefined,
      more: Partial<typeof single> = {},
    ) => {
      good.provider.misbehave({ answersWith: { claims_supported } });
      const upstreams = [
        upstreamAt('http://127.0.0.1:9', { caller: { claims: [claim], headers: {} } }),
      ];
      const identityProviders = [{ ...single, ...more }];
      const settings = { ...good.settings, upstreams, identityProviders };
      const findings = await good.examine({ settings }, ['identity-provider']);
      good.provider.behave();
      return findings.filter(({ what }) => what.includes('email_verified'));
    };
    const [note] = await notesWith('email', ['sub', 'email']);
    expect(note?.outcome).to.equal('note');
    expect(note?.remedy).to.include('emailVerified: always');
    expect(await notesWith('email', ['sub', 'email', 'email_verified'])).to.deep.equal([]);
    expect(await notesWith('email', undefined)).to.deep.equal([]);
    expect(await notesWith('name', ['sub', 'email'])).to.deep.equal([]);
    const always = { emailVerified: 'always' } as const;
    expect(await notesWith('email', ['sub', 'email'], always)).to.deep.equal([]);
  });

  it('the finding about back-channel logout names the address to register, and warns if the provider cannot send logout tokens', async () => {
    const [single] = good.settings.identityProviders;
    if (!single) throw new Error('the deployment has no identity provider');
    const examineLogout = async (isSupported: boolean, more: Partial<typeof single>) => {
      good.provider.misbehave({ answersWith: { backchannel_logout_supported: isSupported } });
      const settings = { ...good.settings, identityProviders: [{ ...single, ...more }] };
      const findings = await good.examine({ settings }, ['identity-provider']);
      return findings.filter((finding) => /logout/.test(finding.what));
    };
    const connections = { backchannelLogout: 'connections' } as const;
    const address = `${good.settings.authUrl}/backchannel-logout`;
    const [ok] = await examineLogout(true, {});
    expect(ok?.outcome).to.equal('ok');
    expect(ok?.what).to.include(`register ${address} there`);
    const [warning] = await examineLogout(false, { ...connections, listed: true, id: 'example' });
    expect(warning?.outcome).to.equal('warning');
    expect(warning?.remedy).to.include(`register ${address}/example there`);
    expect(await examineLogout(false, {})).to.deep.equal([]);
    good.provider.behave();
  });

  it('a provider that does not list what stepUp needs is reported, and one without stepUp beside it', async () => {
    const [single] = good.settings.identityProviders;
    if (!single) throw new Error('the deployment has no identity provider');
    const stepUp = { levels: ['full'], maxAge: 900, acrValues: ['gold', 'silver'] };
    const other = { ...single, id: 'other', listed: true, issuer: 'https://localhost:1' };
    const warningsWith = async (answersWith: object, others: (typeof single)[] = []) => {
      good.provider.misbehave({ answersWith });
      const settings = { ...good.settings, identityProviders: [{ ...single, stepUp }, ...others] };
      const findings = await good.examine({ settings }, ['identity-provider', 'step-up']);
      good.provider.behave();
      return findings.flatMap(({ what }) => /acr|auth_time|step-up/.exec(what ?? '') ?? []);
    };
    const listed = ['gold', 'silver', 'bronze'];
    expect(await warningsWith({})).to.deep.equal([]);
    expect(
      await warningsWith({ claims_supported: ['auth_time', 'acr'], acr_values_supported: listed }),
    ).to.deep.equal([]);
    expect(await warningsWith({ claims_supported: ['acr'] })).to.deep.equal(['auth_time']);
    expect(await warningsWith({ acr_values_supported: ['gold'] })).to.deep.equal(['acr']);
    expect(await warningsWith({}, [other])).to.deep.equal(['step-up']);
  });

  it('a scope for groups that rules need, and that is offered but not requested, is a note', async () => {
    const [single] = good.settings.identityProviders;
    if (!single) throw new Error('the deployment has no identity provider');
    const from = { via: 'sign-in' as const, issuers: [single.issuer] };
    const notesWith = async (match: object, scopes: string[]) => {
      good.provider.misbehave({ answersWith: { scopes_supported: [...single.scopes, 'groups'] } });
      const settings = {
        ...good.settings,
        identityProviders: [{ ...single, scopes: [...single.scopes, ...scopes] }],
        entitlements: [{ match: { ...match, from }, level: 'operations' as const }],
      };
      const findings = await good.examine({ settings }, ['identity-provider']);
      good.provider.behave();
      return findings.flatMap(({ outcome, what }) =>
        /the scope groups/.test(what ?? '') ? outcome : [],
      );
    };
    expect(await notesWith({ group: 'analysts' }, [])).to.deep.equal(['note']);
    expect(await notesWith({ group: 'analysts' }, ['groups'])).to.deep.equal([]);
    expect(await notesWith({ anyone: true }, [])).to.deep.equal([]);
  });

  /** Returns the findings about rules. GitHub is the only provider, unless `more` has others. */
  async function examineRules(matches: RuleInFile['match'][], more: object = {}) {
    const [single] = good.settings.identityProviders;
    if (!single) throw new Error('the deployment has no identity provider');
    const only = { ...single, kind: 'github' as const, issuer: github.issuer, organizations: true };
    const from = { via: 'sign-in' as const, issuers: [github.issuer] };
    const settings = {
      ...good.settings,
      identityProviders: [only],
      entitlements: matches.map((match) => ({
        match: { ...match, from },
        level: 'operations' as const,
      })),
      ...more,
    };
    return good.examine({ settings }, ['entitlements']);
  }

  const organizationIs = (status: number, body: object = {}) =>
    github.setBehaviour({ responses: { '/api/v3/orgs/acme': { status, body } } });

  it('ENT-06 the finding about an organization by login has the text to write instead', async () => {
    organizationIs(200, { login: 'Acme', id: 4711 });
    const findings = await examineRules([{ group: 'acme' }, { organization: 'acme' }]);
    expect(findings.map(({ about, outcome }) => [about, outcome])).to.deep.equal([
      ['entitlements[0]', 'warning'],
      ['entitlements[1]', 'warning'],
    ]);
    for (const { remedy } of findings)
      expect(remedy).to.include('write organization: "Acme#4711" in place of the login');
    expect(github.requests.at(-1)).to.equal('/api/v3/orgs/acme');
  });

  const lookups: [status: number, body: object, outcome: string, what: RegExp][] = [
    [200, { login: 'acme', id: 4711 }, 'ok', /acme is the login of the organization 4711/],
    [200, { login: 'acme', id: 666 }, 'note', /the organization with this login is 666/],
    [404, {}, 'note', /there is no organization with this login/],
    [403, {}, 'unknown', /GitHub answered with status 403/],
    [200, { login: 'acme', id: '4711' }, 'unknown', /could not be looked up/],
  ];
  for (const [status, body, outcome, what] of lookups) {
    it(`ENT-06 the GitHub response ${status} ${JSON.stringify(body)} to the login of a rule with an id is reported as ${outcome}`, async () => {
      organizationIs(status, body);
      const [finding] = await examineRules([{ organization: 'acme#4711' }]);
      expect(finding?.outcome).to.equal(outcome);
      expect(finding?.what).to.match(what);
    });
  }

  it('ENT-06 the finding has the address that shows the id if GitHub is unreachable', async () => {
    const [port = 0] = await freePorts(1);
    const issuer = `http://127.0.0.1:${port}`;
    const [single] = good.settings.identityProviders;
    const [finding] = await examineRules([{ organization: 'acme' }], {
      identityProviders: [{ ...single, kind: 'github', issuer, organizations: true }],
      entitlements: [
        {
          match: { organization: 'acme', from: { via: 'sign-in', issuers: [issuer] } },
          level: 'full',
        },
      ],
    });
    expect(finding?.outcome).to.equal('warning');
    expect(finding?.what).to.include('its id could not be looked up');
    expect(finding?.remedy).to.include(`${issuer}/api/v3/orgs/acme`);
  });

  it('ENT-07 a rule about a domain that any of several providers may assert is a warning', async () => {
    const [single] = good.settings.identityProviders;
    const issuers = [String(single?.issuer), 'https://partners.example'];
    const from = { via: 'sign-in', issuers };
    const findings = await examineRules([], {
      identityProviders: [single, { ...single, id: 'partners', issuer: issuers[1] }],
      entitlements: [
        { match: { emailDomain: 'example.com', from }, level: 'operations' },
        { match: { subject: 'a', provider: 'partners', from }, level: 'operations' },
      ],
    });
    expect(findings.map(({ about, outcome }) => [about, outcome])).to.deep.equal([
      ['entitlements[0]', 'warning'],
    ]);
    expect(findings[0]?.remedy).to.include('add example.com to emailDomains');
  });
});
