// The systems that clients connect to, with production limits, behind one proxy.
import { startGatehouse } from '../../src/server.ts';
import { limitsSchema, type Rate, resolveLimits } from '../../src/settings/limits.ts';
import { loadSettings } from '../../src/settings/load.ts';
import { createDeployment, type StoreKind, type System } from '../support/system.ts';
import { type DocumentHosts, openDocumentHosts } from './document-hosts.ts';
import { FIXED_SECRET, publishedKeys } from './client-keys.ts';
import {
  documentOf,
  isKeyed,
  type RecordedClient,
  RECORDED_CLIENTS,
  registrationOf,
} from './recorded-clients.ts';

/** The default limits of production. */
const LIMITS = Object.fromEntries(
  Object.entries(resolveLimits(limitsSchema.parse({}), true)).map(([name, limit]) => [
    name,
    'perAddress' in limit
      ? { perAddress: written(limit.perAddress), inAll: written(limit.inAll) }
      : limit,
  ]),
);

function written({ count, seconds }: Rate): string {
  return `${count}/${seconds}s`;
}

/** The metadata document of programs that publish none. */
export const OWN_DOCUMENT = 'https://app.example.com/oauth/client.json';
const OWN_METADATA = {
  client_id: OWN_DOCUMENT,
  client_name: 'Own document',
  redirect_uris: ['http://127.0.0.1/callback', 'http://localhost/oauth/callback'],
  grant_types: ['authorization_code', 'refresh_token'],
  response_types: ['code'],
  token_endpoint_auth_method: 'none',
};

export type TestSystems = {
  /** With default settings. */
  system: System;
  /** With the settings that some clients need. */
  configured: System;
};

/** One for all tests of the surrounding `describe`; call the returned function while a test runs. */
export function useTestSystems(store: StoreKind): () => TestSystems {
  let systems: TestSystems | undefined;
  let hosts: DocumentHosts | undefined;
  before(async () => {
    hosts = await openDocumentHosts(await publishedDocuments());
    systems = {
      system: await open(store, hosts, {}),
      configured: await open(store, hosts, {
        apps: [
          'claude',
          ...RECORDED_CLIENTS.flatMap((client) => registrationOf(client)?.app ?? []),
        ],
        allowedRedirects: RECORDED_CLIENTS.flatMap(neededAddresses),
        preRegistered: RECORDED_CLIENTS.flatMap(fixedClients),
        metadataDocuments: RECORDED_CLIENTS.flatMap(neededDocuments),
      }),
    };
  });
  after(async () => {
    await systems?.system.stop();
    await systems?.configured.stop();
    await hosts?.stop();
  });
  return () => {
    if (!systems) throw new Error('the systems run only during tests');
    return systems;
  };
}

function neededAddresses(client: RecordedClient): string[] {
  return registrationOf(client)?.allowedRedirects ?? [];
}

function neededDocuments(client: RecordedClient): object[] {
  const { url, pinned } = documentOf(client) ?? {};
  return pinned ? [{ url, document: pinned }] : [];
}

async function publishedDocuments(): Promise<Map<string, object>> {
  const documents = RECORDED_CLIENTS.map(documentOf).filter((document) => document !== undefined);
  return new Map([
    [OWN_DOCUMENT, OWN_METADATA],
    ...documents.map(({ url, published }) => [url, published] as const),
    ...(await keySets()),
  ]);
}

/** The key sets of clients that offer only a key, by address. */
async function keySets(): Promise<[string, object][]> {
  const keyed = RECORDED_CLIENTS.filter(isKeyed).map(documentOf);
  const keys = await publishedKeys();
  return keyed.map((document) => [String(document?.published.jwks_uri), keys]);
}

function fixedClients({ name, preRegistered }: RecordedClient): object[] {
  if (!preRegistered) return [];
  const { id, redirectUri, secret } = preRegistered;
  return [{ id, name, redirectUris: [redirectUri], ...(secret ? { secret: FIXED_SECRET } : {}) }];
}

async function open(
  store: StoreKind,
  { network }: DocumentHosts,
  clients: object,
): Promise<System> {
  const file = { limits: LIMITS, proxies: 1, clients };
  const place = await createDeployment({ store, file });
  const settings = loadSettings(place.environment);
  const running = await startGatehouse(settings, { documentFetching: { network } });
  return {
    ...place.facts,
    signalStore: place.signalStore,
    async stop() {
      await running.stop();
      await place.release();
    },
  };
}
