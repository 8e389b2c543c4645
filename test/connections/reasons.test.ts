import { expect } from 'chai';
import { REASONS } from '../../src/connections/reasons.ts';
import { openPages } from '../../src/pages/pages.ts';
import { SHARED } from '../pages/sample-pages.ts';

const LANGUAGES = ['de', 'en', 'es', 'fr', 'ja', 'pt'];
const WITHOUT_ADVICE = ['disconnected', 'revoked_by_client'];

describe('The texts for reasons why a grant ended', () => {
  const { translator } = openPages(SHARED);

  for (const reason of Object.keys(REASONS))
    it(`the reason ${reason} has a text on the account page`, () => {
      expect(translator(['en']).has(`reasons.${reason}`)).to.equal(true);
    });

  for (const language of LANGUAGES)
    it(`every text (${language}) says what happened, and what to do unless the person ended the grant`, () => {
      const { t } = translator([language]);
      const oneSentence = Object.keys(REASONS).filter((reason) => {
        const sentences = t(`reasons.${reason}`, { contact: 'none' }).match(/[^.。]+[.。]/g) ?? [];
        return sentences.length < 2;
      });
      expect(oneSentence.sort()).to.deep.equal(WITHOUT_ADVICE);
    });
});
