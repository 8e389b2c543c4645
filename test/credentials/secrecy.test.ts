// Looks for credentials everywhere but at their service and at the upstream.
import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import { type Canaries, findCanaries } from '../connections/canaries.ts';
import { openBrowser, requirePage } from '../support/browser.ts';
import {
  type CompanyProvider,
  companySettings,
  EXCHANGE_CLIENT,
  startCompanyProvider,
} from '../support/company-provider.ts';
import { connect } from '../support/connection.ts';
import {
  type Connected,
  connectPerson,
  openAddress,
  settingsFor,
  textOf,
  UPSTREAM,
  WHOAMI,
} from '../support/credentials/system.ts';
import {
  type ProtectedServer,
  startProtectedServer,
} from '../support/credentials/protected-server.ts';
import { gatehouseProgram } from '../management/command-line.ts';
import { runServerWhile } from '../support/main-process.ts';
import {
  changeAccount,
  createConnector,
  readAllAudit,
  requestManagement,
} from '../support/management-api.ts';
import { call } from '../support/mcp.ts';
import { readStoredBytes } from '../support/stored-bytes.ts';
import { createDeployment, type Deployment, type System } from '../support/system.ts';
import { startTraceCollector, traceSettings } from '../support/trace-collector.ts';

const CLIENT_SECRET = 'secret-of-our-client-at-the-service-0123456789';
const KEY = 'key-that-a-person-has-typed-0123456789';
const KEYS = 'keys';
const GREETING = /is running\./;
const SCOPES = ['openid', 'profile', 'email', 'groups'];

describe('Credentials of people at upstreams', () => {
  it('CRD-01 no token of an exchange is in the store, the log, traces, metrics, audit, a page, a response or an error', async () => {
    const service = await startProtectedServer();
    const issued: string[] = [];
    const issue = (subject: string) => {
      const random = `exchanged-${randomUUID()}`;
      issued.push(random);
      return service.acceptKey(`at-${subject}-${random}`);
    };
    const company = await startCompanyProvider({ exchanging: { issue } });
    const file = {
      ...settingsFor(service.url, {
        kind: 'exchange',
        clientId: EXCHANGE_CLIENT.clientId,
        clientSecret: { env: 'SERVICE_SECRET' },
      }),
      entitlements: [{ match: { group: 'employees' }, level: 'analytics' }],
    };
    const { settings: own, ...options } = companySettings(company, { scopes: SCOPES }, file);
    await searchIn({
      options,
      environment: { ...own, SERVICE_SECRET: EXCHANGE_CLIENT.clientSecret },
      commands: ['doctor'],
      use: (place, shown) => useExchange(place, { service, company, issued }, shown),
    }).finally(() => Promise.all([service.close(), company.stop()]));
  }).timeout(120_000);

  it('CRD-01 no credential is in the store, the log, traces, metrics, audit, a page, a response or an error', async () => {
    const service = await startProtectedServer();
    await searchIn({
      options: { file: settings(service) },
      environment: { SERVICE_SECRET: CLIENT_SECRET },
      commands: ['doctor', 'credential list', 'upstream list', 'audit list'],
      use: (place, shown) => useCredentials(place, service, shown),
    }).finally(() => service.close());
  }).timeout(120_000);
});

type Search = {
  options: Parameters<typeof createDeployment>[0];
  environment: Record<string, string>;
  /** Of the command line, when all is done. */
  commands: string[];
  /** Returns what must be nowhere. Adds what people, apps and administrators see. */
  use: (place: Deployment, shown: string[]) => Promise<Canaries>;
};

