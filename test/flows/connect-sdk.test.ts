import { expect } from 'chai';
import { createConnector } from '../support/management-api.ts';
import { openBrowser } from '../support/browser.ts';
import { advanceClock } from '../support/clock.ts';
import type { AuthMethod } from '../support/oauth.ts';
import { type Sdk, type SdkClient, SDKS } from '../support/sdk.ts';
import { type System, useSystem } from '../support/system.ts';

const METHODS: AuthMethod[] = ['none', 'client_secret_basic', 'client_secret_post'];
const ACCESS_TOKEN_SECONDS = 3600;

async function connected(system: System, sdk: Sdk, method: AuthMethod): Promise<SdkClient> {
  const { link } = await createConnector(system);
  return sdk.connect(link, { browser: openBrowser(system.origins), method });
}

describe('An official SDK client', () => {
  const system = useSystem();
  for (const sdk of SDKS) {
    for (const method of METHODS) {
      it(`the client gets from the link to a tool result (${sdk.name}, ${method})`, async () => {
        const client = await connected(system(), sdk, method);
        expect(await client.callTool('club_overview')).to.have.property('members');
        expect(client.protocolVersion()).to.match(sdk.version);
        expect(client.signIns()).to.equal(1);
        await client.close();
      });
    }

    it(`the client refreshes an expired access token without a new sign-in (${sdk.name})`, async () => {
      const client = await connected(system(), sdk, 'none');
      const before = client.accessToken();
      advanceClock(ACCESS_TOKEN_SECONDS + 1);
      expect(await client.callTool('club_overview')).to.have.property('members');
      expect(client.accessToken()).to.be.a('string').that.does.not.equal(before);
      expect(client.signIns()).to.equal(1);
      await client.close();
    });

    it(`five parallel calls with an expired token sign nobody out (${sdk.name})`, async () => {
      const client = await connected(system(), sdk, 'none');
      advanceClock(ACCESS_TOKEN_SECONDS + 1);
      // SDK v1 fails a call whose 401 arrives after another call has refreshed; the tokens stay valid.
      await Promise.allSettled(Array.from({ length: 5 }, () => client.callTool('club_overview')));
      const calls = Array.from({ length: 5 }, () => client.callTool('club_overview'));
      expect(await Promise.all(calls)).to.have.length(5);
      expect(client.signIns()).to.equal(1);
      await client.close();
    });
  }
});
