// Minted tokens and machines that an administrator changes while programs use them.
import { expect } from 'chai';
import { advanceClock, restoreClock } from '../support/clock.ts';
import {
  createConnector,
  listGrants,
  readAudit,
  requestManagement,
} from '../support/management-api.ts';
import { callTool, isAccepted } from '../support/mcp.ts';
import { discover, requestToken } from '../support/oauth.ts';
import { onEachStore } from '../support/system.ts';
import { addressOf, mint } from '../links/minted-tokens/minting.ts';

const DAY = 86_400;

/** In ISO 8601. */
const inDays = (days: number) =>
  new Date((Math.floor(Date.now() / 1000) + days * DAY) * 1000).toISOString();

onEachStore('A changed token or machine', (system) => {
  afterEach(restoreClock);

  async function send(method: string, path: string, body?: object, ifMatch?: string) {
    const { management, managementKey } = system();
    const answer = await fetch(`${management}/api/v1${path}`, {
      method,
      headers: {
        authorization: `Bearer ${managementKey}`,
        ...(body ? { 'content-type': 'application/json' } : {}),
        ...(ifMatch === undefined ? {} : { 'if-match': ifMatch }),
      },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
    const json = (await answer.json()) as Record<string, unknown>;
    return { status: answer.status, etag: answer.headers.get('etag') ?? '', body: json };
  }

  const changesOf = async (event: string, clientId: string) =>
    (await readAudit(system()))
      .filter((item) => item.event === event && item.clientId === clientId)
      .map((item) => item['arguments']);

  it('CHG-05 a minted token expires when it was changed to, also if it names a later time, and never later', async () => {
    const { id, token, expiresAt } = await mint(system(), { name: 'Report', expiresIn: '30d' });
    const path = `/tokens/${id}`;
    const address = addressOf(system());
    const first = await send('GET', path);
    expect(first.body).to.include({ id, name: 'Report', expiresAt });
    const later = await send('PATCH', path, { expiresAt: inDays(40) });
    expect([later.status, later.body.error]).to.deep.equal([400, 'invalid_request']);
    const earlier = inDays(1);
    const changed = await send('PATCH', path, { name: 'Daily', expiresAt: earlier }, first.etag);
    expect(changed.status).to.equal(200);
    expect(changed.body).to.include({ name: 'Daily', expiresAt: earlier });
    expect((await send('GET', path)).etag)
      .to.equal(changed.etag)
      .and.not.equal(first.etag);
    expect((await send('PATCH', path, { name: 'Late' }, first.etag)).status).to.equal(412);
    expect((await send('PATCH', path, { expiresAt })).status).to.equal(400);
    expect((await send('PATCH', path, { name: 'Daily' })).status).to.equal(200);
    expect(await changesOf('token_changed', `minted:${id}`)).to.deep.equal([
      {
        name: 'Daily',
        before: { name: 'Report', expiresAt },
        after: { name: 'Daily', expiresAt: earlier },
      },
    ]);
    const listed = ((await send('GET', '/tokens')).body.items as { id: string }[]).filter(
      (item) => item.id === id,
    );
    expect(listed).to.have.length(1);
    expect(await isAccepted(address, token)).to.equal(true);
    advanceClock(DAY + 60);
    expect(await isAccepted(address, token)).to.equal(false);
  });

  it('a revoked token cannot be changed', async () => {
    const { id, token } = await mint(system());
    await send('DELETE', `/tokens/${id}`);
    expect((await send('PATCH', `/tokens/${id}`, { name: 'Back' })).status).to.equal(404);
    expect(await isAccepted(addressOf(system()), token)).to.equal(false);
  });

  describe('a machine', () => {
    type Machine = { id: string; secret: string; link: string; expiresAt: string };

    async function newMachine(expiresIn = '30d') {
      const connector = await createConnector(system(), { level: 'admin' });
      const wanted = { name: 'CI', connector: connector.id, level: 'operations', expiresIn };
      const created = await requestManagement(system(), 'POST', '/clients', wanted);
      return { connector, machine: created as Machine };
    }

    async function newToken({ id, secret, link }: Machine) {
      const { server } = await discover(link);
      const client = { id, secret, method: 'client_secret_basic', redirectUri: '' } as const;
      const parameters = { grant_type: 'client_credentials', resource: link };
      const { status, body } = await requestToken(server, client, parameters);
      return { status, token: body.access_token };
    }

    const change = (body: object, ifMatch?: string) => send('PATCH', '/clients', body, ifMatch);

    it('CHG-05 a machine stops when it was changed to, tokens included', async () => {
      const { machine } = await newMachine();
      const end = inDays(1);
      const changed = await change({ id: machine.id, expiresAt: end });
      expect(changed.status).to.equal(200);
      expect(changed.body).to.include({ id: machine.id, name: 'CI', expiresAt: end });
      advanceClock(DAY - 60);
      const { token } = await newToken(machine);
      expect(await isAccepted(machine.link, token)).to.equal(true);
      advanceClock(DAY + 60);
      expect(await isAccepted(machine.link, token)).to.equal(false);
      expect((await newToken(machine)).status).to.be.oneOf([400, 401]);
      expect((await change({ id: machine.id, expiresAt: inDays(9) })).status).to.equal(404);
    });

    it('a machine works for longer, with the same secret and connection, and has its new name everywhere', async () => {
      const { machine, connector } = await newMachine('1d');
      const longer = { id: machine.id, name: 'Nightly', expiresAt: inDays(60) };
      const { body, etag } = await change(longer);
      expect(body).to.deep.include(longer);
      const [grant] = (await listGrants(system(), { client: machine.id })).items;
      expect(grant).to.include({ clientName: 'Nightly', state: 'active' });
      expect((await change({ id: machine.id, name: 'Other' }, '"stale"')).status).to.equal(412);
      expect((await change({ id: machine.id, name: 'Nightly' }, etag)).status).to.equal(200);
      const shown = await send('GET', `/clients/machine?id=${machine.id}`);
      expect([shown.status, shown.body, shown.etag]).to.deep.equal([200, body, etag]);
      const changes = await changesOf('machine_changed', machine.id);
      expect(changes).to.deep.equal([
        {
          name: 'Nightly',
          before: { name: 'CI', expiresAt: machine.expiresAt },
          after: { name: 'Nightly', expiresAt: longer.expiresAt },
        },
      ]);
      advanceClock(50 * DAY);
      const { token } = await newToken(machine);
      expect(await isAccepted(connector.link, token)).to.equal(true);
    });

    it('a machine expires at most 366 days after it was created, and not after its connector', async () => {
      const { machine, connector } = await newMachine();
      await requestManagement(system(), 'PATCH', `/connectors/${connector.id}`, {
        expiresAt: inDays(50),
      });
      const late = await change({ id: machine.id, expiresAt: inDays(60) });
      expect(late.status).to.equal(400);
      expect(late.body.error_description).to.match(/^expiresAt: at most /);
      expect((await change({ id: machine.id, expiresIn: '367d' })).status).to.equal(400);
      expect((await change({ id: machine.id, expiresAt: null })).status).to.equal(400);
      expect((await change({ id: machine.id, level: 'admin' })).status).to.equal(400);
    });

    it('CHG-03 a machine whose connector was lowered has no more than it, and gets a new key and expiry', async () => {
      const { machine, connector } = await newMachine();
      await requestManagement(system(), 'PATCH', `/connectors/${connector.id}`, {
        level: 'analytics',
      });
      expect((await change({ id: machine.id, expiresIn: '9d' })).status).to.equal(200);
      const path = '/clients/key';
      const replaced = await requestManagement(system(), 'POST', path, { id: machine.id });
      const { token } = await newToken(replaced as Machine);
      const find = () => callTool(machine.link, token, 'find_members', { name: 'a' });
      expect((await find()).rpc?.result?.isError).to.equal(true);
      expect(await isAccepted(machine.link, token)).to.equal(true);
      await requestManagement(system(), 'PATCH', `/connectors/${connector.id}`, {
        level: 'admin',
      });
      const restored = await newToken(replaced as Machine);
      const answer = await callTool(machine.link, restored.token, 'find_members', { name: 'a' });
      expect(answer.rpc?.result?.isError).to.not.equal(true);
    });

    it('CHG-01 of administrators who save the same machine as they read it, one succeeds and the others get 412', async () => {
      const { machine } = await newMachine();
      const { etag } = await send('GET', `/clients/machine?id=${machine.id}`);
      const names = ['One', 'Two', 'Three'];
      const saved = await Promise.all(names.map((name) => change({ id: machine.id, name }, etag)));
      expect(saved.map(({ status }) => status).toSorted()).to.deep.equal([200, 412, 412]);
      expect((await send('GET', '/clients/machine?id=nobody')).status).to.equal(404);
    });

    it('CHG-02 a revoked machine is not changed', async () => {
      const { machine } = await newMachine();
      await requestManagement(system(), 'POST', '/clients/revoke', { id: machine.id });
      expect((await change({ id: machine.id, name: 'Back' })).status).to.equal(409);
      expect((await newToken(machine)).status).to.equal(401);
    });
  });
});
