// What the comparison must know about each implementation: how it starts, its addresses, and how a person approves on its pages.
import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import type { Browser, Step } from '../../support/browser.ts';
import { type ServerProcess, startProcess, untilAnswered } from '../server-process.ts';
import type { Place } from '../subjects.ts';

export type Implementation = {
  /** What `--only` takes. */
  id: string;
  /** With its store. */
  name: string;
  isGatehouse?: boolean;
  /** Needs what is in `installed/`. */
  isInstalled?: boolean;
  start(place: Place): Promise<Running>;
};

export type Running = {
  server: ServerProcess;
  /** The process of its store, if it has one. */
  store?: { pid: number };
  /** Seconds from spawn to its metadata. */
  startedIn: number;
  metadataUrl: string;
  /** Where its pages are. */
  origins: string[];
  /** What clients ask for to get a refresh token. */
  scope: string;
  /** Two resources that tokens can be asked for. */
  links: [string, string];
  /** Answers as the links do, to anybody; absent where nothing answers at the links. */
  open?: string;
  /** From the authorization URL to where the person ends when they agree to everything they are asked. */
  agree(browser: Browser, url: URL): Promise<Arrival>;
  stop(): Promise<void>;
};

/** `asked`: there was a question whether to let the client in. */
export type Arrival = { step: Step; asked: boolean };

type PeerProcess = {
  script: string;
  port: number;
  args?: string[];
  metadataPath: string;
  directory: string;
};

/** A server in `installed/`, with no flags of ours. */
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
