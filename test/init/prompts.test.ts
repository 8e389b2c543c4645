import { createServer } from 'node:http';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { expect } from 'chai';
import { runCommandLine } from '../../src/command-line.ts';
import { temporaryDirectory } from '../settings/settings-file.ts';
import { freePorts } from '../support/free-ports.ts';
import { listenOnLoopback } from '../support/loopback-server.ts';
import { nodeArguments } from '../support/node-arguments.ts';
import { startOpenUpstream } from './open-upstream.ts';
import { loadWritten, namesIn, read, words } from './files.ts';

const [ENTER, DOWN, CTRL_C] = ['\r', '\u001B[B', '\u0003'];

/** What to type once the text has appeared after the previous answer. */
type Dialogue = readonly (readonly [after: RegExp, keys: string])[];

/** Types the dialogue into `input` as the questions appear. Returns the function to call with all output. */
function typist(dialogue: Dialogue, type: (keys: string) => void): (chunk: string) => void {
  const open = [...dialogue];
  let fresh = '';
  return (chunk) => {
    fresh += chunk;
    const [next] = open;
    if (!next?.[0].test(fresh)) return;
    fresh = '';
    open.shift();
    // The question listens after it is shown.
    setImmediate(type, next[1]);
  };
}

/** Runs init in this process on a terminal at which somebody has the dialogue. */
async function talk(
  args: readonly string[],
  dialogue: Dialogue,
  environment: Record<string, string> = {},
) {
  const stdin = Object.assign(new PassThrough(), { isTTY: true, setRawMode: () => stdin });
  const stderr = Object.assign(new PassThrough(), { isTTY: true, columns: 200 });
  const stdout = new PassThrough();
  let shown = '';
  const answer = typist(dialogue, (keys) => void stdin.write(keys));
  stderr.setEncoding('utf8').on('data', (chunk: string) => {
    shown += chunk;
    answer(chunk);
  });
  const code = await runCommandLine(['init', ...args], { stdin, stdout, stderr, environment });
  stdout.end();
  return { code, shown, stdout: String(stdout.read() ?? '') };
}

const SECRET = 'typed=client#secret-0123';

