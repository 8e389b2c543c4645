// Whom an address counts as: one spelling of it, IPv4 in IPv6 as IPv4, and every address of a /64 network as that network.
import { expect } from 'chai';
import { clientSubnet } from '../../src/http/client-subnet.ts';

const GROUPS: Record<string, string[]> = {
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

describe('HDR-02 An address counts as', () => {
  for (const [group, spellings] of Object.entries(GROUPS)) {
    for (const spelling of spellings) {
      it(`${group} when it is written ${JSON.stringify(spelling.slice(0, 60))}`, () => {
        expect(clientSubnet(spelling)).to.equal(group);
      });
    }
  }
});
