// Starts Gatehouse with a network that has one host, which publishes metadata documents.
import type { DocumentFetching } from '../../../src/oauth/engine/client-metadata-documents.ts';
import { startGatehouse } from '../../../src/server.ts';
import { loadSettings } from '../../../src/settings/load.ts';
import type { Store } from '../../../src/store/store.ts';
import { createConnector, type Connector } from '../../support/management-api.ts';
import { isSignInPage, openBrowser, requirePage, type Step } from '../../support/browser.ts';
import { restoreClock } from '../../support/clock.ts';
import { authorizeUrl, type Client, discover, type Server } from '../../support/oauth.ts';
import { createDeployment, type StoreKind, type System } from '../../support/system.ts';
import { DOMAIN, type DocumentHost, publish, startDocumentHost } from './document-host.ts';

export type Publishing = {
  system: System;
  store: Store;
  host: DocumentHost;
  connector: Connector;
  /** The authorization server of the connector. */
  server: Server;
  /** Returns a client whose document has a new URL. */
  newClient: () => Client;
  /** Opens an authorization request of the client in a new browser. */
  visit: (client: Client) => Promise<Step>;
};

/** In seconds. Longer than a document without max-age is fresh. */
export const KEPT = 400;

/** Whether the document was accepted, so that the sign-in page is shown. */
export function isAsked(step: Step): boolean {
  return isSignInPage(requirePage(step));
}

let clients = 0;

/**
 * Starts once for the surrounding `describe`. The host publishes valid documents at the start of each test. `file` is the settings file,
 * `settings` are environment variables.
 */
export function usePublishing(
  store: StoreKind,
  fetching: (host: DocumentHost) => DocumentFetching = ({ network }) => ({
    network,
    limits: { minFailureSeconds: 0, maxPerMinutePerHost: Infinity },
  }),
  file: Record<string, unknown> = {},
  settings: Record<string, string> = {},
): () => Publishing {
  let publishing: Publishing | undefined;
  before(async () => {
    publishing = await open(store, fetching, file, settings);
  });
  beforeEach(() => {
    if (publishing) publishing.host.answer = publish();
  });
  afterEach(restoreClock);
  after(async () => {
    await publishing?.system.stop();
    await publishing?.host.stop();
  });
  return () => {
    if (!publishing) throw new Error('call this only within a test');
    return publishing;
  };
}

async function open(
  kind: StoreKind,
  fetching: (host: DocumentHost) => DocumentFetching,
  file: Record<string, unknown>,
  settings: Record<string, string>,
): Promise<Publishing> {
  const place = await createDeployment({ store: kind, file });
  const host = await startDocumentHost();
  const running = await startGatehouse(loadSettings({ ...place.environment, ...settings }), {
    documentFetching: fetching(host),
  });
  const system: System = {
    ...place.facts,
    signalStore: place.signalStore,
    async stop() {
      await running.stop();
      await place.release();
    },
  };
  const connector = await createConnector(system);
  const { server } = await discover(connector.link);
  return {
    system,
    store: running.store,
    host,
    connector,
    server,
    newClient: () => ({
      id: `https://app.${DOMAIN}/${(clients += 1)}.json`,
      method: 'none',
      redirectUri: 'http://127.0.0.1:7071/callback',
    }),
    visit: (client) =>
      openBrowser(system.origins).visit(
        authorizeUrl(server, client, { resource: connector.link }).url,
      ),
  };
}
