// Every reason why a connection ended can be said to the person, on the page of connected apps.
import { expect } from 'chai';
import { REASONS } from '../../src/grants/reasons.ts';
import { openPages } from '../../src/http/pages.ts';

describe('The reasons why connections end', () => {
  const { speak } = openPages({ productName: 'Gatehouse' });

  for (const reason of Object.keys(REASONS))
    it(`have a text on the page: ${reason}`, () => {
      expect(speak(['en']).has(`reasons.${reason}`)).to.equal(true);
    });
});
