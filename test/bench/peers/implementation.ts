// The interface of a compared implementation: start, addresses, and approval on its pages.
import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import type { Browser, Step } from '../../support/browser.ts';
import { type ServerProcess, startProcess, untilAnswered } from '../server-process.ts';
import type { Place } from '../subjects.ts';

export type Implementation = {
  /** The value for `--only`. */
  id: string;
  /** The displayed name, with the store. */
  name: string;
  isGatehouse?: boolean;
  /** Whether it needs the packages in `installed/`. */
  isInstalled?: boolean;
  start(place: Place): Promise<Running>;
};

export type Running = {
  server: ServerProcess;
  /** The process of its store, if there is one. */
  store?: { pid: number };
  /** Seconds from spawn to the first metadata response. */
  startedIn: number;
  metadataUrl: string;
  /** The origins of its pages. */
  origins: string[];
  /** The scope that requests a refresh token. */
  scope: string;
  /** Two resources for which tokens can be requested. */
  links: [string, string];
  /** The same MCP server without authorization, if there is a resource server. */
  open?: string;
  /** Approves everything from the authorization URL; resolves to the final URL. */
  agree(browser: Browser, url: URL): Promise<Arrival>;
  stop(): Promise<void>;
};

/** `asked`: whether a consent page was shown. */
export type Arrival = { step: Step; asked: boolean };

type PeerProcess = {
  script: string;
  port: number;
  args?: string[];
  metadataPath: string;
  directory: string;
};

/** Starts a server in `installed/`, without our Node flags. */
export async function startPeer({ script, port, args = [], metadataPath, directory }: PeerProcess) {
  const origin = `http://localhost:${port}`;
  const metadataUrl = origin + metadataPath;
  const spawned = performance.now();
  const server = startProcess(`test/bench/peers/installed/${script}`, {
    args: [String(port), ...args],
    environment: { NODE_ENV: 'production' },
    flags: [],
    directory,
  });
  await untilAnswered(server, metadataUrl);
  return { server, origin, metadataUrl, startedIn: (performance.now() - spawned) / 1000 };
}

export function newFolder({ root }: Place, name: string): Promise<string> {
  return mkdtemp(join(root, `${name}-`));
}
