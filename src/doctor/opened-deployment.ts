// A deployment to examine, from the settings or from two addresses, with everything that has to be closed afterwards.
import { INTERNET, type Network } from '../authorization-server/engine/guarded-fetch.ts';
import { allItems, type ManagementClient } from '../management/api/client.ts';
import type { Settings } from '../settings/settings.ts';
import { openAsk } from './ask.ts';
import type { Deployment } from './deployment.ts';

export type DeploymentOptions = {
  authUrl: string;
  resourceUrl: string;
  settings?: Settings;
  link?: string;
  /** Throws when it is not known. */
  openClient?: () => ManagementClient;
  /** Only tests have another. */
  network?: Network;
  signal: AbortSignal;
  now?: () => number;
};

export function openDeployment(options: DeploymentOptions): Deployment & { close: () => void } {
  const { link, openClient, network = INTERNET, now = Date.now, ...rest } = options;
  const lax = openAsk({ trusting: true, signal: options.signal });
  const strict = openAsk({ trusting: false, signal: options.signal });
  let found: Promise<string | undefined> | undefined;
  return {
    ...rest,
    network,
    now,
    findLink: () => (found ??= findLink(link, openClient)),
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
  openClient: (() => ManagementClient) | undefined,
): Promise<string | undefined> {
  if (given !== undefined || !openClient) return given;
  try {
    const client = openClient();
    for await (const { state, link } of allItems((query) => client.listConnectors({ query })))
      if (state === 'active') return link;
  } catch {
    return undefined;
  }
  return undefined;
}
