// A store is restored after everything that a replay knows was taken away.
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { membersOf } from '../../src/json-values.ts';
import type { RestoreReport } from '../../src/restore/restore.ts';
import { advanceClock, restoreClock } from '../support/clock.ts';
import { connect, type Connection } from '../support/connection.ts';
import { createConnector, readAudit } from '../support/management-api.ts';
import { isAccepted } from '../support/mcp.ts';
import { refresh } from '../support/oauth.ts';
import { STORES, type System } from '../support/system.ts';
import { until } from '../support/until.ts';
import { openRestorable, reportOf, type Restorable } from './restorable.ts';
import { PEOPLE_FILE, type Prepared, SCENARIOS } from './scenarios.ts';

/** It ends the tokens of all others. */
const { signing_key_rotated: signingKeys, ...scenarios } = SCENARIOS;

for (const store of STORES)
  describe(`A replay after a restore, on ${store}`, () => {
    let place: Restorable;
    let system: System;
    let kept: Connection;
    /** What the app of `kept` has, which the backup does not know. */
    let newest: string | undefined;
    let later: Connection;
    let reports: RestoreReport[];
    let keys: Prepared;
    const prepared = new Map<string, Prepared>();
    before(async () => {
      place = await openRestorable(store, PEOPLE_FILE);
      system = await place.start();
      const link = await createConnector(system);
      kept = await connect(system, link);
      keys = await signingKeys.prepare(system, place.deployment.environment);
      for (const [event, { prepare }] of Object.entries(scenarios))
        prepared.set(event, await prepare(system, place.deployment.environment));
      await place.backUp();

      const added: Record<string, unknown>[] = [];
      for (const { takeAway } of prepared.values()) added.push(...((await takeAway()) ?? []));
      newest = kept.refreshToken;
      for (let count = 0; count < 3; count += 1)
        newest = (await refresh(kept.server, kept.client, newest)).body.refresh_token;
      later = await connect(system, link, { as: { browser: kept.browser } });
      const file = await place.exportAudit(added);
      await place.stop();
      await place.putBack();

      reports = [
        reportOf(await place.restore('--replay', file, '--json')),
        await place.replay(file),
      ];
      system = await place.start();
    });
    after(async () => {
      restoreClock();
      await place.release();
    });

    for (const [event, { title }] of Object.entries(scenarios))
      it(`CNX-10 after ${event}: ${title}`, () => prepared.get(event)?.expectGone());

    it('a second replay takes nothing away, and says what the store had already', () => {
      const [first, second] = reports;
      expect(first?.applied).to.be.at.least(Object.keys(scenarios).length);
      expect(second).to.deep.include({
        applied: 0,
        again: (first?.applied ?? 0) + (first?.again ?? 0),
        hints: first?.hints,
        signInAgain: first?.signInAgain,
      });
    });

    it('a refresh token that is newer than the store refreshes as before', async () => {
      const { status, body } = await refresh(kept.server, kept.client, newest);
      expect(status).to.equal(200);
      expect(await isAccepted(kept.link, body.access_token)).to.equal(true);
      const grantId = decodeJwt(kept.accessToken)['grant_id'];
      const items = (await readAudit(system)).filter((item) => item.grantId === grantId);
      expect(items.map(({ event }) => event)).to.deep.equal(['consent_approved']);
    });

    it('a replay names the connections of people that were made after the backup', async () => {
      const { sub, grant_id: grantId } = decodeJwt(later.accessToken);
      const [first] = reports;
      expect(first?.signInAgain.map((one) => one.grantId)).to.include(grantId);
      expect(first?.signInAgain.find((one) => one.grantId === grantId)).to.include({
        account: sub,
        clientId: later.client.id,
      });
      const { body } = await refresh(later.server, later.client, later.refreshToken);
      expect(body.error).to.be.oneOf(['invalid_client', 'invalid_grant']);
    });

    it('a replay says which machine needs a new key, and which connector is paused', () => {
      const { hints = [] } = reports[0] ?? {};
      expect(hints.filter((hint) => hint.endsWith('needs a new key'))).to.have.length(1);
      expect(hints.filter((hint) => hint.includes('is paused'))).to.have.length(1);
    });

    it('the audit log says that it lost items and what was restored, in a new epoch, and can be verified', async () => {
      const items = await readAudit(system);
      const from = items.findIndex(({ event }) => event === 'rolled_back');
      const [before, rolledBack, ...after] = items.slice(from - 1);
      expect(rolledBack).to.include({ by: 'restore' });
      expect(rolledBack?.['epoch']).not.to.equal(before?.['epoch']);
      const restored = after.filter(({ event }) => event === 'restored');
      expect(restored.map((item) => item['arguments'])).to.deep.equal(
        reports.map(({ applied, again, gapMinutes }) => ({
          applied,
          again,
          gapMinutes,
          ...placesIn(restored[0]),
          endAll: false,
        })),
      );
      expect(after.map((item) => item['by']).slice(0, 5)).to.deep.equal(Array(5).fill('restore'));
      expect(items.filter(({ event }) => event === 'rolled_back')).to.have.length(1);
      advanceClock(60);
      await until('a checkpoint over the items of the replay', async () => {
        const { code } = await place.gatehouse('audit', 'verify', '--json');
        return code === 0;
      });
    });

    it(`CNX-10 after signing_key_rotated: ${signingKeys.title}`, async () => {
      await place.stop();
      await place.putBack();
      system = await place.start();
      const file = await place.exportAudit((await keys.takeAway()) ?? []);
      await place.stop();
      await place.replay(file);
      system = await place.start();
      await keys.expectGone();
    });
  });

function placesIn(item: Record<string, unknown> | undefined): object {
  const { after, until } = membersOf(item?.['arguments']);
  return { after, until };
}
