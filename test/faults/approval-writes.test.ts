// What an approval writes together, and what a decision of an administrator that comes between does to it.
import { expect } from 'chai';
import { saveInteractionResult } from '../../src/oauth/engine/adapter.ts';
import { revokeClient } from '../../src/clients/clients.ts';
import { addRule } from '../../src/clients/rules.ts';
import { revokeConnector, updateConnector } from '../../src/links/connectors.ts';
import type { Store } from '../../src/store/store.ts';
import {
  isConsentPage,
  openBrowser,
  type Page,
  requireExternalRedirect,
  requirePage,
} from '../support/browser.ts';
import { advanceClock, restoreClock } from '../support/clock.ts';
import { REDIRECT_URI, registerClient } from '../support/connection.ts';
import { askForDevice, DEVICE_CODE, enterCode, poll } from '../support/device.ts';
import { useProxiedSystem } from '../support/faults/proxied-system.ts';
import {
  createConnector,
  listGrants,
  readAudit,
  showConnector,
} from '../support/management-api.ts';
import { authorizeUrl, discover, exchange, register } from '../support/oauth.ts';
import { openSystemStore } from '../support/system-store.ts';
import { until } from '../support/until.ts';

type App = { store: Store; name: string; clientId: string; account: string };

const NOW = 1_800_000_000;

