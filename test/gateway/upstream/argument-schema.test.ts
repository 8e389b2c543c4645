import { expect } from 'chai';
import { compileSchema, UnusableSchema } from '../../../src/gateway/upstream/argument-schema.ts';
import { openArgumentChecker } from '../../../src/gateway/upstream/argument-checker.ts';
import { slowToCompile } from './slow-schema.ts';

const DRAFT_7 = 'http://json-schema.org/draft-07/schema#';
const object = (properties: object, more: object = {}) => ({ type: 'object', properties, ...more });
const nullable = (type: string) => ({ anyOf: [{ type }, { type: 'null' }], default: null });

/** The arguments that fit each schema, and those that do not, with the place. */
const CASES: Record<
  string,
  [schema: object, fits: unknown[], misfits: [unknown, place: string][]]
> = {
  'numbers, booleans, lists and objects as text': [
    object({
      count: nullable('integer'),
      yes: { type: 'boolean' },
      tags: { type: 'array', items: { type: 'integer' } },
      more: object({ n: { type: 'number' } }),
    }),
    [
      { count: '5' },
      { yes: 'true' },
      { tags: '["1", 2]' },
      { more: '{"n": "1.5"}' },
      { count: null, tags: [] },
    ],
    [
      [{ count: 'five' }, '/count'],
      [{ count: '5.5' }, '/count'],
      [{ yes: 'yes' }, '/yes'],
      [{ tags: '{}' }, '/tags'],
      [{ tags: ['a'] }, '/tags/0'],
    ],
  ],
  'text that looks like JSON, for a string': [
    object({ content: { type: 'string', maxLength: 4 } }),
    [{ content: '[1]' }, { content: '5' }],
    [[{ content: '[1,2]' }, '/content']],
  ],
  'no arguments': [
    object({ id: { type: 'string' } }, { required: ['id'] }),
    [{ id: 'x' }],
    [
      [undefined, 'id'],
      [{}, 'id'],
      [{ id: null }, 'id'],
    ],
  ],
  'no arguments, of a tool that needs none': [object({}), [undefined, {}], []],
  'null in an optional member': [
    object({ a: { type: 'string' }, b: object({ c: { enum: ['x'] } }) }),
    [{ a: null }, { b: { c: null } }],
    [[{ b: { c: 'y' } }, '/b/c']],
  ],
  'members that clients add': [
    object({ id: { type: 'string' } }, { additionalProperties: false }),
    [{ id: 'x', toolCallId: 'y', _meta: {}, _sessionID: 1 }],
    [[{ id: 'x', other: 1 }, 'other']],
  ],
  'a member that a tool declares is no addition': [
    object({ _id: { type: 'integer' } }, { required: ['_id'] }),
    [{ _id: 1 }],
    [[{ _id: 'a' }, '/_id']],
  ],
  'draft-07, with a tuple': [
    { $schema: DRAFT_7, ...object({ pair: { type: 'array', items: [{ type: 'integer' }] } }) },
    [{ pair: [1] }],
    [[{ pair: ['a'] }, '/pair/0']],
  ],
  '2020-12, with a tuple': [
    object({ pair: { type: 'array', prefixItems: [{ type: 'integer' }] } }),
    [{ pair: [1] }],
    [[{ pair: ['a'] }, '/pair/0']],
  ],
  'a pattern': [
    object({ a: { pattern: '^https\\:\\/\\/' } }),
    [{ a: 'https://x' }],
    [[{ a: 'x' }, '/a']],
  ],
  'a pattern that takes forever elsewhere': [
    object({ a: { pattern: '^(a+)+$' } }),
    [{ a: 'a'.repeat(1000) }],
    [[{ a: `${'a'.repeat(1000)}b` }, '/a']],
  ],
  'a pattern that the safe engine cannot take, beside another keyword': [
    object({ a: { pattern: '^(?=x)', maxLength: 2 } }),
    [{ a: 'y' }],
    [[{ a: 'yyy' }, '/a']],
  ],
  'names by an unsafe pattern': [
    object({}, { patternProperties: { '(?=x)': {} }, additionalProperties: false }),
    [{ x: 1 }],
    [],
  ],
  'a pattern that is not enforced, in not': [
    object({ a: { type: 'string', not: { pattern: '^(?!x)' } } }),
    [{ a: 'xa' }],
    [[{ a: 1 }, '/a']],
  ],
  'formats in oneOf': [
    object({ a: { oneOf: ['date', 'date-time'].map((format) => ({ type: 'string', format })) } }),
    [{ a: '2020-01-01' }],
    [[{ a: 1 }, '/a']],
  ],
  'a format in not': [
    object({ a: { type: 'string', not: { format: 'email' } } }),
    [{ a: 'hello' }],
    [[{ a: 1 }, '/a']],
  ],
  'a pattern that is not enforced, in if': [
    object(
      { a: { type: 'string' } },
      JSON.parse('{"if":{"properties":{"a":{"pattern":"^(?!x)"}}},"then":{"required":["b"]}}'),
    ),
    [{ a: 'xa' }],
    [[{ a: 1 }, '/a']],
  ],
  'names by an unsafe pattern, in allOf': [
    object(
      { a: { type: 'string' } },
      { allOf: [{ patternProperties: { '^(?!x)': {} } }], unevaluatedProperties: false },
    ),
    [{ q: 1 }],
    [[{ a: 1 }, '/a']],
  ],
  'references to a schema with a pattern that is not enforced, in not, oneOf and if': [
    JSON.parse(`{
      "type": "object",
      "$defs": { "safe": { "type": "string", "pattern": "^(?!x)" } },
      "properties": {
        "a": { "type": "string", "not": { "$ref": "#/$defs/safe" } },
        "b": { "oneOf": [{ "$ref": "#/$defs/safe" }, { "type": "string", "maxLength": 2 }] }
      },
      "if": { "properties": { "c": { "$ref": "#/$defs/safe" } }, "required": ["c"] },
      "then": { "properties": { "d": {} }, "required": ["d"] },
      "unevaluatedProperties": false
    }`),
    [{ a: 'xa' }, { b: 'xa' }, { c: 'xa' }, { c: 'a', d: 1 }],
    [
      [{ a: 1 }, '/a'],
      [{ b: 1 }, '/b'],
    ],
  ],
  'a list of at most so many items with a pattern that is not enforced': [
    object({ a: { type: 'array', contains: { pattern: '^(?!x)' }, maxContains: 1 } }),
    [{ a: ['x', 'xx'] }],
    [[{ a: 1 }, '/a']],
  ],
  'formats, known or not': [
    object({ a: { type: 'integer', format: 'uint64' }, b: { type: 'string', format: 'email' } }),
    [{ a: 1, b: 'no address' }],
    [[{ a: 'x' }, '/a']],
  ],
  'a recursive schema': [
    { $ref: '#/$defs/node', $defs: { node: object({ next: { $ref: '#/$defs/node' } }) } },
    [{ next: { next: {} } }],
    [[{ next: { next: 1 } }, '/next/next']],
  ],
  'unknown keywords': [
    object({ a: { type: 'string', 'x-mcp-header': 'A', example: 1 } }, { 'x-wrap': true }),
    [{ a: 'x' }],
    [[{ a: 1 }, '/a']],
  ],
  'a check that would be a promise': [
    { $async: true, ...object({ a: { type: 'string' } }) },
    [{ a: 'x' }],
    [[{ a: 1 }, '/a']],
  ],
};

