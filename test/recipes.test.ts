// Runs the recipes as config/recipes/README.md has them, on free ports.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { parse } from 'yaml';
import { startGatehouse } from '../src/server.ts';
import { createLogger } from '../src/observability/logger.ts';
import { loadSettings } from '../src/settings/load.ts';
import { accessTo, gatehouse } from './management/command-line.ts';
import { KEYS, type ManagementHost, openManagementHost } from './management/management-host.ts';
import { loadInProduction, PRODUCTION, temporaryDirectory } from './settings/settings-file.ts';
import { nodeArguments } from './support/node-arguments.ts';
import { connect } from './support/connection.ts';
import { freePorts } from './support/free-ports.ts';
import { createConnector, requestManagement } from './support/management-api.ts';
import { HEADERS, message } from './interoperability/messages.ts';
import { rawRequest } from './support/raw-request.ts';
import { commandIn, recipe, ROOT, runLine, settingsIn, stopAll } from './support/recipes.ts';
import { type LogLine, startSystem, type System } from './support/system.ts';
import { until } from './support/until.ts';
import { PYTHON, requireProgram } from './support/programs.ts';
import { connectV2 } from './support/upstream/sdk-clients.ts';

const STDIO_SERVER = join(import.meta.dirname, 'support/upstream/stdio-server.ts');
const TOOLS_SERVER = 'config/recipes/tools.py';

/** Of an app, as a tunnel reports it. */
const ADDRESS = '203.0.113.7';

