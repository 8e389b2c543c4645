// A dry run says that nobody loses tools only where a list certainly opens all that another one does.
import { expect } from 'chai';
import * as fc from 'fast-check';
import { type Item, NAMED_KINDS, opensAllOf, toolList } from '../../src/upstreams/tool-list.ts';

const RUNS = 5000;
const TEXTS = ['*', 'a*', '*b', 'a*b', '*a*', 'a', 'ab', 'aab', 'b*a', 'AB', 'a*b*'];
const NAMES = ['a', 'b', 'ab', 'aab', 'abb', 'ba', 'aba', 'bab', 'AB', 'Ab', 'c', 'a*b', ''];
const pattern = fc
  .tuple(fc.boolean(), fc.constantFrom('', '', 'resource:', 'prompt:'), fc.constantFrom(...TEXTS))
  .map(([takesOut, kind, text]) => `${takesOut ? '!' : ''}${kind}${text}`);
const list = fc.array(pattern, { minLength: 1, maxLength: 4 });
const ITEMS: Item[] = NAMES.flatMap((name): Item[] => [
  { kind: 'tool', name, isListed: true },
  { kind: 'tool', name, isListed: false },
  { kind: 'resource', name },
  { kind: 'prompt', name },
]);

describe('A list of tools that is certain to open all that another one opens', () => {
  it('APL-05 opens every tool, resource and prompt of the other one, of the kinds in question', () => {
    let certain = 0;
    fc.assert(
      fc.property(list, list, fc.subarray([...NAMED_KINDS]), (wide, narrow, kinds) => {
        if (!opensAllOf(wide, narrow, kinds)) return;
        certain += 1;
        const [one, other] = [toolList(wide), toolList(narrow)];
        for (const item of ITEMS)
          if (kinds.some((kind) => kind === item.kind) && other.opens(item))
            expect(one.opens(item), JSON.stringify([wide, narrow, item])).to.equal(true);
      }),
      { numRuns: RUNS },
    );
    expect(certain).to.be.above(RUNS / 20);
  });

  it('is found for the same list, without a list, and for fewer exclusions', () => {
    for (const [wide, narrow] of [
      [
        ['a*', '!ab'],
        ['a*', '!ab'],
      ],
      [[], ['a*', 'resource:b']],
      [['!ab'], ['!ab', '!b*']],
      [['*'], ['!ab']],
    ] as const)
      expect(opensAllOf(wide, narrow, ['tool'])).to.equal(true);
    expect(opensAllOf(['*'], [], NAMED_KINDS)).to.equal(false);
    expect(opensAllOf(['a*', '!ab'], ['a*'], ['tool'])).to.equal(false);
  });
});
