// Every reason why a connection ended can be said to the person, on the page of connected apps.
import { expect } from 'chai';
import { REASONS } from '../../src/grants/reasons.ts';
import { openPages } from '../../src/pages/pages.ts';

const LANGUAGES = ['de', 'en', 'es', 'fr', 'ja', 'pt'];
const OWN_DOING = ['disconnected', 'revoked_by_client'];

describe('The reasons why connections end', () => {
  const { speak } = openPages({ productName: 'Gatehouse' });

  for (const reason of Object.keys(REASONS))
    it(`have a text on the page: ${reason}`, () => {
      expect(speak(['en']).has(`reasons.${reason}`)).to.equal(true);
    });

  for (const language of LANGUAGES)
    it(`say what happened, and then what to do about it: ${language}`, () => {
      const { say } = speak([language]);
      const silent = Object.keys(REASONS).filter((reason) => {
        const sentences = say(`reasons.${reason}`).match(/[^.。]+[.。]/g) ?? [];
        return sentences.length < 2;
      });
      expect(silent.sort()).to.deep.equal(OWN_DOING);
    });
});
