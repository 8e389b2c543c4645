// Receivers that answer slowly, with garbage, with a gigabyte or never, and items with hostile text.
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { once } from 'node:events';
import { expect } from 'chai';
import { INTERNET } from '../../../src/http/guarded-request.ts';
import {
  acceptedItems,
  type AuditReceiver,
  startAuditReceiver,
} from '../../support/audit-receiver.ts';
import { until } from '../../support/until.ts';
import { type DeliveredLog, openDeliveredLog, otlp, SECRET, webhook } from './delivered-log.ts';

describe('Hostile receivers of the audit log', () => {
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

  it('DLV-07 a name that resolves to an internal address is refused before anything is sent', async () => {
    await log.append(1);
    for (const address of ['127.0.0.1', '10.0.0.1', '169.254.169.254', '::1', 'fd00::1']) {
      const guarded = webhook('https://siem.example.com/x', {
        id: `at-${address.replaceAll(/[.:]/g, '-')}`,
        privateNetwork: false,
      });
      await log.deliver([guarded], {
        network: { resolve: async () => ['93.184.215.14', address] },
      });
      const { reason } = await log.statusWith(guarded, ({ state }) => state === 'refused');
      expect(reason).to.equal(
        'the name has a special-use address; for a receiver in your own network, set privateNetwork',
      );
      await log.stopAll();
    }
  });

  it('DLV-07 the connection goes to the address that was checked', async () => {
    const asked: string[] = [];
    const guarded = webhook(receiver.url.replace('localhost', 'siem.example.com'), {
      privateNetwork: false,
    });
    await log.append(1);
    await log.deliver([guarded], {
      network: {
        async resolve(host) {
          asked.push(host);
          return [asked.length === 1 ? '127.0.0.1' : '10.255.255.1'];
        },
        isAllowed: () => true,
      },
    });
    await log.statusWith(guarded, ({ backlog }) => backlog === 0);
    expect(asked).to.deep.equal(['siem.example.com']);
    expect(INTERNET.isAllowed('127.0.0.1')).to.equal(false);
  });

  it('DLV-07 a redirect to an internal address is not followed', async () => {
    const inside = await startAuditReceiver();
    receiver.answerWith(() => ({ status: 307, headers: { location: inside.url } }));
    await log.append(1);
    await log.deliver([target()]);
    await log.statusWith(target(), ({ state }) => state === 'refused');
    expect(inside.deliveries).to.deep.equal([]);
    await inside.stop();
  });

  it('DLV-08 what a receiver repeats of its address, headers and secrets is in neither state, log nor audit log', async () => {
    const token = 'top-secret-token-of-the-receiver';
    const secretive = webhook(`${receiver.url}/path-secret-of-it?key=query-secret-0123`, {
      headers: { authorization: `Bearer ${token}` },
    });
    let status = 401;
    receiver.answerWith(({ headers, path }) => ({
      status,
      body: `${headers['authorization']} ${token} ${path} ${SECRET} ${SECRET.slice(6)}`,
    }));
    await log.append(1);
    await log.deliver([secretive]);
    const refused = await log.statusWith(secretive, ({ state }) => state === 'refused');
    expect(refused.reason).to.include('[hidden]');
    status = 400;
    log.advance(400);
    await log.statusWith(secretive, ({ rejected }) => rejected === 1);
    const told = JSON.stringify([refused, log.log, await log.items(), await log.metrics()]);
    for (const secret of [token, 'query-secret-0123', 'path-secret-of-it', SECRET.slice(6)])
      expect(told).to.not.include(secret);
  });

  const cases: Record<string, (receiver: AuditReceiver) => void> = {
    never: (each) => each.answerWith(() => undefined),
    'with headers, and the body never': (each) =>
      each.answerWith((_, response) => void response.writeHead(500).write('so')),
    'with one byte of the head at a time': (each) =>
      each.answerWith((_, response) => {
        const head = 'HTTP/1.1 200 OK\r\nx: '.padEnd(4000, 'y');
        let sent = 0;
        const timer = setInterval(() => response.socket?.write(head.charAt(sent++)), 5);
        response.on('close', () => clearInterval(timer));
        return undefined;
      }),
  };
  for (const [title, misbehave] of Object.entries(cases))
    it(`DLV-09 a receiver that answers ${title} ends the attempt after its time`, async () => {
      misbehave(receiver);
      await log.append(1);
      await log.deliver([target()], { attemptMs: 300 });
      const { reason } = await log.statusWith(target(), ({ state }) => state === 'retrying');
      expect(reason).to.match(/^(no answer in time|HTTP 500: so)$/);
      receiver.answerWith(undefined);
      log.advance(10);
      await log.statusWith(target(), ({ backlog }) => backlog === 0);
    });

  it('DLV-09 of an endless answer only the beginning is read', async () => {
    let written = 0;
    receiver.answerWith((_, response) => {
      response.writeHead(500);
      const more = () => {
        while (!response.destroyed && response.write(Buffer.alloc(16_384, 'x'))) written += 16_384;
      };
      response.on('drain', more).on('error', () => undefined);
      more();
      return undefined;
    });
    await log.append(1);
    await log.deliver([target()]);
    const { reason = '' } = await log.statusWith(target(), ({ state }) => state === 'retrying');
    expect(reason).to.match(/^HTTP 500: x{100,200}…?$/);
    // The rest is in buffers of the system.
    expect(written).to.be.below(16 * 1024 * 1024);
  });

  it('DLV-09 an answer that is not HTTP is retried', async () => {
    const server = createTcpServer((socket) => {
      socket.on('error', () => undefined).end('\u0000\u0007garbage\r\n\r\n');
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const { port } = server.address() as AddressInfo;
    const garbage = webhook(`http://localhost:${port}/x`);
    await log.append(1);
    await log.deliver([garbage]);
    const { reason } = await log.statusWith(garbage, ({ state }) => state === 'retrying');
    expect(reason).to.match(/Parse Error/);
    server.close();
  });

  it('DLV-09 a success with garbage from a collector is a success', async () => {
    const otel = otlp(receiver.url);
    receiver.answerWith(() => ({ status: 200, body: Buffer.alloc(100_000, 0xff) }));
    await log.append(1);
    await log.deliver([otel]);
    await log.statusWith(otel, ({ backlog }) => backlog === 0);
    expect(receiver.deliveries).to.have.lengthOf(1);
  });

  it('DLV-09 stopping does not wait for a receiver', async () => {
    receiver.answerWith(() => undefined);
    await log.append(1);
    const running = await log.deliver([target()]);
    await receiver.delivery(0);
    const started = performance.now();
    await running.stop();
    expect(performance.now() - started).to.be.below(3000);
  });

  it('DLV-10 control characters in items are escaped, and change nothing else', async () => {
    const userAgent = 'x\r\nset-cookie: a=b\u0000\u001b]0;title\u0007\u2028\ud800';
    await log.append(1, { userAgent });
    await log.deliver([target(), otlp(receiver.url)]);
    await until('both', () => receiver.deliveries.length === 2);
    const [json] = receiver.deliveries.filter(({ headers }) => headers['webhook-id']);
    expect(json?.body.every((byte) => byte >= 0x20)).to.equal(true);
    expect(JSON.parse(json?.body.toString() ?? '').data.items[0].userAgent).to.equal(
      userAgent.toWellFormed(),
    );
    expect(Object.keys(json?.headers ?? {})).to.not.include('set-cookie');
  });

  it('DLV-04 a certificate that is not trusted holds, and says what to do', async () => {
    const plain = webhook(receiver.url.replace('http:', 'https:'));
    await log.append(1);
    await log.deliver([plain]);
    const { reason } = await log.statusWith(plain, ({ state }) => state === 'refused');
    expect(reason).to.match(/^the receiver responds without TLS/);
  });

  it('DLV-05 a receiver that is down is retried, and gets everything when it is back', async () => {
    const { port, url } = receiver;
    await receiver.stop();
    await log.append(2);
    await log.deliver([webhook(url)]);
    const { reason } = await log.statusWith(webhook(url), ({ state }) => state === 'retrying');
    expect(reason).to.include('ECONNREFUSED');
    receiver = await startAuditReceiver({ port });
    log.advance(10);
    await log.statusWith(webhook(url), ({ backlog }) => backlog === 0);
    expect(acceptedItems(receiver)).to.have.lengthOf(2);
  });
});