const UNUSABLE: Record<string, unknown> = {
  'no object': 'string',
  'a dialect that is not known': { $schema: 'https://example.com/x', type: 'object' },
  'a type that is none': object({ a: { type: 'int' } }),
  'nullable without a type': object({ a: { nullable: true } }),
  'an empty enum': object({ a: { enum: [] } }),
  'a dangling reference': object({ a: { $ref: '#/$defs/missing' } }),
  'a reference to elsewhere': object({ a: { $ref: 'http://127.0.0.1:1/schema.json' } }),
  'too much depth': Array.from({ length: 100 }).reduce((inner) => object({ a: inner }), {}),
  'too much text': object({ a: { description: 'x'.repeat(1024 * 1024) } }),
};

describe('The check of arguments', () => {
  for (const [what, [schema, fits, misfits]] of Object.entries(CASES))
    it(`takes what servers take, and names the place of a violation: ${what}`, () => {
      const check = compileSchema(schema);
      for (const given of fits)
        expect(check.violation(structuredClone(given)), JSON.stringify(given)).to.equal(undefined);
      for (const [given, place] of misfits)
        expect(check.violation(structuredClone(given)), JSON.stringify(given)).to.include(place);
    });

  for (const [what, schema] of Object.entries(UNUSABLE))
    it(`a schema that cannot be enforced is told: ${what}`, () => {
      expect(() => compileSchema(schema)).to.throw(UnusableSchema);
    });

  it('each dialect counts with http and https, with and without #', () => {
    for (const draft of ['draft/2020-12', 'draft/2019-09', 'draft-07', 'draft-06'])
      for (const scheme of ['http', 'https'])
        for (const end of ['', '#']) {
          const $schema = `${scheme}://json-schema.org/${draft}/schema${end}`;
          expect(compileSchema({ $schema, ...object({}) }).violation({})).to.equal(undefined);
        }
  });

  it('the same $id in two schemas is no conflict', () => {
    for (const type of ['string', 'integer']) {
      const check = compileSchema({ $id: 'https://example.com/a', ...object({ a: { type } }) });
      expect(check.violation({ a: true })).to.include(type);
    }
  });
});

describe('The thread that checks arguments', () => {
  const checker = openArgumentChecker();
  after(() => checker.close());

  it('PIN-08 arguments that take too long are refused, and the next check of any tool works', async () => {
    const branch = { $ref: '#/$defs/node' };
    const slow = {
      $ref: '#/$defs/node',
      $defs: {
        node: {
          anyOf: [
            { properties: { a: branch }, required: ['a'] },
            { properties: { a: branch }, required: ['a'] },
          ],
        },
      },
    };
    const deep = Array.from({ length: 60 }).reduce((inner) => ({ a: inner }), { b: 1 } as unknown);
    const plain = object({ a: { type: 'integer' } });
    const [refused, ...others] = await Promise.all([
      checker.check('slow', async () => slow, deep),
      checker.check('plain', async () => plain, { a: 1 }),
      checker.check('plain', async () => plain, { a: 'x' }),
    ]);
    expect(refused).to.deep.equal({ slow: true });
    expect(others[0]).to.deep.equal({});
    expect(others[1]?.violation).to.include('/a');
  });

  it('PIN-08 a schema that takes too long to compile is not enforced', async () => {
    const impatient = openArgumentChecker({ compileMs: 200 });
    try {
      const outcome = await impatient.check('slow', async () => slowToCompile(), { p1: 1 });
      expect(outcome).to.deep.equal({ unusable: 'compiling it takes too long' });
      expect(await impatient.check('after', async () => object({}), {})).to.deep.equal({});
    } finally {
      await impatient.close();
    }
  });
});
