import { INTERNET, type Network } from '../http/guarded-request.ts';
import { allItems } from '../management/api/all-items.ts';
import { listsOfApi, type RecordLists } from '../management/coming-ends.ts';
import type { ManagementClient } from '../management/api/client.ts';
import type { AuditDelivery } from '../management/resources/audit-delivery.ts';
import type { AuditReach } from '../management/resources/audit-reach.ts';
import type { AuditVerification } from '../management/resources/audit-integrity.ts';
import type { Connector } from '../management/resources/connector.ts';
import type { Token } from '../management/resources/token.ts';
import type { Upstream } from '../management/resources/upstream.ts';
import type { MissingGroups } from '../people/arrived-groups.ts';
import type { Settings } from '../settings/settings.ts';
import { openHttpClient, type SendRequest, type TimedResponse } from './http-client.ts';

/** The deployment that is examined. */
export type Deployment = {
  authUrl: string;
  resourceUrl: string;
  /** Without settings, only the checks from outside run. */
  settings?: Settings;
  /** Resolves with an active connect link, if one is known. */
  findLink: () => Promise<string | undefined>;
  /** Resolves with undefined if the management API is unreachable. */
  listRecords: () => Promise<StoredRecords | undefined>;
  /** Accepts any certificate, so that the other checks run behind an invalid one. Never send a secret with it. */
  send: SendRequest;
  sendVerified: SendRequest;
  /** As `send`, and measures when the body arrives. */
  time: (url: string, headers: Record<string, string>) => Promise<TimedResponse>;
  /** As sign-ins do: through the proxy of the network. */
  sendToProvider: SendRequest;
  /** Fetches client metadata documents. */
  network: Network;
  signal: AbortSignal;
  /** Milliseconds since the epoch. */
  now: () => number;
  /** Milliseconds. A Redis that takes longer to answer is reported. */
  maxRedisLatency: number;
};

export const MAX_REDIS_LATENCY_MS = 50;

export type ConfiguredDeployment = Deployment & { settings: Settings };

export type DeploymentOptions = {
  authUrl: string;
  resourceUrl: string;
  settings?: Settings;
  link?: string;
  /** Throws SettingsError if the address or the key of the management API is not known. */
  openClient?: () => ManagementClient;
  /** Tests replace it. */
  network?: Network;
  signal: AbortSignal;
  now?: () => number;
  maxRedisLatency?: number;
  /** Milliseconds for one HTTP request. Tests replace it. */
  requestTimeout?: number;
};

export function openDeployment(options: DeploymentOptions): Deployment & { close: () => void } {
  const { link, openClient, settings, now = Date.now, ...rest } = options;
  const { network = settings ? { ...INTERNET, forwardProxy: settings.forwardProxy } : INTERNET } =
    options;
  const { maxRedisLatency = MAX_REDIS_LATENCY_MS } = options;
  const { signal, requestTimeout: timeout } = options;
  const client = openHttpClient({ signal, timeout });
  let found: Promise<string | undefined> | undefined;
  let records: Promise<StoredRecords | undefined> | undefined;
  return {
    ...rest,
    ...(settings ? { settings } : {}),
    network,
    now,
    maxRedisLatency,
    findLink: () => (found ??= findLink(link, openClient)),
    listRecords: () => (records ??= listRecords(openClient)),
    ...client,
  };
}

/** Returns undefined if the management API is unreachable. */
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

type StoredRecords = {
  connectors: Connector[];
  tokens: Token[];
  /** Of the running process, which may have been started with other settings (start --upstream). */
  upstreams: Upstream[];
  /** The receivers of the audit log, and how far they are. */
  deliveries: AuditDelivery[];
  /** How far back the audit log has calls. */
  reach: AuditReach | undefined;
  /** Identity providers that send no groups, though rules use them. */
  missingGroups: MissingGroups[];
  /** Whether the audit log is as it was written. */
  verification: AuditVerification | undefined;
  listed: RecordLists;
};

/** Connectors that could still be used and minted tokens. Undefined if the management API is unreachable. */
async function listRecords(
  openClient: (() => ManagementClient) | undefined,
): Promise<StoredRecords | undefined> {
  try {
    const client = openClient?.();
    if (!client) return undefined;
    const connectors = await Array.fromAsync(allItems((query) => client.listConnectors({ query })));
    const tokens = await Array.fromAsync(allItems((query) => client.listTokens({ query })));
    const isOpen = ({ state }: { state: string }) => state !== 'revoked' && state !== 'expired';
    // An earlier version has none of these.
    const { items: upstreams } = await client.listUpstreams({}).catch(() => ({ items: [] }));
    const { items: deliveries } = await client.listAuditDelivery({}).catch(() => ({ items: [] }));
    const reach = await client.showAuditReach({}).catch(() => undefined);
    const { items: missingGroups } = await client
      .listMissingGroups({})
      .catch(() => ({ items: [] }));
    const verification = await client.showAuditVerification({}).catch(() => undefined);
    return {
      connectors: connectors.filter(isOpen),
      tokens,
      upstreams,
      deliveries,
      reach,
      missingGroups,
      verification,
      listed: listsOfApi(client),
    };
  } catch {
    return undefined;
  }
}
