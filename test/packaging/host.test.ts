// The steps of "systemd" in config/operating.md, run as they stand in a folder in place of /. Only what needs root or systemd is left out:
// the user, and systemctl, in whose place the test runs the commands of the unit.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { parse } from 'yaml';
import { temporaryDirectory } from '../settings/settings-file.ts';
import { freePorts } from '../support/free-ports.ts';
import { until } from '../support/until.ts';

const ROOT = join(import.meta.dirname, '../..');
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');

const [, SECTION = ''] = /^## systemd\n([\s\S]*?)^## /m.exec(read('config/operating.md')) ?? [];
const [, BLOCK = ''] = /^```sh\n([\s\S]*?)^```$/m.exec(SECTION) ?? [];
const STEPS = BLOCK.trim().split('\n');

const LEFT_OUT = /^(useradd|npm install|systemctl) /;
/** The answers to the questions of `gatehouse init`. */
const ANSWERS =
  '--yes --offline --idp oidc --issuer https://login.example.com --client-id gatehouse --auth-url https://auth.example.com --resource-url https://mcp.example.com --management-url https://admin.example.com --upstream http://127.0.0.1:9/mcp';

describe('A host with the systemd unit', () => {
  const root = temporaryDirectory();
  /** With the folders of the test in place of those of the host, and this user in place of the one of the service. */
  const placed = (text: string) =>
    text
      .replaceAll(/(?<![\w.}])\/(?=(etc|opt|var\/lib|var\/cache|usr\/local\/bin)\/)/g, `${root}/`)
      .replaceAll('/usr/bin/node', process.execPath)
      .replace('-o gatehouse -g gatehouse ', '')
      .replace('"$(id -u)" = 0', '"$(id -u)" = -1');
  const env = {
    PATH: [join(root, 'usr/local/bin'), process.env.PATH].join(':'),
  };
  const shell = (line: string) =>
    execFileSync(
      'sh',
      ['-euc', `cd ${root}/opt/gatehouse/node_modules/gatehouse/config; ${line}`],
      {
        encoding: 'utf8',
        env,
      },
    );
  let unit: Record<string, string[]>;
  let service: ChildProcess | undefined;
  let log = '';

  before(async () => {
    const installed = join(root, 'opt/gatehouse/node_modules/gatehouse');
    mkdirSync(join(installed, 'config'), { recursive: true });
    for (const name of ['src', 'views', 'node_modules', 'package.json'])
      symlinkSync(join(ROOT, name), join(installed, name));
    for (const name of ['apps.yaml', 'gatehouse.yaml.ejs'])
      symlinkSync(join(ROOT, 'config', name), join(installed, 'config', name));
    for (const name of ['gatehouse.service', 'gatehouse.sh'])
      writeFileSync(join(installed, 'config', name), placed(read(`config/${name}`)));
    for (const folder of ['etc/systemd/system', 'usr/local/bin', 'var/lib/gatehouse'])
      mkdirSync(join(root, folder), { recursive: true });
    const lines = placed(read('config/gatehouse.service')).matchAll(/^(\w+)=(.*)$/gm);
    unit = {};
    for (const [, name = '', value = ''] of lines) (unit[name] ??= []).push(value);
  });
  after(async () => {
    if (service?.exitCode !== null) return;
    const closed = once(service, 'close');
    service.kill('SIGTERM');
    await closed;
  });

  /** The variables of the unit, and of its environment file. */
  function environmentOfUnit(): Record<string, string> {
    const [file = ''] = unit['EnvironmentFile'] ?? [];
    const lines = readFileSync(file.replace(/^-/, ''), 'utf8').trim().split('\n');
    const pairs = [...(unit['Environment'] ?? []), ...lines].map((line) => {
      const [name = '', ...value] = line.split('=');
      return [name, value.join('=')];
    });
    return { PATH: process.env.PATH ?? '', ...Object.fromEntries(pairs) };
  }

  it('the steps of the document lead to a running service, and its commands need no variables', async () => {
    expect(
      STEPS.filter((step) => LEFT_OUT.test(step)).map((step) => step.split(/ {2,}/)[0]),
    ).to.deep.equal([
      'useradd --system --home-dir /var/lib/gatehouse --shell /usr/sbin/nologin gatehouse',
      'npm install --prefix /opt/gatehouse gatehouse-0.2.0.tgz',
      'systemctl enable --now gatehouse',
      'systemctl reload gatehouse',
    ]);
    const [auth, resource, management] = await freePorts(3);
    const output: Record<string, string> = {};
    for (const step of STEPS) {
      if (step.startsWith('systemctl enable')) await start();
      else if (step.startsWith('systemctl reload')) reload();
      else if (step.startsWith('gatehouse doctor')) continue;
      else if (!LEFT_OUT.test(step)) {
        const answers = step.startsWith('gatehouse init') ? ` ${ANSWERS}` : '';
        output[step.split('#')[0]?.trim() ?? ''] = shell(
          placed(step).replace(/ *#.*$/, '') + answers,
        );
      }
      if (step.startsWith('install -d'))
        writeFileSync(
          join(root, 'etc/gatehouse/environment'),
          [
            `GATEHOUSE_AUTH_LISTEN=127.0.0.1:${auth}`,
            `GATEHOUSE_RESOURCE_LISTEN=127.0.0.1:${resource}`,
            `GATEHOUSE_MANAGEMENT_LISTEN=127.0.0.1:${management}`,
            'GATEHOUSE_LOG_LEVEL=info',
          ].join('\n'),
        );
    }
    expect(output['gatehouse settings check']).to.equal('The settings are valid for production.\n');
    expect(output['gatehouse connector create --name "Ops" --level read']).to.include('/connect/');
    expect(existsSync(join(root, 'var/lib/gatehouse/gatehouse.sqlite'))).to.equal(true);

    async function start() {
      const [command = ''] = unit['ExecStart'] ?? [];
      const [program = '', ...words] = command.split(' ');
      service = spawn(program, words, { env: environmentOfUnit(), cwd: root, stdio: 'pipe' });
      for (const stream of [service.stdout, service.stderr])
        stream?.setEncoding('utf8').on('data', (text) => (log += text));
      await until('the service to run', () => {
        if (service?.exitCode !== null) throw new Error(log);
        return log.includes('is running');
      });
    }
  });

  function reload(): string {
    const [command = ''] = unit['ExecReload'] ?? [];
    const [program = '', ...words] = command.split(' ');
    return execFileSync(program, words, {
      encoding: 'utf8',
      env: environmentOfUnit(),
      stdio: 'pipe',
    });
  }

  it('the files of init are private, and the service reads a changed one at a reload', () => {
    const folder = join(root, 'etc/gatehouse');
    expect(statSync(folder).mode & 0o777).to.equal(0o700);
    const secrets = join(folder, 'gatehouse.secret');
    expect(statSync(secrets).mode & 0o777).to.equal(0o600);
    const settings = join(folder, 'gatehouse.yaml');
    writeFileSync(
      settings,
      readFileSync(settings, 'utf8').replace('    level: read', '    level: write'),
    );
    writeFileSync(
      secrets,
      `${readFileSync(secrets, 'utf8')}\nGATEHOUSE_IDENTITY_PROVIDER_SECRET=a-replaced-client-secret-of-the-provider\n`,
    );
    expect(reload()).to.include('entitlements').and.include('clientSecret');
    expect(shell('gatehouse reload')).to.include('No setting changed.');
  });

  it('the lines of the path to production for cron copy the store and export the audit log', () => {
    const lines = [
      ...read('config/production.md').matchAll(/^[\d*]+ [\d*]+ \* \* \* gatehouse (.+)$/gm),
    ];
    expect(lines).to.have.length(2);
    const backup = join(root, 'backup');
    mkdirSync(backup);
    for (const [, line = ''] of lines) shell(placed(line).replaceAll('/backup/', `${backup}/`));
    expect(statSync(join(backup, 'gatehouse.sqlite')).size).to.be.above(0);
    const exported = readFileSync(join(backup, 'audit.jsonl'), 'utf8');
    expect(exported).to.include('"connector_created"');
  });

  it('the command has the variables of the unit', () => {
    const command = read('config/gatehouse.sh');
    const variables = [...command.matchAll(/^export (\w+)="\$\{\w+:-(.*)\}"$/gm)];
    const lines = read('config/gatehouse.service');
    expect(variables).to.have.length(3);
    for (const [, name, value] of variables)
      expect(lines, name).to.include(`\nEnvironment=${name}=${value}\n`);
    const [user] = unit['User'] ?? [];
    expect(command).to.include(
      `exec setpriv --reuid=${user} --regid=${user} --init-groups -- "$0" "$@"`,
    );
  });
});

