// Tests of revocation across processes, for every kind of Redis.
import { expect } from 'chai';
import { until } from '../support/until.ts';
import { createConnector, requestManagement, revokeConnector } from '../support/management-api.ts';
import { connect } from '../support/connection.ts';
import { discover, refresh, requestToken } from '../support/oauth.ts';
import { statusesAt } from '../support/scale-out/direct-call.ts';
import type { Processes } from '../support/scale-out/processes.ts';
import { postToken } from '../support/token-endpoints.ts';

/** Connects, with every process accepting the token. `allRefuse` resolves when every process returns this status. */
export async function connectEverywhere(processes: Processes) {
  const connector = await createConnector(processes);
  const connection = await connect(processes, connector);
  const { link, accessToken } = connection;
  const statuses = async () => new Set(await statusesAt(processes.running(), link, accessToken));
  expect(await statuses()).to.deep.equal(new Set([200]));
  const allRefuse = (status: number) =>
    until(`every process to return ${status}`, async () =>
      (await statuses()).isSubsetOf(new Set([status])),
    );
  return { ...connection, id: connector.id, statuses, allRefuse };
}

export function testRevocation(processes: () => Processes): void {
  describe('while their clocks stand still', () => {
    // Cached records do not expire, so only a notification can end them.
    before(() => processes().setClocks({ freezeAt: Date.now() / 1000 }));
    after(() => processes().setClocks('restore'));

    it('all instances refuse a revoked connect link at once', async () => {
      const { id, allRefuse } = await connectEverywhere(processes());
      await revokeConnector(processes(), id);
      await allRefuse(410);
    });

    it('all instances apply a change of a connector at once, and its end', async () => {
      const { id, allRefuse } = await connectEverywhere(processes());
      const change = (audience: object | null) =>
        requestManagement(processes(), 'PATCH', `/connectors/${id}`, { audience });
      await change([{ emailDomain: 'elsewhere.example' }]);
      await allRefuse(401);
      await change(null);
      await allRefuse(200);
    });

    it('all instances refuse a grant that its client revoked at once', async () => {
      const { server, client, refreshToken, allRefuse } = await connectEverywhere(processes());
      const { status } = await postToken(server.revocation_endpoint, client, refreshToken);
      expect(status).to.equal(200);
      await allRefuse(401);
      const answers = [1, 2, 3].map(() => refresh(server, client, refreshToken));
      for (const { body } of await Promise.all(answers))
        expect(body.error).to.equal('invalid_grant');
    });

    it('all instances refuse the token of a machine at once, when its client, connector or key was revoked', async () => {
      for (const { what, end, statuses, refused } of await connectMachines(processes())) {
        await end();
        await until(`every process to refuse the token: ${what}`, async () =>
          (await statuses()).isSubsetOf(refused),
        );
      }
    });
  });
}

/** Three machines whose tokens every process accepts, and three ways to end them, after which every process returns `refused`. */
export async function connectMachines(processes: Processes) {
  const ends: Record<string, (machine: Machine, connector: string) => Promise<unknown>> = {
    client: ({ id }) => requestManagement(processes, 'POST', '/clients/revoke', { id }),
    connector: (_machine, connector) => revokeConnector(processes, connector),
    key: ({ id }) => requestManagement(processes, 'POST', '/clients/key', { id }),
  };
  const machines = [];
  for (const [what, end] of Object.entries(ends)) {
    const { machine, connector } = await newMachine(processes);
    const accessToken = await machineToken(processes, machine);
    const statuses = async () =>
      new Set(await statusesAt(processes.running(), machine.link, accessToken));
    expect(await statuses(), what).to.deep.equal(new Set([200]));
    const refused = new Set([what === 'connector' ? 410 : 401]);
    machines.push({ what, end: () => end(machine, connector), statuses, refused });
  }
  return machines;
}

type Machine = { id: string; secret: string; link: string };

async function newMachine(processes: Processes) {
  const { id: connector } = await createConnector(processes);
  const body = { name: 'Nightly job', connector, level: 'analytics' };
  const machine = (await requestManagement(processes, 'POST', '/clients', body)) as Machine;
  return { machine, connector };
}

/** RFC 6749 section 4.4. */
async function machineToken(processes: Processes, machine: Machine): Promise<string> {
  const { server } = await discover(machine.link);
  const client = {
    id: machine.id,
    secret: machine.secret,
    method: 'client_secret_basic',
    redirectUri: '',
  } as const;
  const parameters = { grant_type: 'client_credentials', resource: machine.link };
  const { status, body } = await requestToken(server, client, parameters);
  expect(status, processes.origins.join()).to.equal(200);
  return String(body.access_token);
}
