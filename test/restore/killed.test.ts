// A replay that is killed, and repeated.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { expect } from 'chai';
import { nodeArguments } from '../support/node-arguments.ts';
import { recordSoak, SOAK } from '../support/soak.ts';
import { STORES } from '../support/system.ts';
import { openRestorable, type Restorable } from './restorable.ts';
import { PEOPLE_FILE, type Prepared, SCENARIOS } from './scenarios.ts';

const KILL = join(import.meta.dirname, '../support/kill-before-write.ts');
/** With SOAK=1, before each of its writes. */
const KILLED_AT = SOAK ? Array.from({ length: 200 }, (_, n) => n + 1) : [2, 7];

for (const kind of STORES)
  describe(`A replay that is killed before one of its writes, on ${kind}`, () => {
    const { grant_ended, connector_revoked, level_lowered, account_disabled } = SCENARIOS;
    const scenarios = [grant_ended, connector_revoked, level_lowered, account_disabled];
    let place: Restorable;
    let prepared: Prepared[];
    let file: string;
    before(async () => {
      place = await openRestorable(kind, PEOPLE_FILE);
      const system = await place.start();
      prepared = [];
      for (const { prepare } of scenarios)
        prepared.push(await prepare(system, place.deployment.environment));
      await place.backUp();
      for (const { takeAway } of prepared) await takeAway();
      file = await place.exportAudit();
      await place.stop();
    });
    after(() => place.release());

    /** Resolves to the signal, or to the exit code of a replay that had fewer writes. */
    async function killedAt(write: number): Promise<unknown> {
      const args = nodeArguments(['restore', '--replay', file], ['--import', KILL]);
      const env = { ...place.deployment.environment, KILL_AT: String(write) };
      const child = spawn(process.execPath, args, { env, stdio: 'ignore' });
      const [code, signal] = await once(child, 'close');
      return signal ?? code;
    }

    it('CNX-10 the repeated replay ends with everything taken away', async function () {
      this.timeout(SOAK ? 1_800_000 : 60_000);
      let kills = 0;
      for (const write of KILLED_AT) {
        await place.putBack();
        const end = await killedAt(write);
        if (end !== 'SIGKILL') {
          expect(end).to.equal(0);
          break;
        }
        kills += 1;
        const report = await place.replay(file);
        expect(report.applied + report.again).to.be.at.least(scenarios.length);
        await place.start();
        for (const { expectGone } of prepared) await expectGone();
        await place.stop();
      }
      expect(kills).to.be.at.least(2);
      recordSoak({ what: `replay, killed on ${kind}`, held: `before each of ${kills} writes` });
    });
  });
