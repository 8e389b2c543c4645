import { expect } from 'chai';
import { createConnector, requestManagement, showConnector } from '../support/management-api.ts';
import { connect, type Connection } from '../support/connection.ts';
import { call, callTool } from '../support/mcp.ts';
import { refresh } from '../support/oauth.ts';
import { restartSystem } from '../support/restart.ts';
import {
  createDeployment,
  startDeployment,
  type Deployment,
  type System,
} from '../support/system.ts';
import { startFastUpstream } from '../support/upstream/fast-upstream.ts';
import type { Upstream } from '../support/upstream/upstream-server.ts';
import { addressOf, mint } from '../links/minted-tokens/minting.ts';

const TOOLS = ['read', 'write', 'full'].map((level) => ({ name: level, level }));

/** What the settings change, and what each stored level opens then: the levels of the tools that it may call. */
const CHANGES: { what: string; levels: string[]; opens: Record<string, string[] | 'nothing'> }[] = [
  {
    what: 'a level is renamed',
    levels: ['read', 'edit', 'full'],
    opens: { read: ['read'], write: 'nothing', full: ['read', 'edit', 'full'] },
  },
  {
    what: 'the lowest level is removed',
    levels: ['write', 'full'],
    opens: { read: 'nothing', write: ['write'], full: ['write', 'full'] },
  },
  {
    what: 'the highest level is removed',
    levels: ['read', 'write'],
    opens: { read: ['read'], write: ['read', 'write'], full: 'nothing' },
  },
  {
    what: 'a level is inserted',
    levels: ['read', 'comment', 'write', 'full'],
    opens: {
      read: ['read'],
      write: ['read', 'comment', 'write'],
      full: ['read', 'comment', 'write', 'full'],
    },
  },
  {
    what: 'two levels change places',
    levels: ['write', 'read', 'full'],
    opens: { read: ['write', 'read'], write: ['write'], full: ['write', 'read', 'full'] },
  },
];

function settings(levels: string[], upstream: Upstream) {
  const tools = [...new Set([...TOOLS.map(({ name }) => name), ...levels])];
  return {
    levels: levels.map((id) => ({ id })),
    entitlements: [{ match: { subject: 'ada' }, level: levels.at(-1) }],
    resourceServer: {
      upstream: {
        url: upstream.url,
        tools: tools.filter((name) => levels.includes(name)).map((name) => ({ name, level: name })),
      },
    },
  };
}

describe('Changed levels', () => {
  let upstream: Upstream;
  let place: Deployment;
  let system: System | undefined;
  const stored = new Map<string, { connection: Connection; minted: string; connector: string }>();

  const running = (): System => {
    if (!system) throw new Error('nothing runs');
    return system;
  };

  before(async () => {
    upstream = await startFastUpstream();
    place = await createDeployment({ file: settings(['read', 'write', 'full'], upstream) });
    system = await startDeployment(place);
    upstream.trustIssuer(system.auth);
    for (const level of ['read', 'write', 'full']) {
      const { id, link } = await createConnector(system, { name: level, level });
      const connection = await connect(system, { link }, { level });
      const { token } = await mint(system, { level });
      stored.set(level, { connection, minted: token, connector: id });
    }
  });
  after(async () => {
    await system?.stop();
    await place.release();
    await upstream.close();
  });

  async function restart(levels: string[]): Promise<void> {
    await system?.stop();
    system = undefined;
    system = await restartSystem(place, settings(levels, upstream));
  }

  /** The tools that a call with the token may run. */
  async function opened(
    url: string,
    token: string,
    levels: string[],
  ): Promise<string[] | 'nothing'> {
    const tried = await Promise.all(levels.map((name) => callTool(url, token, name)));
    if (tried.every(({ status }) => status === 401 || status === 410)) return 'nothing';
    return levels.filter((_, n) => {
      const { status, rpc } = tried[n] ?? {};
      return status === 200 && rpc?.result !== undefined && rpc.result.isError !== true;
    });
  }

  for (const { what, levels, opens } of CHANGES)
    it(`if ${what}, a connection and a minted token open what their level opens now, or nothing`, async () => {
      await restart(levels);
      for (const [level, expected] of Object.entries(opens)) {
        const { connection, minted } = stored.get(level) ?? {};
        if (!connection || minted === undefined) throw new Error(`${level} is not stored`);
        const { link, accessToken } = connection;
        expect(await opened(link, accessToken, levels), `${level}, connection`).to.deep.equal(
          expected,
        );
        expect(
          await opened(addressOf(running()), minted, levels),
          `${level}, minted`,
        ).to.deep.equal(expected);
      }
    });

  it('a connection of a removed level is refused with the way out, and works again when the level is back', async () => {
    const { connection, connector } = stored.get('write') ?? {};
    if (!connection || connector === undefined) throw new Error('it is not stored');
    await restart(['read', 'full']);
    const { server, client, link, refreshToken = '' } = connection;
    const ping = await call(link, connection.accessToken, {
      jsonrpc: '2.0',
      id: 1,
      method: 'ping',
    });
    expect(ping.status).to.equal(410);
    expect(ping.text).to.match(
      /the level or the MCP server of this connect link .*; ask for a fresh one/,
    );
    expect((await showConnector(running(), connector)).state).to.equal('unconfigured');
    const refused = await refresh(server, client, refreshToken);
    expect([refused.status, refused.body.error]).to.deep.equal([400, 'invalid_grant']);
    const grants = await requestManagement(running(), 'GET', `/grants?connector=${connector}`);
    expect(JSON.stringify(grants)).to.contain('"reason":"connector_unconfigured"');
    await restart(['read', 'write', 'full']);
    const again = await refresh(server, client, refreshToken);
    expect([again.status, again.body.scope]).to.deep.equal([200, 'write offline_access']);
  });

  it('a connection of a removed level through a link that still exists gives no access', async () => {
    await restart(['read', 'write', 'full']);
    const { link, id } = await createConnector(running(), { name: 'Wide', level: 'full' });
    const {
      accessToken,
      server,
      client,
      refreshToken = '',
    } = await connect(
      running(),
      { link },
      {
        level: 'write',
      },
    );
    await restart(['read', 'full']);
    expect((await callTool(link, accessToken, 'read')).status).to.equal(401);
    const refused = await refresh(server, client, refreshToken);
    expect([refused.status, refused.body.error]).to.deep.equal([400, 'invalid_grant']);
    const grants = await requestManagement(running(), 'GET', `/grants?connector=${id}`);
    expect(JSON.stringify(grants)).to.contain('"reason":"level_removed"');
  });
});
