import { expect } from 'chai';
import { isConsentPage, describePage } from '../support/browser.ts';
import { register } from '../support/oauth.ts';
import {
  documentOf,
  needsPermission,
  RECORDED_CLIENTS,
  registrationOf,
} from './recorded-clients.ts';
import { discoverStep, openConsentPage } from './recorded-steps.ts';
import { useTestSystems } from './systems.ts';

describe('Clients without the settings that the table requires', () => {
  const systems = useTestSystems('sqlite');

  for (const recorded of RECORDED_CLIENTS) {
    const registration = registrationOf(recorded);
    if (registration && needsPermission(registration))
      it(`a registration is refused the redirect address: ${recorded.name}`, async () => {
        const { found } = await discoverStep(systems().system, recorded, { registration });
        const { status, body } = await register(found.server, registration.metadata);
        if (status === 201) expect(body.redirect_uris).to.not.include(registration.redirectUri);
        else expect([status, body.error]).to.deep.equal([400, 'invalid_redirect_uri']);
      });

    const document = documentOf(recorded);
    if (document?.pinned)
      it(`a metadata document cannot use a redirect address that it does not list: ${recorded.name}`, async () => {
        const run = await discoverStep(systems().system, recorded, { document });
        const page = await openConsentPage(run, await run.identify());
        expect([page.status, isConsentPage(page)], describePage(page)).to.deep.equal([400, false]);
      });
  }
});