describe('the questions of gatehouse init', () => {
  it('SUP-10 the questions lead to valid files, and the client secret is neither shown nor in the settings', async () => {
    const folder = temporaryDirectory();
    const { code, shown, stdout } = await talk(
      ['--offline', '--dir', folder],
      [
        [/Where do people sign in/, `${DOWN}${ENTER}`],
        [/address of the authorization server/, `https://auth.example.com${ENTER}`],
        // The suggestion is https://mcp.example.com.
        [/address of the resource server/, ENTER],
        [/address of the console/, `https://admin.example.com${ENTER}`],
        // Claude is chosen already.
        [/hosted apps/, `${DOWN}${DOWN} ${ENTER}`],
        [/Database/, ENTER],
        [/Issuer of Okta/, `https://example.okta.com${ENTER}`],
        [/Client id that Okta/, `0oa1a2b3c4${ENTER}`],
        [/Client secret that Okta/, `${SECRET}${ENTER}`],
        [/Address of your MCP server/, ENTER],
      ],
    );
    expect(code, shown).to.equal(0);
    expect(stdout).to.include('redirect URI https://auth.example.com/interaction/callback');
    const settings = loadWritten(folder);
    expect(settings).to.include({
      authUrl: 'https://auth.example.com',
      resourceUrl: 'https://mcp.example.com',
      managementUrl: 'https://admin.example.com',
    });
    expect(settings.listen.management).to.deep.equal({ host: '127.0.0.1', port: 4002 });
    expect(settings.management.administrators).to.have.length(1);
    expect(stdout).to.include('https://admin.example.com/console/callback');
    expect(settings.clients.apps).to.deep.equal(['claude', 'chatgpt']);
    expect(settings.identityProviders[0]).to.include({
      issuer: 'https://example.okta.com',
      clientId: '0oa1a2b3c4',
      clientSecret: SECRET,
    });
    for (const text of [shown, stdout, read(folder, 'gatehouse.yaml')])
      expect(text).not.to.include(SECRET);
  });

  it('a provider without a name of its own is “your identity provider” in the questions', async () => {
    const { code, shown } = await talk(
      [
        '--offline',
        '--dir',
        temporaryDirectory(),
        ...words('--idp oidc --auth-url https://auth.example.com --store sqlite:a.sqlite'),
        ...words('--resource-url https://mcp.example.com --apps none'),
      ],
      [
        [/address of the console/, ENTER],
        [/Issuer of your identity provider/, `https://login.example.com${ENTER}`],
        [/Client id that your identity provider gave/, `gatehouse${ENTER}`],
        [/Client secret that your identity provider gave/, ENTER],
        [/Address of your MCP server/, ENTER],
      ],
    );
    expect(code, shown).to.equal(0);
  });

  it('an answer that is wrong is asked again, with what is expected, and options are not asked', async () => {
    const folder = temporaryDirectory();
    const { code, shown } = await talk(
      ['--offline', '--dir', folder, ...words('--idp google --auth-url https://auth.example.com')],
      [
        [/address of the resource server/, `/${ENTER}`],
        // Backspace removes the slash.
        [/Expected an address/, `\u007F${ENTER}`],
        [/address of the console/, ENTER],
        [/hosted apps/, ` ${ENTER}`],
        [/Database/, ENTER],
        [/Client id/, ENTER],
        [/answer is required/, `abc${ENTER}`],
        [/Client secret/, ENTER],
        [/Address of your MCP server/, ENTER],
      ],
    );
    expect(code, shown).to.equal(0);
    expect(shown).not.to.match(/Where do people|authorization server|Issuer/);
    const { identityProviders, clients } = loadWritten(folder);
    expect(identityProviders[0]).to.include({ clientId: 'abc' });
    // The suggestion was taken away.
    expect(clients.apps).to.deep.equal([]);
  });

  it('existing files are reported before the first question', async () => {
    const folder = temporaryDirectory();
    writeFileSync(join(folder, 'gatehouse.secret'), 'mine');
    const { code, shown } = await talk(['--dir', folder], []);
    expect(code).to.equal(1);
    expect(shown).to.match(/^gatehouse: gatehouse\.secret already exists/);
  });

  it('SUP-10 Ctrl-C ends init with exit code 1, and nothing was written', async () => {
    const folder = join(temporaryDirectory(), 'new');
    const { code, shown } = await talk(
      ['--offline', '--dir', folder, ...words('--idp google --auth-url https://auth.example.com')],
      [[/address of the resource server/, CTRL_C]],
    );
    expect(code).to.equal(1);
    expect(shown).to.include('gatehouse: cancelled; nothing was written');
    expect(existsSync(folder)).to.equal(false);
  });

  it('an MCP server that does not answer leads to a question, and No writes nothing', async () => {
    const [port] = await freePorts(1);
    const folder = temporaryDirectory();
    const upstream = `http://127.0.0.1:${port}/mcp`;
    const args = ['--dir', folder, '--idp', 'development', '--upstream', upstream];
    const addresses = words(
      '--auth-url http://localhost:4000 --resource-url http://localhost:4001',
    );
    const { code, shown } = await talk(
      [...args, ...addresses, '--store', 'sqlite:own.sqlite'],
      [[/does not listen \(connection refused\)\. Go on without its tools\?/, ENTER]],
    );
    expect(code, shown).to.equal(1);
    expect(namesIn(folder)).to.deep.equal([]);
  });

  it('a header is asked for only if the MCP server refuses, and the tools are then read with its value', async () => {
    const key = 'typed-nowhere-0123456789';
    const tools = [{ name: 'search', annotations: { readOnlyHint: true } }];
    const upstream = await startOpenUpstream(
      tools,
      ({ headers }) => headers['x-tools-key'] === key,
    );
    const folder = temporaryDirectory();
    const local = '--auth-url http://localhost:4000 --resource-url http://localhost:4001';
    const others = `--idp development ${local} --store sqlite:own.sqlite`;
    const { code, shown } = await talk(
      ['--dir', folder, '--upstream', upstream.url, ...words(others)],
      [
        [
          /refuses Gatehouse \(HTTP 403\)\. Header with the credential/,
          `x-tools-key: NONE${ENTER}`,
        ],
        [/Expected a variable with a value/, `${'\u007F'.repeat(4)}TOOLS_KEY${ENTER}`],
      ],
      { TOOLS_KEY: key },
    );
    await upstream.stop();
    expect(code, shown).to.equal(0);
    expect(shown).to.not.include(key).and.not.include('Go on without');
    const [written] = loadWritten(folder, { TOOLS_KEY: key }).upstreams;
    expect(written?.headers).to.deep.equal({ 'x-tools-key': key });
    expect(written?.tools).to.deep.equal([{ name: 'search', level: 'read' }]);
    expect(read(folder, 'gatehouse.yaml')).to.not.include(key);
  });

  it('an issuer whose discovery document is missing or names another issuer is a warning', async () => {
    const server = createServer((request, response) => {
      if (request.url?.startsWith('/missing')) return response.writeHead(404).end();
      return response.end(JSON.stringify({ issuer: `${provider.origin}/other` }));
    });
    const provider = await listenOnLoopback(server);
    try {
      for (const [path, says] of [
        ['/missing', 'answers with HTTP 404'],
        ['/realm', `names another issuer, "${provider.origin}/other"`],
      ] as const) {
        const folder = temporaryDirectory();
        const args = `--yes --idp oidc --issuer ${provider.origin}${path} --client-id a --auth-url http://localhost:4000`;
        const { code, shown } = await talk([...words(args), '--dir', folder], []);
        expect(code, shown).to.equal(0);
        expect(shown)
          .to.match(/^Warning: /)
          .and.include(says);
        expect(namesIn(folder)).to.deep.equal(['gatehouse.secret', 'gatehouse.yaml']);
      }
    } finally {
      await provider.stop();
    }
  });

  it('the program asks on a real terminal', async () => {
    const folder = temporaryDirectory();
    const init = ['init', '--offline', '--dir', folder, '--idp', 'development'];
    const args = [process.execPath, ...nodeArguments(init)];
    // The terminal has no size, because none is connected to it.
    const command = `stty cols 100 rows 40; ${args.map((word) => `'${word}'`).join(' ')}`;
    const isLinux = process.platform === 'linux';
    const shell = ['sh', '-c', command];
    const terminal = isLinux ? ['-qec', command, '/dev/null'] : ['-q', '/dev/null', ...shell];
    const child = spawn('script', terminal, {
      env: { PATH: process.env['PATH'], TERM: 'xterm' },
      stdio: 'pipe',
    });
    let shown = '';
    const answer = typist(
      [
        [/address of the authorization server/, ENTER],
        [/address of the resource server/, ENTER],
        [/Database/, ENTER],
        [/Address of your MCP server/, ENTER],
      ],
      (keys) => void child.stdin.write(keys),
    );
    child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
      shown += chunk;
      answer(chunk);
    });
    const [code] = await once(child, 'close');
    expect(code, shown).to.equal(0);
    expect(shown).to.include('npx gatehouse start');
    expect(loadWritten(folder).authUrl).to.equal('http://localhost:4000');
  });
});
