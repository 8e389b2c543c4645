// Which addresses are on the public Internet (RFC 6890, IANA special-purpose address registries): what strangers may have us connect to.
import { BlockList, isIP } from 'node:net';

const SPECIAL_IPV4 = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.31.196.0/24',
  '192.52.193.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '192.175.48.0/24',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
  // Not registered, yet inside a cloud it is the host that a machine runs on (Azure).
  '168.63.129.16/32',
];

/** All that is global unicast (RFC 4291 section 2.4). Loopback, local, mapped, translated and multicast addresses are outside. */
const GLOBAL_IPV6 = ['2000::/3'];

const SPECIAL_IPV6 = ['2001::/23', '2001:db8::/32', '2002::/16', '2620:4f:8000::/48', '3fff::/20'];

const specialIpv4 = blockList(SPECIAL_IPV4, 'ipv4');
const globalIpv6 = blockList(GLOBAL_IPV6, 'ipv6');
const specialIpv6 = blockList(SPECIAL_IPV6, 'ipv6');

/** False for anything that is not an address, and for one with a zone (RFC 4007 section 11). */
export function isPublicAddress(address: string): boolean {
  if (isIP(address) === 4) return !specialIpv4.check(address, 'ipv4');
  if (isIP(address) !== 6 || address.includes('%')) return false;
  return globalIpv6.check(address, 'ipv6') && !specialIpv6.check(address, 'ipv6');
}

function blockList(subnets: readonly string[], family: 'ipv4' | 'ipv6'): BlockList {
  const list = new BlockList();
  for (const subnet of subnets) {
    const [network = '', prefix] = subnet.split('/');
    list.addSubnet(network, Number(prefix), family);
  }
  return list;
}
