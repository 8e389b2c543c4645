import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { expect } from 'chai';
import { createHost } from '../../src/http/host.ts';
import { createLogger } from '../../src/observability/logger.ts';
import { until } from '../support/until.ts';
import { rawRequest } from '../support/raw-request.ts';

const CONNECTION = '127.0.0.1';

/** Returns the address in the log line of a request with this `X-Forwarded-For`. */
async function loggedAddress(proxies: number, forwarded: string | undefined): Promise<string> {
  const lines: string[] = [];
  const logger = createLogger('info', { write: (line) => void lines.push(line) });
  const url = 'http://gatehouse.example';
  const isReady = async () => ({});
  const server = createHost({ name: 'test', url, proxies, logger, isReady }).listen(0, CONNECTION);
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const headers: Record<string, string> = { host: 'gatehouse.example' };
  if (forwarded !== undefined) headers['x-forwarded-for'] = forwarded;
  await rawRequest(`http://${CONNECTION}:${port}`, { headers });
  const line = await until('the request to be logged', () => lines[0]);
  server.closeAllConnections();
  await once(server.close(), 'close');
  return JSON.parse(line).address;
}

describe('the address of a client', () => {
  const cases: [number, string | undefined, string][] = [
    [0, undefined, CONNECTION],
    [0, '203.0.113.9', CONNECTION],
    [1, undefined, CONNECTION],
    [1, '203.0.113.9', '203.0.113.9'],
    [1, '198.51.100.7, 203.0.113.9', '203.0.113.9'],
    [1, '198.51.100.7,203.0.113.9', '203.0.113.9'],
    [2, '198.51.100.7, 203.0.113.9, 10.0.0.1', '203.0.113.9'],
    [2, '198.51.100.7, 198.51.100.8, 203.0.113.9, 10.0.0.1', '203.0.113.9'],
    [2, '203.0.113.9, 10.0.0.1', '203.0.113.9'],
    [3, '203.0.113.9, 10.0.0.1', '203.0.113.9'],
    [1, '198.51.100.7, 2001:db8::9', '2001:db8::9'],
  ];
  for (const [proxies, forwarded, address] of cases) {
    const header = forwarded === undefined ? 'no X-Forwarded-For' : `X-Forwarded-For: ${forwarded}`;
    it(`HDR-02 with ${proxies} trusted proxies and ${header}, the address is ${address}`, async () => {
      expect(await loggedAddress(proxies, forwarded)).to.equal(address);
    });
  }
});
