// Client credentials (RFC 6749 section 4.4; MCP extension oauth-client-credentials).
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import {
  createConnector,
  listGrants,
  readAudit,
  revokeConnector,
  showConnector,
} from '../support/management-api.ts';
import { advanceClock } from '../support/clock.ts';
import { callTool, isAccepted } from '../support/mcp.ts';
import { registerClient } from '../support/connection.ts';
import { createProof, generateProofKey } from '../support/dpop.ts';
import { discover } from '../support/oauth.ts';
import { type System, useSystem } from '../support/system.ts';

type Machine = { id: string; secret: string; link: string; level: string; expiresAt: string };

async function createMachine(system: System, members: object): Promise<Machine> {
  const { status, body } = await manage(system, 'POST', '/clients', members);
  expect(status).to.equal(201);
  return body as Machine;
}

async function manage(system: System, method: string, path: string, given?: object) {
  const response = await fetch(`${system.management}/api/v1${path}`, {
    method,
    headers: {
      authorization: `Bearer ${system.managementKey}`,
      'content-type': 'application/json',
    },
    ...(given ? { body: JSON.stringify(given) } : {}),
  });
  return { status: response.status, body: (await response.json()) as unknown };
}

async function requestToken(
  system: System,
  { id, secret, link }: Machine,
  parameters: Record<string, string | undefined> = {},
  more: Record<string, string> = {},
) {
  const all = { grant_type: 'client_credentials', resource: link, ...parameters };
  const given = Object.entries(all).filter(
    (entry): entry is [string, string] => entry[1] !== undefined,
  );
  const response = await fetch(`${system.auth}/oauth/token`, {
    method: 'POST',
    headers: {
      authorization: `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}`,
      ...more,
    },
    body: new URLSearchParams(given),
  });
  const body = (await response.json()) as Record<string, string>;
  return { status: response.status, body };
}

