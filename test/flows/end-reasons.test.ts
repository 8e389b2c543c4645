import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { REASONS, type Reason } from '../../src/connections/reasons.ts';
import {
  changeAccount,
  createConnector,
  deleteConnector,
  requestManagement,
  readAudit,
  revokeConnector,
  showGrant,
} from '../support/management-api.ts';
import { advanceClock } from '../support/clock.ts';
import { connect, obtainCode, redeem } from '../support/connection.ts';
import { type System, useSystem } from '../support/system.ts';
import { postToken } from '../support/token-endpoints.ts';
import {
  type TokenFamily,
  present,
  connectWithRefreshToken,
  rotate,
} from '../connections/token-family.ts';

const DAY = 86_400;
const claimOf = (token: string, name: string) => String(decodeJwt(token)[name]);
const grantOf = ({ accessToken }: Pick<TokenFamily, 'accessToken'>) =>
  claimOf(accessToken, 'grant_id');

type End = (system: System, family: TokenFamily) => Promise<unknown>;

/** `event` is the audit event that is recorded with the end of the grant. */
const ENDS: { reason: Reason; end: End; event?: string }[] = [
  {
    reason: 'refresh_replay',
    event: 'refresh_replay',
    async end(_system, family) {
      const { refreshToken } = await rotate(family, family.refreshToken);
      await rotate(family, refreshToken);
      advanceClock(120);
      await present(family, family.refreshToken);
    },
  },
  {
    reason: 'revoked_by_client',
    event: 'grant_ended',
    end: (_system, { server, client, refreshToken }) =>
      postToken(server.revocation_endpoint, client, refreshToken),
  },
  {
    reason: 'revoked_by_administrator',
    event: 'grant_ended',
    end: (system, family) => requestManagement(system, 'DELETE', `/grants/${grantOf(family)}`),
  },
  {
    reason: 'client_revoked',
    event: 'grant_ended',
    end: (system, { client }) =>
      requestManagement(system, 'POST', '/clients/revoke', { id: client.id }),
  },
  {
    reason: 'connector_revoked',
    end: (system, { accessToken }) => revokeConnector(system, claimOf(accessToken, 'connector')),
  },
  {
    reason: 'connector_deleted',
    async end(system, { accessToken }) {
      await revokeConnector(system, claimOf(accessToken, 'connector'));
      await deleteConnector(system, claimOf(accessToken, 'connector'));
    },
  },
  {
    reason: 'account_disabled',
    async end(system, { accessToken }) {
      await changeAccount(system, claimOf(accessToken, 'sub'), 'disable');
      await changeAccount(system, claimOf(accessToken, 'sub'), 'enable');
    },
  },
  { reason: 'idle', end: async () => advanceClock(30 * DAY) },
];

describe('The reason why a connection ended', () => {
  const system = useSystem();

  for (const { reason, end, event } of ENDS)
    it(`the grant states the reason ${reason}, and the refresh is refused`, async () => {
      const person = reason === 'account_disabled' ? 'grace' : 'ada';
      const family = await connectWithRefreshToken(system(), { person });
      expect(await showGrant(system(), grantOf(family))).to.include({ state: 'active' });
      await end(system(), family);
      const { status, body } = await present(family, family.refreshToken);
      expect([status, body.error]).to.deep.equal([400, 'invalid_grant']);
      const grant = await showGrant(system(), grantOf(family));
      expect(grant).to.include({ state: 'ended', reason, explanation: REASONS[reason] });
      expect(grant).to.include({ level: 'operations', clientName: 'Test client' });
      const audit = (await readAudit(system())).filter(({ grantId }) => grantId === grant.id);
      expect(audit.map((item) => item.event)).to.deep.equal([
        'consent_approved',
        ...(event ? [event] : []),
      ]);
    });

  it('the grant states that its code was used twice', async () => {
    const code = await obtainCode(system(), await createConnector(system()));
    const { body } = await redeem(code);
    advanceClock(2);
    expect((await redeem(code)).status).to.equal(400);
    const id = claimOf(body.access_token ?? '', 'grant_id');
    expect(await showGrant(system(), id)).to.include({ state: 'ended', reason: 'code_replay' });
  });

  it('the grant states that the person did not let the app stay connected', async () => {
    const connection = await connect(system(), await createConnector(system()), { stay: false });
    expect(await showGrant(system(), grantOf(connection))).to.include({ state: 'active' });
    advanceClock(3600);
    const grant = await showGrant(system(), grantOf(connection));
    expect(grant).to.include({ state: 'ended', reason: 'not_renewable' });
  });

  it('the grant states that it reached its maximum lifetime', async () => {
    const family = await connectWithRefreshToken(system());
    let { refreshToken } = family;
    for (let month = 0; month < 3; month += 1) {
      advanceClock(29 * DAY);
      ({ refreshToken } = await rotate(family, refreshToken));
    }
    advanceClock(3 * DAY);
    expect((await present(family, refreshToken)).body.error).to.equal('invalid_grant');
    const grant = await showGrant(system(), grantOf(family));
    expect(grant).to.include({ state: 'ended', reason: 'absolute' });
  });
});

describe('The retention of end reasons', () => {
  const system = useSystem();

  for (const { reason, end } of ENDS.filter((one) =>
    ['idle', 'revoked_by_client'].includes(one.reason),
  ))
    it(`the reason is kept for 30 days (${reason})`, async () => {
      const family = await connectWithRefreshToken(system());
      await end(system(), family);
      advanceClock(30 * DAY - 60);
      expect(await showGrant(system(), grantOf(family))).to.include({ state: 'ended', reason });
      advanceClock(120);
      const gone = await showGrant(system(), grantOf(family)).catch(String);
      expect(gone).to.match(/404 .*kept for 30 days/);
    });

  it('refused refreshes are listed once an hour for each reason, and stay listed after they cease', async () => {
    const family = await connectWithRefreshToken(system());
    await changeAccount(system(), claimOf(family.accessToken, 'sub'), 'disable');
    for (let attempt = 0; attempt < 3; attempt += 1)
      expect((await present(family, family.refreshToken)).body.error).to.equal('invalid_grant');
    advanceClock(3601);
    await present(family, family.refreshToken);
    const { refusals } = await showGrant(system(), grantOf(family));
    expect(refusals.map(({ reason }) => reason)).to.deep.equal([
      'account_disabled',
      'account_disabled',
    ]);
    const [first, second] = refusals.map(({ time }) => Date.parse(time));
    expect(Number(second) - Number(first)).to.be.within(3_600_000, 3_660_000);
  });
});
