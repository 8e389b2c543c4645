import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { createProbe, PROBE_HEADER, PROBE_PURPOSE } from '../../src/http/proxy-probe.ts';
import { keyRing } from '../../src/keys/key-ring.ts';
import { useSystem } from '../support/system.ts';

describe('a probe of the proxies', () => {
  const system = useSystem();
  const now = () => Date.now() / 1000;
  const keyOf = (secret: string) => keyRing({ secret }, PROBE_PURPOSE)[0];
  const ownKey = () => keyOf(readFileSync(join(system().dataDir, 'secret'), 'utf8').trim());

  async function probe(url: string, value: string): Promise<Record<string, unknown>> {
    const headers = { [PROBE_HEADER]: value, 'x-forwarded-for': '192.0.2.1, 192.0.2.2' };
    const answer = await fetch(`${url}/livez`, { headers });
    return (await answer.json()) as Record<string, unknown>;
  }

  it('a probe with the root secret returns Host, addresses and the setting proxies', async () => {
    for (const url of [system().auth, system().resource]) {
      const { status, seen } = await probe(url, createProbe(ownKey(), now()));
      expect(status).to.equal('ok');
      expect(seen).to.deep.equal({
        host: new URL(url).host,
        forwardedFor: ['192.0.2.1', '192.0.2.2'],
        forwardedProto: '',
        address: '127.0.0.1',
        proxies: 0,
      });
    }
  });

  it('HDR-10 a probe that is expired, truncated, forged or made with another secret returns only the status', async () => {
    const good = createProbe(ownKey(), now());
    const values = [
      createProbe(keyOf('another secret of at least 32 characters'), now()),
      createProbe(ownKey(), now() - 3600),
      createProbe(ownKey(), now() + 3600),
      good.slice(0, -1),
      good.replace(/^\d+/, (time) => String(Number(time) + 1)),
      '0.',
      'true',
    ];
    for (const value of values)
      expect(await probe(system().auth, value), value).to.deep.equal({ status: 'ok' });
  });

  it('the management host does not answer probes', async () => {
    const answer = await probe(system().management, createProbe(ownKey(), now()));
    expect(answer).to.deep.equal({ status: 'ok' });
  });
});
