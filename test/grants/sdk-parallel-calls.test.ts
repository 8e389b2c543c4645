// The official SDK clients make five calls in parallel with an expired access token: all five succeed, and nobody signs in again.
import { expect } from 'chai';
import { createConnector } from '../support/management-api.ts';
import { openBrowser } from '../support/browser.ts';
import { advanceClock } from '../support/clock.ts';
import type { AuthMethod } from '../support/oauth.ts';
import { connectSdkV1, connectSdkV2, type SdkClient, type SdkOptions } from '../support/sdk.ts';
import { onEachStore } from '../support/system.ts';

const CALLS = 5;
const METHODS: AuthMethod[] = ['none', 'client_secret_basic'];
const SDKS: [name: string, connect: (link: string, options: SdkOptions) => Promise<SdkClient>][] = [
  ['SDK v1', connectSdkV1],
  ['SDK v2, 2025 revisions', (link, options) => connectSdkV2(link, 'legacy', options)],
  [
    'SDK v2, revision 2026-07-28',
    (link, options) => connectSdkV2(link, { pin: '2026-07-28' }, options),
  ],
];

/**
 * While `run` runs, answers with 401 are handed over when `count` of them have come. So all calls find their token expired at once,
 * and each refreshes it: SDK v1 gives up on a call whose 401 comes in after another call has refreshed.
 */
async function with401sTogether<T>(count: number, run: () => Promise<T>): Promise<T> {
  const realFetch = globalThis.fetch;
  const { promise: allCame, resolve } = Promise.withResolvers<void>();
  let came = 0;
  globalThis.fetch = async (...given) => {
    const response = await realFetch(...given);
    if (response.status !== 401) return response;
    came += 1;
    if (came === count) resolve();
    await allCame;
    return response;
  };
  try {
    const result = await run();
    expect(came).to.equal(count);
    return result;
  } finally {
    globalThis.fetch = realFetch;
  }
}

onEachStore('Five parallel calls with an expired access token', (system) => {
  for (const [name, connect] of SDKS)
    for (const method of METHODS)
      it(`succeed without a new sign-in, hour after hour (${name}, ${method})`, async () => {
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
});
