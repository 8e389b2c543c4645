// RFC 7517, RFC 9068.
import { expect } from 'chai';
import { createRemoteJWKSet, jwtVerify } from 'jose';
import { listKeys, publishedIds, readJwks, rotateKeys, signedBy } from '../keys/published-keys.ts';
import { startBeside, startProcess } from '../keys/processes.ts';
import { startTraffic } from '../keys/traffic.ts';
import { until } from '../support/until.ts';
import { createConnector, readAudit } from '../support/management-api.ts';
import { openBrowser } from '../support/browser.ts';
import { advanceClock, restoreClock } from '../support/clock.ts';
import { connect, type Connection } from '../support/connection.ts';
import { isAccepted } from '../support/mcp.ts';
import { refresh } from '../support/oauth.ts';
import { connectSdkV1 } from '../support/sdk.ts';
import { recordSoak, SOAK } from '../support/soak.ts';
import { type StoreKind, startSystem, type System } from '../support/system.ts';

const MINUTE = 60;
/** The defaults of config/development.yaml. */
const TOKEN_LIFETIME = 60 * MINUTE;
const WAITS = 10 * MINUTE;
const ROTATIONS = SOAK ? 10 : 3;

type Arrangement = {
  store: StoreKind;
  /** The roles of the system itself; `beside` runs the others. */
  roles?: string;
  beside?: string;
};

const ARRANGEMENTS: Record<string, Arrangement> = {
  'on sqlite': { store: 'sqlite' },
  'on redis with a resource server apart': {
    store: 'redis',
    roles: 'authorization-server,management',
    beside: 'resource-server',
  },
};

async function startArrangement({ store, roles, beside }: Arrangement) {
  const system = await startSystem({ store, settings: roles ? { GATEHOUSE_ROLES: roles } : {} });
  const other = beside ? await startBeside(system, beside) : undefined;
  const stop = async () => {
    await other?.stop();
    await system.stop();
  };
  return { system, stop };
}

/** Starts a system before the first test, or `each` test. */
function useArrangement(arrangement: Arrangement, each = false): () => System {
  let running: Awaited<ReturnType<typeof startArrangement>> | undefined;
  const start = async () => {
    running = await startArrangement(arrangement);
  };
  const stop = () => running?.stop();
  if (each) beforeEach(start);
  else before(start);
  afterEach(restoreClock);
  if (each) afterEach(stop);
  else after(stop);
  return () => {
    if (!running) throw new Error('the system runs only during tests');
    return running.system;
  };
}

async function newConnection(system: System): Promise<Connection> {
  return connect(system, await createConnector(system));
}

async function freshToken(connection: Connection): Promise<string | undefined> {
  const { server, client, refreshToken } = connection;
  const { body } = await refresh(server, client, refreshToken);
  connection.refreshToken = body.refresh_token;
  return body.access_token;
}

for (const [title, arrangement] of Object.entries(ARRANGEMENTS)) {
  describe(`Rotation of the signing key, ${title}`, () => {
    // Rotations and a moved clock leave keys of the future behind.
    const system = useArrangement(arrangement, true);

    it('a rotation fails no call and no refresh: the new key is published, then signs, then the old key is removed', async () => {
      const [old] = await publishedIds(system());
      const traffic = startTraffic(await newConnection(system()));
      try {
        const passes = async (seconds: number) => {
          advanceClock(seconds);
          await traffic.waitForProgress();
        };
        await traffic.waitForProgress();
        const [next] = await rotateKeys(system());
        await until('the new key to be published', async () => {
          return (await publishedIds(system())).length === 2;
        });
        await passes(0);
        expect(await publishedIds(system())).to.deep.equal([next?.id, old]);
        await passes(WAITS - MINUTE);
        expect(signedBy(traffic.accessToken())).to.equal(old);

        await passes(2 * MINUTE);
        expect(signedBy(traffic.accessToken())).to.equal(next?.id);
        for (let passed = 0; passed < TOKEN_LIFETIME; passed += WAITS) await passes(WAITS);
        expect(await publishedIds(system())).to.deep.equal([next?.id, old]);

        await passes(WAITS);
        expect(await publishedIds(system())).to.deep.equal([next?.id]);
        expect(traffic.failures).to.deep.equal([]);
      } finally {
        await traffic.stop();
      }
    });

    it('a token that the old key signed is valid until it expires', async () => {
      const connection = await newConnection(system());
      await rotateKeys(system());
      advanceClock(WAITS - MINUTE);
      const last = await freshToken(connection);
      advanceClock(2 * MINUTE);
      expect(signedBy(await freshToken(connection))).to.not.equal(signedBy(last));
      expect(await isAccepted(connection.link, last)).to.equal(true);
      advanceClock(TOKEN_LIFETIME - 3 * MINUTE);
      expect(await isAccepted(connection.link, last)).to.equal(true);
      advanceClock(2 * MINUTE);
      expect(await isAccepted(connection.link, last)).to.equal(false);
      expect(await isAccepted(connection.link, await freshToken(connection))).to.equal(true);
    });

    it('a verifier in another process that has just read the keys learns the new key in time', async () => {
      const connection = await newConnection(system());
      const elsewhere = createRemoteJWKSet(new URL(`${system().auth}/oauth/jwks`));
      await jwtVerify(connection.accessToken, elsewhere);
      const [next] = await rotateKeys(system());
      for (const passed of [0, WAITS / 2, WAITS / 2, MINUTE]) {
        advanceClock(passed);
        await jwtVerify((await freshToken(connection)) ?? '', elsewhere);
      }
      expect(signedBy(await freshToken(connection))).to.equal(next?.id);
    });

    it(`${ROTATIONS} rotations in a row fail no call and no refresh`, async () => {
      const traffic = startTraffic(await newConnection(system()));
      try {
        for (let rotation = 0; rotation < ROTATIONS; rotation += 1) {
          const [next] = await rotateKeys(system());
          await traffic.waitForProgress();
          advanceClock(WAITS + 1);
          await traffic.waitForProgress();
          expect(signedBy(traffic.accessToken())).to.equal(next?.id);
        }
        expect(traffic.failures).to.deep.equal([]);
      } finally {
        await traffic.stop();
      }
      recordSoak({
        what: `Rotations of the signing key under traffic, ${title}`,
        held: `${ROTATIONS} rotations, 0 calls and refreshes failed`,
      });
    });
  });
}

