import { expect } from 'chai';
import { createConnector } from '../../support/management-api.ts';
import { openBrowser, type AuthorizeOptions } from '../../support/browser.ts';
import { connectSdkV1, connectSdkV2, type SdkClient, type SdkOptions } from '../../support/sdk.ts';
import { startUpstreamV1 } from '../../support/upstream/sdk-v1.ts';
import { startUpstreamV2 } from '../../support/upstream/sdk-v2.ts';
import { useUpstream } from '../../support/upstream/system.ts';

type Connect = (link: string, options: SdkOptions) => Promise<SdkClient>;

// With a refresh token, SDK v1 refreshes on `insufficient_scope` and never asks the person.
const CLIENTS: Record<string, [connect: Connect, authorizeOptions: AuthorizeOptions]> = {
  'SDK v1': [connectSdkV1, { stay: false }],
  'SDK v2': [(link, options) => connectSdkV2(link, 'auto', options), {}],
};

for (const [server, open] of Object.entries({
  'SDK v1': startUpstreamV1,
  'SDK v2': startUpstreamV2,
})) {
  describe(`Step-up at an upstream built with ${server}`, () => {
    const behind = useUpstream(open);

    for (const [name, [connect, authorizeOptions]] of Object.entries(CLIENTS)) {
      it(`a client of ${name} asks the person and continues, or gets a tool error if no consent could help`, async () => {
        const { system, upstream } = behind();
        const { link } = await createConnector(system, { level: 'admin' });
        const browser = openBrowser(system.origins);
        const asked: (AuthorizeOptions | undefined)[] = [
          { ...authorizeOptions, level: 'analytics' },
          authorizeOptions,
        ];
        const authorize = (url: URL | string) => browser.authorize(url, asked.shift());
        const client = await connect(link, { browser: { authorize }, method: 'none' });
        expect(await client.callTool('whoami')).to.nested.include({ 'caller.level': 'analytics' });
        const refused = await client.callTool('contacts').catch((error: Error) => error);
        expect((refused as Error).constructor.name).to.equal('UnauthorizedError');
        await client.finishSignIn();
        expect(await client.callTool('contacts')).to.nested.include({ 'caller.level': 'admin' });
        expect(await client.callTool('cards')).to.equal(undefined);
        expect(client.signIns()).to.equal(2);
        expect(upstream.wire()).to.not.include(client.accessToken());
        await client.close();
      });
    }
  });
}
