import { Agent, request } from 'node:http';
import { expect } from 'chai';
import { connectPerson, useUpstream } from '../support/upstream/system.ts';
import { startScriptedUpstream } from '../support/upstream/scripted-upstream.ts';

describe('A body above the limit', () => {
  const behind = useUpstream(startScriptedUpstream);

  it('is refused, and its connection serves the next request', async () => {
    const { link, token } = await connectPerson(behind().system, 'analytics');
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const statusOf = (chunks: string[]) =>
      new Promise<number | undefined>((resolve, reject) => {
        const sent = request(link, { method: 'POST', agent, headers }, (response) => {
          response.resume().once('end', () => resolve(response.statusCode));
        });
        sent.once('error', reject);
        for (const chunk of chunks) sent.write(chunk);
        sent.end();
      });
    try {
      // Sent in chunks, so that no Content-Length announces the size.
      const large = Array.from({ length: 40 }, () => 'x'.repeat(64 * 1024));
      expect(await statusOf(large)).to.equal(413);
      const ping = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' });
      expect(await statusOf([ping])).to.equal(200);
    } finally {
      agent.destroy();
    }
  }).timeout(10_000);
});
