import { expect } from 'chai';
import { createConnector } from '../support/management-api.ts';
import { openBrowser } from '../support/browser.ts';
import { advanceClock } from '../support/clock.ts';
import { SDKS } from '../support/sdk.ts';
import { useSystem } from '../support/system.ts';

const CALLS = 5;

/**
 * While `run` runs, holds back responses with 401 until `count` have arrived, so that every call refreshes.
 * SDK v1 fails a call whose 401 arrives after another call has refreshed.
 */
async function with401sTogether<T>(count: number, run: () => Promise<T>): Promise<T> {
  const realFetch = globalThis.fetch;
  const { promise: allArrived, resolve } = Promise.withResolvers<void>();
  let arrived = 0;
  globalThis.fetch = async (...given) => {
    const response = await realFetch(...given);
    if (response.status !== 401) return response;
    arrived += 1;
    if (arrived === count) resolve();
    await allArrived;
    return response;
  };
  try {
    const result = await run();
    expect(arrived).to.equal(count);
    return result;
  } finally {
    globalThis.fetch = realFetch;
  }
}

describe('Parallel calls of MCP SDK clients', () => {
  const system = useSystem();

  for (const [n, { name, connect }] of SDKS.entries()) {
    // Every method and every SDK, but not every pair.
    const method = n % 2 === 0 ? 'none' : 'client_secret_basic';
    it(`five parallel calls with an expired access token succeed without a new sign-in (${name}, ${method})`, async () => {
      const { link } = await createConnector(system());
      const client = await connect(link, { browser: openBrowser(system().origins), method });
      for (let hour = 0; hour < 2; hour += 1) {
        const before = client.accessToken();
        advanceClock(3601);
        const results = await with401sTogether(CALLS, () =>
          Promise.all(Array.from({ length: CALLS }, () => client.callTool('club_overview'))),
        );
        for (const result of results) expect(result).to.have.property('members');
        expect(client.accessToken()).to.be.a('string').that.does.not.equal(before);
      }
      expect(client.signIns()).to.equal(1);
      await client.close();
    });
  }
});
