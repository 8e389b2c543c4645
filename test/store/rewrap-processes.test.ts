import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { assert } from 'chai';
import { type Running, startGatehouse } from '../../src/server.ts';
import { createLogger } from '../../src/observability/logger.ts';
import { loadSettings } from '../../src/settings/load.ts';
import {
  createConnector,
  readAudit,
  requestManagement,
  showConnector,
} from '../support/management-api.ts';
import { connect } from '../support/connection.ts';
import { freePorts } from '../support/free-ports.ts';
import { isAccepted } from '../support/mcp.ts';
import { refresh } from '../support/oauth.ts';
import type { System } from '../support/system.ts';
import { NEW, OLD } from './rewrap-contract.ts';

const NEWEST = 'the newest root secret, which is long enough';

const MANAGEMENT_KEY = 'management-key-of-the-tests-0123456789';

describe('Replacing the root secret of a running system', () => {
  let dataDir: string;
  let environment: Record<string, string>;
  let running: Running | undefined;
  let log: string[];

  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'rewrap-processes-'));
    const [auth, resource, management, idp] = await freePorts(4);
    environment = {
      GATEHOUSE_AUTH_URL: `http://localhost:${auth}`,
      GATEHOUSE_RESOURCE_URL: `http://localhost:${resource}`,
      GATEHOUSE_MANAGEMENT_URL: `http://127.0.0.1:${management}`,
      GATEHOUSE_DEVELOPMENT_IDP_URL: `http://localhost:${idp}`,
      GATEHOUSE_DATA_DIR: dataDir,
      GATEHOUSE_MANAGEMENT_KEY: MANAGEMENT_KEY,
    };
  });
  afterEach(async () => {
    await running?.stop();
    running = undefined;
    await rm(dataDir, { recursive: true });
  });

  /** Restarts at the same addresses with the same data. */
  async function restart(secret: string, previousSecret?: string): Promise<System> {
    await running?.stop();
    running = undefined;
    log = [];
    const previous = previousSecret ? { GATEHOUSE_PREVIOUS_SECRET: previousSecret } : {};
    const settings = loadSettings({ ...environment, GATEHOUSE_SECRET: secret, ...previous });
    const logger = createLogger('info', { write: (line) => void log.push(line) });
    const started = await startGatehouse(settings, { logger });
    running = started;
    const { auth = '', resource = '', management = '', developmentIdp = '' } = started.urls;
    return {
      auth,
      resource,
      management,
      dataDir,
      managementKey: MANAGEMENT_KEY,
      origins: [auth, resource, developmentIdp],
      storeAddress: `sqlite:${join(dataDir, 'gatehouse.sqlite')}`,
      signalStore: () => assert.fail('SQLite cannot be stalled'),
      stop: started.stop,
    };
  }

  const publishedKeys = async ({ auth }: System) =>
    (await fetch(`${auth}/oauth/jwks`)).json() as Promise<unknown>;

  it('connectors, signing keys, registrations, connections and the audit log outlive two replacements of the root secret', async () => {
    const before = await restart(OLD);
    const keys = await publishedKeys(before);
    const connector = await createConnector(before, { name: 'Created before the replacements' });
    const { link, client, server, accessToken, refreshToken } = await connect(before, connector);
    const items = await readAudit(before);

    for (const [secret, previousSecret] of [
      [NEW, OLD],
      [NEWEST, NEW],
    ] as const) {
      const replaced = await restart(secret, previousSecret);
      const progress = await requestManagement(replaced, 'POST', '/keys/rewrap', {});
      assert.include(progress, { remaining: 0, failed: 0 });
    }
    const after = await restart(NEWEST);
    assert.equal(
      (await showConnector(after, connector.id)).name,
      'Created before the replacements',
    );
    assert.deepEqual(await publishedKeys(after), keys);
    assert.isTrue(await isAccepted(link, accessToken));
    assert.equal((await refresh(server, client, refreshToken)).status, 200);
    assert.includeDeepMembers(await readAudit(after), items);
    assert.isString((await connect(after, connector, { as: { client } })).accessToken);
  });
});
