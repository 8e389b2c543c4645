import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { grantLifetimes } from '../../src/connections/grant-lifetime.ts';
import { narrowGrant } from '../../src/connections/grants.ts';
import type { Level } from '../../src/permission-levels.ts';
import { createConnector } from '../support/management-api.ts';
import { isAccepted } from '../support/mcp.ts';
import { openSystemStore } from '../support/system-store.ts';
import { useSystem } from '../support/system.ts';
import {
  type TokenFamily,
  present,
  connectWithRefreshToken,
  rotate,
  untilNoticed,
} from './token-family.ts';
import { DEFAULT_LEVELS } from '../support/levels.ts';

const lifetimes = grantLifetimes({ accessToken: 3600, refreshTokenIdle: 30 * 86_400 });
const scopeOf = (token: string) => decodeJwt(token).scope;

describe('Lowering the level of a grant', () => {
  const system = useSystem();

  async function lower({ accessToken }: TokenFamily, level: Level) {
    const { store: opened } = await openSystemStore(system());
    const id = String(decodeJwt(accessToken).grant_id);
    const limit = { level, stays: true };
    const options = { lifetimes, now: Date.now() / 1000 };
    const narrowing = await narrowGrant(opened, DEFAULT_LEVELS, id, limit, options);
    await opened.close();
    return narrowing?.isNarrower;
  }

  it('REF-05 refreshes after lowering get the lower level, also when they request more', async () => {
    const family = await connectWithRefreshToken(
      system(),
      { level: 'full' },
      await createConnector(system(), { level: 'full' }),
    );
    expect(scopeOf(family.accessToken)).to.equal('full');
    await lower(family, 'operations');
    const { status, body } = await present(family, family.refreshToken);
    expect([status, body.scope]).to.deep.equal([200, 'operations offline_access']);
    const more = await present(family, body.refresh_token, { scope: 'full offline_access' });
    expect(more.body.scope).to.equal('operations offline_access');
    expect(await isAccepted(family.link, more.body.access_token)).to.equal(true);
  });

  it('lowering invalidates access tokens of a higher level at once, and keeps those of the lower level', async () => {
    const family = await connectWithRefreshToken(system());
    const { body } = await present(family, family.refreshToken, { scope: 'analytics' });
    for (const token of [family.accessToken, body.access_token])
      expect(await isAccepted(family.link, token)).to.equal(true);
    await lower(family, 'analytics');
    await untilNoticed(
      'the token to be refused',
      async () => !(await isAccepted(family.link, family.accessToken)),
    );
    expect(await isAccepted(family.link, body.access_token)).to.equal(true);
    const next = await rotate(family, String(body.refresh_token));
    expect(scopeOf(next.accessToken)).to.equal('analytics');
    expect(await isAccepted(family.link, next.accessToken)).to.equal(true);
  });

  it('lowering to a higher level has no effect', async () => {
    const family = await connectWithRefreshToken(system());
    expect(await lower(family, 'operations')).to.equal(false);
    expect(await lower(family, 'full')).to.equal(false);
    expect(await isAccepted(family.link, family.accessToken)).to.equal(true);
    expect(scopeOf((await rotate(family, family.refreshToken)).accessToken)).to.equal('operations');
  });
});
