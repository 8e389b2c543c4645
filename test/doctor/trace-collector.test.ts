// The doctor asks the collector of traces where traces are on, and says nothing of it where they are off.
import { expect } from 'chai';
import type { Finding } from '../../src/doctor/finding.ts';
import { loadSettings } from '../../src/settings/load.ts';
import { freePorts } from '../support/free-ports.ts';
import { startTraceCollector, tracedBy, type TraceCollector } from '../support/trace-collector.ts';
import { type GoodDeployment, startGoodDeployment } from './good-deployment.ts';

const HEADER = 'the-secret-of-the-collector';

describe('The doctor, of traces,', () => {
  let good: GoodDeployment;
  let collector: TraceCollector;
  before(async () => {
    good = await startGoodDeployment();
    collector = await startTraceCollector();
  });
  after(async () => {
    await good.stop();
    await collector.stop();
  });

  async function look(variables: Record<string, string>): Promise<Finding[]> {
    const settings = loadSettings({ ...good.environment, ...variables });
    const findings = await good.look({ settings });
    return findings.filter(({ check }) => check === 'traces');
  }
  const headers = { OTEL_EXPORTER_OTLP_HEADERS: `authorization=${HEADER}` };

  it('says nothing where they are off', async () => {
    expect(await look({})).to.deep.equal([]);
  });

  it('is content with a collector that takes them', async () => {
    const [finding, ...more] = await look({ ...tracedBy(collector), ...headers });
    expect(more).to.deep.equal([]);
    expect(finding).to.include({ outcome: 'ok', about: collector.endpoint });
    expect(collector.requests.at(-1)?.headers).to.include({ authorization: HEADER });
    expect(collector.spans()).to.deep.equal([]);
  });

  it('finds one that is away, and one that refuses, without a word of its headers', async () => {
    const [port] = await freePorts(1);
    const [away] = await look(tracedBy({ endpoint: `http://127.0.0.1:${port}` }));
    expect(away).to.include({ outcome: 'warning' });
    expect(away?.what).to.include('nothing listens there');
    collector.answer((_req, res) => res.writeHead(401).end(HEADER));
    const [refused] = await look({ ...tracedBy(collector), ...headers });
    expect(refused).to.include({ outcome: 'warning', what: 'it answers 401 to traces' });
    expect(refused?.remedy).to.include('OTEL_EXPORTER_OTLP_HEADERS');
    expect(JSON.stringify(refused)).to.not.include(HEADER);
  });
});
