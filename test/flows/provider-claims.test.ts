import { expect } from 'chai';
import type { JWTPayload } from 'jose';
import {
  isConsentPage,
  openBrowser,
  requireExternalRedirect,
  requirePage,
} from '../support/browser.ts';
import { registerClient } from '../support/connection.ts';
import { type Connector, createConnector } from '../support/management-api.ts';
import { authorizeUrl, type Client, discover, type Server } from '../support/oauth.ts';
import {
  type Behaviour,
  type OpenIdProvider,
  openIdSettings,
  startOpenIdProvider,
} from '../support/openid-provider.ts';
import { type LogLine, startSystem, type System } from '../support/system.ts';
import { until } from '../support/until.ts';

const NAMED = { name: 'Ada', email: 'ada@example.com' };

describe('Claims that a provider sends in another way', () => {
  const log: LogLine[] = [];
  let provider: OpenIdProvider;
  let system: System;
  let connector: Connector;
  let server: Server;
  let client: Client;
  before(async () => {
    provider = await startOpenIdProvider();
    const entitlements = [{ match: { group: 'analysts' }, level: 'full' }];
    const settings = { GATEHOUSE_LOG_LEVEL: 'info' };
    system = await startSystem({ ...openIdSettings(provider, { entitlements }, settings), log });
    connector = await createConnector(system);
    ({ server } = await discover(connector.link));
    client = await registerClient(server);
  });
  beforeEach(() => {
    log.length = 0;
  });
  after(async () => {
    await system?.stop();
    await provider.stop();
  });

  async function signIn(behaviour: Behaviour) {
    provider.setBehaviour(behaviour);
    const browser = openBrowser([system.auth]);
    const { url } = authorizeUrl(server, client, { resource: connector.link });
    const departure = requireExternalRedirect(await browser.visit(url));
    return requirePage(await browser.visit(provider.approve(departure)));
  }

  const logged = (pattern: RegExp) => log.filter(({ msg }) => pattern.test(String(msg)));

  it('a rule about a group matches if the group is only at UserInfo, and the log has the groups that arrived', async () => {
    const body = {
      sub: 'subject-1',
      ...NAMED,
      email_verified: true,
      groups: ['analysts', 'staff'],
    };
    expect(
      isConsentPage(await signIn({ claims: NAMED, userinfo: { status: 200, body } })),
    ).to.equal(true);
    const [line] = logged(/signed in/);
    expect(line).to.deep.include({
      level: 30,
      what: provider.issuer,
      hasEmail: true,
      emailVerified: true,
      groupCount: 2,
      groups: ['analysts', 'staff'],
    });
    expect(line).to.have.property('requestId');
    expect(JSON.stringify(line)).to.not.match(/Ada|ada@|subject-1/);
  });

  it('a person whose groups are left out because they are too many is told so, and the log says once what to do', async () => {
    const claims: JWTPayload = { ...NAMED, sub: 'senior', _claim_names: { groups: 'src1' } };
    for (let time = 0; time < 2; time += 1) {
      const page = await signIn({ claims, userinfo: { status: 200, body: { sub: 'senior' } } });
      expect(page.status).to.equal(403);
      expect(page.html).to.include('didn’t tell us your groups, because you’re in too many');
    }
    const warnings = logged(/groups overage/);
    expect(warnings.map(({ level, what }) => [level, what])).to.deep.equal([[40, provider.issuer]]);
    expect(warnings[0]?.remedy).to.match(/Groups assigned to the application/);
  });

  it('a person without groups sees nothing about their number', async () => {
    const page = await signIn({ claims: { ...NAMED, groups: [] } });
    expect([page.status, page.html.includes('groups-omitted')]).to.deep.equal([403, false]);
  });

  const REFUSED: Record<string, [Behaviour, RegExp]> = {
    'signed with the client secret': [{ signature: 'secret' }, /"alg" .*; let the provider sign/],
    'of a clock that is ahead': [
      { claims: { nbf: Math.floor(Date.now() / 1000) + 600 } },
      /"nbf" .*; compare the clocks/,
    ],
    'for several audiences without azp': [
      { claims: { aud: ['gatehouse', 'other'] } },
      /"aud" .*; compare clientId/,
    ],
    'without the nonce': [
      { claims: { nonce: undefined } },
      /"nonce" .* missing; let the provider copy nonce/,
    ],
    'with a subject that is a number': [
      { claims: { sub: 7 as unknown as string } },
      /"sub" .* type; correct the named member/,
    ],
    'signed with another key': [
      { signature: 'stranger' },
      /signature verification failed; compare the keys/,
    ],
  };
  for (const [what, [behaviour, detail]] of Object.entries(REFUSED))
    it(`IDP-13 an ID token ${what} is refused, and a warning names the cause and what to do`, async () => {
      const page = await signIn({ ...behaviour, claims: { ...NAMED, ...behaviour.claims } });
      expect(page.status).to.equal(400);
      const line = await until('the log line', () => log.find(({ status }) => status === 400));
      expect(line.level).to.equal(40);
      expect(line.detail).to.match(detail);
    });
});
