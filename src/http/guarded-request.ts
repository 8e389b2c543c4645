// Sends requests to public addresses only (SSRF protection), and through the proxy of the network if there is one.
import { Resolver } from 'node:dns/promises';
import { type IncomingMessage, request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { isIP, type LookupFunction, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import ipaddr from 'ipaddr.js';
import { type ForwardProxy, proxyFor } from '../settings/forward-proxy.ts';

/** The way to a server whose address is in the settings, so that it may be anywhere. */
export type Way = {
  /** Replaces the trusted certificates (PEM). */
  ca?: string;
  /** The proxy of the network, through which servers are reached. */
  forwardProxy?: ForwardProxy;
};

/** How to reach a server. Only tests replace `INTERNET`. */
export type Network = Way & {
  /** Resolves to every address of a name. Settles soon after `signal` aborts. */
  resolve: (host: string, signal: AbortSignal) => Promise<readonly string[]>;
  isAllowed: (address: string) => boolean;
  /** Replaces the port of the address. */
  port?: number;
};

/** The name has no address, or the proxy of the network refuses the connection. */
export class HostUnreachable extends Error {}

/** The host is not a name with public addresses. Nothing was sent. */
export class AddressNotPublic extends Error {}

const MAX_HEADER_BYTES = 8 * 1024;

export const INTERNET: Network = { resolve: resolveName, isAllowed: isPublicAddress };

export type OutgoingMessage = {
  method: 'GET' | 'POST';
  headers: Readonly<Record<string, string>>;
  body?: Uint8Array;
  signal: AbortSignal;
};

/**
 * Resolves when the headers of the response have arrived. Connects only to the checked addresses, even if the name resolves to others later.
 * Does not follow redirects. Rejects with AddressNotPublic, HostUnreachable, and errors of the connection.
 */
export async function sendGuarded(
  url: string,
  network: Network,
  message: OutgoingMessage,
): Promise<IncomingMessage> {
  const addresses = await allowedAddresses(new URL(url).hostname, network, message.signal);
  const all = addresses.map((address) => ({ address, family: isIP(address) }));
  const lookup: LookupFunction = (_host, _options, done) => done(null, all);
  // With a name, the proxy would resolve it again, and could reach hosts of the internal network.
  const [address = ''] = addresses;
  const host = isIP(address) === 6 ? `[${address}]` : address;
  return send(url, network, message, { host, lookup });
}

/** As `sendGuarded`, to any address. */
export function sendUnguarded(
  url: string,
  way: Way,
  message: OutgoingMessage,
): Promise<IncomingMessage> {
  return send(url, way, message, { host: new URL(url).hostname });
}

async function allowedAddresses(
  host: string,
  { resolve, isAllowed }: Network,
  signal: AbortSignal,
): Promise<readonly string[]> {
  // Node connects to a literal address without calling `lookup`.
  if (isIP(host.replace(/^\[|\]$/g, '')) !== 0)
    throw new AddressNotPublic('the host is an address and not a name');
  const addresses = await resolve(host, signal);
  signal.throwIfAborted();
  if (addresses.length === 0) throw new HostUnreachable('the name has no address');
  if (!addresses.every(isAllowed)) throw new AddressNotPublic('the name has a special-use address');
  return addresses;
}

/** `host` is what the proxy is asked for. */
type Destination = { host: string; lookup?: LookupFunction };

async function send(
  url: string,
  { ca, forwardProxy, port }: Pick<Network, 'ca' | 'forwardProxy' | 'port'>,
  { method, headers, body, signal }: OutgoingMessage,
  { host, lookup }: Destination,
): Promise<IncomingMessage> {
  const { protocol, port: ownPort } = new URL(url);
  const isSecure = protocol === 'https:';
  const portNumber = port ?? Number(ownPort || (isSecure ? 443 : 80));
  const proxy = forwardProxy && proxyFor(url, forwardProxy);
  const tunnel = proxy && (await openTunnel(proxy, `${host}:${portNumber}`, signal));
  const options = {
    method,
    port: portNumber,
    signal,
    autoSelectFamily: true,
    agent: false,
    maxHeaderSize: MAX_HEADER_BYTES,
    headers: { 'user-agent': 'Gatehouse', ...headers },
    ...(lookup ? { lookup } : {}),
    ...(ca === undefined ? {} : { ca }),
    ...(tunnel ? { createConnection: () => (isSecure ? tlsIn(tunnel, url, ca) : tunnel) } : {}),
  };
  return new Promise((resolve, reject) => {
    const request = (isSecure ? httpsRequest : httpRequest)(url, options, resolve);
    request.on('error', reject).end(body);
  });
}

/** Asks the proxy for a connection (CONNECT, RFC 9110 section 9.3.6). */
function openTunnel(proxy: string, target: string, signal: AbortSignal): Promise<Socket> {
  const { protocol, hostname, port: proxyPort, username, password } = new URL(proxy);
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
      reject(new HostUnreachable(`the proxy refuses the connection with status ${statusCode}`));
    });
    connecting.end();
  });
}

function tlsIn(tunnel: Socket, url: string, ca: string | undefined): Socket {
  const servername = new URL(url).hostname;
  return connectTls({ socket: tunnel, servername, ...(ca === undefined ? {} : { ca }) });
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
