// Whom an address stands for: itself for IPv4, its /64 network for IPv6, because that is what one subscriber has (RFC 6177).
import { isIP, SocketAddress } from 'node:net';

const WITH_PORT = /^(?:\[([^\]]+)\]|([\d.]+))(?::\d+)?$/;
const MAPPED = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/;
const GROUPS = 8;
const NETWORK_GROUPS = 4;

/** One spelling of an address, with or without a port and a zone; mapped addresses (RFC 4291 section 2.5.5.2) as IPv4. Undefined for anything else. */
export function canonicalAddress(written: string): string | undefined {
  const [, bracketed, plain] = WITH_PORT.exec(written) ?? [];
  const [address = ''] = (bracketed ?? plain ?? written).split('%');
  if (isIP(address) === 4) return address;
  if (isIP(address) !== 6) return undefined;
  const canonical = new SocketAddress({ address, family: 'ipv6' }).address;
  return MAPPED.exec(canonical)?.[1] ?? canonical;
}

/** `unknown` for what is not an address. */
export function clientSubnet(written: string): string {
  const address = canonicalAddress(written);
  return address === undefined ? 'unknown' : networkOf(address);
}

function networkOf(address: string): string {
  if (isIP(address) !== 6) return address;
  const [head = '', tail] = address.split('::');
  const before = head === '' ? [] : head.split(':');
  const after = tail ? tail.split(':') : [];
  const missing = tail === undefined ? 0 : GROUPS - before.length - after.length;
  const groups = [...before, ...Array(missing).fill('0'), ...after];
  return `${groups.slice(0, NETWORK_GROUPS).join(':')}::/64`;
}
