// The MCP conformance suite for authorization servers passes every check, for the stable and the newest revision.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { expect } from 'chai';
import { createConnector } from '../support/administrator.ts';
import { openBrowser } from '../support/browser.ts';
import { registerClient } from '../support/connection.ts';
import { freePorts } from '../support/free-ports.ts';
import { discover } from '../support/oauth.ts';
import { useSystem } from '../support/system.ts';

const ROOT = join(import.meta.dirname, '../..');
/** The suite names no resource. */
const DEFAULT_CONNECTOR = 'for clients without a resource';

describe('The MCP conformance suite', function () {
  this.timeout(60_000);
  const system = useSystem({ settings: { GATEHOUSE_DEFAULT_CONNECTOR: DEFAULT_CONNECTOR } });
  let link = '';
  let folder = '';
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'conformance-'));
    ({ link } = await createConnector(system(), { name: DEFAULT_CONNECTOR }));
  });
  after(() => rm(folder, { recursive: true, force: true }));

  /** Runs `conformance authorization`, and signs in when it prints where. */
  async function runSuite(more: string[]): Promise<{ code: number; output: string }> {
    const [port = 0] = await freePorts(1);
    const { server } = await discover(link);
    const redirectUri = `http://127.0.0.1:${port}/callback`;
    const { id } = await registerClient(server, 'none', redirectUri);
    const file = join(folder, 'settings.json');
    await writeFile(file, JSON.stringify({ url: system().auth, clientId: id, port }));
    const suite = spawn(
      process.execPath,
      ['node_modules/.bin/conformance', 'authorization', '--file', file, '-o', folder, ...more],
      { cwd: ROOT, stdio: ['ignore', 'pipe', 'pipe'] },
    );
    const exited = once(suite, 'exit');
    let output = '';
    suite.stderr.on('data', (text) => (output += text));
    for await (const line of createInterface(suite.stdout)) {
      output += `${line}\n`;
      if (line.startsWith(server.authorization_endpoint)) await answerSuite(line);
    }
    const [code] = await exited;
    return { code, output };
  }

  async function answerSuite(url: string): Promise<void> {
    const callback = await openBrowser(system().origins).authorize(url);
    await (await fetch(callback)).text();
  }

  for (const more of [[], ['--spec-version', '2026-07-28'], ['--resource']]) {
    it(`SUP-05 passes with no failure (${more.join(' ') || 'as it comes'})`, async () => {
      const { code, output } = await runSuite(more.includes('--resource') ? [...more, link] : more);
      expect(output).to.match(/^Total: [3-9] passed, 0 failed$/m);
      expect(output).to.include('✓ authorization-code-grant: 1 passed, 0 failed');
      expect(code).to.equal(0);
    });
  }
});
