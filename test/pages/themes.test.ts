// An operator's theme: what it changes, and that a mistake in it is reported with file and line before anybody sees a page.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { expect } from 'chai';
import { openPages } from '../../src/pages/pages.ts';
import { ThemeError } from '../../src/pages/theme-error.ts';
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

  describe('in the example', () => {
    it('changes wording, logo, colours and one partial, and leaves the rest', async () => {
      const get = await serve(EXAMPLE_THEME);
      const { text } = await get('/consent');
      expect(text)
        .to.include('When in doubt, deny and ask the IT desk')
        .and.include('Figures only');
      expect(text).to.include('Company policy 12').and.include('Totals and names');
      expect(text).to.match(/<img src="\/assets\/logo\.svg\?v=/);
      expect(text).to.match(/<source srcset="\/assets\/logo-dark\.svg\?v=/);
      const style = (await get('/assets/style.css')).text;
      expect(style.indexOf('--accent: #7a1f5c')).to.be.above(style.indexOf('--accent: #0d5c63'));
    });

    it('adds a language, which falls back to English where it says nothing', async () => {
      const get = await serve(EXAMPLE_THEME);
      const { text, headers } = await get('/consent?ui_locales=nl-BE');
      expect(headers.get('content-language')).to.equal('nl');
      expect(text)
        .to.include('<html lang="nl"')
        .and.include('Toestaan')
        .and.include('What may it see?');
      expect(text).to.include('bedrijfsregel 12');
    });

    it('has English texts of its own for languages that it does not speak', async () => {
      const get = await serve(EXAMPLE_THEME);
      const { text } = await get('/consent?ui_locales=fr');
      expect(text).to.include('Company policy 12').and.include('Autoriser');
    });
  });

  describe('with a template', () => {
    it('has it in place of ours, with partials of its own', async () => {
      const get = await serve(
        themeOf({
          'home.ejs': "<%- include('partials/hello', { whom: page.productName }) %>",
          'partials/hello.ejs': 'Hello <%= page.whom %>',
        }),
      );
      expect((await get('/home')).text).to.equal('Hello Gatehouse');
      expect((await get('/consent')).text).to.include('Claude Code');
    });
  });

  describe('with a logo', () => {
    it('that is an SVG cannot run a script, opened by itself', async () => {
      const get = await serve(EXAMPLE_THEME);
      const { headers } = await get('/assets/logo.svg');
      expect(headers.get('content-type')).to.equal('image/svg+xml');
      expect(headers.get('content-security-policy')).to.match(/^default-src 'none'.*sandbox$/);
    });

    it('that is a PNG is served as one', async () => {
      const get = await serve(themeOf({ 'logo.png': PNG }));
      expect((await get('/assets/logo.png')).headers.get('content-type')).to.equal('image/png');
      expect((await get('/consent')).text).to.include('/assets/logo.png?v=');
    });
  });

  const MISTAKES: Record<string, [files: Record<string, string | Buffer>, said: RegExp]> = {
    'a template that does not compile': [
      { 'home.ejs': 'one\n<% if (true) } %>\nthree' },
      /home\.ejs:2: Unexpected token/,
    ],
    'a template with a tag that is not closed': [
      { 'home.ejs': 'one\ntwo\n<% if (true) {' },
      /home\.ejs:\d: Could not find matching close tag/,
    ],
    'a template that asks for what the page is not told': [
      { 'home.ejs': 'one\n<%= page.resourceUrl %>\n<%= page.resorceUrl %>' },
      /home\.ejs:3: page\.resorceUrl is not among the values of this page/,
    ],
    'a template that asks for it in a list': [
      {
        'development-sign-in.ejs': '<% for (const one of page.people) { %>\n<%= one.age %><% } %>',
      },
      /development-sign-in\.ejs:2: page\.people\.0\.age is not among/,
    ],
    'a partial that asks for it': [
      { 'partials/account.ejs': '<%= page.account.mail %>' },
      /partials\/account\.ejs:1: page\.account\.mail is not among/,
    ],
    'a template with a name that is nowhere': [
      { 'home.ejs': '<%= productName %>' },
      /home\.ejs:1: productName is not defined/,
    ],
    'a template with a partial that is nowhere': [
      { 'home.ejs': "\n<%- include('partials/foot') %>" },
      /home\.ejs:2: there is no template partials\/foot\.ejs/,
    ],
    'a template with a text that is nowhere': [
      { 'home.ejs': "<%= page.say('home.titel') %>" },
      /home\.ejs:1: there is no text called home\.titel/,
    ],
    'a misspelt file': [{ 'consnet.ejs': '' }, /consnet\.ejs: there is no page or part/],
    'texts named by no language': [
      { 'messages/pt_BR.yaml': 'home:\n  title: Olá' },
      /messages\/pt_BR\.yaml: texts are named by the tag of their language/,
    ],
    'texts named by a tag that is none': [
      { 'messages/deutsch-1.yaml': 'home:\n  title: Hallo' },
      /messages\/deutsch-1\.yaml: texts are named by the tag/,
    ],
    'texts named in capitals, which would hide ours': [
      { 'messages/DE.yaml': 'home:\n  title: Hallo' },
      /messages\/DE\.yaml: texts are named by the tag/,
    ],
    'a text that is nowhere': [
      { 'messages/en.yaml': 'home:\n  title: Hello\n  titel: Hello' },
      /messages\/en\.yaml:3: there is no text called home\.titel/,
    ],
    'a text with a value that its page does not have': [
      { 'messages/de.yaml': 'home:\n  title: Hallo {name}' },
      /messages\/de\.yaml:2: home\.title is not told {name}/,
    ],
    'a text with an unknown mark': [
      { 'messages/de.yaml': 'home:\n  title: Hallo <b>Welt</b>' },
      /messages\/de\.yaml:2: <b> is not one of/,
    ],
    'a text that is not closed': [
      { 'messages/de.yaml': 'home:\n  title: Hallo {name' },
      /messages\/de\.yaml:2: home\.title cannot be read/,
    ],
    'texts that are not YAML': [{ 'messages/de.yaml': 'home: [' }, /messages\/de\.yaml/],
    'a logo that is too large': [
      { 'logo.png': Buffer.concat([PNG, Buffer.alloc(64 * 1024)]) },
      /logo\.png has \d+ bytes; 65536 is the most/,
    ],
    'a logo that is something else': [
      { 'logo.png': '<svg/>' },
      /logo\.png is not what its name says/,
    ],
    'colours that load something': [
      { 'colours.css': '@import "https://example.com/x.css";' },
      /colours\.css/,
    ],
  };
  for (const [name, [files, said]] of Object.entries(MISTAKES)) {
    it(`with ${name} is refused, with the place`, () => {
      const open = () => openPages(SHARED, themeOf(files));
      expect(open).to.throw(ThemeError, said);
    });
  }

  it('that is not there is refused', () => {
    const nowhere = join(themeOf({}), 'nowhere');
    expect(() => openPages(SHARED, nowhere)).to.throw(ThemeError, 'nowhere');
  });

  it('that breaks one partial says so a few times, and not once for every page', () => {
    const theme = themeOf({ 'partials/top.ejs': '<%= page.wrong %>' });
    expect(() => openPages(SHARED, theme))
      .to.throw(ThemeError)
      .with.property('message')
      .that.satisfies((text: string) => text.split('\n').length < 6);
  });
});
