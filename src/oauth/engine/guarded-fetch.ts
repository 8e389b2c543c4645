// Fetches metadata documents and keys of clients from public addresses only (SSRF protection), with limits of size and time.
import type { IncomingMessage } from 'node:http';
import { readBytes } from '../../http/body.ts';
import {
  AddressNotPublic,
  HostUnreachable,
  type Network,
  sendGuarded,
} from '../../http/guarded-request.ts';
import { tracedRequest } from '../../observability/tracing.ts';

export type FetchedDocument = { text: string; cacheControl: string | undefined };

/** A temporary failure: network, DNS, TLS, timeout, 429 or 5xx. */
export class DocumentUnreachable extends Error {
  constructor(reason: string, options?: ErrorOptions) {
    super(reason, options);
    this.name = 'DocumentUnreachable';
  }
}

/** The response is not an acceptable document. */
export class DocumentRefused extends Error {
  constructor(reason: string) {
    super(reason);
    this.name = 'DocumentRefused';
  }
}

/** The name resolves to an address that is not public. Nothing was sent. */
export class AddressRefused extends DocumentRefused {}

/** From name resolution to the last byte. */
export const TIMEOUT_SECONDS = 2.5;
const JSON_TYPE = /^application\/([\w.+-]+\+)?json\s*(;|$)/i;

/** What is fetched, as errors and traces name it. */
export type DocumentKind = {
  name: string;
  peer: 'metadata-document' | 'client-keys';
  maxKb: number;
};

const METADATA_DOCUMENT: DocumentKind = {
  name: 'metadata document',
  peer: 'metadata-document',
  maxKb: 5,
};
/** A set of RSA keys with certificates is larger than a metadata document. */
export const KEY_SET: DocumentKind = { name: 'key set', peer: 'client-keys', maxKb: 32 };

/** Throws DocumentUnreachable, DocumentRefused or AddressRefused. `url` is https, with a host name. */
export function fetchDocument(
  url: string,
  network: Network,
  kind = METADATA_DOCUMENT,
): Promise<FetchedDocument> {
  const outgoing = { peer: kind.peer, method: 'GET' } as const;
  return tracedRequest(outgoing, () => fetchInTime(url, network, kind));
}

async function fetchInTime(
  url: string,
  network: Network,
  kind: DocumentKind,
): Promise<FetchedDocument> {
  const signal = AbortSignal.timeout(TIMEOUT_SECONDS * 1000);
  try {
    // Metadata documents and key sets have no port of their own.
    const from = { port: 443, ...network };
    const headers = { accept: 'application/json' };
    return await readDocument(
      await sendGuarded(url, from, { method: 'GET', headers, signal }),
      kind,
    );
  } catch (error) {
    if (error instanceof DocumentRefused || error instanceof DocumentUnreachable) throw error;
    if (error instanceof AddressNotPublic) throw new AddressRefused(error.message);
    if (error instanceof HostUnreachable) throw new DocumentUnreachable(error.message);
    throw new DocumentUnreachable('the document cannot be reached', { cause: error });
  }
}

/** Startup check: throws unless the network refuses a name that resolves to this computer. */
export async function requireAddressGuard(network: Network): Promise<void> {
  const toThisComputer = { ...network, resolve: async () => ['127.0.0.1'] };
  const outcome = await fetchDocument('https://guard.invalid/self-test', toThisComputer).catch(
    (error: unknown) => error,
  );
  if (outcome instanceof AddressRefused) return;
  throw new Error('client metadata documents could be fetched from this computer itself', {
    cause: outcome,
  });
}

async function readDocument(
  response: IncomingMessage,
  { name, maxKb }: DocumentKind,
): Promise<FetchedDocument> {
  try {
    requireJson(response, name);
    const tooLarge = () => new DocumentRefused(`the ${name} is larger than ${maxKb} kB`);
    const bytes = await readBytes(response, maxKb * 1024, tooLarge);
    return { text: bytes.toString('utf8'), cacheControl: response.headers['cache-control'] };
  } finally {
    response.destroy();
  }
}

function requireJson({ statusCode = 0, headers }: IncomingMessage, name: string): void {
  if (statusCode === 429 || statusCode >= 500)
    throw new DocumentUnreachable(`the host of the ${name} returned status ${statusCode}`);
  if (statusCode !== 200)
    throw new DocumentRefused(`the host of the ${name} returned status ${statusCode}`);
  if (!JSON_TYPE.test(headers['content-type'] ?? ''))
    throw new DocumentRefused(`the ${name} is not JSON`);
}
