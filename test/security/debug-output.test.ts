import { Redis } from 'ioredis';
import { decodeJwt } from 'jose';
import { expect } from 'chai';
import { type Canaries, findCanaries } from '../connections/canaries.ts';
import { gatehouseProgram, type Outcome } from '../management/command-line.ts';
import { createConnector } from '../support/management-api.ts';
import { type Browser, openBrowser, type Page, requirePage } from '../support/browser.ts';
import { connect, obtainCode, redeem } from '../support/connection.ts';
import { openAccountPage } from '../support/account-page.ts';
import { runServerWhile } from '../support/main-process.ts';
import { callTool } from '../support/mcp.ts';
import { authorizeUrl, discover, refresh } from '../support/oauth.ts';
import { startRedis } from '../support/redis-server.ts';
import { createDeployment, type Deployment, type System } from '../support/system.ts';

const STORE_PASSWORD = 'password-of-the-store-0123456789';
const GREETING = /is running\./;

/** Uses consent, account page and console as Ada. Returns every private value. */
async function usePages(place: Deployment): Promise<Canaries> {
  const system: System = { ...place.facts, signalStore: () => {}, stop: async () => {} };
  const canaries: Canaries = new Map(
    Object.entries({
      'email address': 'ada@example.com',
      'management key': system.managementKey,
      'password of the store': STORE_PASSWORD,
      'client name': 'Test client',
      'connector name': 'Canary figures',
    }),
  );
  const note = (what: string, value: string | null | undefined) =>
    value && value.length >= 8 ? canaries.set(`${what} ${canaries.size}`, value) : undefined;
  const notePage = (page: Page) => {
    for (const { controls } of page.forms)
      for (const { name, value } of controls)
        if (!['decision', 'level'].includes(name)) note(`form value ${name}`, value);
  };

  const connector = await createConnector(system, { name: 'Canary figures' });
  const { server } = await discover(connector.link);
  const browser = openBrowser([...system.origins, system.management]);
  const code = await obtainCode(system, connector, {
    method: 'client_secret_basic',
    as: { browser },
  });
  const { client, callback, verifier } = code;
  note('client secret', client.secret);
  for (const [name, value] of callback.searchParams) if (name !== 'iss') note(name, value);
  note('verifier', verifier);
  const { body } = await redeem(code);
  const { accessToken } = await connect(system, connector, { as: { browser, client } });
  await callTool(connector.link, body.access_token ?? '', 'club_overview');
  const refreshed = await refresh(server, client, body.refresh_token);
  for (const token of [body, refreshed.body]) {
    note('signature', token.access_token?.split('.')[2]);
    note('refresh token', token.refresh_token);
  }
  note('grant', String(decodeJwt(accessToken).grant_id));
  notePage(
    await browser.openConsent(authorizeUrl(server, client, { resource: connector.link }).url),
  );
  notePage(await openAccountPage(system, browser));
  for (const path of ['connectors', 'tokens', 'grants', 'accounts', 'clients', 'audit', 'health']) {
    const page = requirePage(await browser.visit(`${system.management}/console/${path}`));
    expect(page.status, path).to.equal(200);
    notePage(page);
  }
  noteBrowser(note, browser);
  expect(canaries.size).to.be.greaterThan(25);
  return canaries;
}

function noteBrowser(
  note: (what: string, value: string | null | undefined) => unknown,
  { jar, visited }: Browser,
): void {
  for (const { name, value } of jar) note(`cookie ${name}`, value);
  for (const { pathname, searchParams } of visited) {
    note('interaction', /\/interaction\/([\w-]{16,})/.exec(pathname)?.[1]);
    for (const name of ['code', 'state', 'nonce', 'code_challenge'])
      note(name, searchParams.get(name));
  }
}

describe('The output with DEBUG=*', () => {
  it('LOG-07 the server and the command line log no value of a page, a request or the store', async () => {
    const redis = await startRedis();
    const admin = new Redis(redis.url);
    await admin.config('SET', 'requirepass', STORE_PASSWORD);
    admin.disconnect();
    const storeAddress = redis.url.replace('//', `//:${STORE_PASSWORD}@`);
    const place = await createDeployment({ storeAddress });
    try {
      let canaries: Canaries = new Map();
      const environment = {
        ...place.environment,
        DEBUG: '*',
        DEBUG_DEPTH: '9',
        GATEHOUSE_LOG_LEVEL: 'trace',
      };
      const commands: Outcome[] = [];
      const { stdout, stderr } = await runServerWhile(environment, GREETING, async () => {
        canaries = await usePages(place);
        for (const command of ['doctor', 'connector list'])
          commands.push(await gatehouseProgram(command.split(' '), environment));
      });
      const logged = [stdout, stderr, ...commands.map((command) => command.stderr)].join('\n');
      expect(findCanaries(canaries, Buffer.from(logged))).to.deep.equal([]);
      const lines = stderr.trimEnd().split('\n');
      expect(lines.length).to.be.greaterThan(20);
      for (const line of lines) expect(JSON.parse(line)).to.have.property('level');
      for (const command of commands) expect(command.stderr).to.equal('');
    } finally {
      await place.release();
      await redis.stop();
    }
  }).timeout(120_000);
});
