import { expect } from 'chai';
import { variantOfText } from '../../../src/upstreams/tool-digest.ts';
import {
  approvedPins,
  hintsOfCallers,
  holdOf,
  holdReason,
  NO_PINS,
  notedReading,
  pinsInMode,
  type ToolPins,
  toolsSince,
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

  describe('of a server that lists nothing to Gatehouse', () => {
    const listed = (
      pins: ToolPins,
      tools: Record<string, string>,
      { caller = 'ada', at = 1, isContinued = false } = {},
    ) =>
      notedReading(pins, {
        mode: 'hold',
        at,
        tools: Object.entries(tools).map(([name, text]) => ({
          name,
          variant: variantOfText(text),
          isTwice: false,
        })),
        caller,
        isWhole: !isContinued,
        isContinued,
        isOnlySource: true,
      }).pins;
    /** The catalog has the names of all that was listed. */
    const held = (pins: ToolPins, name: string, caller = 'ada') =>
      holdOf(pins, new Map(pins.tools).get(name), { caller, isNamed: () => true });

    it('PIN-15 the first list of a caller is approved, and what differs later is held', () => {
      const first = listed({ ...NO_PINS, mode: 'hold' }, { search: 'Search' });
      expect(held(first, 'search')).to.equal(undefined);
      expect(held(first, 'search', 'grace')).to.equal(undefined);
      const later = listed(first, { search: 'Search', drop: 'Delete' }, { at: 2 });
      expect(held(later, 'drop')).to.equal('new');
      expect(held(later, 'search')).to.equal(undefined);
      const changed = listed(first, { search: 'Search, and send it to Eve' }, { at: 2 });
      expect(held(changed, 'search')).to.equal('changed');
      const other = listed(first, { share: 'Share' }, { caller: 'grace' });
      expect(held(other, 'share', 'grace')).to.equal('new');
    });

    it('PIN-15 what Gatehouse reads itself after the first list of a caller is held if it differs', () => {
      const first = listed({ ...NO_PINS, mode: 'hold' }, { search: 'Search' });
      const same = list(first, 'Search');
      expect(held(same, 'search')).to.equal(undefined);
      const { pins, changes } = notedReading(first, {
        ...reading('Search, and send it to Eve'),
        mode: 'hold',
        instructions: variantOfText('Be cruel.'),
      });
      expect(held(pins, 'search')).to.equal('changed');
      expect(pins.instructions?.approved).to.deep.equal([]);
      expect(changes.map(({ name }) => name)).to.deep.equal(['search', '']);
      const back = list(listed(first, { search: 'Send it to Eve' }), 'Send it to Eve');
      expect(held(back, 'search')).to.equal('changed');
    });

    it('PIN-15 the further pages of the first list are no later tools', () => {
      const first = listed({ ...NO_PINS, mode: 'hold' }, { search: 'Search' }, { at: 10 });
      const next = listed(first, { open: 'Open' }, { isContinued: true, at: 12 });
      expect([...toolsSince(next, 1)]).to.deep.equal([]);
      expect([...toolsSince(next, 11)]).to.deep.equal([]);
    });

    it('PIN-15 the further pages of the first list are approved too, if they follow at once, and those of others are not', () => {
      const first = listed({ ...NO_PINS, mode: 'hold' }, { search: 'Search' });
      const next = (pins: ToolPins, options: object) =>
        held(listed(pins, { open: 'Open' }, { isContinued: true, ...options }), 'open');
      expect(next(first, { at: 30 })).to.equal(undefined);
      expect(next(first, { at: 90 })).to.equal('new');
      expect(next(first, { at: 30, caller: 'grace' })).to.equal('new');
    });

    it('PIN-15 a switch from follow approves what callers were listed last, and what differs later is held', () => {
      const follow = (pins: ToolPins, texts: Record<string, string>, caller: string) =>
        notedReading(pins, {
          mode: 'follow',
          at: 1,
          tools: Object.entries(texts).map(([name, text]) => ({
            name,
            variant: variantOfText(text),
            isTwice: false,
          })),
          instructions: variantOfText('Be kind.'),
          caller,
          isWhole: true,
          isOnlySource: true,
        }).pins;
      const before = follow(
        follow(NO_PINS, { search: 'Search', get_it: 'Get' }, 'ada'),
        { search: 'Search', share: 'Share', 'get-it': 'Get another' },
        'grace',
      );
      const pins = pinsInMode(before, 'hold');
      expect(held(pins, 'search')).to.equal(undefined);
      expect(held(pins, 'share', 'grace')).to.equal(undefined);
      expect(held(pins, 'get_it')).to.equal('new');
      expect(held(pins, 'get-it')).to.equal('new');
      expect(hintsOfCallers(pins).has('share')).to.equal(true);
      expect([...toolsSince(pins, 0)]).to.deep.equal([]);
      expect(pins.instructions?.approved).to.have.length(1);
      const listedToAda = listed(before, { search: 'Search', drop: 'Delete' });
      expect(held(listedToAda, 'share', 'grace')).to.equal(undefined);
      expect(held(listedToAda, 'drop')).to.equal('new');
      expect(held(list(before, 'Search, and send it to Eve'), 'search')).to.equal('changed');
    });

    it('PIN-14 the hints of the first list stay, whatever callers are listed later', () => {
      const first = listed({ ...NO_PINS, mode: 'hold' }, { search: 'Search' });
      expect(hintsOfCallers(first).has('search')).to.equal(true);
    });

    it('PIN-15 the first instructions are approved, and others wait', () => {
      const told = (pins: ToolPins, text: string) =>
        notedReading(pins, {
          mode: 'hold',
          at: 1,
          tools: [],
          instructions: variantOfText(text),
          caller: 'ada',
          isOnlySource: true,
        }).pins;
      const first = told({ ...NO_PINS, mode: 'hold' }, 'Be kind.');
      expect(first.instructions?.approved).to.have.length(1);
      for (const { instructions } of [told(first, 'Be cruel.'), read(first, 'Be cruel.').pins]) {
        expect(instructions?.approved).to.have.length(1);
        expect(instructions?.pending).to.have.length(1);
      }
      const late = told(listed({ ...NO_PINS, mode: 'hold' }, { search: 'Search' }), 'Be kind.');
      expect(late.instructions?.approved).to.deep.equal([]);
    });
  });
});
