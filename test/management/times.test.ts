import { expect } from 'chai';
import { minute, second } from '../../src/management/commands/terminal.ts';

describe('Times on the command line', () => {
  it('a time is that of the terminal, with its offset from UTC', () => {
    expect(minute('2030-01-31T23:30:00.000Z', 0)).to.equal('2030-01-31 23:30 UTC');
    expect(minute('2030-01-31T23:30:00.000Z', 330)).to.equal('2030-02-01 05:00 +05:30');
    expect(second('2030-01-31T23:30:09.500Z', 330)).to.equal('2030-02-01 05:00:09 +05:30');
    expect(minute('2030-01-31T02:30:00.000Z', -210)).to.equal('2030-01-30 23:00 -03:30');
  });
});
