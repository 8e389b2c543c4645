import { expect } from 'chai';
import { variantOfText } from '../../../src/upstreams/tool-digest.ts';
import {
  approvedPins,
  hintsOfCallers,
  holdReason,
  NO_PINS,
  notedReading,
  type ToolPins,
} from '../../../src/upstreams/tool-pins.ts';

describe('The pins of an MCP server', () => {
  const read = (pins: ToolPins, text: string, caller?: string) =>
    notedReading(pins, {
      mode: 'hold',
      at: 1,
      tools: [],
      instructions: variantOfText(text),
      caller,
    });

  it('PIN-06 the changed instructions of a server without tools wait for an operator', () => {
    const { pins: first } = read(NO_PINS, 'Be kind.');
    expect(first.instructions?.pending).to.deep.equal([]);
    const { pins, changes } = read(first, 'Be cruel.');
    expect(pins.instructions?.approved).to.have.length(1);
    expect(pins.instructions?.pending).to.have.length(1);
    expect(changes).to.have.length(1);
  });

  it('the first instructions that Gatehouse reads are approved, also if a caller was shown them before', () => {
    const { pins } = read(read(NO_PINS, 'Be kind.', 'caller').pins, 'Be kind.');
    expect(pins.instructions?.approved).to.have.length(1);
    expect(pins.instructions?.pending).to.deep.equal([]);
  });

  const MANY = Array.from({ length: 25 }, (_, n) => `caller ${n}`);
  const reading = (text: string, caller?: string) => {
    const tools = [{ name: 'search', variant: variantOfText(text), isTwice: false }];
    return { at: 1, tools, caller, isWhole: true };
  };
  const list = (pins: ToolPins, text: string, caller?: string) =>
    notedReading(pins, { ...reading(text, caller), mode: 'hold' }).pins;
  /** Each caller is listed a text of its own. */
  const listToMany = (pins: ToolPins) =>
    MANY.reduce((before, caller) => list(before, `For ${caller}`, caller), pins);
  const heldFor = (pins: ToolPins, caller?: string) =>
    holdReason(new Map(pins.tools).get('search'), caller);

  it('PIN-05 a tool stays held from each caller with another text, and a changed one from all, however many texts wait', () => {
    const approved = list(NO_PINS, 'Search');
    const pins = listToMany(approved);
    for (const caller of MANY) expect(heldFor(pins, caller), caller).to.equal('changed');
    expect(heldFor(pins, 'another caller')).to.equal(undefined);
    const changed = listToMany(list(approved, 'Search and delete'));
    expect(heldFor(changed, 'another caller')).to.equal('changed');
    const [[, pin] = []] = changed.tools;
    expect(pin?.pending).to.have.length(20);
  });

  it('PIN-05 a caller whose text had no place is held until its list has an approved text, or not the tool', () => {
    const pins = listToMany(list(NO_PINS, 'Search'));
    const [first = '', second = ''] = MANY;
    expect(heldFor(list(pins, 'Search', first), first)).to.equal(undefined);
    const without = { mode: 'hold', at: 1, tools: [], caller: second, isWhole: true } as const;
    expect(heldFor(notedReading(pins, without).pins, second)).to.equal(undefined);
    const waiting = new Map(pins.tools).get('search')?.pending ?? [];
    const approvals = waiting.map(({ digest }) => ({ name: 'search', digest }));
    const after = approvedPins(pins, approvals, 2);
    expect(heldFor(after, first)).to.equal('changed');
    expect(heldFor(after, MANY.at(-1))).to.equal(undefined);
  });

  it('PIN-05 the texts of more callers than are kept hold the tool from all, until an operator has approved what waits', () => {
    const approved = list(NO_PINS, 'Search');
    const callers = Array.from({ length: 130 }, (_, n) => `caller ${n}`);
    const pins = callers.reduce((before, each) => list(before, `For ${each}`, each), approved);
    expect(heldFor(pins, 'another caller')).to.equal('changed');
    const waiting = new Map(pins.tools).get('search')?.pending ?? [];
    const approvals = waiting.map(({ digest }) => ({ name: 'search', digest }));
    expect(heldFor(approvedPins(pins, approvals, 2), 'another caller')).to.equal(undefined);
  });

  it('PIN-14 an approved text that only callers had counts until two readings of Gatehouse in a row have it', () => {
    const listed = list(list(NO_PINS, 'Search'), 'Search and delete', 'caller');
    const { digest } = variantOfText('Search and delete');
    const approved = approvedPins(listed, [{ name: 'search', digest }], 2);
    const isCounted = (...texts: string[]) =>
      hintsOfCallers(texts.reduce((pins, text) => list(pins, text), approved)).has('search');
    expect(isCounted()).to.equal(true);
    expect(isCounted('Search and delete')).to.equal(true);
    expect(isCounted('Search and delete', 'Search', 'Search and delete')).to.equal(true);
    expect(isCounted('Search and delete', 'Search and delete')).to.equal(false);
  });

  it('with follow, tools that a caller is listed before Gatehouse reads them are no change, and what differs later is', () => {
    const follow = (pins: ToolPins, text: string, caller?: string) =>
      notedReading(pins, { ...reading(text, caller), mode: 'follow' });
    const early = follow(NO_PINS, 'Search', 'caller');
    expect(early.changes).to.deep.equal([]);
    expect(follow(early.pins, 'Search').changes).to.deep.equal([]);
    const later = follow(early.pins, 'Search and delete', 'caller');
    expect(later.changes.map(({ name }) => name)).to.deep.equal(['search']);
  });
});
