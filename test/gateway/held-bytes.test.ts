import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect } from 'chai';
import * as fc from 'fast-check';
import { type Hold, heldBytes } from '../../src/gateway/held-bytes.ts';

const KB = 1024;
const LIMITS = { perCaller: 1000 * KB, inAll: 2000 * KB, largest: 400 * KB };

/** The last message of all and that of its caller are different ones, unless that is prevented. */
const CROSSED = [
  { caller: 'ada', sizes: [1, 1, 206, 207] },
  { caller: 'ada', sizes: [1, 1, 111] },
  { caller: 'alan', sizes: [1, 1, 259, 260] },
  { caller: 'ada', sizes: [1, 1, 115, 138, 151] },
  { caller: 'grace', sizes: [1, 1, 111, 345, 358] },
  { caller: 'alan', sizes: [1, 97, 374] },
  { caller: 'alan', sizes: [1, 152, 292, 305] },
  { caller: 'ada', sizes: [1, 280, 281] },
  { caller: 'grace', sizes: [1, 393] },
  { caller: 'grace', sizes: [1, 1, 371, 372] },
];

/** Resolves to whether a wait ended by now. */
function isGranted(wait: Promise<void> | undefined): Promise<boolean> {
  const later = new Promise<false>((resolve) => setImmediate(() => resolve(false)));
  return Promise.race([Promise.resolve(wait).then(() => true), later]);
}

describe('The bytes of messages that are held', () => {
  const holds: Hold[] = [];
  afterEach(() => holds.splice(0).forEach((hold) => hold.release()));

  function open(limits = LIMITS) {
    const held = heldBytes(limits);
    return (caller: string) => {
      const hold = held.hold(caller);
      holds.push(hold);
      return hold;
    };
  }

  it('DOS-09 a caller shares all but the largest message, and one more message may use the rest', async () => {
    const hold = open();
    const [first, second, third] = [hold('ada'), hold('ada'), hold('ada')];
    expect(first.set(600 * KB)).to.equal(undefined);
    expect(second.set(400 * KB)).to.equal(undefined);
    const wait = third.set(17 * KB);
    expect(await isGranted(wait)).to.equal(false);
    expect(hold('grace').set(400 * KB)).to.equal(undefined);
    second.release();
    expect(await isGranted(wait)).to.equal(true);
    expect(third.bytes).to.equal(17 * KB);
  });

  it('DOS-09 all callers share a limit, of which a part is kept for those who hold little', async () => {
    const hold = open({ ...LIMITS, inAll: 1600 * KB });
    hold('ada').set(1000 * KB);
    hold('grace').set(400 * KB);
    const alan = hold('alan');
    expect(await isGranted(alan.set(200 * KB))).to.equal(true);
    expect(await isGranted(hold('ada').set(20 * KB))).to.equal(false);
  });

  it('DOS-09 the rest is free again when others gave back enough, also if the message that used it stays', () => {
    const hold = open({ perCaller: 16_000 * KB, inAll: 16_000 * KB, largest: 4000 * KB });
    const ada = hold('ada');
    ada.set(10_000 * KB);
    hold('grace').set(1900 * KB);
    hold('alan').set(200 * KB);
    ada.reduce(9000 * KB);
    expect(hold('edsger').set(4000 * KB)).to.equal(undefined);
  });

  it('DOS-09 the rest of a caller is free while its message uses the rest of all, once others gave back enough', async () => {
    const hold = open({ ...LIMITS, inAll: 1000 * KB });
    const grace = hold('grace');
    grace.set(500 * KB);
    const [first, second] = [hold('ada'), hold('ada')];
    expect(first.set(300 * KB)).to.equal(undefined);
    const wait = second.set(400 * KB);
    expect(await isGranted(wait)).to.equal(false);
    grace.release();
    expect(await isGranted(wait)).to.equal(true);
  });

  it('DOS-09 small messages are not counted', () => {
    const hold = open();
    hold('ada').set(600 * KB);
    hold('ada').set(400 * KB);
    for (let n = 0; n < 200; n += 1) expect(hold('ada').set(16 * KB)).to.equal(undefined);
  });

  it('DOS-09 a message counts nothing once it was released, whatever is read of it later', async () => {
    const hold = open();
    const released = hold('ada');
    released.set(100 * KB);
    released.release();
    expect(released.set(1000 * KB)).to.equal(undefined);
    expect(released.bytes).to.equal(0);
    expect(await isGranted(hold('ada').set(1000 * KB))).to.equal(true);
  });

  it('DOS-09 messages that grow at the same time never block each other for ever', async () => {
    const message = fc.record({
      caller: fc.constantFrom('ada', 'grace', 'alan'),
      sizes: fc.array(fc.integer({ min: 1, max: 400 }), { minLength: 1, maxLength: 6 }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(message, { maxLength: 12 }), async (messages) => {
        const held = heldBytes(LIMITS);
        const total = new Map<string, number>();
        const grow = async ({ caller, sizes }: (typeof messages)[number]) => {
          const hold = held.hold(caller);
          for (const size of sizes.toSorted((a, b) => a - b)) {
            const before = hold.bytes;
            await hold.set(size * KB);
            total.set(caller, (total.get(caller) ?? 0) + hold.bytes - before);
            expect(total.get(caller)).to.be.at.most(LIMITS.perCaller);
            await nextTurn();
          }
          total.set(caller, (total.get(caller) ?? 0) - hold.bytes);
          hold.release();
        };
        await Promise.all(messages.map(grow));
        expect([...total.values()].every((bytes) => bytes === 0)).to.equal(true);
      }),
      { numRuns: 200, examples: [[CROSSED]] },
    );
  });
});
