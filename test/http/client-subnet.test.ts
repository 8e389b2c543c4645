import { expect } from 'chai';
import { clientNetworks, clientSubnet, operatorNetwork } from '../../src/http/client-subnet.ts';

const SUBNETS: Record<string, string[]> = {
  '203.0.113.9': [
    '203.0.113.9',
    '203.0.113.9:4711',
    '::ffff:203.0.113.9',
    '::FFFF:cb00:7109',
    '0:0:0:0:0:ffff:203.0.113.9',
    '[::ffff:203.0.113.9]:443',
  ],
  '2001:db8:0:7::/64': [
    '2001:db8:0:7::9',
    '2001:DB8:0:7:0:0:0:9',
    '2001:0db8:0000:0007:ffff:ffff:ffff:ffff',
    '2001:db8:0:7:1234::',
    '[2001:db8:0:7::9]:4711',
    '[2001:db8:0:7::9]',
    '2001:db8:0:7::9%eth0',
  ],
  '2001:db8:0:8::/64': ['2001:db8:0:8::9'],
  '0:0:0:0::/64': ['::1', '::'],
  '1:2:3:4::/64': ['1:2:3:4:5:6:7:8', '1:2:3:4::', '1:2:3:4:5::'],
  unknown: [
    '',
    'unknown',
    'evil',
    '010.0.0.1',
    '1.2.3',
    '1.2.3.4.5',
    '[::1',
    'a'.repeat(5000),
    '_x',
  ],
};

describe('the subnet of a client', () => {
  for (const [subnet, spellings] of Object.entries(SUBNETS)) {
    for (const spelling of spellings) {
      it(`HDR-02 the subnet of ${JSON.stringify(spelling.slice(0, 60))} is ${subnet}`, () => {
        expect(clientSubnet(spelling)).to.equal(subnet);
      });
    }
  }

  it('HDR-02 an IPv6 address is in a /64, a /56 and a /48, and an IPv4 address is alone', () => {
    expect(clientNetworks('2001:db8:77:12ab::1')).to.deep.equal([
      '2001:db8:77:12ab::/64',
      '2001:db8:77:1200::/56',
      '2001:db8:77::/48',
    ]);
    expect(clientNetworks('::1')).to.deep.equal(['0:0:0:0::/64', '0:0:0:0::/56', '0:0:0::/48']);
    expect(clientNetworks('198.51.100.7')).to.deep.equal(['198.51.100.7']);
    expect(clientNetworks('evil')).to.deep.equal(['unknown']);
  });

  it('HDR-02 the network of an operator is an IPv4 /16 or an IPv6 /32', () => {
    expect(operatorNetwork('198.51.100.7')).to.equal('198.51.0.0/16');
    expect(operatorNetwork('::ffff:198.51.100.7')).to.equal('198.51.0.0/16');
    expect(operatorNetwork('2001:db8:77:12ab::1')).to.equal('2001:db8::/32');
    expect(operatorNetwork('evil')).to.equal('unknown');
  });
});
