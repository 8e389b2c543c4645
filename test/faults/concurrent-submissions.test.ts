// The second submission arrives after the interaction was deleted and before the redirect was stored.
import { expect } from 'chai';
import { createConnector } from '../support/management-api.ts';
import {
  isConsentPage,
  openBrowser,
  requireExternalRedirect,
  requirePage,
} from '../support/browser.ts';
import { redeem, registerClient } from '../support/connection.ts';
import { useProxiedSystem } from '../support/faults/proxied-system.ts';
import { authorizeUrl, discover } from '../support/oauth.ts';

type Decision = 'approve' | 'deny';

/** Delay of each Redis reply, so that the requests interleave. */
const REPLY_DELAY_MS = 20;

describe('Two concurrent submissions of the consent page', () => {
  const proxied = useProxiedSystem();

  async function openConsent() {
    const { proxy, system } = proxied();
    const { link } = await createConnector(system);
    const { server } = await discover(link);
    const client = await registerClient(server);
    const browser = openBrowser(system.origins);
    const { url, verifier } = authorizeUrl(server, client, { resource: link });
    const page = await browser.openConsent(url);
    const redeemAt = (callback: URL) => redeem({ link, server, client, callback, verifier });
    proxy.delayReplies(REPLY_DELAY_MS);
    const decide = (decision: Decision) => browser.submit(page, { decision });
    /** Resolves when the interaction was deleted. */
    const startDeciding = async (decision: Decision) => {
      const deleted = Promise.withResolvers<void>();
      proxy.setRule(({ name, kind }) => {
        if (name === 'del' && kind === 'interaction') deleted.resolve();
        return 'pass';
      });
      const answer = decide(decision);
      await deleted.promise;
      return { answer };
    };
    const connectAgain = () => browser.visit(authorizeUrl(server, client, { resource: link }).url);
    return { decide, startDeciding, redeemAt, connectAgain };
  }

  for (const decision of ['approve', 'deny'] as const)
    it(`a second ${decision} during the first redirects to the same URL`, async () => {
      const { decide, startDeciding, redeemAt } = await openConsent();
      const first = await startDeciding(decision);
      const second = requireExternalRedirect(await decide(decision));
      expect(second.href).to.equal(requireExternalRedirect(await first.answer).href);
      if (decision === 'approve') expect((await redeemAt(second)).status).to.equal(200);
    });

  it('a second submission that denies takes effect during an approval', async () => {
    const { decide, startDeciding, redeemAt } = await openConsent();
    const first = await startDeciding('approve');
    const second = await decide('deny');
    if (second.kind === 'page') expect(second.html).to.match(/You (already )?denied this/);
    else expect(second.url.searchParams.get('error')).to.equal('access_denied');
    const answer = await first.answer;
    if (answer.kind === 'redirect' && answer.url.searchParams.has('code'))
      expect((await redeemAt(answer.url)).body.error).to.equal('invalid_grant');
  });

  it('simultaneous approvals redirect to the same URL and keep the session', async () => {
    const { decide, redeemAt, connectAgain } = await openConsent();
    const answers = await Promise.all([1, 2, 3].map(() => decide('approve')));
    const [callback, ...others] = new Set(
      answers.map((step) => requireExternalRedirect(step).href),
    );
    expect(others).to.deep.equal([]);
    expect((await redeemAt(new URL(String(callback)))).status).to.equal(200);
    expect(isConsentPage(requirePage(await connectAgain()))).to.equal(true);
  });
});
