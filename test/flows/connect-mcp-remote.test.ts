// mcp-remote bridges clients without OAuth over stdio.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { expect } from 'chai';
import { createConnector } from '../support/management-api.ts';
import { freePorts } from '../support/free-ports.ts';
import { useSystem } from '../support/system.ts';
import { startUrlOpener, type UrlOpener } from '../support/url-opener.ts';

const ROOT = join(import.meta.dirname, '../..');

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

  it('mcp-remote reaches a tool result, and a later run needs no sign-in', async () => {
    const { link } = await createConnector(system());
    const [port = 0] = await freePorts(1);
    const result = await callThroughBridge(link, port);
    expect(result).to.have.property('members');
    expect(await callThroughBridge(link, port, { BROWSER: 'false' })).to.deep.equal(result);
  });
});
