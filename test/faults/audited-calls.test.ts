import { DatabaseSync } from 'node:sqlite';
import { expect } from 'chai';
import { addressOf, mint } from '../links/minted-tokens/minting.ts';
import { until } from '../support/until.ts';
import { createConnector, readAudit } from '../support/management-api.ts';
import { connect } from '../support/connection.ts';
import { type PersistentRedis, startPersistentRedis } from '../support/faults/persistent-redis.ts';
import { type Command, type RedisProxy, startRedisProxy } from '../support/faults/redis-proxy.ts';
import { callTool, isAccepted, type RpcResponse } from '../support/mcp.ts';
import { startSystem, type System } from '../support/system.ts';

/** A person with a connect link or a program with a minted token, each with a token of level full and a lower one. */
type Caller = { title: string; link: string; full: string; lower: string };

const DETAILS = { memberId: 'M0001' };
const details = (link: string, token: string) => callTool(link, token, 'payment_details', DETAILS);

async function callersOf(system: System): Promise<Caller[]> {
  const connector = await createConnector(system, { level: 'full' });
  const [person, lower] = [
    await connect(system, connector, { level: 'full' }),
    await connect(system, connector, { level: 'admin' }),
  ];
  const [token, other] = [
    await mint(system, { level: 'full' }),
    await mint(system, { level: 'admin' }),
  ];
  const { link } = connector;
  return [
    { title: 'a person', link, full: person.accessToken, lower: lower.accessToken },
    { title: 'a program', link: addressOf(system), full: token.token, lower: other.token },
  ];
}

/** Of level full, without those that were refused. */
async function recordedCalls(system: System): Promise<number> {
  const calls = (await readAudit(system)).filter(({ event }) => event === 'call');
  return calls.filter(({ level, outcome }) => level === 'full' && outcome !== 'refused').length;
}

function expectRefused({ status, rpc, text }: RpcResponse, title: string): void {
  expect(status, title).to.equal(200);
  expect(rpc?.error?.message, title).to.match(/must be recorded, and this call could not be/);
  expect(text, title).to.not.match(/iban|GB00|\*{4}|store|redis|sqlite/i);
}

/** Expects that calls of level full are refused and calls of lower levels succeed. */
async function expectFullRefused(callers: Caller[]): Promise<void> {
  const checks = callers.flatMap(({ title, link, full, lower }) => [
    async () => expectRefused(await details(link, full), title),
    async () => expectRefused(await callTool(link, full, 'club_overview'), title),
    async () => {
      const below = await callTool(link, lower, 'member_contact', DETAILS);
      expect(below.rpc?.result?.structuredContent, title).to.include.keys('email');
    },
  ]);
  await Promise.all(checks.map((check) => check()));
}

async function expectWorks(system: System, callers: Caller[]): Promise<void> {
  for (const { title, link, full, lower } of callers) {
    const before = await recordedCalls(system);
    expect(await isAccepted(link, lower), title).to.equal(true);
    const { rpc } = await details(link, full);
    expect(rpc?.result?.structuredContent, title).to.include.keys('iban', 'card');
    expect(await recordedCalls(system), title).to.equal(before + 1);
  }
}

const isReplicaCheck = ({ name, kind }: Command) => kind === 'audit' && name === 'exists';
/** A script writes the record. */
const isRecord = ({ name, kind }: Command) => kind === 'audit' && name.startsWith('eval');

describe('Audited calls of level full (redis)', () => {
  let redis: PersistentRedis;
  let proxy: RedisProxy;
  let system: System;
  let callers: Caller[];
  before(async () => {
    redis = await startPersistentRedis();
    proxy = await startRedisProxy(redis);
    system = await startSystem({ storeAddress: proxy.url });
    callers = await callersOf(system);
    await expectWorks(system, callers);
  });
  after(async () => {
    await system?.stop();
    await proxy?.close();
    await redis?.close();
  });

  const recovers = () =>
    until('the store to recover', async () => {
      const [caller] = callers;
      const { rpc } = await details(String(caller?.link), String(caller?.full));
      if (!rpc?.result) return false;
      return readAudit(system).then(
        () => true,
        () => false,
      );
    });

  const FAULTS: [what: string, begin: () => unknown, end: () => unknown][] = [
    [
      'the connection breaks at every record',
      () => proxy.setRule((command) => (isRecord(command) ? 'cut' : 'pass')),
      () => proxy.setRule(),
    ],
    [
      'records get no reply',
      () => proxy.setRule((command) => (isRecord(command) ? 'drop' : 'pass')),
      () => proxy.setRule(),
    ],
    [
      'the database is full',
      () => redis.command('CONFIG', 'SET', 'maxmemory', 1),
      () => redis.command('CONFIG', 'SET', 'maxmemory', 0),
    ],
    [
      'the database accepts no writes',
      () => redis.command('CONFIG', 'SET', 'min-replicas-to-write', 1),
      () => redis.command('CONFIG', 'SET', 'min-replicas-to-write', 0),
    ],
  ];

  for (const [what, begin, end] of FAULTS)
    it(`calls of level full are refused while ${what}, and work afterwards`, async () => {
      const before = await recordedCalls(system);
      await begin();
      try {
        await expectFullRefused(callers);
      } finally {
        await end();
      }
      await recovers();
      // Records that timed out may have been written.
      expect(await recordedCalls(system)).to.be.above(before);
      await expectWorks(system, callers);
    });

  for (const [what, isAwaited] of [
    ['the record is written', isRecord],
    ['the number of replicas is known', isReplicaCheck],
  ] as const)
    it(`a call of level full gets no response until ${what}`, async () => {
      // A reply that a busy machine delivers too late is a record that failed, so the call is made again.
      for (const { title, link, full } of callers)
        await until(`the answer to ${title}`, async () => {
          proxy.setRule((command) => (isAwaited(command) ? 'hold reply' : 'pass'));
          let isAnswered = false;
          const answer = details(link, full).finally(() => (isAnswered = true));
          await proxy.whenHeld();
          expect(isAnswered, title).to.equal(false);
          proxy.release();
          const response = await answer;
          if (!response.rpc?.result) return expectRefused(response, title);
          expect(response.rpc.result.structuredContent, title).to.include.keys('iban');
          return true;
        });
    });
});

describe('Audited calls of level full (sqlite)', () => {
  let system: System;
  let callers: Caller[];
  let other: DatabaseSync;
  before(async () => {
    system = await startSystem();
    callers = await callersOf(system);
    other = new DatabaseSync(system.storeAddress.slice('sqlite:'.length));
  });
  after(async () => {
    other?.close();
    await system?.stop();
  });

  const refusing = (error: string) =>
    `CREATE TRIGGER refuse BEFORE INSERT ON log_entry BEGIN SELECT RAISE(FAIL, '${error}'); END`;

  for (const [what, begin, end] of [
    ['the table accepts no record', refusing('attempt to write'), 'DROP TRIGGER refuse'],
    ['another program has the file locked', 'BEGIN IMMEDIATE', 'ROLLBACK'],
  ] as const)
    it(`calls of level full are refused while ${what}, and work afterwards`, async () => {
      const before = await recordedCalls(system);
      other.exec(begin);
      try {
        await expectFullRefused(callers);
      } finally {
        other.exec(end);
      }
      expect(await recordedCalls(system)).to.equal(before);
      await expectWorks(system, callers);
    });
});
