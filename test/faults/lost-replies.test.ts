import { expect } from 'chai';
import { createConnector, readAudit } from '../support/management-api.ts';
import { advanceClock } from '../support/clock.ts';
import { connect, type Connection, obtainCode, redeem } from '../support/connection.ts';
import { type History, recordHistory } from '../support/faults/history.ts';
import { unusedRefreshTokens, violations } from '../support/faults/invariants.ts';
import { useProxiedSystem } from '../support/faults/proxied-system.ts';
import { isAccepted } from '../support/mcp.ts';
import { refresh } from '../support/oauth.ts';
import { recordSoak, SOAK } from '../support/soak.ts';
import { onEachStore } from '../support/system.ts';

const GRACE_SECONDS = 60;
const LATER = [
  { pause: 1, words: 'a second' },
  { pause: 8 * 3600, words: 'eight hours' },
];
const REFRESHES = SOAK ? 10_000 : 100;
/** One for each command of an exchange. */
const EXCHANGES = SOAK ? 200 : 10;
const CLIENTS = 5;
const EVERY = 10;

describe('Lost responses and replies', () => {
  let history: History | undefined;
  afterEach(() => history?.stop());

  onEachStore('A client that lost the response to a refresh', (system) => {
    for (const { pause, words } of LATER)
      it(`a retry ${words} after a lost refresh response succeeds, and the lost tokens do not work later`, async () => {
        const connection = await connect(system(), await createConnector(system()));
        const { server, client, link, refreshToken } = connection;
        history = recordHistory([system().auth, system().resource]);
        await refresh(server, client, refreshToken);
        advanceClock(pause);
        const { status, body } = await refresh(server, client, refreshToken);
        expect(status).to.equal(200);
        expect(await isAccepted(link, body.access_token)).to.equal(true);
        expect((await refresh(server, client, body.refresh_token)).status).to.equal(200);
        expect(violations(history.exchanges)).to.deep.equal([]);

        const lost = unusedRefreshTokens(history.exchanges);
        expect(lost).to.have.length(pause < GRACE_SECONDS ? 0 : 1);
        advanceClock(GRACE_SECONDS + 1);
        for (const token of lost)
          expect((await refresh(server, client, token)).status).to.equal(400);
      });
  });

  describe('A Redis whose replies are lost', () => {
    const proxied = useProxiedSystem();

    it(`${REFRESHES} refreshes with every ${EVERY}th reply lost are never refused and end no grant`, async () => {
      const { proxy, system } = proxied();
      const connector = await createConnector(system);
      const families: Connection[] = [];
      for (let i = 0; i < CLIENTS; i++) families.push(await connect(system, connector));
      history = recordHistory([system.auth]);
      let commands = 0;
      proxy.setRule(({ kind }) => (kind && ++commands % EVERY === 0 ? 'cut reply' : 'pass'));
      let granted = 0;
      const refreshOften = async (family: Connection) => {
        while (granted < REFRESHES) {
          const { status, body } = await refresh(family.server, family.client, family.refreshToken);
          family.refreshToken = body.refresh_token ?? family.refreshToken;
          if (status === 200) granted += 1;
        }
      };
      await Promise.all(families.map(refreshOften));
      proxy.setRule();
      expect(violations(history.exchanges)).to.deep.equal([]);
      expect(commands).to.be.above(2 * REFRESHES);
      // The Redis client sends a command again if it gets no reply.
      const { length } = history.exchanges;
      expect(length).to.be.below(1.1 * granted);
      const events = (await readAudit(system)).map(({ event }) => event);
      expect(events).to.not.include('refresh_replay').and.to.not.include('grant_ended');
      recordSoak({
        what: `refreshes while every ${EVERY}th reply of Redis is lost`,
        held: `${granted} refreshes of ${CLIENTS} clients with ${length} requests, none refused, no grant ended`,
      });
    }).timeout(60_000 + REFRESHES * 100);

    it(`${EXCHANGES} exchanges with a lost reply each redeem their code exactly once`, async () => {
      const { proxy, system } = proxied();
      const connector = await createConnector(system);
      history = recordHistory([system.auth]);
      for (let i = 0; i < EXCHANGES; i++) {
        const code = await obtainCode(system, connector);
        let remaining = i % EVERY;
        proxy.setRule(({ kind }) => (kind && remaining-- === 0 ? 'cut reply' : 'pass'));
        const { status, body } = await redeem(code);
        proxy.setRule();
        expect(status).to.equal(200);
        expect((await refresh(code.server, code.client, body.refresh_token)).status).to.equal(200);
      }
      expect(violations(history.exchanges)).to.deep.equal([]);
      recordSoak({
        what: 'code exchanges with a lost reply of Redis',
        held: `${EXCHANGES} codes, each redeemed once`,
      });
    }).timeout(60_000 + EXCHANGES * 500);
  });
});