describe('A machine', () => {
  const system = useSystem();

  async function newMachine(options: { maxUses?: number } = {}, members: object = {}) {
    const connector = await createConnector(system(), { level: 'admin', ...options });
    const given = { name: 'CI', connector: connector.id, level: 'operations', ...members };
    return { connector, machine: await createMachine(system(), given) };
  }

  async function expectRefused(machine: Machine, error: string, parameters = {}) {
    const { status, body } = await requestToken(system(), machine, parameters);
    expect([status, body.error]).to.deep.equal([error === 'invalid_client' ? 401 : 400, error]);
    expect(body.error_description).to.be.a('string');
  }

  it('MAC-01 gets a token for its link and level, without a refresh token', async () => {
    const { connector, machine } = await newMachine();
    const { status, body } = await requestToken(system(), machine);
    expect(status).to.equal(200);
    expect(body).to.have.all.keys('access_token', 'expires_in', 'token_type', 'scope');
    expect(body).to.include({ scope: 'operations', token_type: 'Bearer' });
    const claims = decodeJwt(String(body.access_token));
    expect(claims).to.include({
      aud: connector.link,
      sub: `machine:${machine.id}`,
      client_id: machine.id,
      scope: 'operations',
    });
    const { rpc } = await callTool(connector.link, String(body.access_token), 'find_members', {
      name: 'a',
    });
    expect(rpc?.result).to.not.equal(undefined);
  });

  it('ends for good when its name is blocked, also if the rule is removed later', async () => {
    const { machine } = await newMachine({}, { name: 'Blocked job' });
    const { body } = await requestToken(system(), machine);
    const blocked = await manage(system(), 'POST', '/client-rules', { name: 'Blocked job' });
    expect(await isAccepted(machine.link, String(body.access_token))).to.equal(false);
    await expectRefused(machine, 'invalid_client');
    const { id } = blocked.body as { id: string };
    await manage(system(), 'DELETE', `/client-rules/${id}`);
    await expectRefused(machine, 'unauthorized_client');
  });

  it('gets a tool error, not a challenge, for a tool above its level', async () => {
    const { connector, machine } = await newMachine();
    const { body } = await requestToken(system(), machine);
    const contact = { memberId: 'M0001' };
    const { status, rpc } = await callTool(
      connector.link,
      body.access_token,
      'member_contact',
      contact,
    );
    expect([status, rpc?.result?.isError]).to.deep.equal([200, true]);
    expect(JSON.stringify(rpc)).to.include('for a machine with the level admin');
  });

  it('MAC-04 gets a lower level on request, and never a higher or unknown one', async () => {
    const { machine } = await newMachine();
    const scopes = {
      analytics: 'analytics',
      admin: 'operations',
      'full offline_access': 'operations',
      unknown: 'operations',
      'analytics operations': 'operations',
    };
    for (const [scope, granted] of Object.entries(scopes)) {
      const { body } = await requestToken(system(), machine, { scope });
      expect(body.scope, scope).to.equal(granted);
    }
  });

  it('MAC-02 is refused without its link as the resource, with another one, and with a wrong secret', async () => {
    const { machine } = await newMachine();
    const other = await createConnector(system());
    await expectRefused(machine, 'invalid_target', { resource: undefined });
    await expectRefused(machine, 'invalid_target', { resource: other.link });
    await expectRefused({ ...machine, secret: 'wrong' }, 'invalid_client');
    await expectRefused({ ...machine, id: 'x'.repeat(22) }, 'invalid_client');
  });

  it('MAC-04 can use no other grant type, and no other client can use this one', async () => {
    const { connector, machine } = await newMachine();
    await expectRefused(machine, 'unauthorized_client', {
      grant_type: 'refresh_token',
      refresh_token: 'x',
    });
    await expectRefused(machine, 'unauthorized_client', {
      grant_type: 'authorization_code',
      code: 'x',
    });
    const { server } = await discover(connector.link);
    const { id, secret = '' } = await registerClient(server, 'client_secret_basic');
    await expectRefused({ ...machine, id, secret }, 'unauthorized_client');
  });

  it('takes one use of the connector, and cannot be created without one', async () => {
    const { connector, machine } = await newMachine({ maxUses: 1 });
    const again = { name: 'Second', connector: connector.id, level: 'analytics' };
    const { status, body } = await manage(system(), 'POST', '/clients', again);
    expect([status, (body as { error: string }).error]).to.deep.equal([409, 'used_up']);
    await requestToken(system(), machine);
    expect((await requestToken(system(), machine)).status).to.equal(200);
  });

  it('cannot be created above the level of the connector, or for one that has ended or does not exist', async () => {
    const connector = await createConnector(system(), { level: 'analytics' });
    const wanted = { name: 'CI', connector: connector.id, level: 'operations' };
    const statusOf = async (members: object) =>
      (await manage(system(), 'POST', '/clients', members)).status;
    expect(await statusOf(wanted)).to.equal(400);
    expect(await statusOf({ ...wanted, connector: 'x'.repeat(22) })).to.equal(404);
    await revokeConnector(system(), connector.id);
    expect(await statusOf({ ...wanted, level: 'analytics' })).to.equal(409);
    expect((await listGrants(system(), { connector: connector.id })).items).to.deep.equal([]);
  });

  for (const [what, error, end] of [
    [
      'its client is revoked',
      'invalid_client',
      (id: string) => manage(system(), 'POST', '/clients/revoke', { id }),
    ],
    [
      'its connector is revoked',
      'unauthorized_client',
      (_: string, connector: string) => revokeConnector(system(), connector),
    ],
  ] as const)
    it(`ends, tokens included, when ${what}`, async () => {
      const { connector, machine } = await newMachine();
      const { body } = await requestToken(system(), machine);
      expect(await isAccepted(connector.link, body.access_token)).to.equal(true);
      await end(machine.id, connector.id);
      expect(await isAccepted(connector.link, body.access_token)).to.equal(false);
      await expectRefused(machine, error);
    });

  it('ends when its connection is ended, and when it expires', async () => {
    const { connector, machine } = await newMachine({}, { expiresIn: '2d' });
    const { body } = await requestToken(system(), machine);
    const { items } = await listGrants(system(), { client: machine.id });
    expect(items).to.have.length(1);
    expect(items[0]).to.include({
      state: 'active',
      level: 'operations',
      accountName: 'CI',
      clientName: 'CI',
    });
    advanceClock(86_400);
    const later = await requestToken(system(), machine);
    expect(later.status).to.equal(200);
    await manage(system(), 'DELETE', `/grants/${items[0]?.id}`);
    expect(await isAccepted(connector.link, later.body.access_token)).to.equal(false);
    await expectRefused(machine, 'unauthorized_client');
    expect(body.access_token).to.be.a('string');

    const second = await newMachine({}, { expiresIn: '2d' });
    advanceClock(2 * 86_400 + 1);
    await expectRefused(second.machine, 'invalid_client');
  });

  it('ends when its connector expires', async () => {
    const inADay = new Date(Date.now() + 86_400_000).toISOString();
    const connector = await createConnector(system(), { expiresAt: inADay });
    const wanted = { name: 'CI', connector: connector.id, level: 'analytics' };
    const machine = await createMachine(system(), wanted);
    expect(Date.parse(machine.expiresAt)).to.be.at.most(Date.parse(inADay));
    expect((await requestToken(system(), machine)).status).to.equal(200);
    advanceClock(86_401);
    const { status } = await requestToken(system(), machine);
    expect(status).to.be.oneOf([400, 401]);
  });

  it('MAC-03 gets a new secret, which works at once, and the old one and its tokens are refused', async () => {
    const { connector, machine } = await newMachine({ maxUses: 1 });
    const before = await requestToken(system(), machine);
    const { status, body } = await manage(system(), 'POST', '/clients/key', {
      id: machine.id,
    });
    expect(status).to.equal(200);
    const renewed = body as Machine;
    expect(await isAccepted(connector.link, before.body.access_token)).to.equal(false);
    await expectRefused(machine, 'invalid_client');
    const after = await requestToken(system(), renewed);
    expect(await isAccepted(connector.link, after.body.access_token)).to.equal(true);
  });

  it('gets no new secret after its client was revoked or its connection ended', async () => {
    for (const end of [
      ({ id }: Machine) => manage(system(), 'POST', '/clients/revoke', { id }),
      async ({ id }: Machine) => {
        const { items } = await listGrants(system(), { client: id });
        await manage(system(), 'DELETE', `/grants/${items[0]?.id}`);
      },
    ]) {
      const { machine } = await newMachine();
      await end(machine);
      const { status, body } = await manage(system(), 'POST', '/clients/key', { id: machine.id });
      expect([status, (body as { error: string }).error]).to.deep.equal([409, 'machine_ended']);
      const { items } = await listGrants(system(), { client: machine.id, state: 'active' });
      expect(items).to.deep.equal([]);
    }
  });

  for (const limit of [{ maxUses: 1 }, {}])
    it(`has one secret, connection and use after concurrent replacements, ${limit.maxUses ? 'with' : 'without'} a limit of uses`, async () => {
      const { connector, machine } = await newMachine(limit);
      const replace = () => manage(system(), 'POST', '/clients/key', { id: machine.id });
      const answers = await Promise.all([replace(), replace(), replace(), replace(), replace()]);
      expect(new Set(answers.map(({ status }) => status))).to.deep.equal(new Set([200, 409]));
      advanceClock(10);
      const statuses = [];
      for (const { status, body } of answers)
        if (status === 200) statuses.push((await requestToken(system(), body as Machine)).status);
      expect(statuses.filter((status) => status === 200)).to.have.length(1);
      const { items } = await listGrants(system(), { client: machine.id, state: 'active' });
      expect(items).to.have.length(1);
      expect((await showConnector(system(), connector.id)).uses).to.equal(1);
    });

  it('MAC-03 is recorded with the name, level and the key that created it', async () => {
    const { connector, machine } = await newMachine();
    const item = (await readAudit(system())).find(
      ({ event, clientId }) => event === 'machine_created' && clientId === machine.id,
    );
    expect(item).to.deep.include({ connector: connector.id, by: 'key:default', outcome: 'done' });
    expect(item?.arguments).to.include({ name: 'CI', level: 'operations' });
    expect(JSON.stringify(item)).not.to.include(machine.secret);
  });
});

