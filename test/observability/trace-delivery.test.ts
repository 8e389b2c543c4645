import { createServer } from 'node:http';
import { expect } from 'chai';
import { startGatehouse } from '../../src/server.ts';
import { createLogger } from '../../src/observability/logger.ts';
import { loadSettings } from '../../src/settings/load.ts';
import { until } from '../support/until.ts';
import { advanceClock, restoreClock } from '../support/clock.ts';
import { createConnector } from '../support/management-api.ts';
import { connect } from '../support/connection.ts';
import { freePorts } from '../support/free-ports.ts';
import { listenOnLoopback } from '../support/loopback-server.ts';
import { createDeployment, type Deployment, type System } from '../support/system.ts';
import {
  startTraceCollector,
  traceSettings,
  type TraceCollector,
} from '../support/trace-collector.ts';

type Line = { msg?: string; reason?: string };

/** The exporter tries again until then, and says why only afterwards. */
const RETRYING_MS = '3000';

describe('TRC-05 Trace export to a faulty collector', () => {
  let warnings: readonly Line[] = [];
  let collector: TraceCollector;
  let place: Deployment;
  let system: System;
  let stop = async () => {};
  const closing: (() => Promise<void>)[] = [];
  const { setTimeout } = globalThis;

  beforeEach(async () => {
    collector = await startTraceCollector();
  });
  afterEach(async () => {
    globalThis.setTimeout = setTimeout;
    restoreClock();
    await stop();
    for (const close of closing.splice(0)) await close();
    await collector.stop();
  });

  async function start(settings: Record<string, string> = {}): Promise<void> {
    place = await createDeployment();
    // Its own collector: a stopped system may still deliver its last spans.
    const said: Line[] = [];
    warnings = said;
    const write = (text: string) => {
      const line = JSON.parse(text) as Line;
      if (line.msg === 'traces are not delivered') said.push(line);
    };
    const environment = {
      ...place.environment,
      ...traceSettings(collector),
      ...settings,
    };
    const logger = createLogger('warn', { write });
    const running = await startGatehouse(loadSettings(environment), { logger });
    let stopped: Promise<void> | undefined;
    stop = () => (stopped ??= running.stop().then(() => place.release()));
    system = { ...place.facts, signalStore: place.signalStore, stop };
  }

  const ask = async () => {
    const answer = await fetch(`${system.auth}/oauth/jwks`);
    expect(answer.status).to.equal(200);
    await answer.text();
  };
  const warned = () => until('a warning', () => warnings[0]);

  it('spans are dropped with a warning if the collector is down', async () => {
    const [port] = await freePorts(1);
    await start({
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`,
      OTEL_EXPORTER_OTLP_TIMEOUT: RETRYING_MS,
    });
    await connect(system, await createConnector(system));
    expect((await warned()).reason).to.match(/^ECONNREFUSED; spans lost: \d+$/);
  });

  it('a collector that refuses spans causes one warning a minute, without text from the collector', async () => {
    collector.respondWith((_req, res) => res.writeHead(403, 'canary').end('canary'));
    await start({ OTEL_EXPORTER_OTLP_HEADERS: 'authorization=canary' });
    const deliver = async () => {
      const before = collector.requests.length;
      await ask();
      await until('an export', () => collector.requests.length > before);
    };
    for (let n = 0; n < 4; n += 1) await deliver();
    expect(warnings).to.have.length(1);
    advanceClock(61);
    await deliver();
    await until('the next warning', () => warnings.length === 2);
    // The last but one may be refused just before or just after the clock moves.
    expect(warnings[1]?.reason).to.match(/^it answered 403; spans lost: [34]$/);
    expect(JSON.stringify(warnings)).to.not.include('canary');
  });

  it('a collector that hangs causes a bounded queue and no slower responses', async () => {
    collector.respondWith(() => undefined);
    await start({
      OTEL_BSP_MAX_QUEUE_SIZE: '10',
      OTEL_BSP_MAX_EXPORT_BATCH_SIZE: '5',
      OTEL_EXPORTER_OTLP_TIMEOUT: '20000',
    });
    await ask();
    await until('an export that hangs', () => collector.requests.length > 0);
    for (let n = 0; n < 50; n += 1) await ask();
    expect((await warned()).reason).to.match(/^too many spans are waiting/);
    expect(collector.requests).to.have.length(1);
    collector.respondWith(undefined);
    await stop();
    expect(collector.spans()).to.have.length(10);
  });

  it('an export is aborted if the collector never ends its response', async () => {
    collector.respondWith((_req, res) => {
      res.writeHead(200, { 'content-type': 'application/json' });
      const drip = setInterval(() => res.write(' '), 10);
      res.once('close', () => clearInterval(drip));
    });
    await start({ OTEL_EXPORTER_OTLP_TIMEOUT: '100' });
    await ask();
    expect((await warned()).reason).to.match(/^no answer in time/);
  });

  it('the end of the process waits at most two seconds for a collector that hangs', async () => {
    collector.respondWith(() => undefined);
    await start({ OTEL_EXPORTER_OTLP_TIMEOUT: '60000' });
    await ask();
    let waited = 0;
    // Timers of the export that take up to two seconds end at once, and longer ones never. Other timers do not change.
    const replacement = (run: (...args: unknown[]) => void, ms = 0, ...args: unknown[]) => {
      if (!new Error().stack?.includes('opentelemetry')) return setTimeout(run, ms, ...args);
      const end = () => {
        if (ms >= 1000) waited += ms;
        run(...args);
      };
      return ms > 2000 ? setTimeout(end, 2 ** 31 - 1).unref() : setTimeout(end, 0);
    };
    globalThis.setTimeout = Object.assign(replacement, setTimeout);
    await stop();
    expect(waited).to.equal(2000);
  });

  it('spans are delivered again when the collector is back', async () => {
    const [port = 0] = await freePorts(1);
    await start({
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`,
      OTEL_EXPORTER_OTLP_TIMEOUT: RETRYING_MS,
    });
    await ask();
    await warned();
    const back = await startTraceCollector(port);
    closing.push(back.stop);
    await until('a span', async () => {
      await ask();
      return back.spans().length > 0;
    });
  });

  it('spans and secret headers are not sent to an address the collector redirects to', async () => {
    let redirected = 0;
    const elsewhere = await listenOnLoopback(createServer(() => (redirected += 1)));
    closing.push(elsewhere.stop);
    collector.respondWith((_req, res) => res.writeHead(307, { location: elsewhere.origin }).end());
    await start({ OTEL_EXPORTER_OTLP_HEADERS: 'authorization=secret' });
    await ask();
    expect((await warned()).reason).to.match(/^it answered 307/);
    expect(redirected).to.equal(0);
  });
});
