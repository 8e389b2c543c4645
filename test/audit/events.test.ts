// What people and apps do, in the audit log and in the log.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { Redis } from 'ioredis';
import { decodeJwt } from 'jose';
import { auditEvents } from '../../src/observability/labels.ts';
import { openAccountPage } from '../support/account-page.ts';
import { advanceClock } from '../support/clock.ts';
import { openBrowser, requireExternalRedirect } from '../support/browser.ts';
import { approvalForm } from '../support/consent.ts';
import { connect, openConsent, REDIRECT_URI } from '../support/connection.ts';
import {
  type AuditItem,
  changeAccount,
  createConnector,
  listGrants,
  readAudit,
} from '../support/management-api.ts';
import { discover, register } from '../support/oauth.ts';
import { type LogLine, onEachStore, type System, useSystem } from '../support/system.ts';

/** Longer than a code is stored. */
const AFTER_CODE_SECONDS = 70;

async function itemsOf(system: System, event: string): Promise<AuditItem[]> {
  return (await readAudit(system)).filter((item) => item.event === event);
}

/** What was recorded, without when and where in the log. */
function withoutPlace({
  id: _id,
  epoch: _epoch,
  number: _number,
  time: _time,
  ...item
}: AuditItem) {
  return item;
}

const log: LogLine[] = [];
const options = { file: { audit: { log: true } }, log };

onEachStore(
  'The audit log of what people and apps do',
  (system) => {
    const app = { clientId: '', arguments: { client: 'Test client' } };

    it('LOG-08 an approval is recorded once with person, app, link and level, also if the form is sent twice at once', async () => {
      const connector = await createConnector(system());
      const { browser, page, client, redeem } = await openConsent(system(), connector);
      const { action, body } = approvalForm(page);
      body.set('level', 'analytics');
      const steps = await Promise.all([1, 2].map(() => browser.post(page, action, body)));
      const [code, ...others] = steps.map((step) => requireExternalRedirect(step));
      if (!code) throw new Error('no redirect');
      for (const other of others) expect(other.href).to.equal(code.href);
      const { sub, grant_id: grantId } = decodeJwt(String((await redeem(code)).body.access_token));
      const found = (await itemsOf(system(), 'consent_approved')).map(withoutPlace);
      expect(found).to.deep.equal([
        {
          event: 'consent_approved',
          account: sub,
          clientId: client.id,
          connector: connector.id,
          grantId,
          arguments: { level: 'analytics', ...app.arguments, redirectHost: '127.0.0.1:7070' },
          outcome: 'granted',
        },
      ]);
    });

    it('LOG-08 a denial is recorded once, also if the form is sent twice at once', async () => {
      const connector = await createConnector(system());
      const { browser, page, client } = await openConsent(system(), connector);
      const { action, body } = approvalForm(page);
      body.set('decision', 'deny');
      await Promise.all([1, 2].map(() => browser.post(page, action, body)));
      const [item, ...more] = await itemsOf(system(), 'consent_denied');
      expect(more).to.deep.equal([]);
      expect(item).to.deep.include({
        clientId: client.id,
        connector: connector.id,
        arguments: { level: 'operations', ...app.arguments, redirectHost: '127.0.0.1:7070' },
        outcome: 'denied',
      });
      const about = (await readAudit(system())).filter((other) => other.connector === connector.id);
      expect(about.map(({ event }) => event)).to.deep.equal([
        'connector_created',
        'consent_denied',
      ]);
    });

    it('LOG-08 each sign-in is recorded with the provider and what the person signs in to', async () => {
      const before = (await itemsOf(system(), 'signed_in')).length;
      const browser = openBrowser(system().origins);
      await openAccountPage(system(), browser, 'alan');
      await openAccountPage(system(), browser, 'alan');
      await openConsent(system(), await createConnector(system()), { person: 'grace' });
      const items = (await itemsOf(system(), 'signed_in')).slice(before);
      expect(items.map(({ arguments: details }) => details)).to.deep.equal([
        { to: 'account', provider: 'development' },
        { to: 'app', provider: 'development' },
      ]);
      const alan = String(items[0]?.account);
      await changeAccount(system(), alan, 'disable');
      await openAccountPage(system(), openBrowser(system().origins), 'alan');
      const [refused] = (await itemsOf(system(), 'signed_in')).slice(-1);
      expect(refused).to.include({ account: alan, outcome: 'refused' });
    });

    it('LOG-08 a registration is recorded with name and redirect hosts, and a refused one is not', async () => {
      const { server } = await discover((await createConnector(system())).link);
      const before = (await itemsOf(system(), 'client_registered')).length;
      const long = 'n'.repeat(5000);
      const wanted = { client_name: long, redirect_uris: [REDIRECT_URI, `${REDIRECT_URI}/2`] };
      const { body } = await register(server, wanted);
      const refused = await register(server, { redirect_uris: ['https://evil.example/'] });
      expect(refused.status).to.equal(400);
      const items = (await itemsOf(system(), 'client_registered')).slice(before);
      expect(items.map(withoutPlace)).to.deep.equal([
        {
          event: 'client_registered',
          clientId: body.client_id,
          arguments: { client: long.slice(0, 80), redirectHosts: ['127.0.0.1:7070'] },
          outcome: 'done',
        },
      ]);
      expect(JSON.stringify(items)).to.not.include(body.client_secret);
    });

    it('LOG-08 with audit.log, the log has each item once', async () => {
      // A checkpoint is logged after items that were stored later.
      const stored = (await readAudit(system())).filter(({ event }) => event !== 'checkpoint');
      const logged = log
        .flatMap(({ audit }) => (audit ? [audit as { event?: string }] : []))
        .filter(({ event }) => event !== 'checkpoint');
      expect(logged.slice(-stored.length)).to.deep.equal(stored);
    });
  },
  options,
);

