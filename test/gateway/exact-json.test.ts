import { expect } from 'chai';
import * as fc from 'fast-check';
import { measureJson, parseExact, plainValues } from '../../src/gateway/exact-json.ts';

const BIG = '12345678901234567890';

describe('JSON with exact integers', () => {
  const integer = fc.bigInt({ min: -(10n ** 25n), max: 10n ** 25n }).map(String);
  const scalar = fc.oneof(
    integer,
    fc.string().map((text) => JSON.stringify(text)),
    fc.constantFrom(`"${BIG}"`, `"\\"${BIG}"`, '1234567890123456e-2', '0.1', 'null', '""'),
  );
  const { json } = fc.letrec<{ json: string }>((tie) => ({
    json: fc.oneof(
      { maxDepth: 4 },
      scalar,
      fc.array(tie('json'), { maxLength: 4 }).map((items) => `[${items.join(', ')}]`),
      fc
        .array(fc.tuple(fc.constantFrom('a', BIG, '__proto__', '\\\\', 'é'), tie('json')))
        .map((all) => `{${all.map(([name, value]) => `"${name}":${value}`).join(',')}}`),
    ),
  }));

  /** The slow way, with the standard reviver. */
  function withReviver(text: string, replace: (digits: string) => unknown): unknown {
    return JSON.parse(text, (_name, value: unknown, context?: { source?: string }) =>
      typeof value === 'number' &&
      !Number.isSafeInteger(value) &&
      /^-?\d+$/.test(context?.source ?? '')
        ? replace(String(context?.source))
        : value,
    );
  }

  it('any JSON is read as with the reviver of the standard', () => {
    fc.assert(
      fc.property(json, (text) => {
        const expected = withReviver(text, (digits) => ({ big: digits }));
        const found = JSON.stringify(parseExact(text));
        expect(withReviver(found, (digits) => ({ big: digits }))).to.deep.equal(expected);
        expect(plainValues(parseExact(text))).to.deep.equal(withReviver(text, String));
      }),
    );
  });

  for (const text of [
    `{${BIG}:1}`,
    `[1 ${BIG}]`,
    `"a"${BIG}`,
    `[-0${BIG}]`,
    `${BIG} ${BIG}`,
    `[${BIG}`,
  ])
    it(`${text} is refused`, () => {
      expect(() => parseExact(text)).to.throw(SyntaxError);
    });

  it('text in the form of a number never becomes one', () => {
    const text = JSON.stringify({ [BIG]: [BIG, `"${BIG}`, `\\"${BIG}\\`] });
    expect(JSON.stringify(parseExact(text))).to.equal(text);
  });
});

describe('The size of JSON', () => {
  for (const [text, depth, values] of [
    ['1', 0, 1],
    ['[[[1]]]', 3, 4],
    ['[1,2,3]', 1, 4],
    ['["[[,,", "\\"[[[,,", "\\\\"]', 1, 4],
    ['{"a":[{}],"b":[{}],"c":{}}', 3, 9],
    ['[[]}', 2, 3],
    ['"[', 0, 1],
  ] as const)
    it(`${text} has ${depth} levels and at most ${values} values`, () => {
      expect(measureJson(text, { depth: 100, values: 100 })).to.deep.equal({ depth, values });
    });

  it('JSON that is too large is read no further than the maximum', () => {
    const max = { depth: 5, values: 10 };
    expect(measureJson('['.repeat(1000), max)).to.deep.equal({ depth: 6, values: 7 });
    expect(measureJson(`[${'1,'.repeat(1000)}1]`, max)).to.deep.equal({ depth: 1, values: 11 });
  });
});
