import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { PROCESSES_CHANNEL } from '../../src/reload/reloads.ts';
import { openStore } from '../../src/store/open.ts';
import { createConnector, reloadSettings, requestManagement } from '../support/management-api.ts';
import { connect } from '../support/connection.ts';
import { callTool } from '../support/mcp.ts';
import { rawRequest } from '../support/raw-request.ts';
import type { GatehouseProcess } from '../support/scale-out/gatehouse-process.ts';
import { type Processes, SECRET, useProcesses } from '../support/scale-out/processes.ts';
import { changeSettings } from '../support/settings-file.ts';
import { until } from '../support/until.ts';
import { PATIENT_TIMEOUTS } from '../support/scale-out/patient-timeouts.ts';

type Report = { changed: string[]; notReloadable: string[]; unanswered: string[] };

const RULES = (level: string) => [{ match: { subject: 'ada' }, level }];

async function productNames(processes: GatehouseProcess[]): Promise<string[]> {
  const pages = processes.map(async ({ ports }) => {
    const home = await fetch(`http://localhost:${ports.AUTH}/`, {
      headers: { accept: 'text/html' },
    });
    return /<title>([^<]*)/.exec(await home.text())?.[1] ?? '';
  });
  return Promise.all(pages);
}

async function readiness({
  ports,
}: GatehouseProcess): Promise<{ status: number; settings?: string }> {
  const response = await fetch(`http://localhost:${ports.AUTH}/readyz`);
  const { settings } = (await response.json()) as { settings?: string };
  return { status: response.status, ...(settings === undefined ? {} : { settings }) };
}

