// OpenTelemetry log records (https://opentelemetry.io/docs/specs/otlp/, https://github.com/open-telemetry/semantic-conventions-genai).
import { expect } from 'chai';
import { type AuditReceiver, startAuditReceiver } from '../../support/audit-receiver.ts';
import { type LogRecord, logRecordsIn } from '../../support/otlp-logs.ts';
import { type DeliveredLog, openDeliveredLog, otlp } from './delivered-log.ts';

describe('The audit log delivered as OpenTelemetry log records', () => {
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

  const target = () => otlp(receiver.url);
  const records = () =>
    receiver.deliveries
      .filter(({ status }) => status < 300)
      .flatMap(({ body }) => logRecordsIn(body));
  async function delivered(count: number): Promise<LogRecord[]> {
    await log.statusWith(target(), ({ backlog, delivered: last }) => backlog === 0 && last > 0);
    expect(records()).to.have.lengthOf(count);
    return records();
  }

  it('a call has its uid, event name, and the attributes of MCP and GenAI', async () => {
    await log.append(1, {
      account: 'ada-1',
      upstream: 'orders',
      argumentsJson: '{"id":7}',
      address: '192.0.2.7',
      ms: 12,
    });
    await log.deliver([target()]);
    const [record] = await delivered(1);
    const [item] = await log.items();
    expect(receiver.deliveries[0]?.headers['content-type']).to.equal('application/x-protobuf');
    expect(record).to.include({ eventName: 'call', time: Date.parse(item?.time ?? '') });
    expect(record?.resource).to.include({
      'service.name': 'gatehouse',
      'service.version': '1.2.3',
    });
    expect(record?.attributes).to.include({
      'log.record.uid': item?.id,
      'event.name': 'call',
      'user.id': 'ada-1',
      'client.address': '192.0.2.7',
      'mcp.method.name': 'tools/call',
      'gen_ai.operation.name': 'execute_tool',
      'gen_ai.tool.name': 'list_orders',
      'gen_ai.tool.call.arguments': '{"id":7}',
      'gatehouse.upstream': 'orders',
      'gatehouse.outcome': 'answered',
      'gatehouse.number': 1,
      'gatehouse.ms': 12,
    });
    expect(record?.attributes).to.not.have.any.keys('error.type', 'gatehouse.time');
  });

  it('a failing tool, a failed and a refused call have an error type', async () => {
    await log.append(1, { toolError: true });
    await log.append(1, { outcome: 'failed' });
    await log.append(1, { outcome: 'refused', reason: 'insufficient_scope' });
    await log.deliver([target()]);
    const types = (await delivered(3)).map(({ attributes }) => attributes['error.type']);
    expect(types).to.deep.equal(['tool_error', 'failed', 'insufficient_scope']);
  });

  it('a read resource and a prompt have their own attributes', async () => {
    const call = { tool: undefined, method: 'resources/read', target: 'file:///notes' };
    await log.append(1, call as never);
    await log.append(1, { ...call, method: 'prompts/get', target: 'greet' } as never);
    await log.deliver([target()]);
    const [resource, prompt] = await delivered(2);
    expect(resource?.attributes).to.include({
      'mcp.method.name': 'resources/read',
      'mcp.resource.uri': 'file:///notes',
    });
    expect(prompt?.attributes).to.include({ 'gen_ai.prompt.name': 'greet' });
  });

  it('an item that is older than maxAge has the time of sending, and its own in an attribute', async () => {
    await log.append(1);
    log.advance(13 * 3600);
    const sentAfter = log.now() * 1000;
    await log.deliver([target()]);
    const [record] = await delivered(1);
    const [item] = await log.items();
    expect(record?.time).to.be.at.least(Math.floor(sentAfter));
    expect(record?.attributes).to.include({ 'gatehouse.time': item?.time });
  });

  it('a receiver that refuses old, late and future records accepts everything, in order, when the clock jumps back and forth', async () => {
    let newest = 0;
    /** The clock of the receiver does not jump. */
    const started = Date.now();
    receiver.answerWith(({ body }) => {
      const times = logRecordsIn(body).map(({ time }) => time);
      const isRefused = times.some(
        (time) =>
          time < Date.now() - 18 * 3_600_000 ||
          time < newest - 3_600_000 ||
          time > Date.now() + 600_000,
      );
      if (isRefused) return { status: 400, body: 'entry out of order' };
      newest = Math.max(newest, ...times);
      return { status: 200 };
    });
    await log.deliver([target()]);
    await log.append(20);
    await log.statusWith(target(), ({ delivered: last, backlog }) => last === 20 && backlog === 0);
    log.advance(-7200);
    await log.append(20);
    await log.statusWith(target(), ({ delivered: last }) => last === 40);
    log.advance(7200);
    await log.append(20);
    const status = await log.statusWith(target(), ({ delivered: last }) => last === 60);
    expect(status).to.include({ rejected: 0, failures: 0 });
    const found = records();
    expect(found.map(({ attributes }) => attributes['gatehouse.number'])).to.deep.equal(
      Array.from({ length: 60 }, (_, n) => n + 1),
    );
    const late = found
      .slice(20, 40)
      .map(({ attributes }) => Date.parse(String(attributes['gatehouse.time'])));
    for (const time of late) expect(time).to.be.below(started - 7_000_000);
  });

  it('a batch that was refused for a day is rendered again with the present time', async () => {
    receiver.answerWith(() => ({ status: 401 }));
    await log.append(2);
    await log.deliver([target()]);
    await log.statusWith(target(), ({ state }) => state === 'refused');
    receiver.answerWith(undefined);
    log.advance(86_400);
    const [record] = await delivered(2);
    expect(record?.time).to.be.at.least(Math.floor((log.now() - 60) * 1000));
  });
});
