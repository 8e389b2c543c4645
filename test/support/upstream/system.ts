// A complete system in front of an upstream MCP server.
import type { Level } from '../../../src/permission-levels.ts';
import { type Connector, createConnector } from '../management-api.ts';
import { restoreClock } from '../clock.ts';
import { connect, type Connection } from '../connection.ts';
import { startSystem, type System, type SystemOptions } from '../system.ts';
import type { Upstream } from './upstream-server.ts';
import { DECLARED } from './upstream-tools.ts';

export type ConnectedPerson = {
  connector: Connector;
  connection: Connection;
  link: string;
  token: string;
};

export type UpstreamSystem<Server extends Upstream = Upstream> = {
  system: System;
  upstream: Server;
  /** A person connected at `level` through a connector of the level `ceiling`; always the same one. */
  connected(level: Level, ceiling?: Level): Promise<ConnectedPerson>;
};

export type UpstreamSystemOptions = {
  /** Additional settings of the upstream. */
  settings?: Record<string, unknown>;
  /** Additional settings of the resource server. */
  resourceServer?: Record<string, unknown>;
  /** Other settings of the file. */
  file?: Record<string, unknown>;
  system?: Omit<SystemOptions, 'file'>;
};

/** One system and upstream for all tests of the surrounding `describe`. */
export function useUpstream<Server extends Upstream>(
  open: () => Promise<Server>,
  options: UpstreamSystemOptions = {},
): () => UpstreamSystem<Server> {
  let behind: UpstreamSystem<Server> | undefined;
  before(async () => {
    const upstream = await open();
    const settings = { url: upstream.url, tools: DECLARED, ...options.settings };
    const resourceServer = { ...options.resourceServer, upstream: settings };
    const file = { ...options.file, resourceServer };
    const system = await startSystem({ ...options.system, file });
    upstream.trustIssuer(system.auth);
    behind = { system, upstream, connected: connectOncePerLevel(system) };
  });
  afterEach(restoreClock);
  after(async () => {
    await behind?.system.stop();
    await behind?.upstream.close();
  });
  return () => {
    if (!behind) throw new Error('the system runs only during tests');
    return behind;
  };
}

function connectOncePerLevel(system: System): UpstreamSystem['connected'] {
  const people = new Map<string, Promise<ConnectedPerson>>();
  return (level, ceiling = level) => {
    const name = `${level} ${ceiling}`;
    const person = people.get(name) ?? connectPerson(system, level, ceiling);
    people.set(name, person);
    return person;
  };
}

/** Connects a new person. */
export async function connectPerson(
  system: System,
  level: Level,
  ceiling: Level = level,
): Promise<ConnectedPerson> {
  const connector = await createConnector(system, { level: ceiling });
  const connection = await connect(system, connector, { level });
  return { connector, connection, link: connector.link, token: connection.accessToken };
}