/** Looks for secrets in what a program with all logs shows and stores. */
async function searchIn({ options, environment: own, commands, use }: Search): Promise<void> {
  const collector = await startTraceCollector();
  const place = await createDeployment(options);
  const environment = {
    ...place.environment,
    ...traceSettings(collector),
    DEBUG: '*',
    GATEHOUSE_LOG_LEVEL: 'trace',
    ...own,
  };
  const shown: string[] = [];
  let canaries: Canaries = new Map();
  try {
    const { stdout, stderr } = await runServerWhile(environment, GREETING, async () => {
      canaries = await use(place, shown);
      for (const command of commands)
        shown.push(...outputOf(await gatehouseProgram(command.split(' '), environment)));
      const stored = await readStoredBytes(place.facts.storeAddress);
      shown.push(...stored.map(({ name, bytes }) => `${name} ${bytes.toString('latin1')}`));
    });
    const all = [stdout, stderr, ...collector.bodies, ...shown].join('\n');
    expect(all).to.contain('credential_connected').and.to.contain('credential_ended');
    expect(findCanaries(canaries, Buffer.from(all, 'latin1'))).to.deep.equal([]);
  } finally {
    await place.release();
    await collector.stop();
  }
}

function settings({ url }: ProtectedServer) {
  const { resourceServer } = settingsFor(url, {
    kind: 'oauth',
    clientId: 'known-client',
    clientSecret: { env: 'SERVICE_SECRET' },
    tokenAuth: 'post',
  });
  const [first] = resourceServer.upstreams;
  const keys = { ...first, id: KEYS, name: 'Keys', credential: { kind: 'key' } };
  return { resourceServer: { upstreams: [first, keys] } };
}

/** Other tokens have the same beginning. */
const randomPartOf = (token: string) => token.replace(/^at-\w+?-/, '');

const outputOf = ({ stdout, stderr }: { stdout: string; stderr: string }) => [stdout, stderr];

/** Connects, renews, is refused with the own token in the words, and disconnects. Returns every credential. */
async function useCredentials(
  place: Deployment,
  service: ProtectedServer,
  shown: string[],
): Promise<Canaries> {
  const system: System = { ...place.facts, signalStore: () => {}, stop: async () => {} };
  const { link } = await createConnector(system, { name: 'Notes', upstream: UPSTREAM });
  const show = (value: unknown) => void shown.push(JSON.stringify(value));
  const ask = async ({ call: send }: Connected) => {
    const answer = await send();
    show([answer.rpc, [...answer.headers]]);
    return answer;
  };
  const ada = await connectPerson({ system, service, link, person: 'ada' });
  expect(textOf(await ask(ada))).to.equal('ada');
  service.expire();
  expect(textOf(await ask(ada))).to.equal('ada');
  service.expire();
  // The words of a refusal are quoted in the log, and the token in them is a new one.
  service.refusal = (token) => `the token ${randomPartOf(token)} may not do this`;
  await ask(ada);
  service.refusal = undefined;

  const keys = await createConnector(system, { name: 'Keys', upstream: KEYS });
  const typed = service.acceptKey(KEY);
  const grace = await connectPerson({
    system,
    service,
    link: keys.link,
    person: 'grace',
    complete: (asked, browser) =>
      browser.submit(asked, { credential: 'now', key: `Bearer ${typed}` }),
  });
  show((await call(keys.link, grace.token, { jsonrpc: '2.0', id: 1, method: 'tools/list' })).rpc);

  for (const path of ['/credentials', '/audit', '/upstreams'])
    show(await requestManagement(system, 'GET', path));
  show(await readAllAudit(system));
  const metrics = await fetch(`${system.management}/metrics`, {
    headers: { authorization: `Bearer ${system.managementKey}` },
  });
  shown.push(await metrics.text());
  const browser = openBrowser([...system.origins, system.management]);
  browser.jar.push(...ada.browser.jar);
  const account = requirePage(await browser.visit(`${system.auth}/account`));
  shown.push(account.html);
  // Every way back is spent by now.
  for (const { pathname, href } of ada.browser.visited)
    if (pathname === '/credentials/callback') {
      const spent = requirePage(await browser.visit(href));
      expect(spent.status).to.equal(400);
      shown.push(spent.html);
    }
  await browser.submit(account, { upstream: UPSTREAM, decision: 'end-credential' });
  shown.push((await openAddress(await ask(ada), ada.browser)).html);
  service.tokenAnswers = [
    { body: '{"access_token":"bad\\ntoken-0123456789","token_type":"bearer"}' },
  ];
  const again = await openAddress(await ask(ada), ada.browser);
  shown.push(requirePage(await ada.browser.submit(again, { credential: 'now' })).html);
  show(await readAllAudit(system));

  const canaries: Canaries = new Map([
    ['secret of the client', CLIENT_SECRET],
    ['typed key', KEY],
    ['unusable token', 'token-0123456789'],
  ]);
  const note = (what: string, value: string | null | undefined) => {
    if (value) canaries.set(`${what} ${canaries.size}`, value);
  };
  for (const { token } of service.calls) note('access token', token && randomPartOf(token));
  for (const form of service.tokenRequests)
    for (const name of ['refresh_token', 'code', 'code_verifier']) note(name, form.get(name));
  for (const token of service.revoked) note('revoked token', token);
  expect(canaries.size).to.be.greaterThan(9);
  return canaries;
}

