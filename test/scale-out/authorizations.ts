// Tests of authorizations whose steps go to different processes.
import { expect } from 'chai';
import { createConnector } from '../support/management-api.ts';
import { isConsentPage, openBrowser } from '../support/browser.ts';
import { connect, redeem, registerClient } from '../support/connection.ts';
import { isAccepted } from '../support/mcp.ts';
import { authorizeUrl, discover, refresh } from '../support/oauth.ts';
import { rawRequest } from '../support/raw-request.ts';
import { statusesAt } from '../support/scale-out/direct-call.ts';
import type { Processes } from '../support/scale-out/processes.ts';
import { connectSdkV2 } from '../support/sdk.ts';
import { until } from '../support/until.ts';

const STEPS = 6;
const FORMS = 4;
const DENIALS = 4;

/** For every kind of Redis. */
export function testAuthorizations(processes: () => Processes): void {
  it('an authorization succeeds with every step at another instance, and its tokens work at each', async () => {
    const connector = await createConnector(processes());
    const before = processes().responses.length;
    const connection = await connect(processes(), connector);
    const steps = processes()
      .responses.slice(before)
      .filter(({ host, path }) => host === 'AUTH' && /^\/(interaction|oauth)\//.test(path))
      .map(({ by }) => by);
    expect(steps.length).to.be.at.least(STEPS);
    steps.forEach((by, i) => expect(by).to.not.equal(steps[i - 1]));
    expect(new Set(steps).size).to.equal(processes().running().length);

    const { link, server, client, accessToken, refreshToken } = connection;
    // On a busy machine a command can exceed the store's timeout, which these instances keep: a client tries again after 503.
    await until('the token to work at each instance', async () => {
      const statuses = await statusesAt(processes().running(), link, accessToken);
      expect(statuses.filter((status) => status !== 503 && status !== 200)).to.deep.equal([]);
      return statuses.every((status) => status === 200);
    });
    const refreshed = await refresh(server, client, refreshToken);
    expect(await isAccepted(link, refreshed.body.access_token)).to.equal(true);
  });
}

/** For one kind of Redis, because the processes share sessions and codes on each. */
export function testBrowsers(processes: () => Processes): void {
  it('a session that started at one instance is valid at the others', async () => {
    const connector = await createConnector(processes());
    const { browser, server, client, link } = await connect(processes(), connector);
    const { responses, running } = processes();
    const before = responses.length;
    for (const { ports } of running()) {
      // The visit begins at the process after this one, however many requests it has.
      await until('a response of this process', async () => {
        await discover(link);
        return responses.at(-1)?.by === ports.AUTH;
      });
      const { url } = authorizeUrl(server, client, { resource: link });
      const page = await browser.visit(url);
      expect(page.kind === 'page' && isConsentPage(page)).to.equal(true);
    }
    const begun = responses
      .slice(before)
      .filter(({ path }) => path.startsWith('/oauth/authorize?'));
    expect(new Set(begun.map(({ by }) => by)).size).to.equal(running().length);
  });

  it('an SDK client connects and calls through several instances', async () => {
    const { link } = await createConnector(processes());
    const browser = openBrowser(processes().origins);
    const sdk = await connectSdkV2(link, 'auto', { browser, method: 'none' });
    for (let n = 0; n < 4; n += 1)
      expect(await sdk.callTool('club_overview')).to.have.property('members');
    expect(sdk.signIns()).to.equal(1);
    await sdk.close();
  });

  it('processes with one address for the development identity provider start and sign people in', async () => {
    const connector = await createConnector(processes());
    for (const person of ['ada', 'grace'] as const) {
      const { link, accessToken } = await connect(processes(), connector, { person });
      expect(await isAccepted(link, accessToken)).to.equal(true);
    }
  });

  it('all processes publish the same keys', async () => {
    const { host } = new URL(processes().auth);
    const published = processes()
      .running()
      .map(async ({ ports }) => {
        const options = { path: '/oauth/jwks', headers: { host } };
        return (await rawRequest(`http://127.0.0.1:${ports.AUTH}`, options)).body;
      });
    const [first, ...others] = await Promise.all(published);
    expect(JSON.parse(first ?? '')).to.have.nested.property('keys[0].kid');
    others.forEach((body) => expect(body).to.equal(first));
  });
}

/** Concurrent decisions of one person. */
export function testDecisions(processes: () => Processes): void {
  it('CON-18 a denial wins over a concurrent approval at another instance', async () => {
    const { link } = await createConnector(processes());
    const { server } = await discover(link);
    const client = await registerClient(server);
    const browser = openBrowser(processes().origins);
    for (let round = 0; round < DENIALS; round += 1) {
      const { url, verifier } = authorizeUrl(server, client, { resource: link });
      const page = await browser.openConsent(url);
      const decisions = round % 2 ? ['approve', 'deny'] : ['deny', 'approve'];
      const steps = await Promise.all(
        decisions.map((decision) => browser.submit(page, { decision })),
      );
      for (const step of steps)
        if (step.kind === 'redirect' && step.url.searchParams.has('code')) {
          const { body } = await redeem({ link, server, client, callback: step.url, verifier });
          expect(body.error).to.equal('invalid_grant');
        }
    }
  });

  it('concurrent consent forms of one browser each get a code or an error page', async () => {
    const connector = await createConnector(processes());
    const { browser, server, client, link } = await connect(processes(), connector);
    const pages = [];
    for (let n = 0; n < FORMS; n += 1)
      pages.push(await browser.openConsent(authorizeUrl(server, client, { resource: link }).url));
    const submitting = pages.map((page) => browser.submit(page, { decision: 'approve' }));
    const statuses = (await Promise.all(submitting)).map((step) =>
      step.kind === 'page' ? step.status : 303,
    );
    expect(new Set(statuses)).to.include(303);
    expect(statuses.filter((status) => status !== 303 && status !== 400)).to.deep.equal([]);
  });
}
