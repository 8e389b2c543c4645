import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { createConnector } from '../support/management-api.ts';
import { openBrowser } from '../support/browser.ts';
import { advanceClock } from '../support/clock.ts';
import { REDIRECT_URI } from '../support/connection.ts';
import { discover, refresh } from '../support/oauth.ts';
import { connectSdkV1, connectSdkV2, type SdkClient, type SdkOptions } from '../support/sdk.ts';
import { useSystem } from '../support/system.ts';

const TWO_HOURS = 7200;

const VERSIONS: Record<string, (link: string, options: SdkOptions) => Promise<SdkClient>> = {
  'version 1': connectSdkV1,
  'version 2': (link, options) => connectSdkV2(link, 'auto', options),
};

describe('A rate limited MCP SDK client', () => {
  const system = useSystem({
    file: {
      lifetimes: { accessToken: '1h', refreshTokenIdle: '1h' },
      limits: { wrongTokens: { perAddress: '3/1d' } },
    },
  });

  for (const [version, connect] of Object.entries(VERSIONS)) {
    it(`DOS-03 an SDK client that gets 429 keeps its tokens and does not sign in again (${version})`, async () => {
      const { link } = await createConnector(system());
      const { server } = await discover(link);
      const browser = openBrowser(system().origins);
      const sdk = await connect(link, { browser, method: 'none' });
      const token = sdk.accessToken() ?? '';
      const id = String(decodeJwt(token).client_id);
      for (const status of [400, 400, 400, 429]) {
        const client = { id, method: 'none', redirectUri: REDIRECT_URI } as const;
        expect((await refresh(server, client, 'guess')).status).to.equal(status);
      }
      advanceClock(TWO_HOURS);
      const failed = await sdk.callTool('club_overview').then(
        () => undefined,
        (error: unknown) => error as Error,
      );
      expect(failed?.message).to.match(/too many requests/);
      expect(sdk.signIns()).to.equal(1);
      expect(sdk.accessToken()).to.equal(token);
      await sdk.close();
    });
  }
});
