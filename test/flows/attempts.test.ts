// How far apps and people get when they connect, and why no further.
import { expect } from 'chai';
import { z } from 'zod';
import { accessTo, gatehouse } from '../management/command-line.ts';
import { openBrowser } from '../support/browser.ts';
import { advanceClock, restoreClock } from '../support/clock.ts';
import { connect, obtainCode, openConsent, requestAuthorization } from '../support/connection.ts';
import { createConnector, requestManagement, revokeConnector } from '../support/management-api.ts';
import { callTool } from '../support/mcp.ts';
import { readMetrics, sumOf } from '../support/metrics.ts';
import { type LogLine, useSystem } from '../support/system.ts';
import { until } from '../support/until.ts';

const attempt = z.looseObject({
  id: z.string(),
  reference: z.string().optional(),
  time: z.string(),
  step: z.string(),
  client: z.string().optional(),
  account: z.string().optional(),
  grant: z.string().optional(),
  address: z.string().optional(),
  groups: z.array(z.string()).optional(),
  end: z.string().optional(),
  reason: z.string().optional(),
  code: z.string().optional(),
  count: z.number().optional(),
});
type Attempt = z.output<typeof attempt>;

describe('An attempt to connect', () => {
  const log: LogLine[] = [];
  const system = useSystem({ log });
  afterEach(restoreClock);

  const list = async (query: Record<string, string>): Promise<Attempt[]> => {
    const path = `/attempts?${new URLSearchParams(query)}`;
    return z
      .object({ items: z.array(attempt) })
      .parse(await requestManagement(system(), 'GET', path)).items;
  };
  /** The only attempt of the client, once it is as expected: attempts are written after the responses. */
  const attemptOf = (client: string, expected: (found: Attempt) => boolean): Promise<Attempt> =>
    until(`the attempt of ${client}`, async () => {
      const items = await list({ client });
      expect(items.length).to.be.at.most(1);
      const [found] = items;
      return found && expected(found) ? found : undefined;
    });
  const why = async (reference: string) => {
    const { stdout } = await gatehouse(
      ['why', reference],
      accessTo({ url: system().management }, system().managementKey),
    );
    return stdout;
  };
  const referenceIn = (html: string) => /<dd class="code">([\w-]{12})<\/dd>/.exec(html)?.[1] ?? '';

  it('is one record from the registration to the first call', async () => {
    const connector = await createConnector(system());
    const request = await requestAuthorization(system(), connector);
    const { id } = request.client;
    const registered = await attemptOf(id, ({ step }) => step === 'registered');
    expect(registered).to.include({ clientName: 'Test client' });
    const { accessToken } = await connect(system(), connector, {
      as: { client: request.client, browser: openBrowser(system().origins) },
    });
    const issued = await attemptOf(id, ({ step }) => step === 'token');
    expect(issued).to.include({ time: registered.time, client: id, connector: connector.id });
    expect(issued).to.not.have.property('end');
    expect(issued.account).to.be.a('string');
    expect(issued.address).to.equal('127.0.0.1');
    await callTool(connector.link, accessToken, 'list_metrics');
    const done = await attemptOf(id, ({ step }) => step === 'first_call');
    expect(done).to.include({ end: 'connected', grant: issued.grant });
    expect(await list({ account: String(done.account) })).to.deep.include(done);
  });

  it('of somebody without access has the groups that arrived, and the reference of the page opens it', async () => {
    const connector = await createConnector(system());
    const { page, client } = await openConsent(system(), connector, {
      person: 'alan',
      as: { browser: openBrowser(system().origins) },
    });
    const found = await attemptOf(client.id, ({ end }) => end === 'refused');
    expect(found).to.include({ step: 'consent', reason: 'no_rule' });
    expect(found.groups).to.be.an('array');
    expect(found.reference).to.equal(referenceIn(page.html));
    expect(await why(found.id)).to.include('No entitlement in the settings file matches');
    expect(await why(referenceIn(page.html))).to.match(
      new RegExp(`^ *groups +${found.groups?.join(', ') || 'none'}$`, 'm'),
    );
  });

  it('of an app that cannot reach Gatehouse is not there, and the empty list says why', async () => {
    const { stdout } = await gatehouse(
      ['attempts', '--client', 'an-app-behind-a-firewall'],
      accessTo({ url: system().management }, system().managementKey),
    );
    expect(stdout).to.match(/^There are no attempts\. .*VPN.*custom apps/);
  });

  it('is what the reference on an error page of the console opens, too', async () => {
    const url = `${system().management}/console/callback?code=of-nobody`;
    const html = await (await fetch(url, { headers: { accept: 'text/html' } })).text();
    const reference = referenceIn(html);
    const found = await until('the attempt of the page', async () =>
      (await list({ q: reference })).at(0),
    );
    expect(found).to.include({ reference, end: 'failed', reason: 'console', code: 'expired' });
    expect(await why(reference))
      .to.include('Somebody who opened the console saw an error page')
      .and.match(/^ *answer +expired$/m);
  });

  it('ends at a page about a link that does not work, whose reference opens it', async () => {
    const { id, link } = await createConnector(system());
    await revokeConnector(system(), id);
    const pages: [address: string, end: string, reason: string, text: string][] = [
      [link, 'refused', 'connector_revoked', 'revoked'],
      [link.replace(id, 'x'), 'failed', 'link_unknown', 'The error code is link_unknown'],
    ];
    for (const [address, end, reason, text] of pages) {
      const response = await fetch(address, { headers: { accept: 'text/html' } });
      const reference = referenceIn(await response.text());
      expect(reference).to.equal(response.headers.get('x-request-id'));
      const found = await until('the attempt of the page', async () =>
        (await list({ q: reference })).at(0),
      );
      expect(found).to.include({ reference, end, reason });
      expect(await why(reference)).to.include(text);
    }
  });

  it('whose code nobody redeems says so after the code has expired', async () => {
    const connector = await createConnector(system());
    const { client } = await obtainCode(system(), connector);
    await attemptOf(client.id, ({ step, end }) => step === 'code' && end === undefined);
    advanceClock(121);
    const [found] = await list({ client: client.id });
    expect(found).to.include({ step: 'code', end: 'abandoned', reason: 'code_not_redeemed' });
  });

  it('whose token nobody uses is counted and logged after two minutes, and the connection says so', async () => {
    const unused = async () =>
      sumOf(await readMetrics(system()), 'gatehouse_unused_connections_total', {});
    const before = await unused();
    const connector = await createConnector(system());
    const { client } = await connect(system(), connector);
    const { grant = '' } = await attemptOf(client.id, ({ step }) => step === 'token');
    expect(await requestManagement(system(), 'GET', `/grants/${grant}`)).to.not.have.property(
      'unused',
    );
    advanceClock(121);
    await until('the count of unused connections', async () => (await unused()) === before + 1);
    const [line] = log.filter(({ msg = '' }) => /no request with the token/.test(String(msg)));
    expect(line).to.include({ clientId: client.id, grantId: grant });
    expect(await requestManagement(system(), 'GET', `/grants/${grant}`)).to.include({
      unused: true,
    });
    expect(await why(grant)).to.include('No request with its token has arrived');
    const [found] = await list({ client: client.id });
    expect(found).to.include({ step: 'token', end: 'abandoned', reason: 'token_not_used' });
  });

  it('of a person who denies it ends there, and a denied refusal stays a refusal', async () => {
    const connector = await createConnector(system());
    const open = await openConsent(system(), connector, { person: 'ada' });
    await open.decide({ decision: 'deny' });
    await attemptOf(open.client.id, ({ end }) => end === 'denied');
    const refused = await openConsent(system(), connector, {
      person: 'alan',
      as: { browser: openBrowser(system().origins) },
    });
    await refused.decide({ decision: 'deny' });
    const later = await requestAuthorization(system(), connector);
    await attemptOf(later.client.id, ({ step }) => step === 'registered');
    const [found] = await list({ client: refused.client.id });
    expect(found).to.include({ end: 'refused', reason: 'no_rule' });
  });

  it('TRY-04 of a forgotten person is deleted', async () => {
    const connector = await createConnector(system());
    const { client } = await connect(system(), connector, {
      person: 'grace',
      as: { browser: openBrowser(system().origins) },
    });
    const { account = '' } = await attemptOf(client.id, ({ step }) => step === 'token');
    await requestManagement(system(), 'POST', `/accounts/${account}/forget`);
    expect(await list({ account })).to.deep.equal([]);
    expect(await list({ client: client.id })).to.deep.equal([]);
  });
});
