import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { REASONS } from '../../src/connections/reasons.ts';
import { openPages } from '../../src/pages/pages.ts';
import { checkMessages, placeholdersOf, readMessageFiles } from '../../src/pages/messages.ts';
import { auditEvents } from '../../src/observability/labels.ts';

const FILES = readMessageFiles(join(import.meta.dirname, '../../views/messages'));
const ENGLISH = FILES.get('en') ?? new Map();
const LANGUAGES = ['de', 'en', 'es', 'fr', 'ja', 'pt'];
/** The texts of people's pages. The console is in English. */
const TRANSLATED = [...ENGLISH].filter(([key]) => !key.startsWith('console.'));

/** Nobody sees them, no page shows them, or the page shows the description of the app's error. */
const WITHOUT_TEXTS = ['client_gone', 'forbidden_origin', 'invalid_request'];

describe('the messages', () => {
  it('there are valid message files in six languages', () => {
    expect([...FILES.keys()].sort()).to.deep.equal(LANGUAGES);
    expect(ENGLISH.size).to.be.above(100);
    expect(checkMessages(FILES, ENGLISH)).to.deep.equal([]);
  });

  for (const language of LANGUAGES) {
    const file = FILES.get(language) ?? new Map();

    it(`no text is missing or superfluous (${language})`, () => {
      const keys = language === 'en' ? [...ENGLISH.keys()] : TRANSLATED.map(([key]) => key);
      expect([...file.keys()].toSorted()).to.deep.equal(keys.toSorted());
    });

    it(`every text uses the values and tags of the English text (${language})`, () => {
      for (const [key, { text }] of TRANSLATED) {
        const translated = placeholdersOf(file.get(key)?.text ?? '', language);
        expect(translated, key).to.deep.equal(placeholdersOf(text, 'en'));
      }
    });

    it(`no text has invisible characters, a straight apostrophe, or extra spaces (${language})`, () => {
      const odd = [...file].filter(([, { text }]) =>
        /[\p{Bidi_Control}\p{Cc}\u00AD\u200B\u2060\uFEFF]|'|^\s|\s$|\s\s/u.test(text),
      );
      expect(odd.map(([key]) => key)).to.deep.equal([]);
    });
  }

  it('no line ends after the first letters of “e‑mail” and of German words with “KI‑”', () => {
    const split = [...FILES].flatMap(([language, file]) =>
      [...file]
        .filter(([, { text }]) => /\b(?:e|KI)-\p{L}/iu.test(text))
        .map(([key]) => `${language}: ${key}`),
    );
    expect(split).to.deep.equal([]);
  });

  it('no text of another language is in English', () => {
    const same = LANGUAGES.filter((language) => language !== 'en').flatMap((language) =>
      [...(FILES.get(language) ?? [])]
        .filter(([key, { text }]) => /\s.*\s/.test(text) && text === ENGLISH.get(key)?.text)
        .map(([key]) => `${language}: ${key}`),
    );
    expect(same).to.deep.equal([]);
  });

  it('no value has the name of a tag, which would replace it', () => {
    const all = [...ENGLISH].map(([key, { text }]) => ({ key, ...placeholdersOf(text, 'en') }));
    const tags = new Set(all.flatMap((found) => [...found.tags]));
    expect([...tags]).to.include('name');
    const hidden = all.filter(({ values }) => [...values].some((value) => tags.has(value)));
    expect(hidden.map(({ key }) => key)).to.deep.equal([]);
  });

  it('texts about errors outside a connection do not mention an app', () => {
    const keys = [...ENGLISH.keys()].filter((key) => key.startsWith('outside.'));
    expect(keys).to.have.length.above(15);
    expect(keys.filter((key) => /\bapp\b/.test(ENGLISH.get(key)?.text ?? ''))).to.deep.equal([]);
    const about = new Set(keys.map((key) => key.split('.')[1]));
    for (const name of about) expect(ENGLISH.has(`errors.${name}.title`), name).to.equal(true);
  });

  it('every error that a person can see has texts, except errors in the request of an app', () => {
    const src = join(import.meta.dirname, '../../src');
    const sources = globSync('{oauth,consent,sign-in,http,people}/**/*.ts', {
      cwd: src,
    });
    const text = sources.map((path) => readFileSync(join(src, path), 'utf8')).join('\n');
    const codes = [
      ...text.matchAll(/new HttpError\(\s*\d+,\s*'(\w+)'|about: '(\w+)'|= '(sign_in_\w+)'/g),
    ];
    const names = new Set(codes.map(([, ...found]) => found.find(Boolean) ?? ''));
    expect([...names]).to.include.members(['expired', 'sign_in_stopped', 'too_many_requests']);
    const silent = [...names].filter((name) => !ENGLISH.has(`errors.${name}.title`));
    expect(silent.sort()).to.deep.equal(WITHOUT_TEXTS);
    for (const name of [...names].filter((each) => !silent.includes(each)))
      for (const part of ['title', 'message', 'advice'])
        expect(ENGLISH.has(`errors.${name}.${part}`), `${name}.${part}`).to.equal(true);
  });

  it('every event and outcome in the audit log has a text for the console', () => {
    const src = join(import.meta.dirname, '../../src');
    const text = globSync('{oauth,consent,connections,management,gateway}/**/*.ts', {
      cwd: src,
    }).map((path) => readFileSync(join(src, path)));
    const outcomes = [
      ...text
        .join('\n')
        .matchAll(/[,{]\s*outcome: '(\w+)'|(?:record\w*\(|const outcome =).* '(\w+)' : '(\w+)'/g),
    ]
      .flatMap(([, ...found]) => found)
      .filter((outcome) => outcome !== undefined);
    expect(outcomes).to.include.members(['done', 'grant_ended', 'started', 'granted', 'refused']);
    const keys = [
      ...auditEvents.map((event) => `console.events.${event}`),
      ...outcomes.map((outcome) => `console.outcomes.${outcome}`),
    ];
    expect(keys.filter((key) => !ENGLISH.has(key))).to.deep.equal([]);
  });

  it('every event in the audit log has a sentence for the console, and every reason a clause', () => {
    const keys = [
      ...auditEvents.map((event) => `console.sentences.${event}`),
      ...Object.keys(REASONS).map((reason) => `console.causes.${reason}`),
    ];
    expect(keys.filter((key) => !ENGLISH.has(key))).to.deep.equal([]);
  });

  it('the console and the command line explain in the same words why a connection ended', () => {
    for (const [reason, words] of Object.entries(REASONS))
      expect(ENGLISH.get(`console.reasons.${reason}`)?.text, reason).to.equal(words);
  });

  it('durations and dates are in the format of each language', () => {
    const { translator } = openPages({ productName: 'Gatehouse' });
    const formatted = LANGUAGES.map((language) => {
      const { duration, date } = translator([language]);
      return [duration(7_776_000), duration(3600), duration(5400), date(1_790_000_000)];
    });
    for (const [lifetime, access] of formatted) expect(`${lifetime}${access}`).to.not.include(' ');
    // Non-breaking spaces in dates differ between versions of ICU.
    const spaced = formatted.map((texts) => texts.map((text) => text.replaceAll(/\s/g, ' ')));
    expect(spaced).to.deep.equal([
      ['90 Tage', '1 Stunde', '90 Minuten', '21. September 2026'],
      ['90 days', '1 hour', '90 minutes', 'September 21, 2026'],
      ['90 días', '1 hora', '90 minutos', '21 de septiembre de 2026'],
      ['90 jours', '1 heure', '90 minutes', '21 septembre 2026'],
      ['90 日', '1 時間', '90 分', '2026年9月21日'],
      ['90 dias', '1 hora', '90 minutos', '21 de setembro de 2026'],
    ]);
  });

  it('times are compared with now, and beyond six days shown as a date', () => {
    // Noon.
    const now = 1_790_078_400;
    const { translator } = openPages({ productName: 'Gatehouse', now: () => now });
    const { time } = translator(['en']);
    const texts = [-30, -300, -7200, -90_000, -3 * 86_400, -8 * 86_400, 86_400, 5 * 86_400];
    expect(texts.map((distance) => time(now + distance).text)).to.deep.equal([
      'now',
      '5 minutes ago',
      '2 hours ago',
      'yesterday',
      '3 days ago',
      'Sep 14, 2026',
      'tomorrow',
      'in 5 days',
    ]);
    expect(time(now - 300, 'day').text).to.equal('today');
    expect(time(now - 300, 'second').text.replaceAll(/\s/g, ' ')).to.equal(
      'Sep 22, 2026, 11:55:00 AM UTC',
    );
    expect(time(now).iso).to.equal('2026-09-22T12:00:00.000Z');
    expect(time(now).exact.replaceAll(/\s/g, ' ')).to.match(
      /^September 22, 2026 .*12:00:00 PM UTC$/,
    );
    expect(translator(['de']).time(now - 3 * 86_400).text).to.equal('vor 3 Tagen');
  });

  it('a missing text is rendered as its key', () => {
    const { t, tMarked, has } = openPages({ productName: 'Gatehouse' }).translator(['de']);
    expect([t('no.such'), tMarked('{', { a: 1 }), has('no.such')]).to.deep.equal([
      'no.such',
      ['{'],
      false,
    ]);
  });
});