describe('The path to production', () => {
  const path = read('config/production.md');

  it('the path installs with the lines that are run for operating.md', () => {
    const isInstalling = (line: string) => /^(useradd|npm install|cd|install) /.test(line);
    const [, block = ''] = /^```sh\n(useradd[\s\S]*?)^```$/m.exec(path) ?? [];
    const bare = (line: string) => line.replace(/ *#.*$/, '').replace('./gatehouse-', 'gatehouse-');
    expect(block.trim().split('\n').map(bare)).to.deep.equal(STEPS.filter(isInstalling).map(bare));
  });

  it('Prometheus reads the listener that the path opens, in the job that the alerts name', () => {
    const [, block = ''] = /^```yml\n(rule_files[\s\S]*?)^```$/m.exec(path) ?? [];
    const [, listener] = /`metrics: (\S+)` to `listen`/.exec(path) ?? [];
    const { rule_files, scrape_configs } = parse(block);
    expect(path).to.include(`[alerts.yaml](alerts.yaml) to\n\`${rule_files[0]}\``);
    const [{ job_name: job, static_configs }] = scrape_configs;
    expect(static_configs).to.deep.equal([{ targets: [listener] }]);
    expect(read('config/alerts.yaml')).to.include(`up{job="${job}"}`);
  });

  it('the line about Caddy leads to the three listeners of init', () => {
    const [line = ''] = /^sed -e .* > \/etc\/caddy\/Caddyfile$/m.exec(path) ?? [];
    const command = line.replace(/ > .*$/, '');
    const cwd = join(ROOT, 'config');
    const written = execFileSync('sh', ['-euc', command], { encoding: 'utf8', cwd });
    const passed = [...written.matchAll(/^(\S+) \{\n[\s\S]*?reverse_proxy (\S+)/gm)];
    expect(passed.map(([, host, listener]) => [host, listener])).to.deep.equal([
      ['auth.your-domain.org', '127.0.0.1:4000'],
      ['mcp.your-domain.org', '127.0.0.1:4001'],
      ['admin.your-domain.org', '127.0.0.1:4002'],
    ]);
  });
});

describe('Secrets in the example folders', () => {
  it('git ignores the secrets that the documents put into the example folders', () => {
    const ignored = [
      'gatehouse.secret',
      'gatehouse.yaml',
      'settings/gatehouse.yaml',
      'config/gatehouse.yaml',
      'config/settings/gatehouse.yaml',
      'config/settings/gatehouse.secret',
      'config/secrets/store',
      'config/secrets/redis.conf',
      'config/recipes/tools.credential',
      'config/recipes/mcp-proxy.key',
    ];
    const found = execFileSync('git', ['check-ignore', '--no-index', ...ignored], {
      cwd: ROOT,
      encoding: 'utf8',
    });
    expect(found.trim().split('\n')).to.deep.equal(ignored);
    // The files of the package itself are none of them.
    const kept = execFileSync('git', ['ls-files', '--cached', '--ignored', '--exclude-standard'], {
      cwd: ROOT,
      encoding: 'utf8',
    });
    expect(kept).to.equal('');
  });
});
