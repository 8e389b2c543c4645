import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { expect } from 'chai';
import { gatehouse, gatehouseProgram } from '../management/command-line.ts';
import { settingsFile, temporaryDirectory } from '../settings/settings-file.ts';
import { createConnector } from '../support/management-api.ts';
import { useSystem } from '../support/system.ts';
import { type GoodDeployment, startGoodDeployment } from './good-deployment.ts';

describe('gatehouse doctor', () => {
  let good: GoodDeployment;
  before(async function start() {
    good = await startGoodDeployment();
  });
  afterEach(() => good.proxies.auth.behave());
  after(() => good?.stop());

  const doctor = (...args: string[]) => gatehouse(['doctor', ...args], good.environment);

  it('the command reports that every check of a good deployment passed, changes no file and exits with 0', async () => {
    const before = readdirSync(good.environment.GATEHOUSE_DATA_DIR);
    const { code, stdout, stderr } = await doctor();
    expect(stderr).to.equal('');
    expect(stdout).to.match(/^(\d+) of \1 checks passed\.\n$/);
    expect(code).to.equal(0);
    expect(readdirSync(good.environment.GATEHOUSE_DATA_DIR)).to.deep.equal(before);
  });

  it('the command prints what is wrong, why it matters and what to do, and exits with 1', async () => {
    good.proxies.auth.misbehave({
      inward: (headers) => void (headers.host = 'inside.example.com'),
    });
    const { code, stdout, stderr } = await doctor();
    expect(stderr).to.equal('');
    expect(stdout).to.match(/^PROBLEM {2}host, https:\/\/localhost:\d+\n {2}Requests for /);
    expect(stdout).to.match(
      /\n {2}Why it matters: .+\.\n {2}What to do: configure the proxy to keep .+\.\n/,
    );
    expect(stdout).to.match(/, 1 problem, \d not checked\.\n$/);
    expect(code).to.equal(1);
  });

  it('--json prints the whole report, without secrets', async () => {
    good.proxies.auth.misbehave({ outward: ({ headers }) => delete headers['set-cookie'] });
    const { code, stdout } = await doctor('--json');
    expect(code).to.equal(1);
    const report = JSON.parse(stdout);
    expect(report).to.include({ outcome: 'found', authUrl: good.authUrl });
    expect(report.counts).to.include({ problem: 1, warning: 0 });
    expect(report.findings[0]).to.include({ check: 'cookies', outcome: 'problem' });
    expect(report.findings[0]).to.have.keys('check', 'about', 'outcome', 'what', 'why', 'remedy');
    const { GATEHOUSE_SECRET, GATEHOUSE_MANAGEMENT_KEY, GATEHOUSE_IDENTITY_PROVIDER_SECRET } =
      good.environment;
    for (const secret of [
      GATEHOUSE_SECRET,
      GATEHOUSE_MANAGEMENT_KEY,
      GATEHOUSE_IDENTITY_PROVIDER_SECRET,
    ])
      expect(stdout).not.to.include(secret);
  });

  it('--auth-url and --resource-url check two addresses from outside, without settings', async () => {
    const { NODE_EXTRA_CA_CERTS } = good.environment;
    const { code, stdout } = await gatehouseProgram(
      ['doctor', '--auth-url', good.authUrl, '--resource-url', good.resourceUrl],
      { NODE_EXTRA_CA_CERTS },
    );
    expect(stdout).to.include('No connect link was checked: give one with --link');
    expect(code).to.equal(0);
  });

  it('the command reports invalid settings as findings, and generates no secret', async () => {
    const dataDir = temporaryDirectory();
    const environment = { GATEHOUSE_CONFIG: settingsFile({}), GATEHOUSE_DATA_DIR: dataDir };
    const { code, stdout } = await gatehouse(['doctor', '--json'], environment);
    expect(code).to.equal(1);
    const { findings } = JSON.parse(stdout) as { findings: { check: string; about: string }[] };
    expect(findings.map(({ about }) => about)).to.include('authUrl');
    expect(readdirSync(dataDir)).to.deep.equal([]);
  });

  it('the command exits with 2 if an option is invalid', async () => {
    const refused = await gatehouse(['doctor', '--auth-url', 'auth.example.com'], {});
    expect(refused.code).to.equal(2);
    expect(refused.stderr).to.include('Give an address such as https://auth.example.com.');
    const unlinked = await gatehouse(['doctor', '--link', 'connect'], {});
    expect(unlinked.code).to.equal(2);
    const alone = await gatehouse(['doctor', '--resource-url', 'https://mcp.example.com'], {});
    expect(alone.code).to.equal(2);
  });

  it('the examination ends at its time limit, and reports the checks that did not finish', async () => {
    const silent = await listenSilently();
    const { port } = silent.address() as AddressInfo;
    const store = { kind: 'redis', url: `redis://127.0.0.1:${port}` } as const;
    const findings = await good.examine({
      authUrl: `http://127.0.0.1:${port}`,
      settings: { ...good.settings, store },
      signal: AbortSignal.timeout(200),
    });
    const late = findings.filter(({ what }) => what === 'the check did not finish in time');
    expect(late.map(({ check }) => check)).to.include.members(['store', 'discovery']);
    await new Promise((closed) => silent.close(closed));
  });
});

async function listenSilently(): Promise<Server> {
  const sockets = new Set<{ destroy: () => void }>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
  });
  const close = server.close.bind(server);
  server.close = (done) => {
    for (const socket of sockets) socket.destroy();
    return close(done);
  };
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return server;
}

describe('gatehouse doctor for a development server', () => {
  const system = useSystem();

  it('the command finds nothing to repair in what `npm start` runs', async () => {
    const { auth, resource, management, managementKey, dataDir, storeAddress, origins } = system();
    await createConnector(system());
    const { code, stdout } = await gatehouse(['doctor', '--all', '--json'], {
      GATEHOUSE_CONFIG: `${dataDir}/settings.yaml`,
      GATEHOUSE_AUTH_URL: auth,
      GATEHOUSE_RESOURCE_URL: resource,
      GATEHOUSE_MANAGEMENT_URL: management,
      GATEHOUSE_MANAGEMENT_KEY: managementKey,
      GATEHOUSE_DEVELOPMENT_IDP_URL: origins[2] ?? '',
      GATEHOUSE_STORE: storeAddress,
      GATEHOUSE_DATA_DIR: dataDir,
    });
    const { findings } = JSON.parse(stdout);
    const wrong = findings.filter(({ outcome }: { outcome: string }) => outcome !== 'ok');
    expect(wrong).to.deep.equal([]);
    expect(code).to.equal(0);
  });
});