describe('The events of the audit log', () => {
  it('the documentation lists every event', async () => {
    const text = await readFile(
      join(import.meta.dirname, '../../src/management/README.md'),
      'utf8',
    );
    const [, section = ''] = text.split('## Audit log');
    const rows = section.split('\n## ')[0]?.match(/^\| `.*?\|/gm) ?? [];
    const listed = rows.flatMap((row) => [...row.matchAll(/`(\w+)`/g)].map(([, name]) => name));
    expect(listed.toSorted()).to.deep.equal([...auditEvents].toSorted());
  });
});

describe('What the audit log cannot record', () => {
  const system = useSystem({ store: 'redis' });
  let redis: Redis;
  before(() => {
    redis = new Redis(system().storeAddress);
  });
  after(() => redis.disconnect());

  /** A string in place of the stream, so that Redis refuses to append, and nothing else. */
  async function withoutRecords<Result>(work: () => Promise<Result>): Promise<Result> {
    const [stream = ''] = await redis.keys('audit:*');
    await redis.rename(stream, 'aside');
    await redis.set(stream, '');
    const result = await work();
    await redis.rename('aside', stream);
    return result;
  }

  it('LOG-09 an approval that cannot be recorded gives the app no code, and nothing is connected', async () => {
    const connector = await createConnector(system());
    const { decide } = await openConsent(system(), connector);
    const answer = await withoutRecords(() => decide({ decision: 'approve' }));
    expect(answer).to.include({ kind: 'page', status: 503 });
    advanceClock(AFTER_CODE_SECONDS);
    expect((await listGrants(system(), { connector: connector.id })).items).to.deep.equal([]);
    expect(await itemsOf(system(), 'consent_approved')).to.deep.equal([]);
    await connect(system(), connector);
    expect(await itemsOf(system(), 'consent_approved')).to.have.length(1);
  });

  it('LOG-09 a denial is effective although it cannot be recorded', async () => {
    const { decide } = await openConsent(system(), await createConnector(system()));
    const answer = await withoutRecords(() => decide({ decision: 'deny' }));
    expect(requireExternalRedirect(answer).searchParams.get('error')).to.equal('access_denied');
  });

  it('LOG-09 a registration that cannot be recorded is refused', async () => {
    const { server } = await discover((await createConnector(system())).link);
    const wanted = { redirect_uris: [REDIRECT_URI] };
    const { status, body } = await withoutRecords(() => register(server, wanted));
    expect({ status, error: body.error }).to.deep.equal({
      status: 503,
      error: 'temporarily_unavailable',
    });
    expect(body).to.not.have.property('client_id');
  });

  it('LOG-10 of the sign-ins of a person without any access, the audit log has 20 a day from one address, and one item that says so', async () => {
    const earlier = (await itemsOf(system(), 'signed_in')).length;
    for (const person of ['alan', 'ada'] as const)
      for (let n = 0; n < 23; n += 1)
        await openAccountPage(system(), openBrowser(system().origins), person);
    const items = (await itemsOf(system(), 'signed_in')).slice(earlier);
    const outcomes = Map.groupBy(items, ({ account }) => account ?? '');
    const counts = [...outcomes.values()].map((all) => ({
      done: all.filter(({ outcome }) => outcome === 'done').length,
      unrecorded: all.filter(({ outcome }) => outcome === 'done_unrecorded').length,
    }));
    expect(counts)
      .to.deep.include({ done: 20, unrecorded: 1 })
      .and.deep.include({ done: 23, unrecorded: 0 });
  });

  it('LOG-10 of a flood of registrations from one address, the audit log has at most 200 a day, one item that says so, and later approvals', async () => {
    const connector = await createConnector(system());
    const { server } = await discover(connector.link);
    const wanted = { redirect_uris: [REDIRECT_URI] };
    // All at once would be too much for the store of a busy machine.
    for (let sent = 0; sent < 210; sent += 30) {
      const many = Array.from({ length: 30 }, () => register(server, wanted));
      for (const { status } of await Promise.all(many)) expect(status).to.equal(201);
    }
    const items = await itemsOf(system(), 'client_registered');
    expect(items.filter(({ outcome }) => outcome === 'done')).to.have.length.within(150, 200);
    expect(items.filter(({ outcome }) => outcome === 'done_unrecorded')).to.have.length(1);
    const { client } = await connect(system(), connector);
    const approved = (await readAudit(system())).findLast(({ event }) => event !== 'checkpoint');
    expect(approved).to.include({ event: 'consent_approved', clientId: client.id });
  });
});
