// The row of mcp-remote, which runs as a child process.
import { spawn } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { expect } from 'chai';
import { openBrowser, requirePage } from '../support/browser.ts';
import { createConnector, listGrants, requestManagement } from '../support/management-api.ts';
import { advanceClock } from '../support/clock.ts';
import { freePorts } from '../support/free-ports.ts';
import type { System } from '../support/system.ts';
import { startUrlOpener, type UrlOpener } from '../support/url-opener.ts';
import { until } from '../support/until.ts';
import {
  expectAuthorization,
  expectDiscovery,
  expectNoRegistration,
  expectRegistration,
  expectToken,
} from './expected-traffic.ts';
import { createMachine } from './machine-steps.ts';
import { CONTACT, OVERVIEW } from './messages.ts';
import { OWN_DOCUMENT, type TestSystems } from './systems.ts';
import { DOCUMENT, type Row } from './table.ts';
import { type Traffic, watchTraffic } from './traffic.ts';

const ROOT = join(import.meta.dirname, '../..');

type Bridge = {
  link: string;
  connector: string;
  desktop: Client;
  traffic: Traffic;
  folder: string;
  opener: UrlOpener;
};

export function mcpRemoteRow(systems: () => TestSystems): Row {
  const system = () => systems().system;
  const bridges: Bridge[] = [];
  const onBoth = (check: (bridge: Bridge) => Promise<void> | void) => ({
    prove: async () => {
      expect(bridges).to.have.lengthOf(2);
      for (const bridge of bridges) await check(bridge);
    },
  });
  return {
    client: 'mcp-remote',
    kind: 'program',
    steps: {
      discover: {
        prove: async () => {
          for (const more of [[], ['--client-metadata-url', OWN_DOCUMENT]])
            bridges.push(await openBridge(system(), more));
          for (const { traffic, link } of bridges) expectDiscovery(traffic, link);
        },
      },
      register: { prove: async () => expectRegistration(required(bridges[0]).traffic) },
      document: { prove: async () => expectNoRegistration(required(bridges[1]).traffic) },
      authorize: onBoth(({ traffic }) => expectAuthorization(traffic)),
      token: onBoth(({ traffic }) => expectToken(traffic)),
      call: onBoth(expectServed),
      refresh: {
        prove: async () => {
          advanceClock(3601);
          await onBoth(expectRefresh).prove();
        },
      },
      'step-up': onBoth(stepUp),
      revoke: onBoth((bridge) => endAndReturn(system(), bridge)),
      key: { notOffered: 'it authenticates with a secret or as a public client' },
      // The same link in its three ways.
      machine: { prove: () => connectMachine(system(), required(bridges[0])) },
      device: { prove: () => connectDevice(system(), required(bridges[0])) },
    },
    close: async () => {
      for (const { desktop, traffic, folder, opener } of bridges) {
        traffic.stop();
        await desktop.close();
        await opener.close();
        await rm(folder, { recursive: true, force: true });
      }
    },
  };
}

/** Grants `operations` the first time, and later the level that the page preselects. */
async function openBridge(system: System, more: string[]): Promise<Bridge> {
  const { link, id: connector } = await createConnector(system, { level: 'admin' });
  const folder = await mkdtemp(join(tmpdir(), 'mcp-remote-'));
  const opener = await startUrlOpener(system.origins);
  opener.next = { level: 'operations' };
  const [port = 0] = await freePorts(1);
  const traffic = watchTraffic(system.origins);
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: ['node_modules/.bin/mcp-remote', link, String(port), ...more],
    cwd: ROOT,
    env: {
      PATH: process.env.PATH ?? '',
      HOME: folder,
      MCP_REMOTE_CONFIG_DIR: folder,
      NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE ?? '',
      ...opener.environment,
    },
    stderr: 'ignore',
  });
  const desktop = new Client({ name: 'desktop', version: '1.0.0' });
  await desktop.connect(transport, { timeout: 45_000 });
  return { link, connector, desktop, traffic, folder, opener };
}

async function expectServed({ desktop }: Bridge): Promise<void> {
  const { structuredContent } = await desktop.callTool(OVERVIEW);
  expect(structuredContent).to.have.property('members');
}

async function expectRefresh(bridge: Bridge): Promise<void> {
  const { seen } = bridge.traffic;
  const before = seen.length;
  await expectServed(bridge);
  const later = seen.slice(before);
  expect(later).to.include('POST /oauth/token 200');
  expect(later.filter((line) => line.includes('/oauth/authorize'))).to.deep.equal([]);
}

async function stepUp({ desktop }: Bridge): Promise<void> {
  const { structuredContent } = await desktop.callTool(CONTACT);
  expect(structuredContent).to.include.keys('email');
}

async function endAndReturn(system: System, bridge: Bridge): Promise<void> {
  const { items } = await listGrants(system, { connector: bridge.connector, state: 'active' });
  for (const { id } of items) await requestManagement(system, 'DELETE', `/grants/${id}`);
  await expectServed(bridge);
}

function required(bridge: Bridge | undefined): Bridge {
  if (!bridge) throw new Error('it is not connected');
  return bridge;
}

/** Runs a command of the document, and ends it when it has printed the tools. */
async function listTools(
  command: string,
  more: Record<string, string>,
  onOutput: (output: () => string) => Promise<void> = async () => undefined,
): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'mcp-remote-'));
  const program = spawn('sh', ['-c', `exec "$NODE" node_modules/.bin/${command}`], {
    cwd: ROOT,
    env: {
      PATH: process.env.PATH ?? '',
      HOME: folder,
      MCP_REMOTE_CONFIG_DIR: folder,
      NODE: process.execPath,
      BROWSER: 'false',
      ...more,
    },
    stdio: 'pipe',
  });
  let output = '';
  for (const stream of [program.stdout, program.stderr])
    stream.on('data', (part: Buffer) => (output += part.toString()));
  let ended = false;
  program.once('close', () => (ended = true));
  try {
    await onOutput(() => output);
    await until('the tools', () => output.includes('club_overview') || ended);
    expect(output).to.include('club_overview');
  } catch (error) {
    throw new Error(`mcp-remote printed: ${output}`, { cause: error });
  } finally {
    program.kill();
    await until('mcp-remote to end', () => ended);
    await rm(folder, { recursive: true, force: true });
  }
}

/** The command of the document with these words, with another link, and with a free port for its redirect address: its own default can be in use. */
async function documented(words: string, link: string): Promise<string> {
  const text = await readFile(DOCUMENT, 'utf8');
  const command = new RegExp(`^npx -y -p mcp-remote (.+ ${words}.*)$`, 'm').exec(text)?.[1];
  if (command === undefined) throw new Error(`the document has no command with ${words}`);
  const [port = 0] = await freePorts(1);
  return command.replace(/https:\S+/, `${link} ${port}`);
}

async function connectMachine(system: System, { connector, link }: Bridge): Promise<void> {
  const { id, secret } = await createMachine(system, connector);
  const command = (await documented('--client-credentials', link)).replace('<client id>', id);
  await listTools(command, { MCP_CLIENT_SECRET: secret });
}

async function connectDevice(system: System, { link }: Bridge): Promise<void> {
  await listTools(await documented('--device-code', link), {}, async (output) => {
    const url = await until(
      'the address with the code',
      () => /http\S+user_code=\S+/.exec(output())?.[0],
    );
    const browser = openBrowser(system.origins);
    const form = requirePage(await browser.visit(url));
    const signIn = requirePage(await browser.submit(form, {}));
    const consent = requirePage(await browser.submit(signIn, { person: 'ada' }));
    await browser.submit(consent, { decision: 'approve' });
  });
}
