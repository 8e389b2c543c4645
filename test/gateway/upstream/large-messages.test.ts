import { isUtf8 } from 'node:buffer';
import { expect } from 'chai';
import * as fc from 'fast-check';
import { noteAnswer } from '../../../src/gateway/call-audit.ts';
import { filterMessage, READ_MEMBERS } from '../../../src/gateway/upstream/filter.ts';
import { JsonScanner } from '../../../src/gateway/upstream/json-scanner.ts';
import {
  readLargeBody,
  readLargeEvent,
  withUnread,
} from '../../../src/gateway/upstream/large-messages.ts';
import { readMessages, writeMessages } from '../../../src/gateway/upstream/messages.ts';
import { filterOptions } from '../../support/upstream/filter-options.ts';

const MAX = { depth: 50, values: 100_000 };
const READ = { result: new Set(['task', 'id']), params: new Set(['a']) };

/** Reads `steps` bytes at a time. Returns undefined if it is not JSON. */
function scan(bytes: Buffer, steps: readonly number[] = [bytes.length]) {
  const scanner = new JsonScanner(bytes, { max: MAX, read: READ, maxUnread: 100 });
  try {
    for (let n = 0; scanner.read(steps[n % steps.length] ?? 1); n += 1);
  } catch (error) {
    expect(error).to.be.instanceOf(SyntaxError);
    return undefined;
  }
  return scanner;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

const NAMES = ['a', 'result', 'params', 'content', 'task', '_meta', 'id', '__proto__', 'é', '7'];
const space = fc.constantFrom('', '', '', ' ', '\n', '\t\r');
const scalar = fc.oneof(
  fc.string({ unit: 'binary' }).map((text) => JSON.stringify(text)),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((number) => JSON.stringify(number)),
  fc.constantFrom('true', 'false', 'null', '-0', '1E+2', '0.10', '12345678901234567890', '""'),
  fc.constantFrom(String.raw`"\u00e9\ud800"`, String.raw`"\\\"\/\b"`, '"🂡 and text, text, text"'),
);
const written = fc.oneof(
  fc.constantFrom(...NAMES).map((name) => JSON.stringify(name)),
  fc.constantFrom(...NAMES).map((name) => JSON.stringify(name).replace('t', String.raw`\u0074`)),
);
function spaced(parts: fc.Arbitrary<string>[]): fc.Arbitrary<string> {
  return fc.tuple(...parts.flatMap((part) => [space, part, space])).map((all) => all.join(''));
}
function objectOf(members: fc.Arbitrary<string>): fc.Arbitrary<string> {
  return fc.array(members, { maxLength: 5 }).map((all) => `{${all.join(',')}}`);
}
const { json } = fc.letrec<{ json: string }>((tie) => ({
  json: fc.oneof(
    { maxDepth: 5, withCrossShrink: true },
    scalar,
    fc.array(spaced([tie('json')]), { maxLength: 5 }).map((all) => `[${all.join(',')}]`),
    objectOf(spaced([written, fc.constant(':'), tie('json')])),
  ),
}));
const text = spaced([json]);
const mutations = fc.array(
  fc.record({
    at: fc.nat(),
    removed: fc.nat(2),
    added: fc.oneof(
      fc.constant(''),
      fc.constantFrom(...'{}[]",:\\ue0+-. \n\0\u001f'),
      fc.constantFrom('\ufeff', 'nul', '\\u12', '""', '1'),
    ),
  }),
  { minLength: 1, maxLength: 3 },
);
const steps = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 4 });

describe('The scanner of large messages', () => {
  it('accepts what the parser of the runtime accepts, however the work is divided', () => {
    fc.assert(
      fc.property(text, mutations, steps, fc.nat(3), (valid, changes, divided, shift) => {
        const mutated = changes.reduce((changed, { at, removed, added }) => {
          const from = at % (changed.length + 1);
          return changed.slice(0, from) + added + changed.slice(from + removed);
        }, valid);
        for (const each of [valid, mutated]) {
          // At every alignment to words.
          const bytes = Buffer.concat([Buffer.alloc(shift), Buffer.from(each)]).subarray(shift);
          const found = scan(bytes, divided);
          expect(found !== undefined, each).to.equal(isJson(bytes.toString()));
          expect(scan(bytes)?.unread).to.deep.equal(found?.unread);
        }
      }),
      { numRuns: 1500 },
    );
  });

  it('accepts each number, literal and escape that the parser accepts, and no other', () => {
    const pieces = fc.array(fc.constantFrom(...'-+0123.eEtrufalsn'), { maxLength: 7 });
    const token = fc.oneof(
      pieces.map((all) => all.join('')),
      pieces.map((all) => `"\\${all.join('')}"`),
      fc.constantFrom('true', 'false', 'null', 'truefalse', '"\t"', '"\x7f\u2028"', "'a'", '1 2'),
    );
    fc.assert(
      fc.property(token, (each) => {
        for (const whole of [each, `[${each}]`, `{"a":${each}}`])
          expect(scan(Buffer.from(whole)) !== undefined, whole).to.equal(isJson(whole));
      }),
      { numRuns: 3000 },
    );
  });

  it('finds special characters at each place of a text', () => {
    for (const special of ['"', '\\', '\n', '\0', '\u001f'])
      for (let at = 0; at < 40; at += 1) {
        const plain = 'ÿ~ !#[]\x7f'.repeat(10);
        const whole = `"${plain.slice(0, at)}${special}${plain.slice(at)}"`;
        expect(scan(Buffer.from(whole)), JSON.stringify(whole)).to.equal(undefined);
      }
  });

  it('keeps one range more than the maximum', () => {
    const members = Array.from({ length: 300 }, (_, n) => `"x${n}":1,"task":2`);
    expect(scan(Buffer.from(`{"result":{${members.join(',')}}}`))?.unread).to.have.length(101);
  });

  it('reads no further than the maximum of levels and values', () => {
    expect(scan(Buffer.from('['.repeat(1000)))?.size).to.include({ depth: 51 });
    expect(scan(Buffer.from(`[${'1,'.repeat(200_000)}1]`))?.size).to.include({ values: 100_001 });
  });
});

