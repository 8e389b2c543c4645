// mcp-remote bridges clients without OAuth over stdio.
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { expect } from 'chai';
import { openBrowser, requirePage } from '../support/browser.ts';
import { createConnector } from '../support/management-api.ts';
import { freePorts } from '../support/free-ports.ts';
import { useSystem } from '../support/system.ts';
import { until } from '../support/until.ts';
import { startUrlOpener, type UrlOpener } from '../support/url-opener.ts';

const ROOT = join(import.meta.dirname, '../..');
const INSTRUCTIONS = readFileSync(join(ROOT, 'test/interoperability/README.md'), 'utf8');

describe('mcp-remote', function () {
  this.timeout(60_000);
  const system = useSystem();
  let configDir = '';
  let opener: UrlOpener;
  before(async () => {
    opener = await startUrlOpener(system().origins);
    configDir = await mkdtemp(join(tmpdir(), 'mcp-remote-'));
  });
  after(async () => {
    await opener?.close();
    await rm(configDir, { recursive: true, force: true });
  });

  const environment = () => ({
    PATH: process.env.PATH ?? '',
    HOME: configDir,
    MCP_REMOTE_CONFIG_DIR: configDir,
    NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE ?? '',
  });

  /** The result of `club_overview` through a new bridge process; `more` has variables of it. */
  async function callThroughBridge(link: string, port: number, more = {}) {
    const transport = new StdioClientTransport({
      command: process.execPath,
      args: ['node_modules/.bin/mcp-remote', link, String(port)],
      cwd: ROOT,
      env: { ...environment(), ...opener.environment, ...more },
      stderr: 'ignore',
    });
    const client = new Client({ name: 'desktop', version: '1.0.0' });
    await client.connect(transport, { timeout: 45_000 });
    const { structuredContent } = await client.callTool({ name: 'club_overview', arguments: {} });
    await client.close();
    return structuredContent;
  }

  it('a terminal without a browser connects with the documented command, once a person has compared its code', async () => {
    const { link } = await createConnector(system());
    const [, command = ''] = /^npx -y -p mcp-remote (.+ --device-code)$/m.exec(INSTRUCTIONS) ?? [];
    const [program = '', ...options] = command.replace(/https:\S+/, link).split(' ');
    const terminal = spawn(process.execPath, [`node_modules/.bin/${program}`, ...options], {
      cwd: ROOT,
      env: { ...environment(), BROWSER: 'false' },
      stdio: 'pipe',
    });
    let output = '';
    for (const stream of [terminal.stdout, terminal.stderr])
      stream.on('data', (part: Buffer) => (output += part.toString()));
    try {
      const url = await until(
        'the address with the code',
        () => /http\S+user_code=\S+/.exec(output)?.[0],
      );
      const browser = openBrowser(system().origins);
      const form = requirePage(await browser.visit(url));
      const signIn = requirePage(await browser.submit(form, {}));
      const consent = requirePage(await browser.submit(signIn, { person: 'ada' }));
      await browser.submit(consent, { decision: 'approve' });
      await until('the tools', () => output.includes('club_overview') || undefined);
    } finally {
      terminal.kill();
    }
  });

  it('mcp-remote reaches a tool result, and a later run needs no sign-in', async () => {
    const { link } = await createConnector(system());
    const [port = 0] = await freePorts(1);
    const result = await callThroughBridge(link, port);
    expect(result).to.have.property('members');
    expect(await callThroughBridge(link, port, { BROWSER: 'false' })).to.deep.equal(result);
  });
});
