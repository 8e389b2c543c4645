// Tests of src/oauth/engine/extensions.ts: they fail if a new engine version changes what it relies on.
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { createConnector } from '../support/management-api.ts';
import { obtainCode, redeem } from '../support/connection.ts';
import { useSystem } from '../support/system.ts';

describe("The engine's extensions", () => {
  const system = useSystem();

  it('SUP-04 codes and refresh tokens contain their grant id', async () => {
    const connector = await createConnector(system());
    const obtained = await obtainCode(system(), connector);
    const { body } = await redeem(obtained);
    const { grant_id: grantId } = decodeJwt(String(body.access_token));
    expect(obtained.callback.searchParams.get('code')).to.match(
      new RegExp(`^${grantId}~[\\w-]{43}$`),
    );
    expect(body.refresh_token).to.match(new RegExp(`^${grantId}~0~[\\w-]{43}$`));
  });
});
