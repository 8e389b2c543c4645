// What a client says about itself, as far as it is kept: names that can be seen, and addresses of a bounded length.
import { expect } from 'chai';
import { errors } from 'oidc-provider';
import { acceptedMetadata, cleanName } from '../../src/authorization-server/engine/registration.ts';

const UNNAMED = 'An app without a name';
const POLICY = { allowed: new Set<string>(), ownOrigins: new Set<string>() };

describe('The name of a client', () => {
  const UNSEEN: Record<string, string> = {
    'a Hangul filler': '\u3164',
    'Hangul jamo fillers': '\u115F\u1160',
    'a half-width Hangul filler': '\uFFA0',
    'a blank Braille pattern': '\u2800',
    'a blank note': '\u{1D159}',
    'joiners and variation selectors': '\u034F\u200D\uFE0F\u{E0100}',
    tags: '\u{E0061}\u{E0062}',
    'half a character': '\uD800',
    'the other half of a character': 'x\uDC00'.slice(1),
    'marks without anything under them': '\u0301\u0302',
    'all of them with spaces between': ' \u3164 \u2800 \u00A0 \uD800 ',
  };
  for (const [what, name] of Object.entries(UNSEEN)) {
    it(`is the fallback for ${what}`, () => expect(cleanName(name)).to.equal(UNNAMED));
  }

  it('DCR-01 loses what cannot be seen in it', () => {
    expect(cleanName('Re\u3164port\u2800ing\uD800')).to.equal('Reporting');
  });

  it('keeps four combining marks in a row, and no more', () => {
    const marks = '\u0316\u0317\u0318\u0319\u031A\u031C';
    expect(cleanName(`q${marks}z`)).to.equal(`q${marks.slice(0, 4)}z`);
    expect(cleanName(`q${[...marks].join('\u034F')}z`)).to.equal(`q${marks.slice(0, 4)}z`);
  });

  it('CON-04 is the fallback when a word mixes alphabets to look like another', () => {
    for (const name of [
      'Cl\u0430ude',
      '\u0421laude',
      'G\u03BFogle',
      'Our V\u0405 Code',
      '\u13DFlaude',
    ])
      expect(cleanName(name), name).to.equal(UNNAMED);
    for (const name of ['Яндекс GPT', 'Ελλάδα Reports', 'LINE アプリ', 'Наш Claude', '5µm Scanner'])
      expect(cleanName(name), name).to.equal(name.normalize('NFKC'));
  });

  it('is kept in the scripts of the world', () => {
    for (const name of [
      'Zürich',
      'नमस्ते',
      'Tiếng Việt',
      '日本語',
      '한국어',
      'العربية',
      '📊 Reports',
    ])
      expect(cleanName(name)).to.equal(name.normalize('NFKC'));
  });
});

describe('The wish of a client to get no token without a proof of its key (RFC 9449 section 5.2)', () => {
  const redirects = { redirect_uris: ['http://127.0.0.1:7000/'] };
  const document = 'https://app.example/client.json';

  it('is kept when it is made, at registration and in a metadata document', () => {
    const wish = { ...redirects, dpop_bound_access_tokens: true };
    for (const url of [undefined, document])
      expect(acceptedMetadata(wish, POLICY, url).dpop_bound_access_tokens).to.equal(true);
  });

  it('is no wish in any other form, and refuses nobody', () => {
    for (const sent of [false, null, '', 'true', 1, {}, undefined])
      expect(
        acceptedMetadata({ ...redirects, dpop_bound_access_tokens: sent }, POLICY),
      ).to.not.have.property('dpop_bound_access_tokens');
  });
});

describe('The redirect addresses of a client', () => {
  const addresses = (count: number, length: number) =>
    Array.from({ length: count }, (_, index) =>
      `http://127.0.0.1:${10_000 + index}/`.padEnd(length, 'x'),
    );
  const accept = (uris: string[]) => acceptedMetadata({ redirect_uris: uris }, POLICY);

  it('DCR-01 are kept up to 8 kB together', () => {
    expect(accept(addresses(8, 1024)).redirect_uris).to.have.lengthOf(8);
  });

  it('are refused as invalid_redirect_uri beyond that', () => {
    expect(() => accept(addresses(9, 1024)))
      .to.throw(errors.InvalidClientMetadata)
      .with.property('error', 'invalid_redirect_uri');
  });

  it('count once when they are given twice, and not at all when they are not accepted', () => {
    const [first = ''] = addresses(1, 1900);
    const uris = [first, first, first, first, first, `https://other.example/${'x'.repeat(1900)}`];
    expect(accept(uris).redirect_uris).to.deep.equal([first]);
  });
});
