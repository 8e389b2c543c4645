import { expect } from 'chai';
import { clientSubnet } from '../../src/http/client-subnet.ts';

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
});
