// A deployment to examine, from the settings or from two addresses, with everything that has to be closed afterwards.
import { INTERNET, type Network } from '../authorization-server/engine/document-fetch.ts';
import { type Access, listConnectors } from '../management/api/client.ts';
import type { Settings } from '../settings/settings.ts';
import { openAsk } from './ask.ts';
import type { Deployment } from './deployment.ts';

export type DeploymentOptions = {
  authUrl: string;
  resourceUrl: string;
  settings?: Settings;
  link?: string;
  /** Throws when it is not known. */
  findAccess?: () => Access;
  /** Only tests have another. */
  network?: Network;
  signal: AbortSignal;
  now?: () => number;
};

export function openDeployment(options: DeploymentOptions): Deployment & { close: () => void } {
  const { link, findAccess, network = INTERNET, now = Date.now, ...rest } = options;
  const lax = openAsk({ trusting: true, signal: options.signal });
  const strict = openAsk({ trusting: false, signal: options.signal });
  let found: Promise<string | undefined> | undefined;
  return {
    ...rest,
    network,
    now,
    findLink: () => (found ??= findLink(link, findAccess)),
    ask: lax.ask,
    askTrusted: strict.ask,
    close() {
      void lax.close();
      void strict.close();
    },
  };
}

/** Any link that works will do; where the management API cannot be asked there is none. */
async function findLink(
  given: string | undefined,
  findAccess: (() => Access) | undefined,
): Promise<string | undefined> {
  if (given !== undefined || !findAccess) return given;
  try {
    for await (const { state, link } of listConnectors(findAccess()))
      if (state === 'active') return link;
  } catch {
    return undefined;
  }
  return undefined;
}
