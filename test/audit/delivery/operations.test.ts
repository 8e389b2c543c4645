// What administrators see of the delivery of the audit log, and what they can do.
import { expect } from 'chai';
import {
  acceptedItems,
  type AuditReceiver,
  itemsIn,
  startAuditReceiver,
} from '../../support/audit-receiver.ts';
import { advanceClock, restoreClock } from '../../support/clock.ts';
import { useConsole } from '../../support/console.ts';
import { createConnector, readAudit, requestManagement } from '../../support/management-api.ts';
import { changeSettings } from '../../support/settings-file.ts';
import { startSystem, STORES, type System } from '../../support/system.ts';
import { until } from '../../support/until.ts';
import { gatehouse } from '../../management/command-line.ts';
import { SECRET } from './delivered-log.ts';

const SIEM = { id: 'siem', kind: 'webhook', privateNetwork: true, secretEnv: 'SIEM_SECRET' };
const settings = { SIEM_SECRET: SECRET };

for (const store of STORES)
  describe(`The delivery of the audit log of a running system, on ${store}`, () => {
    let receiver: AuditReceiver;
    let system: System;
    before(async () => {
      receiver = await startAuditReceiver();
      const file = { audit: { delivery: [{ ...SIEM, url: receiver.url }] } };
      system = await startSystem({ store, file, settings });
    });
    after(async () => {
      await system.stop();
      await receiver.stop();
    });
    afterEach(restoreClock);

    const command = (...words: string[]) =>
      gatehouse(words, {
        GATEHOUSE_MANAGEMENT_URL: system.management,
        GATEHOUSE_MANAGEMENT_KEY: system.managementKey,
      });
    const delivery = async () => {
      const found = await requestManagement(system, 'GET', '/audit/delivery');
      return (found as { items: Record<string, unknown>[] }).items[0] ?? {};
    };
    const eventsSent = () => acceptedItems(receiver).map(({ event }) => event);

    it('changes arrive within five seconds, and the API and the command line show it', async () => {
      await createConnector(system);
      await until('the item', () => eventsSent().includes('connector_created'), 5);
      await until('the state', async () => (await delivery())['backlog'] === 0);
      expect(await delivery()).to.include({
        id: 'siem',
        kind: 'webhook',
        url: new URL(receiver.url).origin,
        state: 'delivering',
        rejected: 0,
        lost: 0,
      });
      const { code, stdout } = await command('audit', 'delivery');
      expect(code).to.equal(0);
      expect(stdout).to.match(/ID +KIND .*\n *siem +webhook .* delivering +0 /);
    });

    it('an item in the log has the id, epoch and number with which it was delivered', async () => {
      const stored = (await readAudit(system)).find(({ event }) => event === 'connector_created');
      const sent = acceptedItems(receiver).find(({ event }) => event === 'connector_created');
      expect(sent).to.deep.include({
        id: stored?.id,
        epoch: stored?.epoch,
        number: stored?.number,
      });
    });

    it('resend sends the items since a time again, as new batches, and is on record', async () => {
      advanceClock(7200);
      await createConnector(system, { name: 'Later' });
      await until(
        'the item',
        () => eventsSent().filter((each) => each === 'connector_created').length === 2,
      );
      await until('the state', async () => (await delivery())['backlog'] === 0);
      const before = receiver.deliveries.length;
      const sentBefore = acceptedItems(receiver);
      const { code, stdout, stderr } = await command(
        'audit',
        'resend',
        '--target',
        'siem',
        '--since',
        '1h',
      );
      expect(stderr).to.equal('');
      expect(code).to.equal(0);
      expect(stdout).to.match(/siem gets \d+ items again/);
      const later = sentBefore.findLast(({ event }) => event === 'connector_created');
      // A checkpoint may be sent between, and before the item.
      const firstOf = (batch: (typeof receiver.deliveries)[number]) =>
        itemsIn(batch).find(({ event }) => event !== 'checkpoint');
      await until('a batch that begins with the item', () =>
        receiver.deliveries.slice(before).some((batch) => firstOf(batch)?.id === later?.id),
      );
      expect(eventsSent().filter((each) => each === 'connector_created')).to.have.length(3);
      const ids = receiver.deliveries.map(({ headers }) => headers['webhook-id']);
      expect(new Set(ids).size).to.equal(ids.length);
      const [resent] = (await readAudit(system)).filter(({ event }) => event === 'delivery_resent');
      expect(resent).to.include({ by: 'key:default', outcome: 'done' });
      expect(resent?.arguments).to.include({ target: 'siem' });
    });

    it('an unknown target and a missing time are errors', async () => {
      const unknown = await command('audit', 'resend', '--target', 'none', '--since', '1h');
      expect(unknown).to.include({ code: 1, stdout: '' });
      expect(unknown.stderr).to.include('audit.delivery has siem');
      expect((await command('audit', 'resend', '--target', 'siem')).code).to.equal(2);
      const sent = requestManagement(system, 'POST', '/audit/delivery/siem/resend', {});
      const refused = await sent.catch((error: unknown) => String(error));
      expect(refused).to.include(': 400 ').and.include('since');
    });

    it('DLV-04 after a reload with another key, what was refused is sent at once, with the same id', async () => {
      receiver.answerWith(({ headers }) => ({
        status: headers['authorization'] === 'Splunk new-key' ? 204 : 401,
      }));
      const before = receiver.deliveries.length;
      await createConnector(system, { name: 'While refused' });
      await until('the state', async () => (await delivery())['state'] === 'refused');
      const target = { ...SIEM, url: receiver.url, headers: { Authorization: 'Splunk new-key' } };
      const restore = changeSettings(system, { audit: { delivery: [target] } });
      await requestManagement(system, 'POST', '/settings/reload', {});
      await until('the delivery', async () => (await delivery())['backlog'] === 0);
      const [refused, accepted] = receiver.deliveries.slice(before);
      expect([refused?.status, accepted?.status]).to.deep.equal([401, 204]);
      expect(accepted?.headers['webhook-id']).to.equal(refused?.headers['webhook-id']);
      restore();
      receiver.answerWith(undefined);
      await requestManagement(system, 'POST', '/settings/reload', {});
    });

    it('the settings of the parent command still work', async () => {
      const { code, stdout } = await command(
        'audit',
        '--since',
        '24h',
        '--event',
        'connector_created',
      );
      expect(code).to.equal(0);
      expect(stdout).to.include('connector_created');
    });
  });

describe('The delivery of the audit log in the console', () => {
  let receiver: AuditReceiver;
  before(async () => {
    receiver = await startAuditReceiver();
    receiver.answerWith(() => ({ status: 403, body: 'token <b>expired</b>' }));
  });
  after(() => receiver.stop());
  const { system, signIn, open } = useConsole({
    settings,
    get file() {
      return { audit: { delivery: [{ ...SIEM, url: receiver.url }] } };
    },
  });

  it('the health page and the overview show why a receiver refuses everything', async () => {
    await createConnector(system());
    const { browser } = await until('the state', async () => {
      const signedIn = await signIn('/health');
      const { html } = signedIn.page;
      return (
        html.includes('HTTP 403: token expired') && html.includes('Receiver refuses') && signedIn
      );
    });
    const overview = await open(browser, '/overview');
    expect(overview.html).to.include('1 receiver refuses the audit log');
  });
});
