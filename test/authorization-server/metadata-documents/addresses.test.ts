// Which addresses documents are fetched from (RFC 6890): everything that is not plainly public is refused.
import { expect } from 'chai';
import { isPublicAddress } from '../../../src/authorization-server/engine/guarded-fetch.ts';

const SPECIAL: Record<string, string[]> = {
  'this computer': ['127.0.0.1', '127.255.255.254', '0.0.0.0', '::1', '::'],
  'private networks': [
    '10.0.0.1',
    '172.16.0.1',
    '172.31.255.255',
    '192.168.1.1',
    'fd00::1',
    'fc00::1',
  ],
  'the link': ['169.254.169.254', 'fe80::1', 'febf::1', 'fec0::1'],
  carriers: ['100.64.0.1', '100.100.100.200', '100.127.255.255'],
  'the host under a virtual machine': ['168.63.129.16'],
  'protocol assignments': ['192.0.0.192', '192.88.99.1', '2001::1', '2001:1ff::1'],
  'documentation and benchmarks': [
    '192.0.2.1',
    '198.51.100.1',
    '203.0.113.1',
    '198.18.0.1',
    '198.19.255.255',
    '2001:db8::1',
    '3fff::1',
  ],
  'direct delegation for AS112': [
    '192.31.196.1',
    '192.52.193.1',
    '192.175.48.1',
    '2620:4f:8000::1',
  ],
  'multicast, reserved and broadcast': [
    '224.0.0.1',
    '239.255.255.255',
    '240.0.0.1',
    '255.255.255.255',
    'ff02::1',
  ],
  'IPv4 inside IPv6, mapped, compatible, translated, 6to4, Teredo': [
    '::ffff:127.0.0.1',
    '::ffff:10.0.0.1',
    '::ffff:7f00:1',
    '::ffff:8.8.8.8',
    '::127.0.0.1',
    '64:ff9b::7f00:1',
    '64:ff9b::10.0.0.1',
    '64:ff9b:1::1',
    '2002:7f00:1::',
    '2002:a00:1::1',
    '2001:0:7f00:1::',
  ],
  'discard, segment routing, and what is not assigned': ['100::1', '5f00::1', '4000::1', '1::1'],
  'what is no address': [
    '',
    'localhost',
    '127.1',
    '0x7f.0.0.1',
    '2130706433',
    '[::1]',
    '2606:4700::1111%eth0',
    'fe80::1%eth0',
    '8.8.8.8 ',
  ],
};

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

describe('The addresses of documents', () => {
  for (const [kind, addresses] of Object.entries(SPECIAL)) {
    it(`never are those of ${kind}`, () => {
      expect(addresses.filter(isPublicAddress)).to.deep.equal([]);
    });
  }

  it('may be any other, up to the edges', () => {
    expect(PUBLIC.filter(isPublicAddress)).to.deep.equal(PUBLIC);
  });
});
