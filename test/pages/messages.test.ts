// The message files: every language says everything, with the same values and marks, and nothing that a page would show wrongly.
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { REASONS } from '../../src/grants/reasons.ts';
import { openPages } from '../../src/pages/pages.ts';
import { ingredientsOf, messageMistakes, readMessageFiles } from '../../src/pages/message-files.ts';
import { securityEvents } from '../../src/observability/labels.ts';

const FILES = readMessageFiles(join(import.meta.dirname, '../../views/messages'));
const ENGLISH = FILES.get('en') ?? new Map();
const LANGUAGES = ['de', 'en', 'es', 'fr', 'ja', 'pt'];

const ABOUT_THE_REQUEST = ['invalid_request', 'misdirected_request'];

describe('the messages', () => {
  it('are there in six languages, without a mistake', () => {
    expect([...FILES.keys()].sort()).to.deep.equal(LANGUAGES);
    expect(ENGLISH.size).to.be.above(100);
    expect(messageMistakes(FILES, ENGLISH)).to.deep.equal([]);
  });

  for (const language of LANGUAGES) {
    const file = FILES.get(language) ?? new Map();

    it(`${language}: nothing is missing`, () => {
      expect([...ENGLISH.keys()].filter((key) => !file.has(key))).to.deep.equal([]);
    });

    it(`${language}: every text uses the values and marks that the English one uses`, () => {
      for (const [key, { text }] of ENGLISH) {
        const translated = ingredientsOf(file.get(key)?.text ?? '', language);
        expect(translated, key).to.deep.equal(ingredientsOf(text, 'en'));
      }
    });

    it(`${language}: no text has what nobody sees, a typewriter apostrophe, or space at its ends`, () => {
      const odd = [...file].filter(([, { text }]) =>
        /[\p{Bidi_Control}\p{Cc}\u00AD\u200B\u2060\uFEFF]|'|^\s|\s$|\s\s/u.test(text),
      );
      expect(odd.map(([key]) => key)).to.deep.equal([]);
    });
  }

  it('of other languages are not left in English', () => {
    const same = LANGUAGES.filter((language) => language !== 'en').flatMap((language) =>
      [...(FILES.get(language) ?? [])]
        .filter(([key, { text }]) => /\s.*\s/.test(text) && text === ENGLISH.get(key)?.text)
        .map(([key]) => `${language}: ${key}`),
    );
    expect(same).to.deep.equal([]);
  });

  it('about errors where no app is waiting speak of no app', () => {
    const keys = [...ENGLISH.keys()].filter((key) => key.startsWith('outside.'));
    expect(keys).to.have.length.above(15);
    expect(keys.filter((key) => /\bapp\b/.test(ENGLISH.get(key)?.text ?? ''))).to.deep.equal([]);
    const about = new Set(keys.map((key) => key.split('.')[1]));
    for (const name of about) expect(ENGLISH.has(`errors.${name}.title`), name).to.equal(true);
  });

  it('there are of every error that people can meet; those about the request alone share one', () => {
    const src = join(import.meta.dirname, '../../src');
    const sources = globSync('{authorization-server,http,accounts}/**/*.ts', { cwd: src });
    const text = sources.map((path) => readFileSync(join(src, path), 'utf8')).join('\n');
    const codes = [...text.matchAll(/new HttpError\(\s*\d+,\s*'(\w+)'|about: '(\w+)'/g)];
    const names = new Set(codes.map(([, code, about]) => code ?? about ?? ''));
    expect([...names]).to.include.members(['expired', 'sign_in_stopped', 'too_many_requests']);
    const silent = [...names].filter((name) => !ENGLISH.has(`errors.${name}.title`));
    expect(silent.sort()).to.deep.equal(ABOUT_THE_REQUEST);
    for (const name of [...names].filter((each) => !silent.includes(each)))
      for (const part of ['title', 'message', 'advice'])
        expect(ENGLISH.has(`errors.${name}.${part}`), `${name}.${part}`).to.equal(true);
  });

  it('there are of all that the audit log records, for administrators', () => {
    const src = join(import.meta.dirname, '../../src');
    const text = globSync('{authorization-server,connections,management,resource-server}/**/*.ts', {
      cwd: src,
    }).map((path) => readFileSync(join(src, path)));
    const outcomes = [
      ...text.join('\n').matchAll(/[,{]\s*outcome: '(\w+)'|record\(.* '(\w+)' : '(\w+)'/g),
    ]
      .flatMap(([, ...found]) => found)
      .filter((outcome) => outcome !== undefined);
    expect(outcomes).to.include.members(['done', 'grant_ended', 'allowed', 'granted', 'refused']);
    const keys = [
      ...securityEvents.map((event) => `console.events.${event}`),
      ...outcomes.map((outcome) => `console.outcomes.${outcome}`),
    ];
    expect(keys.filter((key) => !ENGLISH.has(key))).to.deep.equal([]);
  });

  it('say to administrators in English why connections ended as the command line does', () => {
    for (const [reason, words] of Object.entries(REASONS))
      expect(ENGLISH.get(`console.reasons.${reason}`)?.text, reason).to.equal(words);
  });

  it('come with durations and days as each language says them', () => {
    const { speak } = openPages({ productName: 'Gatehouse' });
    const said = LANGUAGES.map((language) => {
      const { duration, date } = speak([language]);
      return [duration(7_776_000), duration(3600), duration(5400), date(1_790_000_000)];
    });
    for (const [lifetime, access] of said) expect(`${lifetime}${access}`).to.not.include(' ');
    // Which spaces may not be broken in a date differs between versions of the data.
    const spaced = said.map((texts) => texts.map((text) => text.replaceAll(/\s/g, ' ')));
    expect(spaced).to.deep.equal([
      ['90 Tage', '1 Stunde', '90 Minuten', '21. September 2026'],
      ['90 days', '1 hour', '90 minutes', 'September 21, 2026'],
      ['90 días', '1 hora', '90 minutos', '21 de septiembre de 2026'],
      ['90 jours', '1 heure', '90 minutes', '21 septembre 2026'],
      ['90 日', '1 時間', '90 分', '2026年9月21日'],
      ['90 dias', '1 hora', '90 minutos', '21 de setembro de 2026'],
    ]);
  });

  it('are the key where there is no such text, and never an error', () => {
    const { say, mark, has } = openPages({ productName: 'Gatehouse' }).speak(['de']);
    expect([say('no.such'), mark('{', { a: 1 }), has('no.such')]).to.deep.equal([
      'no.such',
      ['{'],
      false,
    ]);
  });
});
