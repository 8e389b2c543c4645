// Fetches metadata documents and keys of clients from public addresses only (SSRF protection), with limits of size and time.
import { Resolver } from 'node:dns/promises';
import { type IncomingMessage, request as httpRequest } from 'node:http';
import { get, request as httpsRequest } from 'node:https';
import { isIP, type LookupFunction, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import ipaddr from 'ipaddr.js';
import { readBytes } from '../../http/body.ts';
import { tracedRequest } from '../../observability/tracing.ts';
import { type ForwardProxy, proxyFor } from '../../settings/forward-proxy.ts';

/** How to reach a document. Only tests replace `INTERNET`. */
export type Network = {
  /** Resolves to every address of a name. Settles soon after `signal` aborts. */
  resolve: (host: string, signal: AbortSignal) => Promise<readonly string[]>;
  isAllowed: (address: string) => boolean;
  port: number;
  /** Replaces the trusted certificates (PEM). */
  ca?: string;
  /** The proxy of the network, through which documents are fetched. */
  forwardProxy?: ForwardProxy;
};

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
const MAX_HEADER_BYTES = 8 * 1024;
const JSON_TYPE = /^application\/([\w.+-]+\+)?json\s*(;|$)/i;

export const INTERNET: Network = { resolve: resolveName, isAllowed: isPublicAddress, port: 443 };

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
    const addresses = await allowedAddresses(new URL(url).hostname, network, signal);
    const proxy = network.forwardProxy && proxyFor(url, network.forwardProxy);
    const tunnel =
      proxy === undefined ? undefined : await openTunnel(proxy, addresses, network, signal);
    return await readDocument(await open(url, addresses, network, signal, tunnel), kind);
  } catch (error) {
    if (error instanceof DocumentRefused || error instanceof DocumentUnreachable) throw error;
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

async function allowedAddresses(
  host: string,
  { resolve, isAllowed }: Network,
  signal: AbortSignal,
): Promise<readonly string[]> {
  // Node connects to a literal address without calling `lookup`.
  if (isIP(host.replace(/^\[|\]$/g, '')) !== 0)
    throw new AddressRefused('the host is an address and not a name');
  const addresses = await resolve(host, signal);
  signal.throwIfAborted();
  if (addresses.length === 0) throw new DocumentUnreachable('the name has no address');
  if (!addresses.every(isAllowed)) throw new AddressRefused('the name has a special-use address');
  return addresses;
}

/** Connects only to the checked addresses, even if the name resolves to others later. Does not follow redirects. */
function open(
  url: string,
  addresses: readonly string[],
  { port, ca }: Network,
  signal: AbortSignal,
  tunnel: Socket | undefined,
): Promise<IncomingMessage> {
  const all = addresses.map((address) => ({ address, family: isIP(address) }));
  const lookup: LookupFunction = (_host, _options, done) => done(null, all);
  const options = {
    port,
    lookup,
    signal,
    autoSelectFamily: true,
    agent: false,
    maxHeaderSize: MAX_HEADER_BYTES,
    headers: { accept: 'application/json', 'user-agent': 'Gatehouse' },
    ...(ca === undefined ? {} : { ca }),
    ...(tunnel ? { createConnection: () => tlsIn(tunnel, url, ca) } : {}),
  };
  return new Promise((resolve, reject) => {
    get(url, options, resolve).on('error', reject);
  });
}

/**
 * Asks the proxy for a connection to a checked address (CONNECT, RFC 9110 section 9.3.6). With a name, the proxy would resolve it again, and
 * could reach hosts of the internal network.
 */
function openTunnel(
  proxy: string,
  [address = '']: readonly string[],
  { port }: Network,
  signal: AbortSignal,
): Promise<Socket> {
  const { protocol, hostname, port: proxyPort, username, password } = new URL(proxy);
  const target = `${isIP(address) === 6 ? `[${address}]` : address}:${port}`;
  const user = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  const credentials = Buffer.from(user).toString('base64');
  const request = protocol === 'https:' ? httpsRequest : httpRequest;
  const connecting = request({
    host: hostname.replace(/^\[|\]$/g, ''),
    port: proxyPort || (protocol === 'https:' ? 443 : 80),
    method: 'CONNECT',
    path: target,
    headers: {
      host: target,
      ...(username ? { 'proxy-authorization': `Basic ${credentials}` } : {}),
    },
    agent: false,
    signal,
  });
  return new Promise((resolve, reject) => {
    connecting.on('error', reject);
    connecting.on('connect', ({ statusCode }, socket) => {
      if (statusCode === 200) return resolve(socket);
      socket.destroy();
      reject(new DocumentUnreachable(`the proxy refuses the connection with status ${statusCode}`));
    });
    connecting.end();
  });
}

function tlsIn(tunnel: Socket, url: string, ca: string | undefined): Socket {
  const servername = new URL(url).hostname;
  return connectTls({ socket: tunnel, servername, ...(ca === undefined ? {} : { ca }) });
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

/**
 * Resolves to every IPv4 and IPv6 address. Does not use `dns.lookup`, which shares a few threads with the whole process and cannot be cancelled,
 * so that slow names would delay sign-ins. `servers` (`address:port`) replace those of the system. Rejects with the DNS error if there is no
 * address.
 */
export async function resolveName(
  host: string,
  signal: AbortSignal,
  servers?: readonly string[],
): Promise<string[]> {
  const resolver = new Resolver({ timeout: 1000, tries: 2 });
  if (servers) resolver.setServers(servers);
  signal.addEventListener('abort', () => resolver.cancel(), { once: true });
  const answers = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
  const addresses = answers.flatMap((answer) =>
    answer.status === 'fulfilled' ? answer.value : [],
  );
  const [failure] = answers.filter((answer) => answer.status === 'rejected');
  if (addresses.length === 0 && failure) throw failure.reason;
  return addresses;
}

/** `ipaddr.js` counts every address as unicast that no registry lists, so also those outside RFC 4291 section 2.4. */
const GLOBAL_UNICAST_IPV6 = ipaddr.IPv6.parseCIDR('2000::/3');
/** In no registry: inside Azure, it is the host of the virtual machine. */
const AZURE_HOST = '168.63.129.16';

/**
 * Whether an address is on the public Internet (IANA special-purpose address registries). False if it is malformed or has a zone (RFC 4007
 * section 11).
 */
export function isPublicAddress(text: string): boolean {
  // `ipaddr.js` accepts other notations, such as octal numbers.
  if (isIP(text) === 0 || text.includes('%') || text === AZURE_HOST) return false;
  const address = ipaddr.parse(text);
  if (address.range() !== 'unicast') return false;
  return address.kind() === 'ipv4' || address.match(GLOBAL_UNICAST_IPV6);
}
