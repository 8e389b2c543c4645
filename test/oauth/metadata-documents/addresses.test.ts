import { expect } from 'chai';
import { isPublicAddress } from '../../../src/http/guarded-request.ts';

/** The IANA registries of special-purpose IPv4 and IPv6 addresses, and other addresses that are not public, with both ends of each range. */
const SPECIAL: [range: string, name: string, addresses: string[]][] = [
  ['0.0.0.0/8', 'this network', ['0.0.0.0', '0.1.2.3', '0.255.255.255']],
  ['10.0.0.0/8', 'private use', ['10.0.0.0', '10.1.2.3', '10.255.255.255']],
  ['100.64.0.0/10', 'shared by carriers', ['100.64.0.0', '100.100.100.200', '100.127.255.255']],
  ['127.0.0.0/8', 'loopback', ['127.0.0.0', '127.0.0.1', '127.255.255.255']],
  ['168.63.129.16/32', 'the host of an Azure machine', ['168.63.129.16']],
  ['169.254.0.0/16', 'link local', ['169.254.0.0', '169.254.169.254', '169.254.255.255']],
  ['172.16.0.0/12', 'private use', ['172.16.0.0', '172.20.1.1', '172.31.255.255']],
  ['192.0.0.0/24', 'protocol assignments', ['192.0.0.0', '192.0.0.192', '192.0.0.255']],
  ['192.0.2.0/24', 'documentation', ['192.0.2.0', '192.0.2.1', '192.0.2.255']],
  ['192.31.196.0/24', 'AS112', ['192.31.196.0', '192.31.196.1', '192.31.196.255']],
  ['192.52.193.0/24', 'multicast tunnels', ['192.52.193.0', '192.52.193.1', '192.52.193.255']],
  ['192.88.99.0/24', '6to4 relays', ['192.88.99.0', '192.88.99.1', '192.88.99.255']],
  ['192.168.0.0/16', 'private use', ['192.168.0.0', '192.168.1.1', '192.168.255.255']],
  ['192.175.48.0/24', 'AS112', ['192.175.48.0', '192.175.48.1', '192.175.48.255']],
  ['198.18.0.0/15', 'benchmarks', ['198.18.0.0', '198.19.1.1', '198.19.255.255']],
  ['198.51.100.0/24', 'documentation', ['198.51.100.0', '198.51.100.1', '198.51.100.255']],
  ['203.0.113.0/24', 'documentation', ['203.0.113.0', '203.0.113.1', '203.0.113.255']],
  ['224.0.0.0/4', 'multicast', ['224.0.0.0', '224.0.0.1', '239.255.255.255']],
  ['240.0.0.0/4', 'reserved', ['240.0.0.0', '250.1.1.1', '255.255.255.254']],
  ['255.255.255.255/32', 'broadcast', ['255.255.255.255']],
  ['::/128', 'unspecified', ['::', '0:0:0:0:0:0:0:0']],
  ['::1/128', 'loopback', ['::1']],
  ['::/96', 'IPv4-compatible', ['::127.0.0.1', '::8.8.8.8', '::ffff:ffff']],
  ['::ffff:0:0/96', 'IPv4-mapped', ['::ffff:127.0.0.1', '::ffff:8.8.8.8', '::FFFF:7f00:1']],
  ['::ffff:0:0:0/96', 'IPv4-translated', ['::ffff:0:127.0.0.1', '::ffff:0:808:808']],
  ['64:ff9b::/96', 'NAT64', ['64:ff9b::', '64:ff9b::10.0.0.1', '64:ff9b::ffff:ffff']],
  ['64:ff9b:1::/48', 'local NAT64', ['64:ff9b:1::', '64:ff9b:1:ffff:ffff:ffff:ffff:ffff']],
  ['100::/64', 'discarded', ['100::', '100::1', '100::ffff:ffff:ffff:ffff']],
  ['100:0:0:1::/64', 'dummy prefix', ['100:0:0:1::', '100:0:0:1::1']],
  ['2001::/23', 'protocol assignments', ['2001:1::1', '2001:2::1', '2001:1ff:ffff::1']],
  ['2001::/32', 'Teredo', ['2001::', '2001::1', '2001:0:7f00:1::']],
  ['2001:2::/48', 'benchmarks', ['2001:2::', '2001:2:0:ffff:ffff:ffff:ffff:ffff']],
  ['2001:10::/28', 'ORCHID', ['2001:10::', '2001:1f:ffff::1']],
  ['2001:20::/28', 'ORCHIDv2', ['2001:20::', '2001:2f:ffff::1']],
  ['2001:30::/28', 'drone remote ids', ['2001:30::', '2001:3f:ffff::1']],
  ['2001:db8::/32', 'documentation', ['2001:db8::', '2001:db8:ffff:ffff:ffff:ffff:ffff:ffff']],
  ['2002::/16', '6to4', ['2002::', '2002:7f00:1::', '2002:808:808::1', '2002:ffff:ffff::1']],
  ['2620:4f:8000::/48', 'AS112', ['2620:4f:8000::', '2620:4f:8000:ffff:ffff:ffff:ffff:ffff']],
  ['3fff::/20', 'documentation', ['3fff::', '3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff']],
  ['5f00::/16', 'segment routing', ['5f00::', '5f00:ffff::1']],
  ['fc00::/7', 'unique local', ['fc00::', 'fd00::1', 'fdff:ffff::1']],
  ['fe80::/10', 'link local', ['fe80::', 'fe80::1', 'febf:ffff::1']],
  ['fec0::/10', 'site local', ['fec0::', 'fec0::1', 'feff:ffff::1']],
  ['ff00::/8', 'multicast', ['ff00::', 'ff02::1', 'ffff:ffff::1']],
  ['outside 2000::/3', 'not assigned', ['1::1', '200::1', '1fff:ffff::1', '4000::', '8000::1']],
];

