import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { createConnector, type AuditItem } from '../support/management-api.ts';
import { advanceClock, freezeClock } from '../support/clock.ts';
import { obtainCode, redeem, registerClient, type IssuedCode } from '../support/connection.ts';
import { isAccepted } from '../support/mcp.ts';
import type { TokenResponse } from '../support/oauth.ts';
import { recordSoak, SOAK } from '../support/soak.ts';
import { readStoredBytes } from '../support/stored-bytes.ts';
import { type StoreKind, STORES, useSystem } from '../support/system.ts';
import { auditOf, expectEnded, present, times } from './token-family.ts';

const ROUNDS = SOAK ? 20 : 1;
const CONCURRENT = SOAK ? 50 : 20;
const TIMEOUT_MS = SOAK ? 300_000 : 60_000;
/** After the redemption. The store cannot matter for the length of the time. */
const REPLAYED_AFTER_SECONDS = { sqlite: [2, 30, 63, 3000], redis: [2] };

/** The store cannot matter for the second kind: the same writes redeem a code of either. */
const KINDS: { title: string; stay: boolean; stores: readonly StoreKind[] }[] = [
  { title: 'with a refresh token', stay: true, stores: STORES },
  { title: 'without a refresh token', stay: false, stores: ['sqlite'] },
];
const ARRANGEMENTS = KINDS.flatMap(({ stores, ...kind }) =>
  stores.map((store) => ({ ...kind, store })),
);

function expectRefused({ status, body }: TokenResponse): void {
  expect([status, body.error]).to.deep.equal([400, 'invalid_grant']);
  expect(body).to.not.have.any.keys('access_token', 'refresh_token');
}

for (const { title, stay, store } of ARRANGEMENTS) {
  describe(`An authorization code ${title}, on ${store}`, () => {
    const system = useSystem({ store });
    const newCode = async () =>
      obtainCode(system(), await createConnector(system(), { maxUses: 1 }), { stay });

    /** Redeems the code. Expects a refresh token exactly if the person chose to stay connected. */
    async function exchange(code: IssuedCode) {
      const { status, body } = await redeem(code);
      expect(status).to.equal(200);
      expect(body.refresh_token !== undefined).to.equal(stay);
      return { accessToken: body.access_token ?? '', refreshToken: body.refresh_token };
    }

    async function expectActive(
      code: IssuedCode,
      { accessToken, refreshToken }: { accessToken: string; refreshToken: string | undefined },
    ): Promise<void> {
      expect(await isAccepted(code.link, accessToken)).to.equal(true);
      if (stay) expect((await present(code, refreshToken)).status).to.equal(200);
      expect(await auditOf(system(), accessToken)).to.deep.equal([]);
    }

    async function expectGrantEnded(
      code: IssuedCode,
      { accessToken, refreshToken }: { accessToken: string; refreshToken: string | undefined },
    ): Promise<void> {
      await expectEnded(code, {
        accessTokens: [accessToken],
        refreshTokens: refreshToken === undefined ? [] : [refreshToken],
      });
      expectReplay(code, accessToken, await auditOf(system(), accessToken));
    }

    it(`COD-01 of ${CONCURRENT} concurrent exchanges of a code one succeeds, and its tokens work`, async () => {
      // With a stopped clock, no exchange counts as a replay, however long the requests take.
      freezeClock();
      for (let round = 0; round < ROUNDS; round += 1) {
        const code = await newCode();
        const answers = await times(CONCURRENT, () => redeem(code));
        const [winner, ...others] = answers.toSorted((a, b) => a.status - b.status);
        others.forEach(expectRefused);
        expect(winner?.status).to.equal(200);
        const { access_token: accessToken = '', refresh_token: refreshToken } = winner?.body ?? {};
        await expectActive(code, { accessToken, refreshToken });
      }
      recordSoak({
        what: `${CONCURRENT} concurrent exchanges of a code ${title}, on ${store}`,
        held: `${ROUNDS} codes, each redeemed once`,
      });
    }).timeout(TIMEOUT_MS);

    it('COD-03 an exchange needs no redirect_uri, also if it is empty', async () => {
      for (const redirectUri of [undefined, '']) {
        const code = await newCode();
        const { status, body } = await redeem(code, { redirect_uri: redirectUri });
        expect(status).to.equal(200);
        expect(await isAccepted(code.link, body.access_token)).to.equal(true);
        expectRefused(await redeem(code, { redirect_uri: undefined }));
      }
    });

    it('a second exchange within a second is refused, and the tokens stay valid', async () => {
      freezeClock();
      const code = await newCode();
      const given = await exchange(code);
      expectRefused(await redeem(code));
      await expectActive(code, given);
    });

    for (const seconds of REPLAYED_AFTER_SECONDS[store]) {
      it(`COD-02 a code replayed after ${seconds} s ends the grant with one audit event`, async () => {
        const code = await newCode();
        const given = await exchange(code);
        advanceClock(seconds);
        expectRefused(await redeem(code));
        await expectGrantEnded(code, given);
      });
    }

    it('eight concurrent replays of a code end the grant with one audit event', async () => {
      const code = await newCode();
      const given = await exchange(code);
      advanceClock(2);
      (await times(8, () => redeem(code))).forEach(expectRefused);
      await expectGrantEnded(code, given);
    });

    // The same checks refuse a code of either kind.
    if (!stay) return;

    it('PKC-05 a refused exchange by another client or with wrong parameters does not use up the code', async () => {
      const code = await newCode();
      const { link: other } = await createConnector(system());
      const stored = () => readStoredBytes(system().storeAddress, 'grant:');
      const before = await stored();
      expect(before).to.not.deep.equal([]);
      for (const resource of [other, 'x', [code.link, other]])
        expect((await redeem(code, { resource })).body.error).to.equal('invalid_target');
      await misuse(code);
      expect(await stored()).to.deep.equal(before);
      await expectActive(code, await exchange(code));
    });

    it('a refused exchange by another client after redemption does not end the grant', async () => {
      const code = await newCode();
      const given = await exchange(code);
      advanceClock(2);
      await misuse(code);
      await expectActive(code, given);
    });
  });
}

/** Presents the code with wrong parameters and as other clients. Expects refusals. */
async function misuse(code: IssuedCode): Promise<void> {
  const wrong = [
    { code_verifier: 'x'.repeat(43) },
    { code_verifier: undefined },
    { redirect_uri: 'http://127.0.0.1:7071/callback' },
  ];
  for (const parameters of wrong) expectRefused(await redeem(code, parameters));
  const otherClients = [
    await registerClient(code.server),
    await registerClient(code.server, 'client_secret_basic'),
  ];
  for (const client of otherClients) expectRefused(await redeem({ ...code, client }));
}

function expectReplay(code: IssuedCode, accessToken: string, items: AuditItem[]): void {
  const { sub } = decodeJwt(accessToken);
  const [replay, ...more] = items;
  expect(more).to.deep.equal([]);
  expect(replay).to.include({ event: 'code_replay', clientId: code.client.id, account: sub });
  expect(code.link).to.include(`/${replay?.connector}/`);
}
