// What is examined: the public addresses and, when the settings are at hand, what only they tell.
import type { Network } from '../authorization-server/engine/guarded-fetch.ts';
import type { Settings } from '../settings/settings.ts';
import type { Ask } from './ask.ts';
import type { Finding } from './finding.ts';

export type Deployment = {
  authUrl: string;
  resourceUrl: string;
  /** Absent: only what can be seen from outside is looked at. */
  settings?: Settings;
  /** A connect link to try, when one is known. */
  findLink: () => Promise<string | undefined>;
  /** Looks behind bad certificates. */
  ask: Ask;
  /** Trusts as the rest of the program does. */
  askTrusted: Ask;
  /** How client metadata documents would be fetched from here. */
  network: Network;
  signal: AbortSignal;
  /** Milliseconds since the epoch. */
  now: () => number;
};

export type Check = {
  name: string;
  /** For progress: what it looks at. */
  title: string;
  /** The public addresses that it cannot do without. */
  needs?: readonly ('auth' | 'resource')[];
  /** Only with settings. */
  inside?: boolean;
  run: (deployment: Deployment) => Promise<Finding[]>;
};

/** For checks that run only with settings. */
export function settingsOf({ settings }: Deployment): Settings {
  if (!settings) throw new TypeError('the settings are not at hand');
  return settings;
}