describe('A machine where tokens are introspected and must be bound, and apps must be allowed', () => {
  const READER = { id: 'reader', secret: 'a-secret-of-a-resource-server-that-is-long' };
  const system = useSystem({
    file: {
      authorization: { introspectionClients: [READER], requireDpop: 'operations' },
      clients: { registration: 'approval' },
    },
  });

  async function introspect(token: string | undefined): Promise<Record<string, unknown>> {
    const response = await fetch(`${system().auth}/oauth/introspect`, {
      method: 'POST',
      headers: {
        authorization: `Basic ${Buffer.from(`${READER.id}:${READER.secret}`).toString('base64')}`,
      },
      body: new URLSearchParams({ token: String(token) }),
    });
    return (await response.json()) as Record<string, unknown>;
  }

  it('gets the level below without a proof, and introspection follows the machine', async () => {
    const connector = await createConnector(system(), { level: 'admin' });
    const wanted = { name: 'CI', connector: connector.id, level: 'admin' };
    const machine = await createMachine(system(), wanted);
    const { body } = await requestToken(system(), machine);
    expect(body.scope).to.equal('analytics');
    expect(await introspect(body.access_token)).to.include({
      active: true,
      sub: `machine:${machine.id}`,
      client_id: machine.id,
      scope: 'analytics',
    });
    await manage(system(), 'POST', '/clients/revoke', { id: machine.id });
    expect(await introspect(body.access_token)).to.deep.equal({ active: false });
  });

  it('gets a bound token of its level with a proof, and the proof counts once', async () => {
    const connector = await createConnector(system(), { level: 'admin' });
    const wanted = { name: 'CI', connector: connector.id, level: 'admin' };
    const machine = await createMachine(system(), wanted);
    const url = `${system().auth}/oauth/token`;
    const dpop = await createProof(await generateProofKey(), { url });
    const { status, body } = await requestToken(system(), machine, {}, { dpop });
    expect([status, body.scope, body.token_type]).to.deep.equal([200, 'admin', 'DPoP']);
    expect(await isAccepted(connector.link, body.access_token)).to.equal(false);
    const again = await requestToken(system(), machine, {}, { dpop });
    expect([again.status, again.body.error]).to.deep.equal([400, 'invalid_dpop_proof']);
  });

  it('waits for nobody, and is listed as a machine', async () => {
    const connector = await createConnector(system());
    const wanted = { name: 'CI', connector: connector.id, level: 'analytics' };
    const machine = await createMachine(system(), wanted);
    expect((await requestToken(system(), machine)).status).to.equal(200);
    const { body } = await manage(system(), 'GET', `/clients?id=${machine.id}`);
    expect((body as { items: object[] }).items[0]).to.include({
      kind: 'machine',
      state: 'allowed',
      name: 'CI',
    });
  });
});
