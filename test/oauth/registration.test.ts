import { expect } from 'chai';
import { errors } from 'oidc-provider';
import { isAcceptedRedirect } from '../../src/oauth/engine/redirect-uris.ts';
import { acceptedMetadata, cleanName } from '../../src/oauth/engine/registration.ts';

const UNNAMED = 'An app without a name';
const POLICY = { allowed: new Set<string>(), patterns: [], ownOrigins: new Set<string>() };

describe('client names', () => {
  const INVISIBLE: Record<string, string> = {
    'a Hangul filler': '\u3164',
    'Hangul jamo fillers': '\u115F\u1160',
    'a half-width Hangul filler': '\uFFA0',
    'a blank Braille pattern': '\u2800',
    'a blank musical note': '\u{1D159}',
    'joiners and variation selectors': '\u034F\u200D\uFE0F\u{E0100}',
    tags: '\u{E0061}\u{E0062}',
    'an unpaired high surrogate': '\uD800',
    'an unpaired low surrogate': 'x\uDC00'.slice(1),
    'combining marks without a base character': '\u0301\u0302',
    'all of these, separated by spaces': ' \u3164 \u2800 \u00A0 \uD800 ',
  };
  for (const [what, name] of Object.entries(INVISIBLE)) {
    it(`a name that consists of ${what} is replaced by a placeholder`, () =>
      expect(cleanName(name)).to.equal(UNNAMED));
  }

  it('DCR-01 invisible characters are removed from a name', () => {
    expect(cleanName('Re\u3164port\u2800ing\uD800')).to.equal('Reporting');
  });

  it('a name has at most four combining marks in a row', () => {
    const marks = '\u0316\u0317\u0318\u0319\u031A\u031C';
    expect(cleanName(`q${marks}z`)).to.equal(`q${marks.slice(0, 4)}z`);
    expect(cleanName(`q${[...marks].join('\u034F')}z`)).to.equal(`q${marks.slice(0, 4)}z`);
  });

  it('CON-04 a name with a word that mixes confusable scripts is replaced by a placeholder', () => {
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

  it('names in all scripts are kept', () => {
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

describe('dpop_bound_access_tokens (RFC 9449 section 5.2)', () => {
  const redirects = { redirect_uris: ['http://127.0.0.1:7000/'] };
  const document = 'https://app.example/client.json';

  it('dpop_bound_access_tokens is stored from registrations and metadata documents', () => {
    const metadata = { ...redirects, dpop_bound_access_tokens: true };
    for (const url of [undefined, document])
      expect(acceptedMetadata(metadata, POLICY, url).dpop_bound_access_tokens).to.equal(true);
  });

  it('any value of dpop_bound_access_tokens but true is ignored', () => {
    for (const sent of [false, null, '', 'true', 1, {}, undefined])
      expect(
        acceptedMetadata({ ...redirects, dpop_bound_access_tokens: sent }, POLICY),
      ).to.not.have.property('dpop_bound_access_tokens');
  });
});

describe('a redirect URI with a wildcard', () => {
  const policy = {
    ...POLICY,
    patterns: ['https://chat.example.com/connector/oauth/*', 'https://example.com/*'],
  };
  const isAccepted = (uri: string) => isAcceptedRedirect(policy, uri);

  it('stands for one more path segment of unreserved characters', () => {
    for (const segment of ['OUbdUMlL15Ct', 'a', '.a', '...', 'a.b_c~d-e', '%41'.slice(1)])
      expect(isAccepted(`https://chat.example.com/connector/oauth/${segment}`), segment).to.equal(
        true,
      );
  });

  it('stands for nothing else', () => {
    for (const uri of [
      'https://chat.example.com/connector/oauth/',
      'https://chat.example.com/connector/oauth',
      'https://chat.example.com/connector/oauth/a/b',
      'https://chat.example.com/connector/oauth/.',
      'https://chat.example.com/connector/oauth/..',
      'https://chat.example.com/connector/oauth/%2e%2e',
      'https://chat.example.com/connector/oauth/a%2Fb',
      'https://chat.example.com/connector/oauth/a?x=1',
      'https://chat.example.com/connector/oauth/a#x',
      'https://chat.example.com/connector/oauth/a;b',
      'https://chat.example.com/connector/oauth/a\\b',
      'https://chat.example.com/connector/oauth/*',
      'https://chat.example.com/connector/other/a',
      'https://chat.example.com:443/connector/oauth/a',
      'https://chat.example.com@evil.example/connector/oauth/a',
      'http://chat.example.com/connector/oauth/a',
      'https://example.com.evil.example/a',
      'https://evil.example/a',
    ])
      expect(isAccepted(uri), uri).to.equal(false);
  });

  it('a registered redirect URI is stored and compared exactly', () => {
    const uri = 'https://chat.example.com/connector/oauth/one';
    const { redirect_uris: stored } = acceptedMetadata({ redirect_uris: [uri] }, policy);
    expect(stored).to.deep.equal([uri]);
  });
});

describe('redirect URIs', () => {
  const addresses = (count: number, length: number) =>
    Array.from({ length: count }, (_, index) =>
      `http://127.0.0.1:${10_000 + index}/`.padEnd(length, 'x'),
    );
  const accept = (uris: string[]) => acceptedMetadata({ redirect_uris: uris }, POLICY);

  it('DCR-01 a client may have up to 8 kB of redirect URIs', () => {
    expect(accept(addresses(8, 1024)).redirect_uris).to.have.lengthOf(8);
  });

  it('more than 8 kB of redirect URIs are rejected as invalid_redirect_uri', () => {
    expect(() => accept(addresses(9, 1024)))
      .to.throw(errors.InvalidClientMetadata)
      .with.property('error', 'invalid_redirect_uri');
  });

  it('duplicate and unaccepted redirect URIs do not count towards the limit', () => {
    const [first = ''] = addresses(1, 1900);
    const uris = [first, first, first, first, first, `https://other.example/${'x'.repeat(1900)}`];
    expect(accept(uris).redirect_uris).to.deep.equal([first]);
  });
});
