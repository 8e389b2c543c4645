import { createSecretKey, randomBytes } from 'node:crypto';
import { expect } from 'chai';
import { saveAccount } from '../../src/people/accounts.ts';
import { recordAudit } from '../../src/audit/audit.ts';
import { documentKey } from '../../src/clients/clients.ts';
import { auditEvents } from '../../src/observability/labels.ts';
import { auditServices } from '../support/audit-services.ts';
import { CREATE, gatehouse, useCommandLine } from './command-line.ts';
import { ACCOUNT_LIFETIME } from './management-host.ts';

const NOW = Math.floor(Date.now() / 1000);

describe('the command audit', () => {
  const { host, done, json } = useCommandLine();
  const record = (event: string, secondsAgo: number) =>
    recordAudit(auditServices(host().store, NOW - secondsAgo), { event, outcome: 'done' });
  const eventsOf = ({ items }: { items: { event: string }[] }) => items.map(({ event }) => event);

  it('audit says that nothing was recorded before the first event', async () => {
    expect(await done('audit')).to.equal('No matching items.\n');
    expect(await json('audit')).to.deep.equal({ items: [] });
  });

  it('audit shows each item with the name and id of its connector', async () => {
    const { id } = await json(...CREATE);
    const stdout = await done('audit');
    expect(stdout).to.match(/^TIME .*EVENT .*OUTCOME .*BY/);
    expect(stdout).to.match(
      new RegExp(
        `^20\\S+ \\S+ \\S+ +connector_created +done +key:default +- +- +Ops \\(${id}\\) +.*Ops.*$`,
        'm',
      ),
    );
  });

  it('audit names people, apps and tokens beside their ids, and those who are gone by the id alone', async () => {
    const { store } = host();
    const { id: account } = await saveAccount(
      store,
      createSecretKey(randomBytes(32)),
      {
        issuer: 'https://login.example.com',
        subject: 'ada',
        name: 'Ada Lovelace',
        emailVerified: false,
        groups: [],
      },
      { now: NOW, ttl: ACCOUNT_LIFETIME },
    );
    const client = 'https://app.example.com/client.json';
    await store.set(documentKey(client), { document: { client_name: 'Example app' } }, 3600);
    const token = await json('token', 'mint', '--name', 'Nightly report', '--level', 'analytics');
    const gone = '0'.repeat(32);
    const audit = auditServices(store, NOW);
    await recordAudit(audit, { event: 'one', outcome: 'done', by: `account:${account}`, account });
    await recordAudit(audit, { event: 'two', outcome: 'done', clientId: client });
    const clientId = `minted:${token.id}`;
    await recordAudit(audit, { event: 'three', outcome: 'done', clientId, connector: gone });
    const stdout = await done('audit');
    expect(stdout).to.match(
      new RegExp(`one +done +Ada Lovelace \\(account:${account}\\) +Ada Lovelace \\(${account}\\)`),
    );
    expect(stdout).to.match(new RegExp(`two +done +- +- +Example app \\(${client}\\)`));
    expect(stdout).to.match(
      new RegExp(`three +done +- +- +Nightly report \\(${clientId}\\) +${gone}`),
    );
    expect((await json('audit', '--event', 'token_minted')).items[0]).to.not.have.property('name');
  });

  it('items from before keys had names are shown with the account id that they have', async () => {
    const item = {
      event: 'connector_revoked',
      by: 'account-of-an-earlier-version',
      outcome: 'done',
    };
    await recordAudit(auditServices(host().store, NOW), item);
    expect((await json('audit')).items[0]).to.include(item);
    expect(await done('audit')).to.match(/done +account-of-an-earlier-version +- +- +-/);
  });

  it('--since accepts a duration or a time', async () => {
    await record('old', 90_000);
    await record('recent', 60);
    expect(eventsOf(await json('audit'))).to.deep.equal(['recent', 'old']);
    expect(eventsOf(await json('audit', '--since', '24h'))).to.deep.equal(['recent']);
    const time = new Date((NOW - 3600) * 1000).toISOString();
    expect(eventsOf(await json('audit', '--since', time))).to.deep.equal(['recent']);
  });

  it('--since accepts every unit and ISO 8601 form', async () => {
    for (const ago of [90_000, 4000, 1000, 60]) await record(`ago_${ago}`, ago);
    const iso = new Date((NOW - 3600) * 1000).toISOString();
    const forms: [string, number][] = [
      ['600s', 1],
      ['30m', 2],
      ['2h', 3],
      ['7d', 4],
      [iso, 2],
      [iso.replace('.000Z', 'Z'), 2],
      [iso.replace('.000Z', '+00:00'), 2],
      [new Date((NOW - 2 * 86_400) * 1000).toISOString().slice(0, 10), 4],
    ];
    for (const [since, count] of forms)
      expect(eventsOf(await json('audit', '--since', since)), since).to.have.length(count);
  });

  it('audit reads all pages', async () => {
    await Promise.all(Array.from({ length: 1005 }, () => record('many', 0)));
    const events = eventsOf(await json('audit', '--limit', '5000'));
    expect(events).to.have.length(1005);
  });

  it('--limit keeps the newest items, the newest first', async () => {
    for (const event of ['first', 'second', 'third']) await record(event, 0);
    expect(eventsOf(await json('audit', '--limit', '2'))).to.deep.equal(['third', 'second']);
  });

  it('--event lists only these items, and an unknown name exits with 2 and the names', async () => {
    for (const event of ['signed_in', 'consent_denied', 'signed_in']) await record(event, 0);
    const found = await json('audit', '--event', 'signed_in');
    expect(eventsOf(found)).to.deep.equal(['signed_in', 'signed_in']);
    const { code, stdout, stderr } = await gatehouse(['audit', '--event', 'sign_in'], {});
    expect({ code, stdout }).to.deep.equal({ code: 2, stdout: '' });
    expect(stderr).to.include(auditEvents.join(', '));
  });
});
