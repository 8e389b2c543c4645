// Serves the metadata documents of recorded clients over TLS.
import { once } from 'node:events';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { createSecureContext } from 'node:tls';
import type { Network } from '../../src/http/guarded-request.ts';
import { makeCertificate } from '../oauth/metadata-documents/certificate.ts';

/** A loopback address other than the one on which the guard against private addresses is tested. */
const ADDRESS = '127.0.0.77';

export type DocumentHosts = { network: Network; stop(): Promise<void> };

/** `documents` by URL; any other path is 404. */
export async function openDocumentHosts(
  documents: ReadonlyMap<string, object>,
): Promise<DocumentHosts> {
  const names = [...new Set([...documents.keys()].map((url) => new URL(url).hostname))];
  const certificates = new Map(names.map((name) => [name, makeCertificate(name)]));
  const server = createServer(
    {
      SNICallback: (name, done) => done(null, createSecureContext(certificates.get(name))),
    },
    (request, response) => {
      // The port is that of this server; the document's URL has none.
      const [host] = (request.headers.host ?? '').split(':');
      const document = documents.get(`https://${host}${request.url}`);
      response.writeHead(document ? 200 : 404, { 'content-type': 'application/json' });
      response.end(JSON.stringify(document ?? {}));
    },
  );
  await once(server.listen(0, ADDRESS), 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    network: {
      resolve: async () => [ADDRESS],
      isAllowed: (address) => address === ADDRESS,
      port,
      ca: [...certificates.values()].map(({ cert }) => cert).join(''),
    },
    async stop() {
      server.closeAllConnections();
      if (server.listening) await once(server.close(), 'close');
    },
  };
}
