// A web server that publishes metadata documents over TLS, and a network that resolves its names.
import { once } from 'node:events';
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { expect } from 'chai';
import type { Network } from '../../../src/http/guarded-request.ts';
import { fetchDocument } from '../../../src/oauth/engine/guarded-fetch.ts';
import { makeCertificate } from './certificate.ts';

/** A loopback address that tests allow. Not the one that the startup check uses. */
export const ALLOWED_ADDRESS = '127.0.0.77';
export const DOMAIN = 'documents.example';

export type DocumentHost = {
  network: Network;
  /** The number of connections so far. */
  connections: () => number;
  /** The paths of all requests so far. */
  requests: string[];
  answer: RequestListener;
  stop: () => Promise<void>;
};

const certificate = makeCertificate(`*.${DOMAIN}`);

export async function startDocumentHost(address = ALLOWED_ADDRESS): Promise<DocumentHost> {
  let connections = 0;
  const server = createServer(certificate, (request, response) => {
    host.requests.push(request.url ?? '');
    host.answer(request, response);
  });
  server.on('connection', () => (connections += 1));
  await once(server.listen(0, address), 'listening');
  const host: DocumentHost = {
    network: {
      resolve: async () => [address],
      isAllowed: (candidate) => candidate === ALLOWED_ADDRESS,
      port: (server.address() as AddressInfo).port,
      ca: certificate.cert,
    },
    connections: () => connections,
    requests: [],
    answer: publish(),
    async stop() {
      server.closeAllConnections();
      if (server.listening) await once(server.close(), 'close');
    },
  };
  return host;
}

/** Responds to every path with a document of that URL. `changes` replaces members, `headers` adds headers. */
export function publish(
  changes: Record<string, unknown> = {},
  headers: Record<string, string> = {},
): RequestListener {
  return (request, response) => {
    const document = {
      client_id: `https://${request.headers.host?.split(':')[0]}${request.url}`,
      client_name: 'Published app',
      redirect_uris: ['http://127.0.0.1/callback'],
      token_endpoint_auth_method: 'none',
      ...changes,
    };
    response.writeHead(200, { 'content-type': 'application/json', ...headers });
    response.end(JSON.stringify(document));
  };
}

export function answerWith(
  status: number,
  headers: Record<string, string> = {},
  body = '{}',
): RequestListener {
  return (_request: IncomingMessage, response: ServerResponse) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(body);
  };
}

/** Closes the connection without a response. */
export const hangUp: RequestListener = (request) => {
  request.socket.destroy();
};

/** Returns the error of a failed fetch. */
export async function failureOf(url: string, network: Network): Promise<unknown> {
  return fetchDocument(url, network).then(
    ({ text }) => expect.fail(`fetched ${text.slice(0, 80)}`),
    (error: unknown) => error,
  );
}