/** Waits until the connection's access token is refused. Then expects that this key alone is published, and signs the token of a refresh. */
async function requireOnlyKey(
  system: System,
  key: string | undefined,
  connection: Connection,
): Promise<void> {
  const { link, accessToken } = connection;
  await until('the old token to be refused', async () => !(await isAccepted(link, accessToken)));
  expect(await publishedIds(system)).to.deep.equal([key]);
  const renewed = await freshToken(connection);
  expect(signedBy(renewed)).to.equal(key);
  expect(await isAccepted(link, renewed)).to.equal(true);
}

for (const [title, arrangement] of Object.entries(ARRANGEMENTS)) {
  describe(`Immediate rotation of the signing key, ${title}`, () => {
    const system = useArrangement(arrangement);

    it('an immediate rotation invalidates every earlier access token, and a refresh returns a valid one', async () => {
      const connection = await newConnection(system());
      const { link, accessToken } = connection;
      expect(await isAccepted(link, accessToken)).to.equal(true);
      const [key, ...others] = await rotateKeys(system(), { atOnce: true });
      expect(others).to.deep.equal([]);
      await requireOnlyKey(system(), key?.id, connection);
      expect(await isAccepted(link, accessToken)).to.equal(false);
    });

    it('an immediate rotation costs a real client one refresh and no sign-in', async () => {
      const { link } = await createConnector(system());
      const browser = openBrowser(system().origins);
      const client = await connectSdkV1(link, { browser, method: 'none' });
      try {
        const before = client.accessToken();
        await client.callTool('club_overview');
        await rotateKeys(system(), { atOnce: true });
        await until('the old token to be refused', async () => !(await isAccepted(link, before)));
        expect(await client.callTool('club_overview')).to.have.property('members');
        expect(client.accessToken()).to.not.equal(before);
        expect(client.signIns()).to.equal(1);
      } finally {
        await client.close();
      }
    });

    it('an immediate rotation also replaces a key that does not sign yet', async () => {
      const [waiting, signing] = await rotateKeys(system());
      const [key] = await rotateKeys(system(), { atOnce: true });
      expect([waiting?.id, signing?.id]).to.not.include(key?.id);
      await until('the old key to be removed', async () => {
        return String(await publishedIds(system())) === key?.id;
      });
      expect(await listKeys(system())).to.deep.equal([key]);
      const events = (await readAudit(system())).filter(
        ({ event }) => event === 'signing_key_rotated',
      );
      expect(events.slice(-2).map(({ outcome, reason }) => [outcome, reason])).to.deep.equal([
        ['done', undefined],
        ['done', 'at_once'],
      ]);
    });
  });
}

describe('Signing keys in several processes', () => {
  const system = useArrangement({ store: 'redis', roles: 'management' });
  const SERVERS = 'authorization-server,resource-server';

  it('other processes learn of a rotation, keys and tokens survive a restart, and an immediate rotation ends them', async () => {
    const first = await startBeside(system(), SERVERS);
    const { link, accessToken } = await newConnection(system());
    const [next, signing] = await rotateKeys(system());
    expect(signedBy(accessToken)).to.equal(signing?.id);
    await until('the new key to be published', async () => {
      return (await publishedIds(system())).includes(next?.id);
    });
    const before = await readJwks(system());
    await first.stop();

    const second = await startProcess(system(), SERVERS, system().auth);
    try {
      expect(await readJwks(system())).to.deep.equal(before);
      expect(await isAccepted(link, accessToken)).to.equal(true);
      const connection = await newConnection(system());
      expect(signedBy(connection.accessToken)).to.equal(signing?.id);

      const [key] = await rotateKeys(system(), { atOnce: true });
      await until(
        'the token of the first process to be refused',
        async () => !(await isAccepted(link, accessToken)),
      );
      await requireOnlyKey(system(), key?.id, connection);
    } finally {
      await second.stop();
    }
  });
});
