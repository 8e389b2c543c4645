// Uses every feature once, with the log level trace, metrics and traces.
import { expect } from 'chai';
import { startGatehouse } from '../../src/server.ts';
import { createLogger } from '../../src/observability/logger.ts';
import { loadSettings } from '../../src/settings/load.ts';
import { type Canaries, findCanaries } from '../connections/canaries.ts';
import { collectPrivateValues } from '../connections/private-values.ts';
import { readMetricsText } from '../support/metrics.ts';
import { createDeployment } from '../support/system.ts';
import {
  startTraceCollector,
  type TraceCollector,
  traceSettings,
} from '../support/trace-collector.ts';
import { expectNothingOf } from './span-contents.ts';

/** Allowed in every line; those of a request line are added to them. */
const FIELDS = 'level time msg err event reason remedy what reencrypted storeId'.split(' ');
const REQUEST_FIELDS =
  'host requestId method path status milliseconds address detail trace_id span_id'.split(' ');
/** What rules can match about a person, whom the line does not name. */
const CLAIM_FIELDS = ['requestId', 'hasEmail', 'emailVerified', 'groupCount', 'groups'];
const MORE_FIELDS: Record<string, string[]> = {
  request: REQUEST_FIELDS,
  'a person signed in with these claims': CLAIM_FIELDS,
};

describe('What is observed of every kind of request', () => {
  const lines: Record<string, unknown>[] = [];
  let collector: TraceCollector;
  let canaries: Canaries;
  let metrics: string;
  before(async () => {
    collector = await startTraceCollector();
    const { environment, facts, signalStore, release } = await createDeployment();
    const write = (line: string) => void lines.push(JSON.parse(line));
    const settings = loadSettings({ ...environment, ...traceSettings(collector) });
    const { stop } = await startGatehouse(settings, { logger: createLogger('trace', { write }) });
    try {
      ({ canaries } = await collectPrivateValues({ ...facts, signalStore, stop }));
      metrics = await readMetricsText({ ...facts, signalStore, stop });
    } finally {
      await stop();
      await release();
    }
  });
  after(() => collector.stop());

  it('LOG-01 the log has only fields of the allow-list', () => {
    expect(lines).to.have.length.above(100);
    for (const line of lines) {
      const allowed = [...FIELDS, ...(MORE_FIELDS[String(line.msg)] ?? [])];
      expect(allowed, String(line.msg)).to.include.members(Object.keys(line));
      const { err } = line;
      if (err)
        expect(['name', 'message', 'stack', 'cause', 'errors']).to.include.members(
          Object.keys(err),
        );
    }
  });

  it('the metrics contain no personal data and no secret', () => {
    expect(metrics).to.match(
      /^gatehouse_events_total\{event="refresh_replay",reason="[a-z_]+"\} [1-9]/m,
    );
    expect(findCanaries(canaries, Buffer.from(metrics))).to.deep.equal([]);
  });

  it('TRC-04 traces contain no people, clients, tokens, codes, secrets, sessions or ids', () => {
    expect(collector.spans()).to.have.length.above(500);
    expectNothingOf(collector, canaries);
  });
});
