// Redis stalls at each store command of a request in turn, and executes the command later.
import { expect } from 'chai';
import { createConnector, readAudit } from '../support/management-api.ts';
import { advanceClock, restoreClock } from '../support/clock.ts';
import { connect, obtainCode, redeem } from '../support/connection.ts';
import { revoke } from '../support/faults/load.ts';
import type { ProxiedSystem } from '../support/faults/proxied-system.ts';
import { atEachCommand, type Prepare, sendStalled } from '../support/faults/stalls.ts';
import { isAccepted } from '../support/mcp.ts';
import { refresh } from '../support/oauth.ts';
import { multiplyStoreTimeouts } from '../support/scale-out/patient-timeouts.ts';
import { untilReady } from '../support/system.ts';

const COMMIT = 'evalsha grant';
const CACHE_SECONDS = 10;

describe('A request during which Redis stalls', () => {
  let restoreTimeouts: () => void;
  before(() => {
    // A dozen systems in one process can take longer than the timeouts for commands that do not stall.
    restoreTimeouts = multiplyStoreTimeouts(4);
  });
  after(() => restoreTimeouts());
  afterEach(restoreClock);

  /** Stalls each command of the request in turn. Resolves with the stalled commands. */
  async function stallEachCommand(
    prepare: Prepare,
    expectAfter: (proxied: ProxiedSystem, late: string) => Promise<void> = async () => {},
  ): Promise<string[]> {
    const stalled: string[] = [];
    await atEachCommand(prepare, async (proxied, point) => {
      const { send, retry } = await prepare(proxied);
      const { late, status } = await sendStalled(proxied, point, send);
      if (late === undefined) return void expect(status).to.equal(200);
      expect(status, late).to.be.oneOf([200, 503]);
      stalled.push(late);
      await untilReady(proxied.system);
      await retry(status, late);
      await expectAfter(proxied, late);
    });
    return stalled;
  }

  it('after a stalled refresh the client refreshes with the token it has', async () => {
    const stalled = await stallEachCommand(async ({ system }) => {
      const connection = await connect(system, await createConnector(system));
      const { server, client, link, refreshToken } = connection;
      return {
        send: async () => (await refresh(server, client, refreshToken)).status,
        async retry() {
          const { body } = await refresh(server, client, refreshToken);
          expect(await isAccepted(link, body.access_token)).to.equal(true);
          expect((await refresh(server, client, body.refresh_token)).status).to.equal(200);
        },
      };
    });
    expect(stalled).to.include(COMMIT);
  });

  it('after a stalled exchange the code still works, unless the late command used it', async () => {
    const stalled = await stallEachCommand(async ({ system }) => {
      const code = await obtainCode(system, await createConnector(system));
      const { server, client } = code;
      let refreshToken: string | undefined;
      return {
        async send() {
          const { status, body } = await redeem(code);
          refreshToken = body.refresh_token;
          return status;
        },
        async retry(status, late) {
          if (status === 503) {
            const { body } = await redeem(code);
            // The late command used the code after the client got 503.
            if (late === COMMIT) expect(body.error).to.equal('invalid_grant');
            if (late === COMMIT) return;
            refreshToken = body.refresh_token;
          }
          expect((await refresh(server, client, refreshToken)).status).to.equal(200);
        },
      };
    });
    expect(stalled).to.include(COMMIT);
  });

  it('a repeated revocation takes effect after a stalled one, and is recorded once at most', async () => {
    const stalled = await stallEachCommand(
      async ({ system }) => {
        const connection = await connect(system, await createConnector(system));
        const { server, client, link, accessToken, refreshToken } = connection;
        expect(await isAccepted(link, accessToken)).to.equal(true);
        return {
          send: async () => ((await revoke(connection)) ? 200 : 503),
          async retry() {
            expect(await revoke(connection)).to.equal(true);
            expect((await refresh(server, client, refreshToken)).body.error).to.equal(
              'invalid_grant',
            );
            advanceClock(CACHE_SECONDS);
            expect(await isAccepted(link, accessToken)).to.equal(false);
          },
        };
      },
      async ({ system }, late) => {
        const ended = (await readAudit(system)).filter(({ event }) => event === 'grant_ended');
        // A late commit ended the grant after the 503, and the repetition found nothing to record.
        if (late === COMMIT) expect(ended).to.have.length(0);
        // The process may also have announced its settings, before the commit.
        else if (late === 'publish channel') expect(ended).to.have.lengthOf.at.most(1);
        else expect(ended, late).to.have.length(1);
      },
    );
    expect(stalled).to.include(COMMIT).and.to.include('publish channel');
  });
});
