// A code is redeemed once, for the client and the request it was made for, and nothing but its own replay takes back what it gave.
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { createConnector, type AuditItem } from '../support/management-api.ts';
import { advanceClock, freezeClock } from '../support/clock.ts';
import { obtainCode, redeem, registerClient, type IssuedCode } from '../support/connection.ts';
import { isAccepted } from '../support/mcp.ts';
import type { TokenResponse } from '../support/oauth.ts';
import { readStoredBytes } from '../support/stored-bytes.ts';
import { onEachStore } from '../support/system.ts';
import { auditOf, expectEnded, present, times } from './family.ts';

const ROUNDS = 5;
const AT_ONCE = 50;
const BUSY_MACHINE_MS = 60_000;

const KINDS = [
  { title: 'with a refresh token', stay: true },
  { title: 'without a refresh token', stay: false },
];

function expectRefused({ status, body }: TokenResponse): void {
  expect([status, body.error]).to.deep.equal([400, 'invalid_grant']);
  expect(body).to.not.have.any.keys('access_token', 'refresh_token');
}

for (const { title, stay } of KINDS) {
  onEachStore(`A code ${title}`, (system) => {
    const newCode = async () =>
      obtainCode(system(), await createConnector(system(), { maxUses: 1 }), { stay });

    /** What the code gave, which is a refresh token exactly when the person wished to stay connected. */
    async function exchanged(code: IssuedCode) {
      const { status, body } = await redeem(code);
      expect(status).to.equal(200);
      expect(body.refresh_token !== undefined).to.equal(stay);
      return { accessToken: body.access_token ?? '', refreshToken: body.refresh_token };
    }

    async function expectGood(
      code: IssuedCode,
      { accessToken, refreshToken }: { accessToken: string; refreshToken: string | undefined },
    ): Promise<void> {
      expect(await isAccepted(code.link, accessToken)).to.equal(true);
      if (stay) expect((await present(code, refreshToken)).status).to.equal(200);
      expect(await auditOf(system(), accessToken)).to.deep.equal([]);
    }

    async function expectTakenBack(
      code: IssuedCode,
      { accessToken, refreshToken }: { accessToken: string; refreshToken: string | undefined },
    ): Promise<void> {
      await expectEnded(code, {
        accessTokens: [accessToken],
        refreshTokens: refreshToken === undefined ? [] : [refreshToken],
      });
      expectReplay(code, accessToken, await auditOf(system(), accessToken));
    }

    it(`redeemed ${AT_ONCE} times at once is redeemed once, and what it gave is good`, async () => {
      // However long the requests take, none comes a second after the first.
      freezeClock();
      for (let round = 0; round < ROUNDS; round += 1) {
        const code = await newCode();
        const answers = await times(AT_ONCE, () => redeem(code));
        const [winner, ...others] = answers.toSorted((a, b) => a.status - b.status);
        others.forEach(expectRefused);
        expect(winner?.status).to.equal(200);
        const { access_token: accessToken = '', refresh_token: refreshToken } = winner?.body ?? {};
        await expectGood(code, { accessToken, refreshToken });
      }
    }).timeout(BUSY_MACHINE_MS);

    it('sent twice within a second is refused the second time, without harm', async () => {
      freezeClock();
      const code = await newCode();
      const given = await exchanged(code);
      expectRefused(await redeem(code));
      await expectGood(code, given);
    });

    for (const seconds of [2, 30, 63, 3000]) {
      it(`replayed ${seconds} s later takes back all it gave, with one event`, async () => {
        const code = await newCode();
        const given = await exchanged(code);
        advanceClock(seconds);
        expectRefused(await redeem(code));
        await expectTakenBack(code, given);
      });
    }

    it('replayed eight times at once takes back all it gave, with one event', async () => {
      const code = await newCode();
      const given = await exchanged(code);
      advanceClock(2);
      (await times(8, () => redeem(code))).forEach(expectRefused);
      await expectTakenBack(code, given);
    });

    it('PKC-05 in wrong hands or with wrong words is refused and not used up', async () => {
      const code = await newCode();
      const { link: other } = await createConnector(system());
      const stored = () => readStoredBytes(system().storeAddress, 'grant:');
      const before = await stored();
      expect(before).to.not.deep.equal([]);
      for (const resource of [other, 'x', [code.link, other]])
        expect((await redeem(code, { resource })).body.error).to.equal('invalid_target');
      await misuse(code);
      expect(await stored()).to.deep.equal(before);
      await expectGood(code, await exchanged(code));
    });

    it('in wrong hands after it was redeemed takes nothing back', async () => {
      const code = await newCode();
      const given = await exchanged(code);
      advanceClock(2);
      await misuse(code);
      await expectGood(code, given);
    });
  });
}

/** What somebody who caught the code can try without the verifier, and a client that confuses its own requests. */
async function misuse(code: IssuedCode): Promise<void> {
  const wrong = [
    { code_verifier: 'x'.repeat(43) },
    { code_verifier: undefined },
    { redirect_uri: 'http://127.0.0.1:7071/callback' },
  ];
  for (const parameters of wrong) expectRefused(await redeem(code, parameters));
  const missing = await redeem(code, { redirect_uri: undefined });
  expect([missing.status, missing.body.error]).to.deep.equal([400, 'invalid_request']);
  const strangers = [
    await registerClient(code.server),
    await registerClient(code.server, 'client_secret_basic'),
  ];
  for (const client of strangers) expectRefused(await redeem({ ...code, client }));
}

function expectReplay(code: IssuedCode, accessToken: string, items: AuditItem[]): void {
  const { sub } = decodeJwt(accessToken);
  const [replay, ...more] = items;
  expect(more).to.deep.equal([]);
  expect(replay).to.include({ event: 'code_replay', clientId: code.client.id, account: sub });
  expect(code.link).to.include(`/${replay?.connector}/`);
}
