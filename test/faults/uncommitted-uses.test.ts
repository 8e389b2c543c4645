// A code exchange does not wait for the write that commits its use to the connector.
import { expect } from 'chai';
import { Redis } from 'ioredis';
import { createConnector, showConnector, type Connector } from '../support/management-api.ts';
import { openBrowser, requirePage } from '../support/browser.ts';
import { advanceClock, restoreClock } from '../support/clock.ts';
import { connect, type Connection, obtainCode, redeem } from '../support/connection.ts';
import { revoke } from '../support/faults/load.ts';
import { useProxiedSystem } from '../support/faults/proxied-system.ts';
import type { Command } from '../support/faults/redis-proxy.ts';
import { isAccepted } from '../support/mcp.ts';
import { authorizeUrl } from '../support/oauth.ts';
import type { System } from '../support/system.ts';
import { until } from '../support/until.ts';

/** A reservation expires after this time unless its code is exchanged. */
const RESERVATION_SECONDS = 300;
/** Redis ACL key patterns: every key may be written except those of connectors. */
const ALL_EXCEPT_CONNECTORS = ['~[abd-z]*', '~c[a-np-z]*', '%R~connector*'];

const isCommit = ({ name, kind }: Command) => name === 'evalsha' && kind === 'connector';

describe('A use whose commit to the connector failed', () => {
  const proxied = useProxiedSystem();
  let administrator: Redis;
  let system: System;
  let connector: Connector;
  before(() => {
    ({ system } = proxied());
    administrator = new Redis(proxied().redis.url);
  });
  beforeEach(async () => {
    connector = await createConnector(system, { maxUses: 1 });
  });
  afterEach(restoreClock);
  after(() => administrator?.disconnect());

  const usesOf = async () => {
    const { uses, state } = await showConnector(system, connector.id);
    return { uses, state };
  };

  /** Connects while Redis refuses to write the use. */
  async function connectWithoutCommit(): Promise<Connection> {
    const code = await obtainCode(system, connector);
    const refused = await refusals();
    await administrator.acl('SETUSER', 'default', 'resetkeys', ...ALL_EXCEPT_CONNECTORS);
    const { body } = await redeem(code);
    await until('the write to be refused', async () => (await refusals()) === refused + 1);
    await administrator.acl('SETUSER', 'default', 'allkeys');
    const { access_token: accessToken = '', refresh_token: refreshToken, scope } = body;
    return { ...code, browser: openBrowser(system.origins), accessToken, refreshToken, scope };
  }

  async function refusals(): Promise<number> {
    const [, count = 0] = /NOPERM:count=(\d+)/.exec(await administrator.info('errorstats')) ?? [];
    return Number(count);
  }

  async function isRefusedToGrace({ server, client, link }: Connection): Promise<boolean> {
    const { url } = authorizeUrl(server, client, { resource: link });
    const page = requirePage(await openBrowser(system.origins).openConsent(url, 'grace'));
    return page.status === 403 && /used up/i.test(page.html);
  }

  it('an uncommitted use counts from the exchange on and is not released', async () => {
    const connection = await connectWithoutCommit();
    expect(await isAccepted(connection.link, connection.accessToken)).to.equal(true);
    expect(await usesOf()).to.deep.equal({ uses: 1, state: 'used-up' });
    advanceClock(RESERVATION_SECONDS);
    expect(await usesOf()).to.deep.equal({ uses: 1, state: 'used-up' });
    expect(await isRefusedToGrace(connection)).to.equal(true);
  });

  it('an uncommitted use counts although its grant ended', async () => {
    const connection = await connectWithoutCommit();
    expect(await revoke(connection)).to.equal(true);
    advanceClock(RESERVATION_SECONDS);
    expect(await usesOf()).to.deep.equal({ uses: 1, state: 'used-up' });
    expect(await isRefusedToGrace(connection)).to.equal(true);
  });

  it('the exchange does not wait for the commit, and a late commit counts once', async () => {
    const { proxy } = proxied();
    const code = await obtainCode(system, connector);
    proxy.setRule((command) => (isCommit(command) ? 'hold reply' : 'pass'));
    const { status } = await redeem(code);
    expect(status).to.equal(200);
    await proxy.whenHeld();
    proxy.release();
    await connect(system, connector, { as: code });
    expect(await usesOf()).to.deep.equal({ uses: 1, state: 'used-up' });
  });
});
