import { createServer } from 'node:http';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { temporaryDirectory } from '../settings/settings-file.ts';
import { freePorts } from '../support/free-ports.ts';
import { listenOnLoopback } from '../support/loopback-server.ts';
import { startUpstreamV2 } from '../support/upstream/sdk-v2.ts';
import {
  init,
  initOffline,
  initWith,
  loadWritten,
  namesIn,
  PUBLIC,
  read,
  refusedInit,
  words,
} from './files.ts';
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

const TOOLS_KEY = 'tools-key-0123456789-canary';

function startProtectedUpstream() {
  return startOpenUpstream(TOOLS, (request) => request.headers['x-tools-key'] === TOOLS_KEY);
}

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

  it('the settings hold changed tools, say what that means, and suggest lists of tools for a rule from the annotations, which are accepted', async () => {
    const upstream = await startOpenUpstream([
      { name: 'search', annotations: { readOnlyHint: true } },
      { name: 'drop', annotations: { destructiveHint: true } },
    ]);
    const folder = temporaryDirectory();
    const { code, stderr } = await init(folder, '--yes', '--upstream', upstream.url);
    await upstream.stop();
    expect(code, stderr).to.equal(0);
    const file = join(folder, 'gatehouse.yaml');
    const text = readFileSync(file, 'utf8');
    expect(text).to.include('#tools: ["search"]').and.include('#tools: ["!drop"]');
    expect(text).to.include('stays hidden until you approve it with');
    expect(loadWritten(folder).upstreams[0]?.toolChanges).to.equal('hold');
    writeFileSync(file, text.replace('#tools: ["!drop"]', 'tools: ["!drop"]'));
    expect(loadWritten(folder).entitlements[1]?.tools).to.deep.equal(['!drop']);
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
    expect(
      entitlements.map(({ match, level }) => [match.subject ?? match.group, level]),
    ).to.deep.equal([
      ['ada', 'full'],
      ['staff', 'write'],
    ]);
  });

  it('a server that cannot be read is a warning, and its settings say how to name the tools', async () => {
    const [port] = await freePorts(1);
    const demanding = await startUpstreamV2();
    const page = await listenOnLoopback(createServer((_, response) => response.end('<h1>Hi</h1>')));
    try {
      for (const [url, says] of [
        [`http://127.0.0.1:${port}/mcp`, 'does not listen (connection refused)'],
        [demanding.url, 'refuses Gatehouse (HTTP 401); if it requires a credential'],
        [
          demanding.url,
          '--upstream-header "Authorization: TOOLS_AUTHORIZATION"; if it requires the header Gatehouse-Caller',
        ],
        [demanding.url, 'add credential: { kind: oauth } below its url'],
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

  it('SUP-10 a header named by its variable is sent when the tools are read, and no file or output has its value', async () => {
    const upstream = await startProtectedUpstream();
    const folder = temporaryDirectory();
    const args = [
      '--yes',
      '--upstream',
      upstream.url,
      '--upstream-header',
      'x-tools-key: TOOLS_KEY',
    ];
    const { code, stdout, stderr } = await initWith({ TOOLS_KEY }, folder, ...args);
    await upstream.stop();
    expect(code, stderr).to.equal(0);
    expect(stdout).to.include('Suggested levels of 7 tools');
    expect(stdout).to.include('Set TOOLS_KEY in the environment of start and doctor');
    expect(read(folder, 'gatehouse.yaml')).to.include('x-tools-key: { env: TOOLS_KEY }');
    expect(loadWritten(folder, { TOOLS_KEY }).upstreams[0]?.headers).to.deep.equal({
      'x-tools-key': TOOLS_KEY,
    });
    const texts = [stdout, stderr, ...namesIn(folder).map((name) => read(folder, name))];
    for (const text of texts) expect(text).to.not.include(TOOLS_KEY);
  });

  it('a header whose value the server refuses is a warning that names its variable', async () => {
    const upstream = await startProtectedUpstream();
    const folder = temporaryDirectory();
    const args = [
      '--yes',
      '--upstream',
      upstream.url,
      '--upstream-header',
      'x-tools-key: TOOLS_KEY',
    ];
    const { code, stderr } = await initWith({ TOOLS_KEY: 'wrong-and-secret' }, folder, ...args);
    await upstream.stop();
    expect(code).to.equal(0);
    expect(stderr).to.match(/refuses Gatehouse \(HTTP 403\); check TOOLS_KEY;/);
    expect(stderr).to.not.include('wrong-and-secret');
  });

  it('wrong headers are reported at once with what is expected, and never with a value', async () => {
    const folder = temporaryDirectory();
    const wrong = [
      ['Authorization', 'a header and the environment variable with its value'],
      ['Authorization: Bearer hunter2', 'the name of an environment variable'],
      ['x-a: UNSET_VARIABLE', 'UNSET_VARIABLE, which is not set'],
      ['Host: TOOLS_KEY', 'a header that Gatehouse sets itself'],
      ['x-b: GATEHOUSE_SECRET', 'a variable of your own'],
      ['x-c: TOOLS_KEY', 'given a header twice; expected each header once'],
      ['X-C: TOOLS_KEY', 'each header once'],
    ] as const;
    const environment = { TOOLS_KEY, GATEHOUSE_SECRET: 'root-secret-of-this-test' };
    const args = words('--yes --offline --upstream http://localhost:1/mcp');
    for (const [text] of wrong) args.push('--upstream-header', text);
    const { code, stderr } = await initWith(environment, folder, ...args);
    expect(code).to.equal(2);
    for (const [, says] of wrong) expect(stderr).to.include(says);
    for (const value of ['hunter2', TOOLS_KEY, 'root-secret']) expect(stderr).to.not.include(value);
    expect(namesIn(folder)).to.deep.equal([]);
    expect(await refusedInit('--yes', '--upstream-header', 'x-a: HOME')).to.include(
      'no value without --upstream',
    );
  });

  it('SUP-10 a header is not sent with plain http to another computer unless the network is private', async () => {
    const folder = temporaryDirectory();
    const address = 'http://tools.example.com/mcp';
    const args = (url: string) => [
      ...words('--yes --offline --upstream-header'),
      'x-a: TOOLS_KEY',
      '--upstream',
      url,
    ];
    for (const url of [address, address.replace('http', 'HTTP'), ` ${address}`]) {
      const { code, stderr } = await initWith({ TOOLS_KEY }, folder, ...args(url));
      expect(code, url).to.equal(2);
      expect(stderr).to.include('plain http').and.include('--private-network');
      expect(namesIn(folder)).to.deep.equal([]);
    }
    const named = args(address);
    const accepted = await initWith({ TOOLS_KEY }, folder, ...named, '--private-network');
    expect(accepted.code, accepted.stderr).to.equal(0);
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
    const upstream = await startOpenUpstream(TOOLS, () => {
      writeFileSync(join(folder, 'gatehouse.yaml'), 'mine');
      return true;
    });
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
      return true;
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
