import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { expect } from 'chai';
import { openPages } from '../../src/pages/pages.ts';
import { ThemeError } from '../../src/pages/theme.ts';
import { EXAMPLE_THEME, serveSamples, SHARED } from './sample-pages.ts';

const PNG = Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex');

describe('a theme', () => {
  const closing: (() => unknown)[] = [];
  afterEach(async () => {
    for (const close of closing.splice(0)) await close();
  });

  function themeOf(files: Record<string, string | Buffer>): string {
    const directory = mkdtempSync(join(tmpdir(), 'theme-'));
    closing.push(() => rmSync(directory, { recursive: true }));
    for (const [name, content] of Object.entries(files)) {
      mkdirSync(dirname(join(directory, name)), { recursive: true });
      writeFileSync(join(directory, name), content);
    }
    return directory;
  }

  async function serve(theme: string) {
    const server = await serveSamples(openPages(SHARED, theme));
    closing.push(server.close);
    return async (path: string) => {
      const response = await fetch(server.url + path);
      return { headers: response.headers, status: response.status, text: await response.text() };
    };
  }

  describe('the example theme', () => {
    it('the example theme changes texts, logo, colours and one partial, and nothing else', async () => {
      const get = await serve(EXAMPLE_THEME);
      const { text } = await get('/consent');
      expect(text)
        .to.include('When in doubt, deny and ask the library’s IT desk')
        .and.include('Lending statistics');
      expect(text).to.include('Library policy 12').and.not.include('Totals and names');
      expect(text).to.match(/<img src="\/assets\/logo\.svg\?v=/);
      expect(text).to.match(/<source srcset="\/assets\/logo-dark\.svg\?v=/);
      const style = (await get('/assets/style.css')).text;
      expect(style.indexOf('--accent: #8a3b12')).to.be.above(style.indexOf('--accent: #0d5c63'));
    });

    it('the example theme describes data of its own at every level, in two languages', async () => {
      const get = await serve(EXAMPLE_THEME);
      for (const [language, title] of [
        ['en', 'Complete reader accounts'],
        ['de', 'Vollständige Leserkonten'],
      ]) {
        const { text } = await get(`/consent-every-level?ui_locales=${language}`);
        expect(text)
          .to.include(title)
          .and.not.match(/Maria Silva|yoga/i);
      }
    });

    it('a language of the theme falls back to English for missing texts', async () => {
      const get = await serve(EXAMPLE_THEME);
      const { text, headers } = await get('/consent?ui_locales=nl-BE');
      expect(headers.get('content-language')).to.equal('nl');
      expect(text)
        .to.include('<html lang="nl"')
        .and.include('Toestaan')
        .and.include('What can the app see?');
      expect(text).to.include('bibliotheekregel 12');
    });

    it('a language without texts in the theme uses the English texts of the theme', async () => {
      const get = await serve(EXAMPLE_THEME);
      const { text } = await get('/consent?ui_locales=fr');
      expect(text).to.include('Library policy 12').and.include('Autoriser');
    });
  });

  describe('with a template', () => {
    it('a template of the theme replaces ours and can include partials of the theme', async () => {
      const get = await serve(
        themeOf({
          'home.ejs': "<%- include('partials/hello', { whom: page.productName }) %>",
          'partials/hello.ejs': 'Hello <%= page.whom %>',
        }),
      );
      expect((await get('/home')).text).to.equal('Hello Gatehouse');
      expect((await get('/consent')).text).to.include('Claude Code');
    });

    it('a template can use the earlier names `say` and `mark` of `t` and `tMarked`', async () => {
      const template = (plain: string, marked: string) =>
        `<%= page.${plain}('home.title') %>|<%- include('partials/text', { parts: page.${marked}('home.lead', { product: 'x' }) }) %>`;
      const render = async (plain: string, marked: string) => {
        const get = await serve(themeOf({ 'home.ejs': template(plain, marked) }));
        return (await get('/home')).text;
      };
      const earlier = await render('say', 'mark');
      expect(earlier).not.to.include('home.').and.not.equal('|');
      expect(earlier).to.equal(await render('t', 'tMarked'));
    });
  });

  describe('with a logo', () => {
    it('an SVG logo that is opened directly cannot run scripts', async () => {
      const get = await serve(EXAMPLE_THEME);
      const { headers } = await get('/assets/logo.svg');
      expect(headers.get('content-type')).to.equal('image/svg+xml');
      expect(headers.get('content-security-policy')).to.match(/^default-src 'none'.*sandbox$/);
    });

    it('a PNG logo has the media type of PNG', async () => {
      const get = await serve(themeOf({ 'logo.png': PNG }));
      expect((await get('/assets/logo.png')).headers.get('content-type')).to.equal('image/png');
      expect((await get('/consent')).text).to.include('/assets/logo.png?v=');
    });
  });

  const PROBLEMS: Record<string, [files: Record<string, string | Buffer>, message: RegExp]> = {
    'a template that does not compile': [
      { 'home.ejs': 'one\n<% if (true) } %>\nthree' },
      /home\.ejs:2: Unexpected token/,
    ],
    'a template with a tag that is not closed': [
      { 'home.ejs': 'one\ntwo\n<% if (true) {' },
      /home\.ejs:\d: Could not find matching close tag/,
    ],
    'a template that reads an unknown value': [
      { 'home.ejs': 'one\n<%= page.resourceUrl %>\n<%= page.resorceUrl %>' },
      /home\.ejs:3: page\.resorceUrl is not a value of any page/,
    ],
    'a partial that reads an unknown value': [
      { 'partials/account.ejs': '<%= page.acount.name %>' },
      /partials\/account\.ejs:1: page\.acount is not a value of any page/,
    ],
    'a template with an unknown partial': [
      { 'home.ejs': "\n<%- include('partials/foot') %>" },
      /home\.ejs:2: there is no template partials\/foot\.ejs/,
    ],
    'a template with an unknown text': [
      { 'home.ejs': "<%= page.t('home.titel') %>" },
      /home\.ejs:1: there is no text called home\.titel/,
    ],
    'a file with a misspelt name': [
      { 'consnet.ejs': '' },
      /consnet\.ejs: there is no page or partial/,
    ],
    'a message file with an underscore in the language tag': [
      { 'messages/pt_BR.yaml': 'home:\n  title: Olá' },
      /messages\/pt_BR\.yaml: name message files by the tag of their language/,
    ],
    'a message file with an invalid language tag': [
      { 'messages/deutsch-1.yaml': 'home:\n  title: Hallo' },
      /messages\/deutsch-1\.yaml: name message files by the tag/,
    ],
    'a message file with a language tag in capitals': [
      { 'messages/DE.yaml': 'home:\n  title: Hallo' },
      /messages\/DE\.yaml: name message files by the tag/,
    ],
    'a text with an unknown key': [
      { 'messages/en.yaml': 'home:\n  title: Hello\n  titel: Hello' },
      /messages\/en\.yaml:3: there is no text called home\.titel/,
    ],
    'a text with a value that its page does not have': [
      { 'messages/de.yaml': 'home:\n  title: Hallo {name}' },
      /messages\/de\.yaml:2: home\.title is not told {name}/,
    ],
    'a text with an unknown tag': [
      { 'messages/de.yaml': 'home:\n  title: Hallo <b>Welt</b>' },
      /messages\/de\.yaml:2: <b> is not one of/,
    ],
    'a text with a syntax error': [
      { 'messages/de.yaml': 'home:\n  title: Hallo {name' },
      /messages\/de\.yaml:2: home\.title cannot be read/,
    ],
    'a message file that is not YAML': [{ 'messages/de.yaml': 'home: [' }, /messages\/de\.yaml/],
    'a logo that is too large': [
      { 'logo.png': Buffer.concat([PNG, Buffer.alloc(64 * 1024)]) },
      /logo\.png has \d+ bytes; a logo has at most 65536/,
    ],
    'a logo that is not of the type of its name': [
      { 'logo.png': '<svg/>' },
      /logo\.png is not a png image/,
    ],
    'colours that load another file': [
      { 'colours.css': '@import "https://example.com/x.css";' },
      /colours\.css/,
    ],
  };
  for (const [name, [files, message]] of Object.entries(PROBLEMS)) {
    it(`${name} is rejected with its file`, () => {
      const open = () => openPages(SHARED, themeOf(files));
      expect(open).to.throw(ThemeError, message);
    });
  }

  it('a missing directory is rejected', () => {
    const nowhere = join(themeOf({}), 'nowhere');
    expect(() => openPages(SHARED, nowhere)).to.throw(ThemeError, 'nowhere');
  });

  it('many mistakes are reported as the first ten', () => {
    const theme = themeOf({ 'partials/top.ejs': '<%= page.wrong %>\n'.repeat(20) });
    expect(() => openPages(SHARED, theme))
      .to.throw(ThemeError)
      .with.property('message')
      .that.satisfies((text: string) => text.split('\n').length === 11);
  });
});
