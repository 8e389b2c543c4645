import { expect } from 'chai';
import { LEVELS } from '../../support/levels.ts';
import { FIELDS, redact } from '../../../src/development/sample/redact.ts';

const person = { name: 'A', email: 'b', phone: 'c', iban: 'd', card: 'e' };

describe('redaction by level', () => {
  it('names are shown from operations, contact details from admin and payment details from full', () => {
    expect(LEVELS.map((level) => Object.keys(redact(person, level)))).to.deep.equal([
      [],
      ['name'],
      ['name', 'email', 'phone'],
      ['name', 'email', 'phone', 'iban', 'card'],
    ]);
  });

  it('fields are redacted at every depth, including nested lists', () => {
    const result = { found: [[person], { total: { site: 'x', unpaid: [person] } }] };
    expect(redact(result, 'operations')).to.deep.equal({
      found: [[{ name: 'A' }], { total: { site: 'x', unpaid: [{ name: 'A' }] } }],
    });
  });

  it('a field without an entry is hidden from every level, with its content', () => {
    for (const field of ['secret', 'constructor', '__proto__', 'toString']) {
      const result = JSON.parse(`{"${field}": {"people": 9}, "by": "plan"}`);
      for (const level of LEVELS) expect(redact(result, level)).to.deep.equal({ by: 'plan' });
    }
  });

  it('the input is not modified', () => {
    const result = { found: [{ ...person }] };
    redact(result, 'analytics');
    expect(result).to.deep.equal({ found: [person] });
  });

  it('small groups are suppressed at analytics only', () => {
    const result = {
      groups: [
        { group: 'a', people: 4 },
        { group: 'b', people: 90 },
      ],
    };
    const hidden = { people: null, suppressed: true };
    expect(redact(result, 'analytics')).to.deep.equal({
      groups: [
        { group: 'a', ...hidden },
        { group: 'b', ...hidden },
      ],
    });
    expect(redact(result, 'operations')).to.deep.equal(result);
  });

  it('each field has exactly one level', () => {
    const all = LEVELS.flatMap((level) => FIELDS[level]);
    expect(all).to.deep.equal([...new Set(all)]);
  });
});
