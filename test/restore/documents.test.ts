// The commands of config/operating.md, as they stand.
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { nodeArguments } from '../support/node-arguments.ts';
import { createConnector, revokeConnector } from '../support/management-api.ts';
import { connect } from '../support/connection.ts';
import { callTool, isAccepted } from '../support/mcp.ts';
import { refresh } from '../support/oauth.ts';
import { STORES, type StoreKind } from '../support/system.ts';
import { openRestorable, type Restorable } from './restorable.ts';

const run = promisify(execFile);
const DOCUMENT = readFileSync(join(import.meta.dirname, '../../config/operating.md'), 'utf8');

/** The commands of a section, one a line. */
function commandsIn(section: 'Backups' | 'Restoring', store: StoreKind): string[] {
  const [, text = ''] = new RegExp(`^## ${section}$(.*?)^## `, 'ms').exec(DOCUMENT) ?? [];
  const blocks = [...text.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, block = '']) => block);
  return (blocks[STORES.indexOf(store)] ?? '').trimEnd().split('\n');
}

const quoted = (word: string) => `'${word.replaceAll("'", `'\\''`)}'`;

/** Runs commands where they find this Gatehouse, and folders of the test in place of those of the machine. */
async function shell(place: Restorable, lines: readonly string[]): Promise<string[]> {
  const { environment, facts } = place.deployment;
  const programs = join(place.directory, 'programs');
  const copies = join(place.directory, 'copies');
  await mkdir(programs, { recursive: true });
  await mkdir(copies, { recursive: true });
  const { GATEHOUSE_STORE: store = '' } = environment;
  const port = store.startsWith('redis:') ? new URL(store).port : '';
  const node = [process.execPath, ...nodeArguments([])].map(quoted).join(' ');
  const scripts = {
    npx: `shift\nexec ${node} "$@"`,
    'redis-cli': `exec /usr/bin/env -S PATH=${process.env['PATH']} redis-cli -p ${port} "$@"`,
  };
  for (const [name, text] of Object.entries(scripts)) {
    await writeFile(join(programs, name), `#!/bin/sh\n${text}\n`);
    await chmod(join(programs, name), 0o755);
  }
  const outputs: string[] = [];
  for (const line of lines) {
    const command = line
      .replaceAll('/backup/', `${copies}/`)
      .replaceAll('/var/lib/redis/', `${place.redisDir}/`);
    if (command === 'systemctl start redis') await place.startRedis();
    else {
      const env = { ...process.env, ...environment, PATH: `${programs}:${process.env['PATH']}` };
      const { stdout } = await run('sh', ['-ec', command], { env, cwd: facts.dataDir });
      outputs.push(stdout);
    }
  }
  return outputs;
}

for (const store of STORES)
  describe(`The documents of backup and restore, on ${store}`, () => {
    let place: Restorable;
    before(async () => {
      place = await openRestorable(store);
    });
    after(() => place.release());

    it('CNX-10 three commands back up, and three restore, after which nothing that was revoked is back', async () => {
      const backUp = commandsIn('Backups', store);
      const restore = commandsIn('Restoring', store);
      expect([backUp.length, restore.length]).to.deep.equal([3, 3]);
      const system = await place.start();
      await writeFile(join(place.deployment.facts.dataDir, 'gatehouse.secret'), 'kept elsewhere');
      const [revoked, kept] = [await createConnector(system), await createConnector(system)];
      const ada = await connect(system, revoked);
      const grace = await connect(system, kept, { person: 'grace' });
      await place.settle();
      await shell(place, backUp);
      await revokeConnector(system, revoked.id);
      await shell(place, backUp.slice(-1));
      await place.stop();
      await place.stopRedis();
      const outputs = await shell(place, restore);
      expect(outputs.at(-1)).to.match(/^Taken away again: 1\./);
      const running = await place.start();
      expect((await callTool(ada.link, ada.accessToken, 'club_overview')).status).to.equal(410);
      const { body } = await refresh(ada.server, ada.client, ada.refreshToken);
      expect(body.error).to.equal('invalid_grant');
      expect(await isAccepted(grace.link, grace.accessToken)).to.equal(true);
      expect((await refresh(grace.server, grace.client, grace.refreshToken)).status).to.equal(200);
      expect(running.auth).to.equal(system.auth);
    });
  });