const active = () => undefined;

/** Of turns of the event loop while `work` runs. */
async function turnsOf(work: () => Promise<unknown>): Promise<number> {
  let turns = 0;
  const count = () => {
    turns += 1;
    turn = setImmediate(count);
  };
  let turn = setImmediate(count);
  try {
    await work();
    return turns;
  } finally {
    clearImmediate(turn);
  }
}

describe('Large messages of an MCP server', () => {
  const member = fc.oneof(
    spaced([written, fc.constant(':'), json]),
    spaced([fc.constantFrom('"content"', '"messages"'), fc.constant(':'), json]),
  );
  const envelope = fc.oneof(
    spaced([fc.constant('"result":'), objectOf(member)]),
    spaced([fc.constant('"error":'), objectOf(member)]),
    member,
  );
  const message = fc
    .array(envelope, { maxLength: 3 })
    .map((members) => `{${['"jsonrpc":"2.0"', '"id":1', ...members].join(',')}}`);
  const body = fc.oneof(
    message,
    fc.array(message, { maxLength: 3 }).map((all) => `[${all.join(',')}]`),
  );

  /** The values, or the kind of the error. */
  async function outcome(read: () => Promise<string> | string): Promise<unknown> {
    try {
      return JSON.stringify(JSON.parse(await read()));
    } catch (error) {
      return (error as Error).constructor.name;
    }
  }

  it('have the same values as when all of them are parsed', async () => {
    await fc.assert(
      fc.asyncProperty(
        body,
        fc.constantFrom('', '\ufeff', '\ufeff\ufeff'),
        fc.option(fc.nat()),
        async (...given) => {
          const [whole, mark, broken] = given;
          const bytes = Buffer.from(mark + whole);
          if (broken !== null) bytes[broken % bytes.length] = 0xff;
          expect(isUtf8(bytes)).to.equal(broken === null);
          const scanned = await outcome(async () => {
            const { unread, ...read } = await readLargeBody(bytes, active);
            return Buffer.concat(
              withUnread(writeMessages(read), unread).map((piece) => Buffer.from(piece)),
            ).toString();
          });
          expect(scanned).to.deep.equal(await outcome(() => writeMessages(readMessages(bytes))));
        },
      ),
      { numRuns: 1000 },
    );
  });

  it('are written with the bytes of what nobody reads, and without a second member of a name that is read', async () => {
    const content = '"content":[ {"type": "text", "n": 1.0} ] , "other":"\\u00e9","content":[]';
    const result = `{${content},"task":{"taskId":"one"},"task":{"taskId":"two"}, "x":1}`;
    const whole = Buffer.from(`{"jsonrpc":"2.0","id":1,"result":{},"result":${result}}`);
    const { unread, ...read } = await readLargeBody(whole, active);
    expect(withUnread(writeMessages(read), unread).join('')).to.equal(
      `{"jsonrpc":"2.0","id":1,"result":{${content},"task":{"taskId":"two"},"x":1}}`,
    );
  });

  it('keep the order of members of one name, also if it is written with escapes', async () => {
    const members = String.raw`"con\u0074ent":1,"content":2,"con\u0074ent":3`;
    const whole = Buffer.from(`{"jsonrpc":"2.0","id":1,"result":{${members}}}`);
    const { unread, ...read } = await readLargeBody(whole, active);
    const written = withUnread(writeMessages(read), unread).join('');
    expect(JSON.parse(written)).to.deep.equal(JSON.parse(whole.toString()));
  });

  it('of 16 MB are read in pieces, between which others are served', async () => {
    const size = 16 * 1024 * 1024;
    const text = `{"jsonrpc":"2.0","id":1,"result":{"content":["${'x'.repeat(size)}"]}}`;
    const turns = await turnsOf(async () => {
      const { unread } = await readLargeBody(Buffer.from(text), active);
      expect(unread).to.have.length(1);
    });
    expect(turns).to.be.at.least(32);
  });

  it('of a stream, and with bytes that are not UTF-8, are also encoded in pieces', async () => {
    const text = `{"jsonrpc":"2.0","id":1,"result":{"content":["${'😀é'.repeat(1_000_001)}"]}}`;
    const bytes = Buffer.from(text);
    const written = async (read: ReturnType<typeof readLargeBody>) =>
      Buffer.concat((await read).unread).toString();
    const turns = await turnsOf(async () => {
      expect(text).to.contain(await written(readLargeEvent(text, active)));
    });
    expect(turns).to.be.at.least(16);
    bytes[bytes.length - 10] = 0xff;
    const replaced = bytes.toString();
    const more = await turnsOf(async () => {
      expect(replaced).to.contain(await written(readLargeBody(bytes, active)));
    });
    expect(more).to.be.at.least(20);
  });

  it('are read no further when their call has ended', async () => {
    const text = `{"jsonrpc":"2.0","id":1,"result":{"content":["${'x'.repeat(4e6)}"]}}`;
    const ended = new Error('over');
    let asked = 0;
    const failing = readLargeBody(Buffer.from(text), () => {
      asked += 1;
      throw ended;
    });
    expect(await failing.catch((error: unknown) => error)).to.equal(ended);
    expect(asked).to.equal(1);
  });

  it('with more than a thousand runs of unread members are parsed', async () => {
    const members = Array.from({ length: 3000 }, (_, n) => `"x${n}":${n},"task":${n}`);
    const whole = `{"jsonrpc":"2.0","id":1,"result":{${members.join(',')}}}`;
    const { unread, ...read } = await readLargeBody(Buffer.from(whole), active);
    expect(unread).to.deep.equal([]);
    expect(read.messages).to.deep.equal([JSON.parse(whole)]);
  });

  it('of a stream have no byte order mark', async () => {
    const whole = '\ufeff{"jsonrpc":"2.0","id":1,"result":{}}';
    const failing = readLargeEvent(whole, active);
    expect(await failing.catch((error: unknown) => error)).to.be.instanceOf(SyntaxError);
  });

  it('and others are refused if they are nested too deeply', () => {
    const nested = (depth: number) =>
      Buffer.from(`{"jsonrpc":"2.0","id":1,"result":${'['.repeat(depth)}${']'.repeat(depth)}}`);
    expect(readMessages(nested(999)).messages).to.have.length(1);
    expect(() => readMessages(nested(1000))).to.throw('nested more than 1000 levels deep');
  });

  it('are read where a name is written with escapes', async () => {
    const whole = String.raw`{"jsonrpc":"2.0","id":1,"result":{"t\u0061sk":[1.0],"x":[1.0],"task":[2]}}`;
    const { unread, ...read } = await readLargeBody(Buffer.from(whole), active);
    expect(withUnread(writeMessages(read), unread).join('')).to.equal(
      '{"jsonrpc":"2.0","id":1,"result":{"task":[2],"x":[1.0]}}',
    );
  });

  it('of any kind have no members that are read and not known to be', async () => {
    const asked = new Set<string | symbol>();
    const watched = (members: object) =>
      new Proxy(members, {
        get(target, name, receiver) {
          // Promises ask for it.
          if (name !== 'then') asked.add(name);
          return Reflect.get(target, name, receiver);
        },
      }) as Record<string, unknown>;
    const own = new Set(['own']);
    const options = filterOptions(own, async () => own);
    const list = { nextCursor: 'next', cacheScope: 'public', ttlMs: 1 };
    for (const result of [
      {},
      { resultType: 'task', taskId: 'own', status: 'working' },
      { task: { taskId: 'own' }, requestState: 'state', instructions: 'text' },
      { tools: [], tasks: [], resources: [], resourceTemplates: [], prompts: [], ...list },
      { supportedVersions: [], capabilities: {}, ...list },
    ]) {
      await filterMessage(options, { jsonrpc: '2.0', id: 1, result: watched(result) });
      noteAnswer(
        { recorded: { records: [{ messageId: 1 } as never], at: 0, began: 0 } },
        { jsonrpc: '2.0', id: 1, result: watched(result) },
      );
    }
    expect([...asked].filter((name) => !READ_MEMBERS['result']?.has(String(name)))).to.deep.equal(
      [],
    );
    asked.clear();
    for (const method of [
      'notifications/tasks/status',
      'notifications/resources/updated',
      'notifications/progress',
      'notifications/other',
      'sampling/createMessage',
    ])
      await filterMessage(options, { jsonrpc: '2.0', method, params: watched({ taskId: 'own' }) });
    expect([...asked].filter((name) => !READ_MEMBERS['params']?.has(String(name)))).to.deep.equal(
      [],
    );
  });
});
