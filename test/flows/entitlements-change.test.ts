import { expect } from 'chai';
import { decodeJwt } from 'jose';
import type { RuleInFile } from '../../src/settings/schema.ts';
import { createConnector } from '../support/management-api.ts';
import { restoreClock } from '../support/clock.ts';
import { connect, obtainCode, redeem, type ConnectOptions } from '../support/connection.ts';
import { callTool, isAccepted } from '../support/mcp.ts';
import { refresh, type TokenResponse } from '../support/oauth.ts';
import { restartSystem } from '../support/restart.ts';
import { postToken } from '../support/token-endpoints.ts';
import {
  createDeployment,
  startDeployment,
  type Deployment,
  type System,
} from '../support/system.ts';

const FULL: RuleInFile[] = [
  { match: { subject: 'ada' }, level: 'full' },
  { match: { subject: 'grace' }, level: 'operations' },
];
const LOWER: RuleInFile[] = [{ match: { subject: 'ada' }, level: 'operations' }];
const OTHERS: RuleInFile[] = [{ match: { subject: 'grace' }, level: 'full' }];
const RESOURCE_SERVER = { id: 'figures-api', secret: 'secret-of-the-figures-api-0123456789' };
function expectRefused({ status, body }: TokenResponse): void {
  expect([status, body.error]).to.deep.equal([400, 'invalid_grant']);
  expect(body).to.not.have.any.keys('access_token', 'refresh_token');
}

describe('Changed entitlement rules', () => {
  let place: Deployment;
  let system: System | undefined;
  beforeEach(async () => {
    place = await createDeployment({
      file: {
        entitlements: FULL,
        authorization: { introspectionClients: [RESOURCE_SERVER] },
      },
    });
    system = await startDeployment(place);
  });
  afterEach(async () => {
    restoreClock();
    await system?.stop();
    await place.release();
  });

  const running = (): System => {
    if (!system) throw new Error('nothing runs');
    return system;
  };

  /** Restarts the system with the same data and other rules. */
  async function restart(entitlements: RuleInFile[]): Promise<void> {
    await system?.stop();
    system = undefined;
    system = await restartSystem(place, { entitlements });
  }

  async function prepare(options: ConnectOptions = { level: 'full' }) {
    const connector = await createConnector(running(), { level: 'full' });
    return {
      link: connector.link,
      connection: await connect(running(), connector, options),
      staying: await obtainCode(running(), connector, options),
      brief: await obtainCode(running(), connector, { ...options, stay: false }),
    };
  }

  const renew = ({ connection }: Awaited<ReturnType<typeof prepare>>, token?: string) =>
    refresh(connection.server, connection.client, token ?? connection.refreshToken);

  it('CNX-08 a person without a rule is refused at code exchange and refresh, and accepted once a rule is back', async () => {
    const prepared = await prepare();
    for (const rules of [OTHERS, [{ match: { group: 'owners' }, level: 'full' } as const]]) {
      await restart(rules);
      expectRefused(await renew(prepared));
      expectRefused(await redeem(prepared.staying));
      expectRefused(await redeem(prepared.brief));
    }
    await restart(FULL);
    for (const answer of [
      await renew(prepared),
      await redeem(prepared.staying),
      await redeem(prepared.brief),
    ]) {
      expect(answer.body.scope).to.match(/^full\b/);
      expect(await isAccepted(prepared.link, answer.body.access_token)).to.equal(true);
    }
  });

  it('CNX-08 an access token is refused once its person may not have its level, and accepted again with the rule', async () => {
    const { link, connection } = await prepare();
    const accepted = () => isAccepted(link, connection.accessToken);
    const cases: [RuleInFile[], boolean][] = [
      [OTHERS, false],
      [LOWER, false],
      [FULL, true],
    ];
    for (const [rules, expected] of cases) {
      await restart(rules);
      expect(await accepted()).to.equal(expected);
    }
  });

  it('introspection says that an access token is inactive once its person may not have its level', async () => {
    const { connection } = await prepare();
    const asks = { ...RESOURCE_SERVER, method: 'client_secret_post' } as const;
    const isActive = async (token: string): Promise<boolean> => {
      const { text } = await postToken(`${running().auth}/oauth/introspect`, asks, token);
      return JSON.parse(text).active;
    };
    const cases: [RuleInFile[], boolean, boolean][] = [
      [FULL, true, true],
      [LOWER, false, true],
      [OTHERS, false, false],
    ];
    for (const [rules, access, refreshing] of cases) {
      await restart(rules);
      expect(await isActive(connection.accessToken)).to.equal(access);
      expect(await isActive(String(connection.refreshToken))).to.equal(refreshing);
    }
  });

  it('the granted level is limited by the current rules at code exchange and refresh', async () => {
    const prepared = await prepare();
    await restart(LOWER);
    const answers = [
      await renew(prepared),
      await redeem(prepared.staying),
      await redeem(prepared.brief),
    ];
    for (const { status, body } of answers) {
      expect(status).to.equal(200);
      expect(body.scope).to.match(/^operations\b/);
      expect(decodeJwt(String(body.access_token)).scope).to.equal('operations');
      const call = { memberId: 'x' };
      const { rpc } = await callTool(prepared.link, body.access_token, 'payment_details', call);
      expect(rpc?.result?.isError).to.equal(true);
      expect(await isAccepted(prepared.link, body.access_token)).to.equal(true);
    }
    await restart(FULL);
    const again = await renew(prepared, answers[0]?.body.refresh_token);
    expect(again.body.scope).to.equal('full offline_access');
  });

  it('the granted level never exceeds what the person approved', async () => {
    const prepared = await prepare({ person: 'grace' });
    await restart(OTHERS);
    for (const answer of [await renew(prepared), await redeem(prepared.staying)])
      expect(answer.body.scope).to.equal('operations offline_access');
  });
});
