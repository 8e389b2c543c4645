import { expect } from 'chai';
import { createConnector } from '../support/management-api.ts';
import {
  isConsentPage,
  openBrowser,
  requireExternalRedirect,
  requirePage,
} from '../support/browser.ts';
import { connect, redeem, registerClient } from '../support/connection.ts';
import { isAccepted } from '../support/mcp.ts';
import { authorizeUrl, refresh } from '../support/oauth.ts';
import { until } from '../support/until.ts';
import {
  createDeployment,
  type Deployment,
  startDeployment,
  STORES,
  type System,
} from '../support/system.ts';

const answers = (url: string) =>
  fetch(url).then(
    ({ ok }) => ok,
    () => false,
  );

const OLD = 'the old root secret, which is long enough';
const NEW = 'the new root secret, which is long enough';

for (const store of STORES)
  describe(`Rotation of the root secret (${store})`, () => {
    let deployment: Deployment;
    let system: System | undefined;
    before(async () => {
      deployment = await createDeployment({ store });
    });
    after(async () => {
      await system?.stop();
      await deployment?.release();
    });

    async function restart(settings: Record<string, string>): Promise<System> {
      await system?.stop();
      system = undefined;
      system = await startDeployment(deployment, settings);
      // Connections to the stopped process may still look open on this side.
      for (const url of [system.auth, system.resource])
        await until('the process to respond', () => answers(`${url}/readyz`));
      return system;
    }

    it('SES-03 tokens, sessions and open pages survive rotation; without GATEHOUSE_PREVIOUS_SECRET the start fails', async () => {
      const before = await restart({ GATEHOUSE_SECRET: OLD });
      const connector = await createConnector(before);
      const { server, client, accessToken, refreshToken, browser } = await connect(
        before,
        connector,
      );
      const other = await registerClient(server);
      const { url, verifier } = authorizeUrl(server, other, { resource: connector.link });
      const page = await browser.openConsent(url);

      const refusal = await restart({ GATEHOUSE_SECRET: NEW }).then(
        () => undefined,
        (error: Error) => error.message,
      );
      expect(refusal).to.match(/another root secret: set GATEHOUSE_SECRET/);

      await restart({ GATEHOUSE_SECRET: NEW, GATEHOUSE_PREVIOUS_SECRET: OLD });
      expect(await isAccepted(connector.link, accessToken)).to.equal(true);
      expect((await refresh(server, client, refreshToken)).status).to.equal(200);
      const callback = requireExternalRedirect(await browser.submit(page, { decision: 'approve' }));
      const code = { link: connector.link, server, client: other, callback, verifier };
      expect((await redeem(code)).status).to.equal(200);

      const seen = browser.visited.length;
      const again = authorizeUrl(server, client, { resource: connector.link });
      expect(isConsentPage(requirePage(await browser.visit(again.url)))).to.equal(true);
      const [authorizationServer] = deployment.facts.origins;
      for (const { origin } of browser.visited.slice(seen))
        expect(origin).to.equal(authorizationServer);
      expect(
        isConsentPage(await openBrowser(deployment.facts.origins).openConsent(again.url)),
      ).to.equal(true);
    });
  });
