// What an authorization writes when it starts and when it resumes.
import { expect } from 'chai';
import { Redis } from 'ioredis';
import { saveInteractionResult } from '../../src/oauth/engine/adapter.ts';
import { openBrowser, requireExternalRedirect, requirePage } from '../support/browser.ts';
import { registerClient } from '../support/connection.ts';
import { type ProxiedSystem, useProxiedSystem } from '../support/faults/proxied-system.ts';
import { createConnector } from '../support/management-api.ts';
import { authorizeUrl, discover } from '../support/oauth.ts';
import { until } from '../support/until.ts';
import { openSystemStore } from '../support/system-store.ts';

/** From the registration of an app to its code; the seven commands of the registration, and three about apps that are kept out, included. */
const MAX_COMMANDS = 55;
/** Of the checkpoints and the indexes of the audit log. */
const READS_OF_THE_LOG = ['xrange', 'hget'];
/** For one write of the record of an attempt, for which no response waits. */
const MAX_ATTEMPT_COMMANDS = 9;

/** An attempt is found by its grant once it was written. */
const isOfName = (command: string) => command === 'set attempt-name';

async function startBrowsing({ system }: ProxiedSystem) {
  const { link } = await createConnector(system);
  const { server } = await discover(link);
  const browser = openBrowser(system.origins);
  const openConsent = async () => {
    const client = await registerClient(server);
    return browser.openConsent(authorizeUrl(server, client, { resource: link }).url);
  };
  return { browser, openConsent };
}

// In a system of its own, because attempts of other tests are written when they rest.
describe('The commands of an authorization', () => {
  const proxied = useProxiedSystem();

  it(`an authorization of a signed-in person sends at most ${MAX_COMMANDS} commands to Redis`, async () => {
    const { proxy } = proxied();
    const { browser, openConsent } = await startBrowsing(proxied());
    const connectApp = async () => {
      const page = await openConsent();
      requireExternalRedirect(await browser.submit(page, { decision: 'approve' }));
    };
    const sent: string[] = [];
    proxy.setRule(({ name, kind }) => {
      // Counts of the overview and the index of the audit log are written now and then, and the keys of the store followed.
      const isOfLog =
        kind === 'entries' || kind.startsWith('audit-') || READS_OF_THE_LOG.includes(name);
      const isOfRequest = kind !== '' && kind !== 'naming' && kind !== 'activity' && !isOfLog;
      if (isOfRequest) sent.push(`${name} ${kind}`);
      return 'pass';
    });
    const connectUntilWritten = async () => {
      await connectApp();
      await until('the attempt to be written', () => sent.some(isOfName));
    };
    await connectUntilWritten();
    sent.length = 0;
    await connectUntilWritten();
    proxy.setRule();
    const attempts = sent.filter((command) => command.includes(' attempt'));
    expect(sent.length - attempts.length, sent.join(', ')).to.be.within(20, MAX_COMMANDS);
    // One each, unless the requests came so slowly that the attempt rested between them.
    const writes = attempts.filter((command) => command === 'evalsha attempt').length;
    expect(attempts.length, attempts.join(', ')).to.be.within(2, writes * MAX_ATTEMPT_COMMANDS);
  });
});

describe('The writes of an authorization', () => {
  const proxied = useProxiedSystem();

  it('an approval that cannot be recorded in the audit log gives the app no code', async () => {
    const { proxy } = proxied();
    const { browser, openConsent } = await startBrowsing(proxied());
    const page = await openConsent();
    proxy.setRule(({ kind }) => (kind === 'audit' ? 'cut' : 'pass'));
    const answer = requirePage(await browser.submit(page, { decision: 'approve' }));
    proxy.setRule();
    expect(answer.status).to.equal(503);
    expect(answer.headers.get('location')).to.equal(null);
  });

  it('an authorization of a signed-in person writes no session', async () => {
    const { proxy } = proxied();
    const { browser, openConsent } = await startBrowsing(proxied());
    const page = await openConsent();
    requireExternalRedirect(await browser.submit(page, { decision: 'approve' }));
    const written: string[] = [];
    proxy.setRule(({ name, kind }) => {
      if (name === 'set') written.push(kind);
      return 'pass';
    });
    await openConsent();
    proxy.setRule();
    expect(written).to.include('interaction').and.to.not.include('session');
  });

  it('what an interaction names is read in the same round trip as the interaction', async () => {
    const { proxy } = proxied();
    const { browser, openConsent } = await startBrowsing(proxied());
    await openConsent();
    /** Keeps the interaction back until the named reads have begun, too. */
    const readBeside = async <T>(reads: string[], send: () => Promise<T>, isResumed = false) => {
      const seen: string[] = [];
      let isSaved = !isResumed;
      let isHeld = false;
      proxy.setRule(({ name, kind }) => {
        if (isSaved) seen.push(`${name} ${kind}`);
        if (kind !== 'interaction' || isHeld) return 'pass';
        isHeld = isSaved && name === 'get';
        isSaved ||= name !== 'get';
        return isHeld ? 'hold reply' : 'pass';
      });
      const sent = send();
      await proxy.whenHeld();
      await until(reads.join(' and '), () => reads.every((read) => seen.includes(read)));
      proxy.release();
      return sent;
    };
    const named = [
      'get session-uid',
      'get session',
      'get connector',
      'get account',
      'get revoked-client',
      'get client-rules',
      'hscan kept-out-of',
    ];
    const page = await readBeside(named, openConsent);
    const other = await openConsent();
    const approve = (shown: typeof page) => browser.submit(shown, { decision: 'approve' });
    requireExternalRedirect(await readBeside(named, () => approve(page)));
    requireExternalRedirect(await readBeside(['get connector'], () => approve(other), true));
  });

  it('connecting more apps does not enlarge the stored session', async () => {
    const { redis } = proxied();
    const { browser, openConsent } = await startBrowsing(proxied());
    const connectApp = async () => {
      const page = await openConsent();
      requireExternalRedirect(await browser.submit(page, { decision: 'approve' }));
      return sessionBytes(redis.url);
    };
    const before = await connectApp();
    expect(before).to.be.above(100);
    expect(await connectApp()).to.be.within(before - 10, before + 10);
  });

  it('a result is not stored for an interaction that has ended', async () => {
    const { store } = await openSystemStore(proxied().system);
    const isSaved = await saveInteractionResult(store, 'ended', { consent: {} });
    expect([isSaved, await store.get('interaction:ended')]).to.deep.equal([false, undefined]);
    await store.close();
  });
});

/** Bytes of all stored sessions. */
async function sessionBytes(url: string): Promise<number> {
  const redis = new Redis(url);
  const names = await redis.keys('session:*');
  const lengths = await Promise.all(names.map((name) => redis.strlen(name)));
  redis.disconnect();
  return lengths.reduce((sum, length) => sum + length, 0);
}
