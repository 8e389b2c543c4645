import { expect } from 'chai';
import { type RequestKind, trackActiveRequests } from '../../src/gateway/active-requests.ts';
import { until } from '../support/until.ts';

describe('Active requests', () => {
  const open = () => {
    const requests = trackActiveRequests(() => () => undefined);
    const ended: string[] = [];
    const start = (id: string, kind: RequestKind) =>
      requests.start({
        dependsOn: (changed) => changed === id,
        kind,
        revalidate: async () => true,
        onRevoked: () => ended.push(id),
      });
    return { requests, start, ended };
  };

  it('a stream that begins after the settings changed ends like those before it, and a call does not', async () => {
    const { requests, start, ended } = open();
    start('stream', 'listening');
    requests.renew(50);
    start('later stream', 'listening');
    start('call', 'working');
    await until('both streams to end', () => ended.length === 2);
    expect(ended).to.have.members(['stream', 'later stream']);
    requests.close();
  });

  it('no stream ends at once when the settings change', async () => {
    const { requests, start, ended } = open();
    start('stream', 'listening');
    const chance = Math.random;
    Math.random = () => 0;
    const changed = performance.now();
    requests.renew(1000);
    Math.random = chance;
    await until('the stream to end', () => ended.length === 1);
    expect(performance.now() - changed).to.be.at.least(95);
    requests.close();
  });
});
