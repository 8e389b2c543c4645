import { expect } from 'chai';
import { connect } from '../support/connection.ts';
import { type Fault, itSurvives, useFaultySystem } from '../support/faults/redis-faults.ts';
import { createConnector, requestManagement, showConnector } from '../support/management-api.ts';
import { isAccepted } from '../support/mcp.ts';
import { refresh } from '../support/oauth.ts';

const FAULTS: Fault[] = [
  {
    what: 'is full',
    begin: ({ redis }) => redis.command('CONFIG', 'SET', 'maxmemory', 1),
    heal: ({ redis }) => redis.command('CONFIG', 'SET', 'maxmemory', 0),
    works: ['reads', 'removes'],
  },
  {
    what: 'lacks the replicas that writes require',
    begin: ({ redis }) => redis.command('CONFIG', 'SET', 'min-replicas-to-write', 1),
    heal: ({ redis }) => redis.command('CONFIG', 'SET', 'min-replicas-to-write', 0),
    works: ['reads'],
  },
  {
    // The Redis client reconnects after every refused write, to find the master.
    what: 'becomes a replica, as after a failover',
    begin: ({ redis }) => redis.command('REPLICAOF', '127.0.0.1', 1),
    heal: ({ redis }) => redis.command('REPLICAOF', 'NO', 'ONE'),
  },
];

describe('Clients of a Redis that refuses writes', () => {
  const target = useFaultySystem();

  itSurvives(FAULTS, target);

  it('an administrator can revoke a connect link while Redis is full', async () => {
    const { system, redis } = target();
    const connector = await createConnector(system);
    const { server, client, link, accessToken, refreshToken } = await connect(system, connector);
    expect(await isAccepted(link, accessToken)).to.equal(true);
    await redis.command('CONFIG', 'SET', 'maxmemory', 1);
    await fetch(`${system.management}/api/v1/connectors/${connector.id}`, {
      method: 'DELETE',
      headers: { authorization: `Bearer ${system.managementKey}` },
    });
    await redis.command('CONFIG', 'SET', 'maxmemory', 0);
    expect(await isAccepted(link, accessToken)).to.equal(false);
    expect((await refresh(server, client, refreshToken)).body.error).to.equal('invalid_grant');
  });

  it('CHG-02 a change of a connector is 503 while Redis refuses writes, and changes nothing; a dry run works', async () => {
    const { system, redis } = target();
    const connector = await createConnector(system);
    const path = `${system.management}/api/v1/connectors/${connector.id}`;
    const patch = async (query = '') => {
      const answer = await fetch(path + query, {
        method: 'PATCH',
        headers: {
          authorization: `Bearer ${system.managementKey}`,
          'content-type': 'application/json',
        },
        body: JSON.stringify({ name: 'Changed', paused: true }),
      });
      return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
    };
    for (const setting of ['maxmemory', 'min-replicas-to-write']) {
      await redis.command('CONFIG', 'SET', setting, 1);
      expect((await patch()).status, setting).to.equal(503);
      const dry = await patch('?dryRun=true');
      expect([dry.status, dry.body['state']], setting).to.deep.equal([200, 'paused']);
      await redis.command('CONFIG', 'SET', setting, 0);
      expect(await showConnector(system, connector.id), setting).to.include({
        name: connector.name,
        state: 'active',
      });
    }
  });

  it('an administrator can read lists with expired records while Redis refuses writes', async () => {
    const { system, redis, connector } = target();
    await connect(system, connector);
    const namesOf = async (pattern: string) => (await redis.command('KEYS', pattern)) as string[];
    const [account = '', log = ''] = [
      ...(await namesOf('account:*')),
      ...(await namesOf('entries:*')),
    ];
    await redis.command('DEL', account);
    await redis.command('DEL', log);
    await redis.command('CONFIG', 'SET', 'min-replicas-to-write', 1);
    for (const list of ['accounts', 'grants', 'clients', 'audit?order=newest&event=signed_in'])
      await requestManagement(system, 'GET', `/${list}`);
  });
});
