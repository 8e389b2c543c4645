import { createServer } from 'node:http';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { temporaryDirectory } from '../settings/settings-file.ts';
import { freePorts } from '../support/free-ports.ts';
import { listenOnLoopback } from '../support/loopback-server.ts';
import { startUpstreamV2 } from '../support/upstream/sdk-v2.ts';
import { init, initOffline, loadWritten, namesIn, PUBLIC, read, words } from './files.ts';
import { startOpenUpstream, startOpenUpstreamV1 } from './open-upstream.ts';

const HOSTILE = `drop: [table] # "all" 'of' them\n  level: read\u0085\u2028\u007F`;
const TOOLS = [
  { name: 'list_orders', title: 'List the orders', annotations: { readOnlyHint: true } },
  {
    name: 'add_note',
    annotations: { title: 'Add a note', readOnlyHint: false, destructiveHint: false },
  },
  { name: 'delete_order', annotations: { readOnlyHint: false } },
  { name: 'read_or_delete', annotations: { destructiveHint: false } },
  { name: 'silent' },
  { name: HOSTILE, title: 'first line\nlevels: []\u2028x', annotations: { readOnlyHint: true } },
  { name: 'true' },
  { name: 'n'.repeat(129), annotations: { readOnlyHint: true } },
];
const SUGGESTED = {
  list_orders: 'read',
  add_note: 'write',
  delete_order: 'full',
  read_or_delete: 'full',
  silent: 'full',
  [HOSTILE]: 'read',
  true: 'full',
};

function levelsOf(folder: string): Record<string, string> {
  const [upstream] = loadWritten(folder).upstreams;
  return Object.fromEntries(upstream?.tools.map(({ name, level }) => [name, level]) ?? []);
}

describe('gatehouse init with an MCP server', () => {
  for (const [revision, start] of [
    ['2026-07-28', startOpenUpstream],
    ['2025-11-25', startOpenUpstreamV1],
  ] as const)
    it(`the tools of a server of ${revision} get levels from their annotations, whatever their names are`, async () => {
      const upstream = await start(TOOLS);
      const folder = temporaryDirectory();
      const { code, stdout, stderr } = await init(folder, '--yes', '--upstream', upstream.url);
      await upstream.stop();
      expect(code, stderr).to.equal(0);
      expect(levelsOf(folder)).to.deep.equal(SUGGESTED);
      expect(loadWritten(folder).upstreams[0]).to.include({
        id: 'default',
        url: upstream.url,
        defaultLevel: 'full',
      });
      expect(stdout).to.include('Suggested levels of 7 tools: read 2, write 1, full 4.');
      expect(stderr).to.match(
        /^Warning: the MCP server .* has tools that the settings cannot name/,
      );
    });

  it('the levels are read, write and full, with full recorded, and Ada and Grace have the highest two', async () => {
    const folder = temporaryDirectory();
    const { code } = await initOffline(folder, '--yes', '--upstream', 'http://localhost:9000/mcp');
    expect(code).to.equal(0);
    const { levels, entitlements } = loadWritten(folder);
    expect(levels.map(({ id, recorded }) => [id, recorded])).to.deep.equal([
      ['read', false],
      ['write', false],
      ['full', true],
    ]);
    for (const { title } of levels)
      expect(title).to.have.all.keys('en', 'de', 'es', 'fr', 'ja', 'pt');
    expect(entitlements.map(({ match, level }) => [match.subject, level])).to.deep.equal([
      ['ada', 'full'],
      ['grace', 'write'],
    ]);
  });

  it('a server that cannot be read is a warning, and its settings say how to name the tools', async () => {
    const [port] = await freePorts(1);
    const demanding = await startUpstreamV2();
    const page = await listenOnLoopback(createServer((_, response) => response.end('<h1>Hi</h1>')));
    try {
      for (const [url, says] of [
        [`http://127.0.0.1:${port}/mcp`, 'does not listen (connection refused)'],
        [demanding.url, 'refuses Gatehouse (HTTP 401); if it requires the header Gatehouse-Caller'],
        [`${page.origin}/mcp`, 'is not valid MCP'],
      ] as const) {
        const folder = temporaryDirectory();
        const { code, stderr } = await init(folder, '--yes', '--upstream', url);
        expect(code).to.equal(0);
        expect(stderr)
          .to.match(/^Warning: the MCP server [^\n]+\n$/)
          .and.include(says);
        expect(levelsOf(folder)).to.deep.equal({});
        expect(read(folder, 'gatehouse.yaml')).to.include('#tools:');
      }
    } finally {
      await demanding.close();
      await page.stop();
    }
  });

  it('an address with a query is written, with a warning that the settings file is not secret', async () => {
    const [port] = await freePorts(1);
    const folder = temporaryDirectory();
    const url = `http://127.0.0.1:${port}/mcp?key=canary`;
    const { code, stderr } = await init(folder, '--yes', '--offline', '--upstream', url);
    expect(code).to.equal(0);
    expect(stderr)
      .to.match(/^Warning: [^\n]+ has a query[^\n]+resourceServer\.upstream\.headers\.\n$/)
      .and.not.include('canary');
  });

  it('SUP-10 a file that appears while init reads the tools is not replaced, and nothing else is left', async () => {
    const folder = temporaryDirectory();
    const upstream = await startOpenUpstream(TOOLS, () =>
      writeFileSync(join(folder, 'gatehouse.yaml'), 'mine'),
    );
    const { code, stderr } = await init(folder, '--yes', '--upstream', upstream.url);
    await upstream.stop();
    expect(code).to.equal(1);
    expect(stderr).to.match(/\ngatehouse: gatehouse\.yaml already exists in/);
    expect(namesIn(folder)).to.deep.equal(['gatehouse.yaml']);
    expect(read(folder, 'gatehouse.yaml')).to.equal('mine');
  });

  it('a folder that becomes unusable while init reads the tools is left as it is', async () => {
    const folder = join(temporaryDirectory(), 'a');
    const upstream = await startOpenUpstream(TOOLS, () => {
      mkdirSync(join(folder, 'gatehouse.yaml'), { recursive: true });
    });
    const { code } = await init(folder, '--yes', '--upstream', upstream.url);
    await upstream.stop();
    expect(code).to.equal(1);
    expect(namesIn(folder)).to.deep.equal(['gatehouse.yaml']);
  });

  it('plain http to another computer is refused in production unless the network is private', async () => {
    const folder = temporaryDirectory();
    const provider = '--idp oidc --issuer https://login.example.com --client-id a';
    const args = [
      '--yes',
      ...PUBLIC,
      ...words(`${provider} --upstream http://tools.example.com/mcp`),
    ];
    const { code, stderr } = await initOffline(folder, ...args);
    expect(code).to.equal(1);
    expect(stderr).to.include('resourceServer.upstream.url').and.include('privateNetwork');
    expect(namesIn(folder)).to.deep.equal([]);
    const accepted = await initOffline(folder, ...args, '--private-network');
    expect(accepted.code, accepted.stderr).to.equal(0);
    expect(loadWritten(folder).upstreams[0]).to.include({ privateNetwork: true });
  });
});