describe('A reload of three processes', () => {
  const system = useProcesses(() => ({ store: 'redis' }));
  const reload = async () =>
    (await requestManagement(system(), 'POST', '/settings/reload')) as Report;
  const reloadThrough = ({ ports }: GatehouseProcess) =>
    rawRequest(`http://127.0.0.1:${ports.MANAGEMENT}`, {
      method: 'POST',
      path: '/api/v1/settings/reload',
      headers: {
        host: new URL(system().management).host,
        authorization: `Bearer ${system().managementKey}`,
      },
    });
  const refused = async () => {
    try {
      await reload();
    } catch (error) {
      return String(error);
    }
    throw new Error('the reload was not refused');
  };
  let undo: (() => void)[] = [];
  const change = (changes: Record<string, unknown>) =>
    void undo.push(changeSettings(system(), changes));
  afterEach(async () => {
    for (const restore of undo.toReversed()) restore();
    undo = [];
    await reloadSettings(system());
  });

  it('changes all of them, so that the next call of each process has the new rules', async () => {
    change({ entitlements: RULES('full') });
    await reload();
    const connector = await createConnector(system(), { level: 'full' });
    const { link, accessToken } = await connect(system(), connector, { level: 'full' });
    const statuses = async () => {
      const calls = system()
        .running()
        .map(() => callTool(link, accessToken, 'list_regions'));
      return (await Promise.all(calls)).map(({ status }) => status);
    };
    expect(await statuses()).to.deep.equal([200, 200, 200]);
    change({ entitlements: RULES('analytics') });
    expect(await reload()).to.deep.equal({
      changed: ['entitlements'],
      notReloadable: ['GATEHOUSE_MANAGEMENT_KEY'],
      unanswered: [],
    });
    expect(await statuses()).to.deep.equal([401, 401, 401]);
  });

  it('reloads all of them when one gets SIGHUP', async () => {
    change({ productName: 'Signalled' });
    const [one] = system().running();
    process.kill(one?.pid ?? 0, 'SIGHUP');
    await until('all processes to have the new name', async () =>
      (await productNames(system().running())).every((title) => title.includes('Signalled')),
    );
  });

  it('SUP-16 refuses a reload while one runs, and reads the settings again after it for a signal that came meanwhile', async () => {
    const [one, two, frozen] = system().running();
    if (!one || !two || !frozen) throw new Error('three processes run');
    const { storeAddress: url, dataDir } = system();
    const store = await openStore(
      { kind: 'redis', url },
      { secret: SECRET, dataDir, timeouts: PATIENT_TIMEOUTS },
    );
    const said: string[] = [];
    await store.subscribe(PROCESSES_CHANNEL, (text) => said.push(text));
    change({ productName: 'Earlier' });
    process.kill(frozen.pid, 'SIGSTOP');
    const earlier = reloadThrough(one);
    try {
      await until('the second process to have read the earlier name', () =>
        said.some((text) => text.includes('"type":"checked"')),
      );
      const refusal = await reloadThrough(two);
      expect(refusal.status).to.equal(409);
      expect(refusal.body).to.include('reload_in_progress');
      change({ productName: 'Signalled meanwhile' });
      process.kill(two.pid, 'SIGHUP');
    } finally {
      process.kill(frozen.pid, 'SIGCONT');
      await store.close();
    }
    expect((await earlier).status).to.equal(200);
    await until('all processes to have the last name', async () =>
      (await productNames(system().running())).every((title) =>
        title.includes('Signalled meanwhile'),
      ),
    );
  });

  it('SUP-16 changes none if one cannot read its settings, and names the process and the setting', async () => {
    const own = join(system().dataDir, 'own.yaml');
    writeFileSync(own, JSON.stringify({ ...JSON.parse(fileOf(system())) }));
    const other = await system().add({ GATEHOUSE_CONFIG: own });
    try {
      writeFileSync(own, JSON.stringify({ ...JSON.parse(fileOf(system())), drain: 'never' }));
      change({ productName: 'Half changed' });
      for (const through of system().running()) {
        const { status, body } = await reloadThrough(through);
        expect(status, body).to.equal(400);
        expect(body).to.include('drain').and.include(`:${other.pid}`);
      }
      for (const title of await productNames(system().running()))
        expect(title).to.not.include('Half changed');
    } finally {
      await other.stop();
    }
  });

  it('SUP-16 refuses different contents of a secret, and names the processes', async () => {
    const own = join(system().dataDir, 'own.yaml');
    const upstream = (value: string) => ({
      resourceServer: {
        upstream: { url: 'http://127.0.0.1:9/mcp', headers: { 'x-api-key': value } },
      },
    });
    writeFileSync(own, JSON.stringify(JSON.parse(fileOf(system()))));
    const other = await system().add({ GATEHOUSE_CONFIG: own });
    try {
      const file = JSON.parse(fileOf(system()));
      writeFileSync(own, JSON.stringify({ ...file, ...upstream('the-new-key') }));
      change(upstream('the-old-key'));
      const message = await refused();
      expect(message).to.include('409').and.include('secrets_differ');
      expect(message).to.include('headers.x-api-key').and.include(`:${other.pid}`);
      expect(message).to.not.include('the-new-key').and.not.include('the-old-key');
    } finally {
      await other.stop();
    }
  });

  it('changes all of them where one has another role, and none of the management keys of the others', async () => {
    const keyFile = join(system().dataDir, 'ci.key');
    writeFileSync(keyFile, 'a-management-key-of-the-tests-0123456789');
    const other = await system().add({ GATEHOUSE_ROLES: 'resource-server' });
    try {
      change({ management: { keys: [{ name: 'ci', role: 'viewer', keyFile }] } });
      expect((await reload()).changed).to.include('management.keys');
      const listed = () =>
        rawRequest(system().management, {
          path: '/api/v1/connectors',
          headers: { authorization: 'Bearer a-management-key-of-the-tests-0123456789' },
        });
      expect((await listed()).status).to.equal(200);
      const [one] = system().running();
      if (!one) throw new Error('no process runs');
      expect(await readiness(one)).to.deep.equal({ status: 200 });
      undo.pop()?.();
      await reload();
      expect((await listed()).status, 'a withdrawn key').to.equal(401);
    } finally {
      await other.stop();
    }
  });

  it('says at /readyz that processes differ, still with 200, until they are the same again', async () => {
    const own = join(system().dataDir, 'own.yaml');
    writeFileSync(own, JSON.stringify({ ...JSON.parse(fileOf(system())), productName: 'Own' }));
    const other = await system().add({ GATEHOUSE_CONFIG: own });
    const [one] = system().running();
    if (!one) throw new Error('no process runs');
    await until('the first process to see it', async () => {
      const { status, settings } = await readiness(one);
      return status === 200 && settings === 'differ';
    });
    expect(await readiness(other)).to.deep.include({ status: 200, settings: 'differ' });
    await other.stop();
    await until('the first process to see that it has gone', async () => {
      const { status, settings } = await readiness(one);
      return status === 200 && settings === undefined;
    });
  });

  it('names a process that does not answer, which is not ready until it has followed', async () => {
    change({ productName: 'Late' });
    const [one, two, frozen] = system().running();
    if (!one || !two || !frozen) throw new Error('three processes run');
    process.kill(frozen.pid, 'SIGSTOP');
    let report: Report;
    try {
      report = JSON.parse((await reloadThrough(one)).body) as Report;
    } finally {
      process.kill(frozen.pid, 'SIGCONT');
    }
    expect(report.changed).to.deep.equal(['productName']);
    expect(report.unanswered).to.have.length(1);
    expect(report.unanswered[0]).to.match(new RegExp(`:${frozen.pid}$`));
    for (const title of await productNames([one, two])) expect(title).to.include('Late');
    const { status } = await readiness(frozen);
    const [title = ''] = await productNames([frozen]);
    expect(status === 503 || title.includes('Late')).to.equal(true);
    await until('the process to follow', async () => (await readiness(frozen)).status === 200);
    expect((await productNames([frozen]))[0]).to.include('Late');
  });
});

function fileOf({ dataDir }: Processes): string {
  return readFileSync(join(dataDir, 'settings.yaml'), 'utf8');
}
