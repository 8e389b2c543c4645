import { expect } from 'chai';
import { IntlMessageFormat } from 'intl-messageformat';
import { levelTexts } from '../../src/pages/level-texts.ts';

describe('The texts of levels in the settings', () => {
  const shown = (title: string) => {
    const levels = [{ id: 'read', title, recorded: false }];
    const own = new Map([['en', new Map()]]);
    const { text = '' } =
      levelTexts({ levels, own, theme: new Map() }, false).get('en')?.get('levels.read.title') ??
      {};
    return new IntlMessageFormat(text, 'en').format();
  };

  it('every character is shown as it is written, also those of ICU MessageFormat', () => {
    const characters = ['{', '}', '<', '>', "'", '#', '|', 'a'];
    let texts = [''];
    for (let length = 1; length <= 4; length += 1) {
      texts = texts.flatMap((text) => characters.map((character) => text + character));
      for (const text of texts) expect(shown(text)).to.equal(text);
    }
  });
});
