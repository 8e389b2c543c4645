import { expect } from 'chai';
import { variantOfText } from '../../../src/upstreams/tool-digest.ts';
import { NO_PINS, notedReading, type ToolPins } from '../../../src/upstreams/tool-pins.ts';

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
});
