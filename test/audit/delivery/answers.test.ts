// What receivers answer, and what follows.
import { expect } from 'chai';
import {
  acceptedItems,
  type AuditReceiver,
  itemsIn,
  startAuditReceiver,
} from '../../support/audit-receiver.ts';
import { partialSuccess } from '../../support/otlp-logs.ts';
import { until } from '../../support/until.ts';
import { type DeliveredLog, openDeliveredLog, otlp, webhook } from './delivered-log.ts';

const NGINX_413 =
  '<html>\r\n<head><title>413 Request Entity Too Large</title></head>\r\n<body>\r\n<center><h1>413 Request Entity Too Large</h1></center>\r\n</body></html>';

describe('What receivers of the audit log answer', () => {
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

  const target = () => webhook(receiver.url);
  const idsOf = () => receiver.deliveries.map(({ headers }) => headers['webhook-id']);
  const rejections = async () =>
    (await log.items()).filter(({ event }) => event === 'delivery_rejected');

  describe('a batch that is too large or has a bad item', () => {
    it('DLV-01 413 halves a batch, each half gets an id of its own, and no id has two bodies', async () => {
      receiver.answerWith(({ body }) =>
        body.length > 20_000 ? { status: 413, body: NGINX_413 } : { status: 200 },
      );
      await log.append(300);
      await log.deliver([target()]);
      await log.statusWith(target(), ({ backlog }) => backlog === 0);
      const numbers = acceptedItems(receiver).map(({ number }) => number);
      expect(numbers).to.deep.equal(Array.from({ length: 300 }, (_, n) => n + 1));
      const bodies = new Map<unknown, string>();
      for (const { headers, body } of receiver.deliveries) {
        const text = body.toString();
        expect(bodies.get(headers['webhook-id']) ?? text).to.equal(text);
        bodies.set(headers['webhook-id'], text);
      }
      expect(new Set(idsOf()).size).to.equal(receiver.deliveries.length);
    });

    it('DLV-01 a single item that is refused is sent without arguments', async () => {
      receiver.answerWith(({ body }) => ({ status: body.length > 8000 ? 413 : 200 }));
      await log.append(2);
      await log.append(1, { argumentsJson: JSON.stringify({ text: 'x'.repeat(60_000) }) });
      await log.append(2);
      await log.deliver([target()]);
      await log.statusWith(target(), ({ backlog }) => backlog === 0);
      const items = acceptedItems(receiver);
      expect(items.map(({ number }) => number)).to.deep.equal([1, 2, 3, 4, 5]);
      expect(items[2])
        .to.include({ argumentsOmitted: true })
        .and.not.have.property('argumentsJson');
      expect(await rejections()).to.deep.equal([]);
    });

    it('DLV-01 an item that is refused without arguments too is replaced by delivery_rejected, which only other targets get', async () => {
      const other = await startAuditReceiver();
      receiver.answerWith((delivery) => ({
        status: itemsIn(delivery).some(({ tool }) => tool === 'poison') ? 400 : 200,
        body: 'bad\u0007 line\n"poison"',
      }));
      await log.append(3);
      await log.append(1, { tool: 'poison', account: 'ada', argumentsJson: '{}' });
      await log.append(3);
      const others = webhook(other.url, { id: 'other' });
      await log.deliver([target(), others]);
      const status = await log.statusWith(
        target(),
        ({ backlog, rejected }) => backlog === 0 && rejected === 1,
      );
      expect(status).to.include({ state: 'delivering' });
      const [poison] = (await log.items()).filter(({ tool }) => tool === 'poison');
      const [item, ...more] = await rejections();
      expect(more).to.deep.equal([]);
      expect(item?.arguments).to.deep.equal({
        target: 'siem',
        item: poison?.id,
        count: 1,
        answer: 'HTTP 400: bad line "poison"',
      });
      // What a receiver repeats goes with the person.
      expect(item?.account).to.equal('ada');
      await log.statusWith(others, ({ backlog }) => backlog === 0);
      expect(acceptedItems(receiver).map(({ number }) => number)).to.deep.equal([1, 2, 3, 5, 6, 7]);
      expect(acceptedItems(other).map(({ event }) => event)).to.include('delivery_rejected');
      expect(await log.metrics()).to.include('audit_delivery_rejected_total{target="siem"} 1');
      await other.stop();
    });

    it('DLV-02 ten items that are refused in a row hold everything, and nothing more is given up', async () => {
      receiver.answerWith(() => ({ status: 400, body: 'unknown format' }));
      await log.append(30);
      await log.deliver([target()]);
      const status = await log.statusWith(target(), ({ state }) => state === 'refused');
      expect(status).to.include({
        rejected: 10,
        delivered: 10,
        reason: 'HTTP 400: unknown format',
      });
      const before = receiver.deliveries.length;
      log.advance(400);
      await until('another attempt', () => receiver.deliveries.length > before);
      await log.statusWith(target(), ({ failedAt = 0 }) => failedAt > (status.failedAt ?? 0));
      expect((await log.status(target())).rejected).to.equal(10);
      receiver.answerWith(undefined);
      log.advance(400);
      await log.statusWith(target(), ({ backlog }) => backlog === 0);
      const numbers = acceptedItems(receiver).map(({ number }) => number);
      expect(numbers.slice(0, 20)).to.deep.equal(Array.from({ length: 20 }, (_, n) => n + 11));
    });

    it('DLV-01 two targets that refuse everything do not fill the log with items about each other', async () => {
      const other = await startAuditReceiver();
      for (const each of [receiver, other]) each.answerWith(() => ({ status: 400 }));
      await log.append(1);
      const targets = [target(), webhook(other.url, { id: 'other' })];
      await log.deliver(targets);
      for (const each of targets) await log.statusWith(each, ({ backlog }) => backlog === 0);
      // Each target refused the call and the item about the other target.
      expect(await rejections()).to.have.lengthOf(2);
      await other.stop();
    });
  });

  it('DLV-03 a partial success of OTLP is not retried, and is counted and recorded', async () => {
    const otel = otlp(receiver.url);
    receiver.answerWith(() => ({ status: 200, body: partialSuccess(3, 'too\nold') }));
    await log.append(5);
    await log.deliver([otel]);
    const status = await log.statusWith(otel, ({ backlog }) => backlog === 0);
    expect(status).to.include({ rejected: 3, state: 'delivering' });
    const [item] = await rejections();
    expect(item?.arguments).to.deep.equal({ target: 'otel', count: 3 });
    expect(receiver.deliveries).to.have.lengthOf(1);
    expect(await log.metrics()).to.include('audit_delivery_rejected_total{target="otel"} 3');
  });

  describe('a receiver that refuses everything', () => {
    for (const status of [401, 403, 404, 405, 410, 415, 301, 302, 307, 308])
      it(`DLV-04 ${status} holds the target for five minutes, with the words of the receiver, and nothing is lost`, async () => {
        receiver.answerWith(() => ({
          status,
          headers: { location: 'http://127.0.0.1:1/latest/meta-data' },
          body: 'no\u001b[31m such\nkey',
        }));
        await log.append(3);
        await log.deliver([target()]);
        const refused = await log.statusWith(target(), ({ state }) => state === 'refused');
        expect(refused).to.include({ delivered: 0, backlog: 3 });
        expect(refused.reason).to.equal(
          status < 400
            ? `HTTP ${status}: redirects to http://127.0.0.1:1/latest/meta-data`
            : `HTTP ${status}: no [31m such key`,
        );
        expect((refused.retryAt ?? 0) - (refused.failedAt ?? 0)).to.be.within(240, 360);
        expect(receiver.deliveries).to.have.lengthOf(1);
        receiver.answerWith(undefined);
        log.advance(361);
        await log.statusWith(target(), ({ backlog }) => backlog === 0);
        expect(new Set(idsOf()).size).to.equal(1);
        expect(acceptedItems(receiver).map(({ number }) => number)).to.deep.equal([1, 2, 3]);
      });

    it('DLV-04 a restart tries at once what was refused, with the id and body of before', async () => {
      receiver.answerWith(() => ({ status: 401 }));
      await log.append(3);
      const running = await log.deliver([target()]);
      await log.statusWith(target(), ({ state }) => state === 'refused');
      await running.stop();
      receiver.answerWith(undefined);
      await log.append(3);
      await log.deliver([target()]);
      const second = await receiver.delivery(1);
      expect(second.body.equals(receiver.deliveries[0]?.body ?? Buffer.alloc(0))).to.equal(true);
      expect(idsOf()[1]).to.equal(idsOf()[0]);
      await log.statusWith(target(), ({ backlog }) => backlog === 0);
      expect(acceptedItems(receiver).map(({ number }) => number)).to.deep.equal([1, 2, 3, 4, 5, 6]);
    });
  });

  describe('a receiver that fails', () => {
    /** The seconds until the next attempt after one answer. */
    async function waitAfter(status: number, retryAfter: string): Promise<number> {
      receiver.answerWith(() => ({
        status,
        headers: { 'retry-after': retryAfter },
      }));
      await log.append(1);
      await log.deliver([target()]);
      const {
        retryAt = 0,
        failedAt = 0,
        state,
      } = await log.statusWith(target(), ({ retryAt: next }) => next !== undefined);
      expect(state).to.equal('retrying');
      return Math.round(retryAt - failedAt);
    }

    it('DLV-05 Retry-After in seconds is heeded', async () => {
      expect(await waitAfter(429, '120')).to.equal(120);
      const [first] = receiver.deliveries;
      receiver.answerWith(undefined);
      log.advance(120);
      await log.statusWith(target(), ({ backlog }) => backlog === 0);
      expect(receiver.deliveries[1]?.body.equals(first?.body ?? Buffer.alloc(0))).to.equal(true);
      const times = receiver.deliveries.map(({ headers }) => Number(headers['webhook-timestamp']));
      expect((times[1] ?? 0) - (times[0] ?? 0)).to.be.within(119, 125);
    });

    it('DLV-05 a date in Retry-After is heeded', async () => {
      const date = new Date((log.now() + 300) * 1000).toUTCString();
      expect(await waitAfter(503, date)).to.be.within(297, 301);
    });

    it('DLV-05 Retry-After counts for an hour at most', async () => {
      expect(await waitAfter(503, '1000000000')).to.equal(3600);
    });

    for (const value of ['-5', 'soon', '1e9', '0', 'Thu, 01 Jan 1970 00:00:00 GMT'])
      it(`DLV-05 the invalid or past Retry-After “${value}” is ignored`, async () => {
        expect(await waitAfter(429, value)).to.equal(1);
      });

    it('DLV-05 intervals grow up to five minutes', async () => {
      receiver.answerWith(() => ({ status: 500 }));
      await log.append(1);
      await log.deliver([target()]);
      const waits: number[] = [];
      for (let failures = 1; failures <= 11; failures += 1) {
        await until('the attempt', () => receiver.deliveries.length === failures);
        const { retryAt = 0, failedAt = 0 } = await log.statusWith(
          target(),
          (status) => status.failures === failures,
        );
        waits.push(retryAt - failedAt);
        log.advance(retryAt - failedAt);
      }
      for (const [index, wait] of waits.entries()) {
        const expected = Math.min(2 ** index, 300);
        expect(wait).to.be.within(0.8 * expected - 0.01, 1.2 * expected + 0.01);
      }
      expect(await log.metrics()).to.include('audit_delivery_failures_total{target="siem"} 11');
    });

    it('DLV-05 a failure while the clock was a day ahead delays nothing once it is set back', async () => {
      receiver.answerWith(() => ({ status: 503 }));
      log.advance(86_400);
      await log.append(1);
      await log.deliver([target()]);
      await log.statusWith(target(), ({ state }) => state === 'retrying');
      receiver.answerWith(undefined);
      log.advance(-86_400);
      await log.statusWith(target(), ({ backlog }) => backlog === 0);
    });

    it('DLV-05 a target that fails delays no other target', async () => {
      const other = await startAuditReceiver();
      receiver.answerWith(() => ({ status: 429, headers: { 'retry-after': '3000' } }));
      await log.append(3);
      const good = webhook(other.url, { id: 'good' });
      await log.deliver([target(), good]);
      await log.statusWith(target(), ({ state }) => state === 'retrying');
      await log.append(3);
      await log.statusWith(good, ({ backlog }) => backlog === 0);
      expect(await log.status(target())).to.include({ backlog: 6, delivered: 0 });
      await other.stop();
    });
  });

  it('DLV-06 the state and the backlog of each target are in the metrics', async () => {
    receiver.answerWith(() => ({ status: 403, body: 'quota "used" up' }));
    await log.append(4);
    await log.deliver([target()]);
    await log.statusWith(target(), ({ state }) => state === 'refused');
    log.advance(100);
    const text = await log.metrics();
    expect(text).to.include('gatehouse_audit_delivery_backlog{target="siem"} 4');
    expect(text).to.match(/gatehouse_audit_delivery_oldest_seconds\{target="siem"\} 1\d\d/);
    expect(text).to.include(
      'gatehouse_audit_delivery_refused{target="siem",reason="HTTP 403: quota \\"used\\" up"} 1',
    );
  });
});