type Exchanging = { service: ProtectedServer; company: CompanyProvider; issued: string[] };

/** Exchanges, exchanges anew, is refused by the server and by the provider, signs in again, and ends. Returns every credential. */
async function useExchange(
  place: Deployment,
  { service, company, issued }: Exchanging,
  shown: string[],
): Promise<Canaries> {
  const system: System = { ...place.facts, signalStore: () => {}, stop: async () => {} };
  const { link } = await createConnector(system, { name: 'Notes', upstream: UPSTREAM });
  const person = {
    name: 'Ada',
    email: 'ada@example.com',
    email_verified: true,
    groups: ['employees'],
  };
  company.people.set('ada', person);
  company.signInAs('ada');
  const browser = openBrowser([system.auth, company.issuer]);
  const { accessToken } = await connect(system, { link }, { as: { browser } });
  const ask = async () => {
    const answer = await call(link, accessToken, WHOAMI);
    shown.push(answer.text, JSON.stringify([...answer.headers]));
    return answer;
  };
  expect(textOf(await ask())).to.equal('ada');
  service.expire();
  expect(textOf(await ask())).to.equal('ada');
  service.refusal = (token) => `the token ${randomPartOf(token)} may not do this`;
  await ask();
  service.refusal = undefined;
  service.answer = (token) => ({
    status: 400,
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, error: { code: -32_000, message: token } }),
  });
  await ask();
  service.answer = undefined;
  for (const error of ['access_denied', 'invalid_grant']) {
    service.expire();
    const error_description = `the token ${issued.at(-1)} ${company.secrets().at(-1)} is refused`;
    company.refusals.push({ status: 400, body: { error, error_description } });
    const asked = await ask();
    if (error === 'invalid_grant') {
      const page = await openAddress(asked, browser);
      shown.push(page.html, requirePage(await browser.submit(page, { credential: 'now' })).html);
    }
  }
  expect(textOf(await ask())).to.equal('ada');
  for (const path of ['/credentials', '/audit', '/upstreams', '/accounts'])
    shown.push(JSON.stringify(await requestManagement(system, 'GET', path)));
  shown.push(requirePage(await browser.visit(`${system.auth}/account`)).html);
  const read = async (path: string) => {
    const headers = { authorization: `Bearer ${system.managementKey}` };
    return (await fetch(system.management + path, { headers })).text();
  };
  shown.push(await read('/metrics'));
  const [{ id, account } = { id: '', account: '' }] = (
    (await requestManagement(system, 'GET', '/credentials')) as {
      items: { id: string; account: string }[];
    }
  ).items;
  await requestManagement(system, 'DELETE', `/credentials/${id}`);
  shown.push(await read(`/api/v1/accounts/${account}/export`));
  await changeAccount(system, account, 'forget');
  shown.push(JSON.stringify(await readAllAudit(system)));
  const secrets = [...company.secrets(), ...issued, EXCHANGE_CLIENT.clientSecret];
  expect(secrets.length).to.be.greaterThan(9);
  return new Map(secrets.map((secret, n) => [`secret ${n}`, secret]));
}
