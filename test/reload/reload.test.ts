import { mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { createConnector, readAudit, requestManagement } from '../support/management-api.ts';
import { connect } from '../support/connection.ts';
import { freePorts } from '../support/free-ports.ts';
import { callTool } from '../support/mcp.ts';
import { readMetrics, sumOf } from '../support/metrics.ts';
import { discover, refresh, register } from '../support/oauth.ts';
import { changeSettings } from '../support/settings-file.ts';
import { onEachStore, type System } from '../support/system.ts';

type Affected = {
  grantId: string;
  account: { id: string; name?: string };
  before: object;
  after: object;
};
type Report = {
  changed: string[];
  notReloadable: string[];
  unanswered: string[];
  affected?: Affected[];
};

async function reload(system: System, body: object = {}): Promise<Report> {
  return (await requestManagement(system, 'POST', '/settings/reload', body)) as Report;
}

async function refusedReload(
  system: System,
): Promise<{ status: number; body: Record<string, unknown> }> {
  const response = await fetch(`${system.management}/api/v1/settings/reload`, {
    method: 'POST',
    headers: { authorization: `Bearer ${system.managementKey}` },
  });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

onEachStore('A reload of the settings', (system) => {
  let restore: (() => void)[] = [];
  const change = (changes: Record<string, unknown>) =>
    void restore.push(changeSettings(system(), changes));
  afterEach(async () => {
    for (const undo of restore.toReversed()) undo();
    restore = [];
    await reload(system());
  });

  it('changes nothing if the files did not change', async () => {
    expect(await reload(system())).to.deep.equal({
      changed: [],
      notReloadable: [],
      unanswered: [],
    });
  });

  it('applies a changed rule to the next call and refresh, and back again', async () => {
    const connector = await createConnector(system(), { level: 'full' });
    const connection = await connect(system(), connector, { level: 'full' });
    const { link, accessToken, server, client } = connection;
    expect((await callTool(link, accessToken, 'list_regions')).status).to.equal(200);
    change({ entitlements: [{ match: { group: 'staff' }, level: 'operations' }] });
    expect(await reload(system())).to.deep.include({ changed: ['entitlements'] });
    expect((await callTool(link, accessToken, 'list_regions')).status).to.equal(401);
    const refused = await refresh(server, client, connection.refreshToken);
    expect([refused.status, refused.body.error]).to.deep.equal([400, 'invalid_grant']);
    restore.pop()?.();
    await reload(system());
    expect((await callTool(link, accessToken, 'list_regions')).status).to.equal(200);
    const renewed = await refresh(server, client, connection.refreshToken);
    expect(renewed.status).to.equal(200);
  });

  it('keeps the sign-in of a person who is about to approve', async () => {
    const connector = await createConnector(system());
    const { browser } = await connect(system(), connector);
    change({ productName: 'Renamed figures' });
    await reload(system());
    const again = await connect(system(), connector, { as: { browser } });
    expect(again.accessToken).to.be.a('string');
    expect(
      await (await fetch(connector.link, { headers: { accept: 'text/html' } })).text(),
    ).to.include('Renamed figures');
  });

  it('SUP-16 names the setting that is wrong, and changes nothing', async () => {
    change({ productName: 'Half changed', lifetimes: { accessToken: 'soon' } });
    const { status, body } = await refusedReload(system());
    expect([status, body['error']]).to.deep.equal([400, 'invalid_settings']);
    expect(body['error_description']).to.include('lifetimes.accessToken');
    const home = await fetch(system().auth, { headers: { accept: 'text/html' } });
    expect(await home.text()).to.not.include('Half changed');
  });

  it('refuses what is read at the start only, and names it', async () => {
    const [port] = await freePorts(1);
    change({ listen: { metrics: `127.0.0.1:${port}` }, productName: 'Half changed' });
    const { status, body } = await refusedReload(system());
    expect([status, body['error']]).to.deep.equal([409, 'restart_required']);
    expect(body['error_description']).to.match(/restart the processes: listen\.metrics/);
    const home = await fetch(system().auth, { headers: { accept: 'text/html' } });
    expect(await home.text()).to.not.include('Half changed');
  });

  it('changes nothing in a dry run, and says what would change', async () => {
    change({ productName: 'Only tried', logLevel: 'warn' });
    expect(await reload(system(), { dryRun: true })).to.deep.include({
      changed: ['productName'],
    });
    const home = await fetch(system().auth, { headers: { accept: 'text/html' } });
    expect(await home.text()).to.not.include('Only tried');
  });

  it('names the connections that would lose their level in a dry run, as it then happens', async () => {
    const connector = await createConnector(system(), { level: 'full' });
    const connection = await connect(system(), connector, { level: 'full' });
    const { link, accessToken } = connection;
    change({ entitlements: [{ match: { subject: 'ada' }, level: 'analytics' }] });
    const { affected = [] } = await reload(system(), { dryRun: true });
    const own = affected.filter(({ grantId }) => grantId === decodeJwt(accessToken)['grant_id']);
    expect(own).to.have.length(1);
    expect(own[0]).to.deep.include({ before: { state: 'active', level: 'full' } });
    expect(own[0]?.account).to.include({ name: 'Ada Lovelace' });
    expect((await callTool(link, accessToken, 'list_regions')).status).to.equal(200);
    await reload(system());
    expect((await callTool(link, accessToken, 'list_regions')).status).to.equal(401);
    const { id } = own[0]?.account ?? {};
    expect(id).to.equal(decodeJwt(accessToken).sub);
  });

  it('names the connections of an app that would leave the settings in a dry run, as it then happens', async () => {
    const redirectUri = 'http://127.0.0.1:7070/callback';
    const desk = { id: 'desk-app-of-the-settings', name: 'Desk', redirectUris: [redirectUri] };
    change({ clients: { preRegistered: [desk] } });
    await reload(system());
    const client = { id: desk.id, secret: undefined, method: 'none' as const, redirectUri };
    const connector = await createConnector(system());
    const connection = await connect(system(), connector, { as: { client } });
    const { server } = await discover(connection.link);
    const refreshed = await refresh(server, client, connection.refreshToken);
    expect(refreshed.status).to.equal(200);
    change({ clients: { preRegistered: [] } });
    const { affected = [] } = await reload(system(), { dryRun: true });
    const own = affected.find(
      ({ grantId }) => grantId === decodeJwt(connection.accessToken)['grant_id'],
    );
    expect(own?.after).to.include({ state: 'refused', reason: 'client_gone' });
    await reload(system());
    const next = await refresh(server, client, refreshed.body.refresh_token);
    expect([next.status, next.body.error]).to.deep.equal([401, 'invalid_client']);
  });

  it('waits until files no longer change while they are read, and refuses if they go on', async () => {
    let turn = 0;
    const writing = setInterval(
      () => changeSettings(system(), { productName: `Turn ${turn++}` }),
      15,
    );
    restore.push(changeSettings(system(), {}));
    try {
      const { status, body } = await refusedReload(system());
      expect([status, body['error']]).to.deep.equal([400, 'invalid_settings']);
      expect(body['error_description']).to.include('go on changing');
    } finally {
      clearInterval(writing);
    }
  });

  it('counts a replaced secret file as a change of its setting', async () => {
    const secret = join(system().dataDir, 'tools.key');
    writeFileSync(secret, 'first');
    const upstream = (headers: object) => ({
      resourceServer: { upstream: { url: 'http://127.0.0.1:9/mcp', headers } },
    });
    change(upstream({ 'x-api-key': { file: secret } }));
    const { changed } = await reload(system());
    expect(changed).to.include('resourceServer.upstreams.default.headers.x-api-key');
    writeFileSync(secret, 'second');
    const replaced = await reload(system());
    expect(replaced.changed).to.deep.equal(['resourceServer.upstreams.default.headers.x-api-key']);
  });

  it('follows a folder of secrets that is replaced through a symbolic link, and refuses a bad one', async () => {
    const folder = join(system().dataDir, 'mounted');
    /** As Kubernetes replaces the files of a mounted Secret. */
    const mount = (version: string, content: string) => {
      mkdirSync(join(folder, version), { recursive: true });
      writeFileSync(join(folder, version, 'tools.key'), content);
      symlinkSync(version, join(folder, 'next'));
      renameSync(join(folder, 'next'), join(folder, 'current'));
    };
    mount('first', 'one');
    const headers = { 'x-api-key': { file: join(folder, 'current', 'tools.key') } };
    change({ resourceServer: { upstream: { url: 'http://127.0.0.1:9/mcp', headers } } });
    await reload(system());
    mount('second', 'two');
    const name = 'resourceServer.upstreams.default.headers.x-api-key';
    expect((await reload(system())).changed).to.deep.equal([name]);
    mount('same', 'two');
    expect((await reload(system())).changed).to.deep.equal([]);
    mount('bad', 'not\none line');
    const { status, body } = await refusedReload(system());
    expect([status, body['error']]).to.deep.equal([400, 'invalid_settings']);
    expect(body['error_description'])
      .to.include('resourceServer.upstream.headers.x-api-key')
      .and.not.include('one line\n');
  });

  it('reads the files of a theme again', async () => {
    const theme = join(system().dataDir, 'theme');
    mkdirSync(join(theme, 'partials'), { recursive: true });
    const write = (text: string) =>
      writeFileSync(join(theme, 'partials', 'bottom.ejs'), `<p>${text}</p>`);
    write('The first text of the theme');
    change({ theme });
    await reload(system());
    const page = async () => {
      const response = await fetch(system().auth, { headers: { accept: 'text/html' } });
      return response.text();
    };
    expect(await page()).to.include('The first text of the theme');
    write('The second text of the theme');
    await reload(system());
    expect(await page()).to.include('The second text of the theme');
  });

  it('shows its time, its outcome and a digest of the settings in the metrics', async () => {
    const measured = async () => {
      const samples = await readMetrics(system());
      const [failed, time] = ['reload_failed', 'reload_time_seconds'].map((name) =>
        sumOf(samples, `gatehouse_settings_${name}`),
      );
      const info = samples.find(({ name }) => name === 'gatehouse_settings_info');
      return { failed, time: time ?? 0, digest: info?.labels['digest'] };
    };
    await reload(system());
    const before = await measured();
    expect(before.failed).to.equal(0);
    expect(before.time).to.be.closeTo(Date.now() / 1000, 60);
    change({ drain: 'never' });
    await refusedReload(system());
    const refused = await measured();
    expect(refused).to.include({ failed: 1, digest: before.digest });
    expect(refused.time).to.be.above(before.time);
    restore.pop()?.();
    change({ productName: 'Measured' });
    await reload(system());
    const after = await measured();
    expect(after.failed).to.equal(0);
    expect(after.digest).to.not.equal(before.digest);
  });

  it('keeps what was counted for a limit', async () => {
    const limits = { registrations: { perAddress: '3/10m' } };
    change({ limits });
    await reload(system());
    const { server } = await discover((await createConnector(system())).link);
    const wanted = { redirect_uris: ['http://127.0.0.1:7070/callback'] };
    const statuses = async () => {
      const answers = await Promise.all([1, 2, 3].map(() => register(server, wanted)));
      return answers.map(({ status }) => status);
    };
    const before = await statuses();
    change({ limits, productName: 'Other name' });
    await reload(system());
    const after = await statuses();
    expect([...before, ...after].filter((status) => status === 201).length).to.be.at.most(3);
    expect(after).to.deep.equal([429, 429, 429]);
  });

  it('SUP-16 is on record with the names of the settings, without values', async () => {
    change({ supportContact: 'mailto:help@example.com' });
    await reload(system());
    const item = (await readAudit(system())).findLast(({ event }) => event === 'settings_reloaded');
    expect(item).to.deep.include({ by: 'key:default', arguments: { changed: ['supportContact'] } });
    expect(JSON.stringify(item)).to.not.include('help@example.com');
  });
});
