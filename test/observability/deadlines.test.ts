import { meetsDeadline } from '../support/deadlines.ts';
import { startSystem } from '../support/system.ts';
import { startTraceCollector, traceSettings } from '../support/trace-collector.ts';

describe('The time until a process ends', () => {
  it('TRC-05 the final export to a collector that hangs delays the end by at most two seconds', async () => {
    const collector = await startTraceCollector();
    collector.respondWith(() => undefined);
    const settings = { ...traceSettings(collector), OTEL_EXPORTER_OTLP_TIMEOUT: '60000' };
    const startAndAsk = async () => {
      const system = await startSystem({ settings });
      await (await fetch(`${system.auth}/oauth/jwks`)).text();
      return system;
    };
    try {
      await meetsDeadline('finalExport', ({ stop }) => stop(), startAndAsk);
    } finally {
      await collector.stop();
    }
  });
});