describe('The recipes', () => {
  const folder = temporaryDirectory();
  const credential = 'Bearer credential-of-the-python-server';
  const key = 'key-of-the-bridge-0123456789';
  let urls: { python: string; bridge: string };
  let system: System;

  before(async () => {
    const [python = 0, bridge = 0] = await freePorts(2);
    urls = { python: `http://127.0.0.1:${python}/mcp`, bridge: `http://127.0.0.1:${bridge}/mcp` };
    writeFileSync(join(folder, 'tools.credential'), `${credential}\n`);
    writeFileSync(join(folder, 'mcp-proxy.key'), `${key}\n`);
    const server = commandIn(recipe('A Python server'), 'TOOLS_CREDENTIAL_FILE')
      .replace('node_modules/gatehouse', ROOT)
      .replace('python3', requireProgram(PYTHON))
      .replace(/^/, `TOOLS_PORT=${python} `);
    const proxy = commandIn(recipe('A server that speaks stdio'), 'npx mcp-proxy')
      .replace('--port 9001', `--port ${bridge}`)
      .replace('npx mcp-proxy', 'mcp-proxy')
      .replace('node server.js', `${process.execPath} ${STDIO_SERVER}`);
    await Promise.all([runLine(server, folder, urls.python), runLine(proxy, folder, urls.bridge)]);
    const upstreamOf = (heading: string, id: string, url: string) => {
      const { headers } = settingsIn(recipe(heading)).resourceServer.upstream;
      const [[header, { file }]] = Object.entries<{ file: string }>(headers) as [
        [string, { file: string }],
      ];
      const own = { [header]: { file: join(folder, file) } };
      return { id, url, headers: own, toolLevels: 'annotations' };
    };
    const upstreams = [
      upstreamOf('A Python server', 'python', urls.python),
      upstreamOf('A server that speaks stdio', 'bridge', urls.bridge),
    ];
    system = await startSystem({ file: { resourceServer: { upstreams } } });
    for (const id of ['python', 'bridge'])
      await until(`the tools of ${id} to be read`, async () => {
        const { seenAt } = (await requestManagement(system, 'GET', `/upstreams/${id}`)) as {
          seenAt?: string;
        };
        return seenAt !== undefined;
      });
  });
  after(async () => {
    await system?.stop();
    await stopAll();
  });

  async function toolsAt(upstream: string, level: string) {
    const connector = await createConnector(system, { upstream, level });
    const { accessToken, link } = await connect(system, connector, { level });
    const client = await connectV2('auto')(link, accessToken);
    return { client, names: await client.listTools() };
  }

  it('a Python server serves calls, its annotations decide the levels, and it answers only Gatehouse', async () => {
    const low = await toolsAt('python', 'analytics');
    expect(low.names).to.deep.equal(['list_orders']);
    expect(JSON.stringify(await low.client.callTool('list_orders'))).to.include('two bicycles');
    await low.client.close();
    const { client, names } = await toolsAt('python', 'operations');
    expect(names).to.deep.equal(['list_orders', 'add_order']);
    const added = await client.callTool('add_order', { what: 'one saddle' });
    expect(JSON.stringify(added)).to.include('1003: one saddle');
    expect(await client.callTool('add_order', {})).to.deep.include({ isError: true });
    await client.close();
    const body = message('tools/list', {});
    const statuses = await Promise.all(
      [
        HEADERS,
        { ...HEADERS, authorization: 'Bearer wrong' },
        { ...HEADERS, authorization: credential, origin: 'https://evil.example' },
        { ...HEADERS, authorization: credential },
      ].map(
        async (headers) => (await fetch(urls.python, { method: 'POST', headers, body })).status,
      ),
    );
    expect(statuses).to.deep.equal([401, 401, 403, 200]);
  });

  it('a server that speaks stdio serves calls through mcp-proxy, which answers only Gatehouse', async () => {
    const { client, names } = await toolsAt('bridge', 'analytics');
    expect(names).to.deep.equal(['read_notes']);
    expect(JSON.stringify(await client.callTool('read_notes'))).to.include(
      'called read_notes over stdio',
    );
    await client.close();
    const refused = await fetch(urls.bridge, {
      method: 'POST',
      headers: HEADERS,
      body: message('tools/list', {}),
    });
    expect(refused.status).to.equal(401);
  });

  it('behind a tunnel, the settings of init answer at the public addresses, send people to GitHub and log the address of the app', async () => {
    const tunnel = recipe('Behind a tunnel');
    const place = temporaryDirectory();
    writeFileSync(join(place, 'github.secret'), 'client-secret-of-the-github-app');
    const [, options = ''] = /gatehouse init (.*)/.exec(commandIn(tunnel, 'gatehouse init')) ?? [];
    const words = options
      .trim()
      .split(/ +/)
      .map((word) => (word === 'github.secret' ? join(place, word) : word));
    const written = await gatehouse(['init', '--offline', '--dir', place, ...words], {});
    expect(written).to.include({ code: 0, stderr: '' });
    expect(written.stdout).to.include('https://auth.example.com/interaction/callback');
    const file = parse(readFileSync(join(place, 'gatehouse.yaml'), 'utf8'));
    expect(file).to.deep.include({
      listen: { auth: '127.0.0.1:4000', resource: '127.0.0.1:4001' },
      proxies: 1,
    });
    const levels = file.levels.map(({ id }: { id: string }) => id);
    expect(levels).to.include(settingsIn(tunnel).entitlements[0].level);

    const [auth = 0, resource = 0, management = 0] = await freePorts(3);
    const environment = {
      GATEHOUSE_CONFIG: join(place, 'gatehouse.yaml'),
      GATEHOUSE_AUTH_LISTEN: `127.0.0.1:${auth}`,
      GATEHOUSE_RESOURCE_LISTEN: `127.0.0.1:${resource}`,
      GATEHOUSE_MANAGEMENT_URL: `http://127.0.0.1:${management}`,
      GATEHOUSE_LOG_LEVEL: 'silent',
    };
    const settings = loadSettings(environment);
    expect(settings.production).to.equal(true);
    const log: LogLine[] = [];
    const write = (line: string) => void log.push(JSON.parse(line));
    const gatehouseBehind = await startGatehouse(settings, {
      logger: createLogger('info', { write }),
    });
    try {
      const created = ['connector', 'create', '--name', 'My tools', '--level', 'full', '--json'];
      const { link } = JSON.parse((await gatehouse(created, environment)).stdout);
      /** As the tunnel forwards it. */
      const through = (url: string) => {
        const { host, pathname, search } = new URL(url);
        const port = host === 'auth.example.com' ? auth : resource;
        return rawRequest(`http://127.0.0.1:${port}`, {
          path: pathname + search,
          headers: { host, 'x-forwarded-for': ADDRESS, 'x-forwarded-proto': 'https' },
        });
      };
      const { status, headers } = await through(link);
      expect(status).to.equal(401);
      const [, metadata = ''] =
        /resource_metadata="([^"]+)"/.exec(headers['www-authenticate'] ?? '') ?? [];
      const document = JSON.parse((await through(metadata)).body);
      expect(document).to.deep.include({
        resource: link,
        authorization_servers: ['https://auth.example.com'],
      });
      const account = await through('https://auth.example.com/account');
      const signIn = new URL(account.headers.location ?? '');
      expect(signIn.origin + signIn.pathname).to.equal('https://github.com/login/oauth/authorize');
      expect(signIn.searchParams.get('redirect_uri')).to.equal(
        'https://auth.example.com/interaction/callback',
      );
      const seen = log.filter(({ host, msg }) => msg === 'request' && host !== 'management');
      expect(seen.map(({ address }) => address)).to.deep.equal(Array(3).fill(ADDRESS));
      const other = await rawRequest(`http://127.0.0.1:${auth}`, {
        headers: { host: `127.0.0.1:${auth}` },
      });
      expect(other.status).to.equal(421);
    } finally {
      await gatehouseBehind.stop(0);
    }
  });

  it('with Compose, the recipe adds a server that only Gatehouse reaches, and its settings are accepted', () => {
    const base = parse(readFileSync(join(ROOT, 'config/compose.yaml'), 'utf8'), { merge: true });
    const { services, networks } = parse(
      readFileSync(join(ROOT, 'config/recipes/compose.yaml'), 'utf8'),
    );
    const { tools, ...others } = services;
    expect(base.services).to.include.all.keys(Object.keys(others));
    expect(others).to.have.all.keys('resource-server', 'authorization-server');
    expect(Object.keys(base.networks)).not.to.include('tools');
    expect(networks).to.deep.equal({ tools: { internal: true } });
    for (const service of Object.values<{ networks: string[] }>(services))
      expect(service.networks).to.deep.equal(['tools']);
    expect(tools).not.to.have.any.keys('ports', 'secrets');
    expect(tools.volumes).to.deep.equal([
      `./${TOOLS_SERVER.slice('config/'.length)}:/srv/tools.py:ro`,
    ]);
    expect(tools.command).to.deep.equal(['python3', '/srv/tools.py']);

    const { upstreams } = loadInProduction({
      ...PRODUCTION,
      ...settingsIn(recipe('With Docker Compose')),
    });
    const { hostname, port } = new URL(upstreams[0]?.url ?? '');
    expect(Object.keys(services)).to.include(hostname);
    const server = readFileSync(join(ROOT, TOOLS_SERVER), 'utf8');
    expect(server).to.include(`"TOOLS_PORT", "${port}"`).and.include('"TOOLS_HOST"');
    expect(tools.environment).to.deep.equal({ TOOLS_HOST: '0.0.0.0' });
  });

  describe('to keep access in Git', () => {
    let host: ManagementHost;
    before(async () => {
      host = await openManagementHost();
    });
    after(() => host.close());

    const example = join(ROOT, 'config/recipes/access.yaml');
    /** Runs lines of shell code of a job with the key of a pipeline, and resolves to the exit code. */
    async function run(script: string, output = '/dev/null'): Promise<number | null> {
      const program = [process.execPath, ...nodeArguments([])].join(' ');
      const job = spawn('sh', ['-ec', script.replaceAll('npx gatehouse', program)], {
        cwd: folder,
        env: { ...accessTo(host, KEYS.operator), GITHUB_OUTPUT: output, PATH: process.env.PATH },
        stdio: 'ignore',
      });
      await once(job, 'close');
      return job.exitCode;
    }
    const jobs = (name: string) =>
      parse(readFileSync(join(ROOT, `config/recipes/access.${name}.yaml`), 'utf8'));
    const isApplied = async () => {
      const { code } = await gatehouse(
        ['apply', '-f', example, '--prune', '--dry-run', '--exit-code'],
        accessTo(host),
      );
      return code === 0;
    };

    it('the jobs for GitHub Actions plan, say whether there are changes, and apply them', async () => {
      const { plan, apply } = jobs('github').jobs;
      const planning = plan.steps.find(({ id }: { id?: string }) => id === 'plan').run;
      const output = join(folder, 'output');
      copyFileSync(example, join(folder, 'access.yaml'));
      expect(await run(planning, output)).to.equal(0);
      expect(await isApplied()).to.equal(false);
      expect(await run(apply.steps.at(-1).run)).to.equal(0);
      expect(await isApplied()).to.equal(true);
      expect(await run(planning, output)).to.equal(0);
      expect(readFileSync(output, 'utf8')).to.equal('changes=true\nchanges=false\n');
      writeFileSync(join(folder, 'access.yaml'), 'connectors: [{}]');
      expect(await run(planning, output)).to.equal(1);
      expect(apply.if).to.equal("needs.plan.outputs.changes == 'true'");
      for (const { steps } of [plan, apply])
        for (const { run: command = '', env = {} } of steps)
          expect(Object.keys(env), command).to.deep.equal(
            command.includes('gatehouse')
              ? ['GATEHOUSE_MANAGEMENT_URL', 'GATEHOUSE_MANAGEMENT_KEY']
              : [],
          );
    });

    it('the jobs for GitLab plan and apply, only on the main branch, with the image of Gatehouse', async () => {
      const { plan, apply, default: shared } = jobs('gitlab');
      expect(readFileSync(join(ROOT, 'Dockerfile'), 'utf8')).to.include(`FROM ${shared.image}\n`);
      for (const { rules } of [plan, apply])
        expect(rules[0].if).to.equal('$CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH');
      expect(apply.rules[0].when).to.equal('manual');
      const renamed = readFileSync(example, 'utf8').replace('name: Analysts', 'name: All analysts');
      writeFileSync(join(folder, 'access.yaml'), renamed);
      expect(await run(plan.script.join('\n'))).to.equal(0);
      expect(await run(apply.script.join('\n'))).to.equal(0);
      const { stdout } = await gatehouse(['export'], accessTo(host));
      expect(stdout).to.include('name: All analysts');
    });
  });
});
