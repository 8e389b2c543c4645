// Webhooks as Standard Webhooks describes them (https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md).
import { expect } from 'chai';
import { Webhook } from 'standardwebhooks';
import {
  acceptedItems,
  type AuditReceiver,
  type Delivery,
  itemsIn,
  startAuditReceiver,
} from '../../support/audit-receiver.ts';
import { until } from '../../support/until.ts';
import {
  type DeliveredLog,
  openDeliveredLog,
  SECOND_SECRET,
  SECRET,
  webhook,
} from './delivered-log.ts';

describe('The audit log delivered as webhooks', () => {
  let log: DeliveredLog;
  let receiver: AuditReceiver;
  beforeEach(async () => {
    log = await openDeliveredLog();
    receiver = await startAuditReceiver();
  });
  afterEach(async () => {
    await log.close();
    await receiver.stop();
  });

  const headersOf = ({ headers }: Delivery) => headers as Record<string, string>;
  const allArrive = (count: number) =>
    until('all items', () => acceptedItems(receiver).length === count);

  it('items arrive in order, in batches of at most 500, signed with the secret', async () => {
    await log.append(700);
    await log.deliver([webhook(receiver.url)]);
    await allArrive(700);
    const numbers = acceptedItems(receiver).map(({ number }) => number);
    expect(numbers).to.deep.equal(numbers.toSorted((one, other) => one - other));
    expect(new Set(acceptedItems(receiver).map(({ id }) => id)).size).to.equal(700);
    expect(receiver.deliveries.map((each) => itemsIn(each).length)).to.deep.equal([500, 200]);
    for (const delivery of receiver.deliveries) {
      expect(delivery.headers['content-type']).to.equal('application/json');
      expect(headersOf(delivery)['webhook-id']).to.match(/^[\w-]{10,}$/);
      const content = new Webhook(SECRET).verify(delivery.body, headersOf(delivery));
      expect(content).to.include({ type: 'audit.items' });
    }
    const ids = receiver.deliveries.map((each) => headersOf(each)['webhook-id']);
    expect(new Set(ids).size).to.equal(2);
  });

  it('with two secrets, each delivery has both signatures', async () => {
    await log.append(1);
    await log.deliver([webhook(receiver.url, { secrets: [SECRET, SECOND_SECRET] })]);
    const delivery = await receiver.delivery(0);
    expect(headersOf(delivery)['webhook-signature']?.split(' ')).to.have.lengthOf(2);
    for (const secret of [SECRET, SECOND_SECRET])
      new Webhook(secret).verify(delivery.body, headersOf(delivery));
  });

  it('with the format array, the body is the list of items', async () => {
    await log.append(2);
    await log.deliver([webhook(receiver.url, { format: 'array' })]);
    const { body } = await receiver.delivery(0);
    expect(JSON.parse(body.toString('utf8')))
      .to.be.an('array')
      .with.lengthOf(2);
  });

  it('a batch has at most 900 kB, and arguments above 16 kB are cut in the delivery only', async () => {
    const argumentsJson = JSON.stringify({ text: 'é'.repeat(30_000) });
    await log.append(100, { argumentsJson });
    await log.deliver([webhook(receiver.url)]);
    await allArrive(100);
    expect(receiver.deliveries.length).to.be.above(1);
    for (const { body } of receiver.deliveries) expect(body.length).to.be.at.most(900_000);
    const [item] = acceptedItems(receiver);
    expect(item?.argumentsJson).to.equal(`{"text":"${'é'.repeat(8187)}`);
    expect(item).to.include({ argumentsBytes: Buffer.byteLength(argumentsJson) });
  });

  it('a target with events gets these events only', async () => {
    await log.append(3);
    await log.append(1, { event: 'consent_approved', outcome: 'granted' });
    await log.append(3);
    const target = webhook(receiver.url, { events: ['consent_approved'] });
    await log.deliver([target]);
    await log.statusWith(target, ({ backlog }) => backlog === 0);
    expect(acceptedItems(receiver).map(({ event }) => event)).to.deep.equal(['consent_approved']);
  });

  it('items that are stored later arrive within five seconds', async () => {
    await log.deliver([webhook(receiver.url)]);
    for (const count of [1, 2, 3]) {
      await log.append(1);
      await until('the item', () => acceptedItems(receiver).length === count, 5);
    }
  });

  it('the headers in the settings are sent', async () => {
    await log.append(1);
    await log.deliver([webhook(receiver.url, { headers: { authorization: 'Splunk abc' } })]);
    expect((await receiver.delivery(0)).headers['authorization']).to.equal('Splunk abc');
  });
});