const MALFORMED = [
  '',
  'localhost',
  '127.1',
  '0x7f.0.0.1',
  '010.0.0.1',
  '08.8.8.8',
  '2130706433',
  '8.8.8.8/32',
  '[::1]',
  '[2606:4700::1111]',
  '8.8.8.8 ',
];

const ZONED = ['fe80::1%eth0', '2606:4700::1111%eth0', '2606:4700::1111%1'];

/** Next to special ranges, and in use. */
const PUBLIC = [
  '1.1.1.1',
  '8.8.8.8',
  '9.255.255.255',
  '11.0.0.0',
  '100.63.255.255',
  '100.128.0.0',
  '126.255.255.255',
  '128.0.0.0',
  '168.63.129.15',
  '169.253.255.255',
  '172.15.255.255',
  '172.32.0.0',
  '192.167.255.255',
  '192.169.0.0',
  '198.17.255.255',
  '198.20.0.0',
  '223.255.255.255',
  '2606:4700:4700::1111',
  '2001:200::1',
  '2001:4860:4860::8888',
  '2003::1',
  '2a00:1450::1',
  '3ffe::1',
];

describe('the addresses of metadata documents', () => {
  for (const [range, name, addresses] of SPECIAL) {
    it(`CIM-02 no document is fetched from ${range} (${name})`, () => {
      expect(addresses.filter(isPublicAddress)).to.deep.equal([]);
    });
  }

  it('no document is fetched from an address with a zone', () => {
    expect(ZONED.filter(isPublicAddress)).to.deep.equal([]);
  });

  it('no document is fetched from a malformed address or another notation of one', () => {
    expect(MALFORMED.filter(isPublicAddress)).to.deep.equal([]);
  });

  it('documents are fetched from every other address', () => {
    expect(PUBLIC.filter(isPublicAddress)).to.deep.equal(PUBLIC);
  });
});
