import { expect } from 'chai';
import { canonicalJson, canonicalObjects } from '../../../src/audit/chain/canonical.ts';
import { itemDigest } from '../../../src/audit/chain/sealed-item.ts';

describe('The canonical form of an item (RFC 8785)', () => {
  it('has the members in the order of their code units, and escapes what JSON must', () => {
    const value = {
      '\ufb33': 'Hebrew',
      '\ud83d\ude00': 'emoji',
      '\u00f6': 'letter',
      '10': 1,
      '9': [true, { b: '', a: '\u0001"\\' }],
      none: undefined,
    };
    expect(canonicalJson(value)).to.equal(
      '{"10":1,"9":[true,{"a":"\\u0001\\"\\\\","b":""}],"\u00f6":"letter","\ud83d\ude00":"emoji","\ufb33":"Hebrew"}',
    );
  });

  it('is not confused by names that contain what separates names', () => {
    const form = canonicalObjects(new Set(['left out']));
    expect(form({ 'a,b': 1, c: 2 })).to.equal('{"a,b":1,"c":2}');
    expect(form({ a: 1, 'b,c': 2, 'left out': 3 })).to.equal('{"a":1,"b,c":2}');
    expect(form({ a: 1, b: 2, c: 3 })).to.equal('{"a":1,"b":2,"c":3}');
  });

  it('takes given members in place of those of the object', () => {
    const form = canonicalObjects(new Set(), ['b', 'd']);
    expect(form({ c: 1, b: 2, a: 3 }, { d: 4, b: 5, a: 6 })).to.equal('{"a":3,"b":5,"c":1,"d":4}');
    expect(form({ c: 1, b: 2, a: 3 })).to.equal('{"a":3,"c":1}');
  });

  it('refuses what libraries write in different ways', () => {
    for (const value of [1.5, -0, null, 2 ** 53, '\ud800', { '\ud800': 1 }])
      expect(() => canonicalJson(value)).to.throw(TypeError);
  });

  it('gives an item the digest that it had when it was written', () => {
    const item = {
      id: 'item-of-the-test',
      epoch: 'epoch-of-the-test',
      number: 7,
      time: '2030-01-01T00:00:00.000Z',
      event: 'call',
      account: 'ada',
      tool: 'orders "all"',
      address: '192.0.2.1',
      target: 'orders://\u00e9',
      salt: 'salt-of-the-test',
      outcome: 'answered',
      ms: 12,
    };
    expect(itemDigest(item)).to.equal('IF-q29zA0fNQ8VZV_ntepj43IDNmZKxc8HX3wuKN0tE');
  });
});
