// Written with `node:net`, because `ipaddr.js` takes three times as long for IPv6 and fifteen times for IPv4.
import { isIP, SocketAddress } from 'node:net';

const WITH_PORT = /^(?:\[([^\]]+)\]|([\d.]+))(?::\d+)?$/;
const IPV4_MAPPED = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/;

/** Returns the address without port and zone, an IPv4-mapped one as IPv4 (RFC 4291 section 2.5.5.2); undefined if it is not an address. */
export function canonicalAddress(text: string): string | undefined {
  const [, bracketed, plain] = WITH_PORT.exec(text) ?? [];
  const [address = ''] = (bracketed ?? plain ?? text).split('%');
  if (isIP(address) === 4) return address;
  if (isIP(address) !== 6) return undefined;
  const canonical = new SocketAddress({ address, family: 'ipv6' }).address;
  return IPV4_MAPPED.exec(canonical)?.[1] ?? canonical;
}

/** Returns an IPv4 address, or the /64 of an IPv6 address, which one subscriber has (RFC 6177); `unknown` if it is not an address. */
export function clientSubnet(text: string): string {
  return clientNetworks(text)[0];
}

/**
 * Returns an IPv4 address, or the /64, /56 and /48 of an IPv6 address: one link, and the sizes of a site that has as many links as it wants
 * (RFC 6177).
 */
export function clientNetworks(text: string): [smallest: string, ...sites: string[]] {
  const address = canonicalAddress(text);
  if (address === undefined) return ['unknown'];
  if (isIP(address) === 4) return [address];
  const [one = '', two = '', three = '', four = ''] = hextets(address);
  const site = `${one}:${two}:${three}`;
  const upper = (parseInt(four, 16) & 0xff00).toString(16);
  return [`${site}:${four}::/64`, `${site}:${upper}::/56`, `${site}::/48`];
}

/** Returns the IPv4 /16 or the IPv6 /32 of an address: about what one operator of a network has. */
export function operatorNetwork(text: string): string {
  const address = canonicalAddress(text);
  if (address === undefined) return 'unknown';
  if (isIP(address) === 4) return `${address.split('.', 2).join('.')}.0.0/16`;
  return `${hextets(address).slice(0, 2).join(':')}::/32`;
}

function hextets(address: string): string[] {
  const [before = [], after = []] = address
    .split('::')
    .map((part) => part.split(':').filter(Boolean));
  return [...before, ...Array(8 - before.length - after.length).fill('0'), ...after];
}

/** What the audit log has of an address: an IPv4 /24 or an IPv6 /48, if addresses are shortened. */
export function recordedAddress(
  address: string,
  kept: 'full' | 'shortened' | 'none',
): string | undefined {
  if (kept !== 'shortened') return kept === 'full' ? address : undefined;
  const networks = clientNetworks(address);
  return networks.length > 1 ? networks.at(-1) : networks[0].replace(/\.\d+$/, '.0/24');
}
