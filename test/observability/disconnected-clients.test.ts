import { expect } from 'chai';
import { postBody } from '../support/mcp.ts';
import { readMetrics, sumOf } from '../support/metrics.ts';
import type { LogLine } from '../support/system.ts';
import { until } from '../support/until.ts';
import { PING, startScriptedUpstream } from '../support/upstream/scripted-upstream.ts';
import { useUpstream } from '../support/upstream/system.ts';

describe('A client that disconnects before the response', () => {
  const log: LogLine[] = [];
  const behind = useUpstream(startScriptedUpstream, { system: { log } });
  const counted = async (name: string, labels: Record<string, string>) =>
    sumOf(await readMetrics(behind().system), name, { host: 'resource-server', ...labels });
  const counts = async () => ({
    done: await counted('gatehouse_requests_total', { status: '2xx' }),
    refused: await counted('gatehouse_requests_total', { status: '4xx' }),
    gone: await counted('gatehouse_refusals_total', { reason: 'client_gone' }),
  });

  // A query keeps a request off the direct route.
  for (const query of ['', '?query'])
    it(`the request is logged once with status 499 and counted as refused (${query || 'no query'})`, async () => {
      const { upstream, connected } = behind();
      const { link, token } = await connected('analytics');
      upstream.respondWith(() => undefined);
      const before = upstream.received.length;
      const { done, refused, gone } = await counts();
      log.length = 0;
      const stop = new AbortController();
      const body = JSON.stringify(PING);
      const sent = postBody(link + query, token, body, { signal: stop.signal });
      const failed = sent.catch(() => 'gone');
      await until('the upstream to receive the call', () => upstream.received.length > before);
      stop.abort();
      expect(await failed).to.equal('gone');
      await upstream.received[before]?.closed;
      const lines = () => log.filter(({ msg, method }) => msg === 'request' && method === 'POST');
      await until('the log line', () => lines().length > 0);
      expect(lines()).to.have.length(1);
      expect(lines()[0]).to.include({ status: 499, reason: 'client_gone', level: 30 });
      expect(await counts()).to.deep.equal({ done, refused: refused + 1, gone: gone + 1 });
    });
});