describe('The writes of an approval', () => {
  const proxied = useProxiedSystem();
  let store: Awaited<ReturnType<typeof openSystemStore>>['store'];
  before(async () => {
    ({ store } = await openSystemStore(proxied().system));
  });
  afterEach(restoreClock);
  after(() => store.close());

  async function openConsent(name = 'Test client') {
    const { system } = proxied();
    const connector = await createConnector(system, { maxUses: 1 });
    const { server } = await discover(connector.link);
    const client = await registerClient(server, 'none', REDIRECT_URI, name);
    const browser = openBrowser(system.origins);
    const { url, verifier } = authorizeUrl(server, client, { resource: connector.link });
    const page = await browser.openConsent(url);
    const resume = `${server.authorization_endpoint}/${uidOf(page)}`;
    const approve = () => browser.submit(page, { decision: 'approve' });
    const redeemCode = (callback: URL) => exchange(server, client, { callback, verifier });
    return { browser, page, client, connector, resume, approve, redeemCode };
  }

  async function openDeviceConsent(name: string) {
    const { system } = proxied();
    const connector = await createConnector(system, { maxUses: 1 });
    const { server } = await discover(connector.link);
    const { body: app } = await register(server, {
      client_name: name,
      grant_types: [DEVICE_CODE, 'refresh_token'],
      token_endpoint_auth_method: 'none',
    });
    const client = { id: app.client_id ?? '', method: 'none', redirectUri: '' } as const;
    const { body: device } = await askForDevice(server, client, { resource: connector.link });
    const browser = openBrowser(system.origins);
    const page = await enterCode(browser, device.verification_uri, device.user_code);
    const approve = () => browser.submit(page, { decision: 'approve' });
    const ask = () => poll(server, client, device.device_code);
    return { connector, client, approve, ask };
  }

  it('the grant and the result of the interaction share a round trip, and the code and what an administrator has decided about the app', async () => {
    const { proxy } = proxied();
    const { approve } = await openConsent();
    let answer: ReturnType<typeof approve> | undefined;
    for (const beside of ['evalsha interaction', 'get client-rules']) {
      const seen: string[] = [];
      proxy.setRule(({ name, kind }) => {
        if (kind === 'grant' && name !== 'get' && seen.length === 0) {
          seen.push('grant');
          return 'hold reply';
        }
        if (seen.length > 0) seen.push(`${name} ${kind}`);
        return 'pass';
      });
      answer ??= approve();
      await proxy.whenHeld();
      await until(beside, () => seen.includes(beside));
      proxy.release();
    }
    expect((await answer)?.kind).to.equal('redirect');
  });

  it('the account is read beside the interaction that resumes, however long the page was open', async () => {
    const { proxy } = proxied();
    const { approve } = await openConsent();
    // Longer than accounts are cached.
    advanceClock(60);
    const seen: string[] = [];
    let isHeld = false;
    proxy.setRule(({ name, kind }) => {
      const isInteraction = kind === 'interaction';
      if (seen.length > 0 || (isInteraction && name !== 'get')) seen.push(`${name} ${kind}`);
      if (isHeld || seen.length === 0 || !isInteraction || name !== 'get') return 'pass';
      isHeld = true;
      return 'hold reply';
    });
    const answer = approve();
    await proxy.whenHeld();
    await until('get account', () => seen.includes('get account'));
    proxy.release();
    expect((await answer).kind).to.equal('redirect');
  });

  const ENDS: Record<
    string,
    { end: (app: App) => Promise<unknown>; reason: string; says: RegExp }
  > = {
    'blocked by its name': {
      end: ({ store: at, name }) => addRule(at, { effect: 'block', name, createdAt: NOW }),
      reason: 'client_blocked',
      says: /blocked this app/,
    },
    revoked: {
      end: ({ store: at, clientId }) => revokeClient(at, clientId, NOW),
      reason: 'client_blocked',
      says: /revoked this app/,
    },
    'kept away from the person': {
      async end({ store: at, name, clientId, account }) {
        const id = 'a-connection-that-ended';
        await at.addMember(`kept-out-of:${account}`, id, Infinity);
        const app = { clientId, name, destinations: [], since: NOW };
        await at.set(`kept-out:${id}`, { id, account, ...app }, Infinity);
      },
      reason: 'kept_out',
      says: /keeps this app away/,
    },
  };
  for (const [what, { end, reason, says }] of Object.entries(ENDS))
    it(`DCR-11 CNX-17 an app that is ${what} while its grant is being written gets no code`, async () => {
      const { system, proxy } = proxied();
      const name = `An app that is ${what}`;
      const { approve, client, connector } = await openConsent(name);
      proxy.setRule(({ name, kind }) => (kind === 'grant' && name !== 'get' ? 'hold' : 'pass'));
      const answer = approve();
      await proxy.whenHeld();
      const [account = ''] = await store.members('accounts:all');
      await end({ store, name, clientId: client.id, account });
      proxy.release();
      const page = requirePage(await answer);
      expect([page.status, says.test(page.html)], page.html).to.deep.equal([403, true]);
      const { items } = await listGrants(system, { client: client.id, state: 'active' });
      expect(items).to.deep.equal([]);
      expect(await showConnector(system, connector.id)).to.include({ state: 'active', uses: 0 });
      const ofClient = (await readAudit(system)).filter(({ clientId }) => clientId === client.id);
      expect(ofClient.map(({ event }) => event)).to.not.include('consent_approved');
      expect(ofClient.find(({ event }) => event === 'access_refused')).to.include({ reason });
    });

  it('DCR-11 an app that has redeemed the code before a second copy of its request finds it blocked loses the connection on record', async () => {
    const { system } = proxied();
    const name = 'An app that was fast';
    const { browser, page, client, connector, resume, approve, redeemCode } =
      await openConsent(name);
    const key = `interaction:${uidOf(page)}`;
    const interaction = (await store.get<object>(key))?.value;
    await redeemCode(requireExternalRedirect(await approve()));
    await until('the use', async () => (await showConnector(system, connector.id)).uses === 1);
    const { items } = await listGrants(system, { client: client.id, state: 'active' });
    // As the second copy has read it.
    const result = { consent: { grantId: items[0]?.id } };
    await store.set(key, { ...interaction, result }, 600);
    await addRule(store, { effect: 'block', name, createdAt: NOW });
    expect(requirePage(await browser.visit(resume)).status).to.equal(403);
    const after = await listGrants(system, { client: client.id, state: 'active' });
    expect(after.items).to.deep.equal([]);
    expect(await showConnector(system, connector.id)).to.include({ uses: 1 });
    const ends = (await readAudit(system)).filter(
      ({ clientId, event }) => clientId === client.id && event === 'grant_ended',
    );
    expect(ends.map(({ reason }) => reason)).to.deep.equal(['client_blocked']);
  });

  type Device = { name: string; connector: string };
  const DEVICE_ENDS: Record<
    string,
    { end: (device: Device) => Promise<unknown>; status: number; says: string; reason: string }
  > = {
    'app is blocked': {
      end: ({ name }) => addRule(store, { effect: 'block', name, createdAt: NOW }),
      status: 403,
      says: 'blocked this app',
      reason: 'client_blocked',
    },
    'connect link is paused': {
      end: ({ connector }) =>
        updateConnector(store, connector, (record) => ({ ...record, paused: true })),
      status: 400,
      says: 'This connect link is paused',
      reason: 'connector_paused',
    },
    'connect link is revoked': {
      end: ({ connector }) => revokeConnector(store, connector, NOW),
      status: 400,
      says: 'revoked or expired',
      reason: 'connector_revoked',
    },
  };
  for (const [what, { end, status, says, reason }] of Object.entries(DEVICE_ENDS))
    it(`DCR-11 the page of a device whose ${what} while its grant is being written says so, and the refusal is on record`, async () => {
      const { system, proxy } = proxied();
      const name = `A device whose ${what}`;
      const { connector, client, approve, ask } = await openDeviceConsent(name);
      proxy.setRule(({ name: command, kind }) =>
        kind === 'grant' && command !== 'get' ? 'hold' : 'pass',
      );
      const answer = approve();
      await proxy.whenHeld();
      await end({ name, connector: connector.id });
      proxy.release();
      const page = requirePage(await answer);
      expect([page.status, page.html.includes(says)], page.html).to.deep.equal([status, true]);
      const refused = (await readAudit(system)).find(
        ({ clientId, event }) => clientId === client.id && event === 'access_refused',
      );
      expect(refused).to.include({ reason });
      if (reason !== 'client_blocked') return;
      expect((await ask()).body.error).to.equal('access_denied');
      expect(await showConnector(system, connector.id)).to.include({ state: 'active', uses: 0 });
    });

  it('a result of the interaction without its grant approves nothing: the person is asked again', async () => {
    const { browser, page, resume } = await openConsent();
    const consent = { grantId: 'a-grant-that-was-never-written' };
    expect(await saveInteractionResult(store, uidOf(page), { consent })).to.equal(true);
    expect(isConsentPage(requirePage(await browser.visit(resume)))).to.equal(true);
  });

  it('an approval does not replace the denial of the same interaction', async () => {
    const exp = Math.floor(Date.now() / 1000) + 600;
    await store.set('interaction:denied', { exp }, 600);
    await saveInteractionResult(store, 'denied', { error: 'access_denied' });
    await saveInteractionResult(store, 'denied', { consent: { grantId: 'late' } });
    const result = (await store.get<{ result: object }>('interaction:denied'))?.value.result;
    expect(result).to.deep.equal({ error: 'access_denied' });
  });
});

function uidOf({ url }: Page): string {
  return String(url.pathname.split('/').at(-1));
}
