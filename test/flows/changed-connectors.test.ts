// Connectors that an administrator changes while people use them.
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { advanceClock, restoreClock } from '../support/clock.ts';
import { connect, type Connection, openConsent } from '../support/connection.ts';
import { askForDevice, DEVICE_CODE } from '../support/device.ts';
import {
  createConnector,
  listGrants,
  requestManagement,
  showConnector,
} from '../support/management-api.ts';
import { call, callTool } from '../support/mcp.ts';
import { refresh, register } from '../support/oauth.ts';
import { onEachStore } from '../support/system.ts';

onEachStore('A changed connector', (system) => {
  const change = (id: string, body: object) =>
    requestManagement(system(), 'PATCH', `/connectors/${id}`, body);

  /** How a tool of the level `admin` is answered. */
  const contacts = async ({ link }: Pick<Connection, 'link'>, token: string | undefined) => {
    const { status, rpc } = await callTool(link, token, 'member_contact', { memberId: 'M0100' });
    return { status, isError: rpc?.result?.isError === true };
  };
  const ANSWERED = { status: 200, isError: false };
  const STEP_UP = { status: 403, isError: false };
  const FORBIDDEN = { status: 200, isError: true };

  const refreshed = async ({ server, client }: Connection, token: string | undefined) => {
    const { body } = await refresh(server, client, token);
    return { scope: body.scope, token: body.access_token, next: body.refresh_token };
  };

  const levelOf = async (accessToken: string) => {
    const { grant_id: id } = decodeJwt(accessToken);
    return (
      (await requestManagement(system(), 'GET', `/grants/${String(id)}`)) as {
        level: string;
      }
    ).level;
  };

  it('CHG-03 a lower level caps calls and tokens at the next call, and what was granted returns with a higher level', async () => {
    const connector = await createConnector(system(), { level: 'full' });
    const connection = await connect(system(), connector, { level: 'admin' });
    const { accessToken } = connection;
    expect(await contacts(connection, accessToken)).to.deep.equal(ANSWERED);

    await change(connector.id, { level: 'operations' });
    expect(await contacts(connection, accessToken)).to.deep.equal(FORBIDDEN);
    expect(await levelOf(accessToken)).to.equal('operations');
    const lower = await refreshed(connection, connection.refreshToken);
    expect(lower.scope?.split(' ')).to.include('operations').and.not.include('admin');

    await change(connector.id, { level: 'full' });
    expect(await contacts(connection, lower.token)).to.deep.equal(STEP_UP);
    expect(await levelOf(accessToken)).to.equal('admin');
    const higher = await refreshed(connection, lower.next);
    expect(higher.scope?.split(' ')).to.include('admin').and.not.include('full');
    expect(await contacts(connection, higher.token)).to.deep.equal(ANSWERED);
  });

  it('CHG-03 a higher level of the link grants nothing that was not granted', async () => {
    const connector = await createConnector(system(), { level: 'operations' });
    const connection = await connect(system(), connector, { level: 'operations' });
    await change(connector.id, { level: 'full' });
    expect(await contacts(connection, connection.accessToken)).to.deep.equal(STEP_UP);
    const { scope, token } = await refreshed(connection, connection.refreshToken);
    expect(scope?.split(' ')).to.include('operations').and.not.include('admin');
    expect(await contacts(connection, token)).to.deep.equal(STEP_UP);
  });

  it('CHG-03 a consent page that is open grants what it shows, and no more than the link has at the approval', async () => {
    const lowered = await createConnector(system(), { level: 'full' });
    const open = await openConsent(system(), lowered);
    await change(lowered.id, { level: 'analytics' });
    const again = await open.decide({ decision: 'approve', level: 'admin' });
    expect(again).to.include({ kind: 'page', status: 409 });
    const raised = await createConnector(system(), { level: 'analytics' });
    const small = await openConsent(system(), raised);
    await change(raised.id, { level: 'full' });
    const callback = await small.decide({ decision: 'approve' });
    if (callback.kind !== 'redirect') throw new Error(`the approval showed ${callback.status}`);
    const { body } = await small.redeem(callback.url);
    expect(body.scope?.split(' ')).to.include('analytics').and.not.include('operations');
  });

  it('an open consent page is shown again with a new name, and the next one suggests another level', async () => {
    const connector = await createConnector(system(), { level: 'full' });
    const open = await openConsent(system(), connector);
    await change(connector.id, { name: 'Renamed figures', suggestedLevel: 'analytics' });
    const again = await open.decide({ decision: 'approve', level: 'analytics' });
    if (again.kind !== 'page') throw new Error('the approval was accepted');
    expect(again.status).to.equal(409);
    expect(again.html).to.include('Renamed figures');
    const { scope } = await connect(system(), connector);
    expect(scope?.split(' ')).to.include('analytics').and.not.include('operations');
  });

  it('an expiry that is set later ends the link and its connections, and one that is removed does not', async () => {
    const connector = await createConnector(system(), { level: 'full' });
    const connection = await connect(system(), connector, { level: 'admin' });
    await change(connector.id, { expiresIn: '10m' });
    await change(connector.id, { expiresAt: null });
    advanceClock(601);
    expect(await contacts(connection, connection.accessToken)).to.deep.equal(ANSWERED);
    await change(connector.id, { expiresIn: '10m' });
    advanceClock(1300);
    expect((await contacts(connection, connection.accessToken)).status).to.equal(410);
    restoreClock();
  });

  it('a smaller audience applies at the next call and refresh, and a larger one restores the connection', async () => {
    const connector = await createConnector(system(), { level: 'full' });
    const connection = await connect(system(), connector, { level: 'admin' });
    await change(connector.id, { audience: [{ emailDomain: 'elsewhere.example' }] });
    expect((await contacts(connection, connection.accessToken)).status).to.equal(401);
    const refused = await refresh(connection.server, connection.client, connection.refreshToken);
    expect(refused.body.error).to.equal('invalid_grant');
    await change(connector.id, { audience: null });
    expect(await contacts(connection, connection.accessToken)).to.deep.equal(ANSWERED);
  });

  it('a dry run names each connection that would stop or have a lower level, and changes nothing', async () => {
    const connector = await createConnector(system(), { level: 'full' });
    const high = await connect(system(), connector, { level: 'admin' });
    const low = await connect(system(), connector, { level: 'analytics' });
    const grants = [high, low].map(({ accessToken }) => decodeJwt(accessToken));
    const dryRun = async (body: object) => {
      const path = `/connectors/${connector.id}?dryRun=true`;
      const { affected } = (await requestManagement(system(), 'PATCH', path, body)) as {
        affected: { before: { level: string } }[];
      };
      return affected.toSorted((a, b) => a.before.level.localeCompare(b.before.level));
    };
    const about = (grant: ReturnType<typeof decodeJwt> | undefined) => ({
      grantId: grant?.grant_id,
      account: { id: grant?.sub, name: 'Ada Lovelace' },
      client: { id: grant?.client_id, name: 'Test client' },
    });
    expect(await dryRun({ level: 'operations' })).to.deep.equal([
      {
        ...about(grants[0]),
        before: { state: 'active', level: 'admin' },
        after: { state: 'active', level: 'operations' },
      },
    ]);
    const stops = (reason: string) =>
      ['admin', 'analytics'].map((level, index) => ({
        ...about(grants[index]),
        before: { state: 'active', level },
        after: { state: 'refused', level, reason },
      }));
    const audience = [{ emailDomain: 'elsewhere.example' }];
    expect(await dryRun({ audience })).to.deep.equal(stops('not_in_audience'));
    expect(await dryRun({ paused: true })).to.deep.equal(stops('connector_paused'));
    expect(await dryRun({ name: 'Other', level: 'admin', maxUses: 1 })).to.deep.equal([]);
    const endsAt = new Date((Math.floor(Date.now() / 1000) + 86_400) * 1000).toISOString();
    const [admin, analytics] = stops('connector_expired');
    const ended = (item: typeof admin) => ({
      ...item,
      after: { ...item?.after, state: 'ended', endsAt },
    });
    expect(await dryRun({ expiresAt: endsAt })).to.deep.equal([ended(admin), ended(analytics)]);
    const lowered = { ...admin, after: { ...admin?.after, level: 'operations' } };
    expect(await dryRun({ expiresAt: endsAt, level: 'operations' })).to.deep.equal([
      ended(lowered as typeof admin),
      ended(analytics),
    ]);
    const afterAll = new Date(Date.now() + 1000 * 86_400_000).toISOString();
    expect(await dryRun({ expiresAt: afterAll })).to.deep.equal([]);
    expect(await showConnector(system(), connector.id)).to.include({
      level: 'full',
      state: 'active',
    });
  });

  it('CHG-04 while it is paused, tool calls get a tool error, the tools are listed, and nobody has to connect again', async () => {
    const connector = await createConnector(system(), { level: 'full' });
    const connection = await connect(system(), connector, { level: 'admin' });
    const { link, accessToken, server, client } = connection;
    const list = () => call(link, accessToken, { jsonrpc: '2.0', id: 1, method: 'tools/list' });
    const before = await list();
    await change(connector.id, { paused: true });

    const { status, rpc } = await callTool(link, accessToken, 'club_overview');
    expect(status).to.equal(200);
    expect(rpc?.result?.isError).to.equal(true);
    expect(rpc?.result?.content?.[0]?.text).to.match(/^this connect link is paused/);
    expect((await list()).rpc?.result?.tools).to.deep.equal(before.rpc?.result?.tools);
    const ping = await call(link, accessToken, { jsonrpc: '2.0', id: 2, method: 'ping' });
    expect(ping.status).to.equal(200);
    expect(ping.rpc?.error?.message).to.match(/^this connect link is paused/);
    const stream = await fetch(link, {
      headers: { authorization: `Bearer ${accessToken}`, accept: 'text/event-stream' },
    });
    expect(stream.status).to.equal(503);
    expect((await callTool(link, undefined, 'club_overview')).status).to.equal(401);

    const { body } = await refresh(server, client, connection.refreshToken);
    expect(body.scope?.split(' ')).to.include('admin');
    const found = await listGrants(system(), { connector: connector.id });
    expect(found.items).to.have.length(1);
    expect(found.items[0]).to.include({ state: 'refused', reason: 'connector_paused' });
    await change(connector.id, { paused: false });
    expect(await contacts(connection, body.access_token)).to.deep.equal(ANSWERED);
    expect((await listGrants(system(), { connector: connector.id })).items[0]).to.include({
      state: 'active',
    });
  });

  it('CHG-04 while it is paused, nobody can connect, and an approval that was pending is refused', async () => {
    const connector = await createConnector(system(), { level: 'full' });
    const waiting = await openConsent(system(), connector);
    await change(connector.id, { paused: true });
    const approval = await waiting.decide({ decision: 'approve', level: 'analytics' });
    if (approval.kind !== 'page') throw new Error('the approval was accepted');
    expect([approval.status, approval.html]).to.satisfy(
      ([status, html]: [number, string]) =>
        status === 400 && html.includes('This connect link is paused'),
    );
    const { page } = await openConsent(system(), connector);
    expect(page.status).to.equal(400);
    expect(page.html).to.include('This connect link is paused');
    const { body } = await register(waiting.server, {
      client_name: 'Device',
      grant_types: [DEVICE_CODE, 'refresh_token'],
      redirect_uris: [],
      response_types: [],
      token_endpoint_auth_method: 'none',
    });
    const client = { ...waiting.client, id: String(body.client_id) };
    const device = await askForDevice(waiting.server, client, { resource: connector.link });
    expect(device).to.deep.include({ status: 400 });
    expect(device.body).to.include({ error: 'connector_paused' });
    const visit = await fetch(connector.link, { headers: { accept: 'text/html' } });
    expect(visit.status).to.equal(401);
    expect(await visit.text()).to.include('An administrator paused this link.');
    expect((await listGrants(system(), { connector: connector.id })).items).to.deep.equal([]);
  });
});
