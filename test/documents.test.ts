import { spawnSync } from 'node:child_process';
import { existsSync, globSync, readFileSync, writeFileSync } from 'node:fs';
import { join, posix, sep } from 'node:path';
import { expect } from 'chai';
import { Command } from 'commander';
import { compile } from 'ejs';
import { format } from 'prettier';
import { parse } from 'yaml';
import { secondsIn } from '../src/settings/value-types.ts';
import { makeCertificate } from './oauth/metadata-documents/certificate.ts';
import { gatehouse, type Outcome } from './management/command-line.ts';
import {
  loadInProduction,
  PRODUCTION,
  rulesIn,
  temporaryDirectory,
} from './settings/settings-file.ts';

const ROOT = join(import.meta.dirname, '..');
const exclude = (path: string) => /(^|\/)(node_modules|results)$/.test(path);
const DOCUMENTS = [...glob('**/*.md'), ...glob('.github/*.md')].toSorted();
const GROWING = ['CHANGELOG.md', 'test/security/README.md'];
/** Languages of blocks that are not checked here: packaging/host.test.ts has `cron`, and `yml`, which are files of Prometheus. */
const UNCHECKED = ['text', 'mermaid', 'nginx', 'cron', 'yml'];

type Block = { document: string; language: string; text: string };

const BLOCKS = DOCUMENTS.flatMap(blocksOf);

function glob(pattern: string): string[] {
  return globSync(pattern, { cwd: ROOT, exclude }).map((path) => path.replaceAll(sep, '/'));
}

function read(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8');
}

/** Blocks inside a list are indented. */
function blocksOf(document: string): Block[] {
  const fences = read(document).matchAll(/^( *)```(.*)\n([\s\S]*?)^\1```$/gm);
  return [...fences].map(([, indent = '', language = '', text = '']) => ({
    document,
    language,
    text: text.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
  }));
}

function blocksIn(language: string): Block[] {
  return BLOCKS.filter((block) => block.language === language);
}

function withoutBlocks(document: string): string {
  return read(document).replaceAll(/^( *)```.*\n[\s\S]*?^\1```$/gm, '');
}

/** Shell code with a value for each placeholder, one command a line. */
function shellCode(text: string): string {
  return text
    .replaceAll('\\\n', ' ')
    .replaceAll('<time>', '2030-01-31T00:00:00Z')
    .replaceAll(/<[\w ]+>/g, '4qR8sT1vWxYz2aBcD3eFgH');
}

/** Every line of shell code in a document, inline code included. */
function linesOfCode(document: string): string[] {
  const inline = [...withoutBlocks(document).matchAll(/`([^`\n]+)`/g)].map(([, code = '']) => code);
  const blocks = blocksOf(document).filter(({ language }) => language === 'sh');
  return [...inline, ...blocks.map(({ text }) => text)].flatMap((code) =>
    shellCode(code).split('\n'),
  );
}

/** The arguments of each call of the command line. */
function calls(line: string): string[][] {
  const found = line.matchAll(
    /(?:(?:npx|exec gatehouse|authorization-server(?: --)?) gatehouse)((?: +(?:"[^"]*"|[^\s|&;#>"]+))*)/g,
  );
  return [...found].map(([, words = '']) =>
    [...words.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? ''),
  );
}

/** Parses a call with the real command line, and commands that do nothing. */
async function parseCall(words: string[]): Promise<Outcome> {
  const { action } = Command.prototype;
  Command.prototype.action = function inert(this: Command) {
    return action.call(this, () => {});
  };
  try {
    return await gatehouse(words, {});
  } finally {
    Command.prototype.action = action;
  }
}

/** GitHub's anchors of headings. */
function anchorsIn(document: string): Set<string> {
  const headings = withoutBlocks(document).matchAll(/^#+ (.*)$/gm);
  return new Set(
    [...headings].map(([, title = '']) =>
      title
        .toLowerCase()
        .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
        .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
        .replaceAll(' ', '-'),
    ),
  );
}

type Link = { target: string; anchor: string | undefined };

function linksIn(document: string): Link[] {
  const found = withoutBlocks(document).matchAll(/\]\(([^)\s]+)\)|<img src="([^"]+)"/g);
  return [...found]
    .map(([, link, image]) => link ?? image ?? '')
    .filter((link) => !/^[a-z]+:/.test(link))
    .map((link) => {
      const [path = '', anchor] = link.split('#');
      const target = path === '' ? document : posix.join(posix.dirname(document), path);
      return { target: target.replace(/\/$/, ''), anchor };
    });
}

function isBroken({ target, anchor }: Link): boolean {
  if (!existsSync(join(ROOT, target))) return true;
  return anchor !== undefined && !anchorsIn(target).has(anchor);
}

function withSecretFiles(text: string): string {
  return text.replaceAll(/(\/var)?\/run\/secrets\/[\w./-]*\w|(?<=\{ file: )[\w.-]+/g, (named) => {
    const name = posix.basename(named);
    const path = join(temporaryDirectory(), 'secret');
    if (name.endsWith('.crt')) {
      writeFileSync(path, makeCertificate(name).cert);
      return path;
    }
    const isSigning = name.endsWith('_signing_secret');
    const signing = `whsec_${Buffer.alloc(32, name).toString('base64')}`;
    writeFileSync(path, isSigning ? signing : `client-secret-of-${name}-in-the-documents`);
    return path;
  });
}

/** The variables that the management keys of an example name. */
function variablesIn({ management }: { management?: { keys?: { keyEnv?: string }[] } }) {
  const names = (management?.keys ?? []).flatMap(({ keyEnv }) => keyEnv ?? []);
  return Object.fromEntries(names.map((name) => [name, `key-in-${name}-of-the-documents`]));
}

describe('the documents', () => {
  for (const document of DOCUMENTS) {
    describe(document, () => {
      it(`${document} has only links and anchors that exist`, () => {
        expect(linksIn(document).filter(isBroken)).to.deep.equal([]);
      });
    });
  }

  it('each document can be reached from README.md', () => {
    const reached = new Set(['README.md']);
    for (const document of reached)
      for (const { target } of linksIn(document))
        if (DOCUMENTS.includes(target)) reached.add(target);
    const others = DOCUMENTS.filter((document) => !GROWING.includes(document));
    expect(others.filter((document) => !reached.has(document))).to.deep.equal([]);
  });

  it('every shell block is valid syntax', () => {
    for (const { document, text } of blocksIn('sh')) {
      const { stderr } = spawnSync('bash', ['-n'], { input: shellCode(text), encoding: 'utf8' });
      expect(stderr, document).to.equal('');
    }
  });

  it('the command line accepts every call of gatehouse', async () => {
    const lines = DOCUMENTS.flatMap(linesOfCode);
    const all = lines.flatMap(calls).filter((words) => words.length > 0);
    expect(all).to.have.length.above(20);
    for (const words of all) {
      const { code, stderr } = await parseCall(words);
      expect({ code, stderr }, words.join(' ')).to.deep.equal({ code: 0, stderr: '' });
    }
    expect((await parseCall(['connector', 'make'])).stderr).to.match(/unknown command/);
    const wrong = ['connector', 'create', '--name', 'Ops', '--level', 'full', '--max-uses', '-'];
    expect((await parseCall(wrong)).stderr).to.match(/invalid/);
  });

  it('every npm script that a document names exists', () => {
    const { scripts } = JSON.parse(read('package.json'));
    const names = DOCUMENTS.flatMap((document) =>
      [...read(document).matchAll(/npm (?:run ([\w:]+)|(start|test)\b)/g)].map(
        ([, run, own]) => run ?? own,
      ),
    );
    expect(names).to.include.members(['start', 'test', 'bench', 'check']);
    expect(scripts).to.include.keys(names);
  });

  it('every file that mocha or node is told to run exists', () => {
    const paths = DOCUMENTS.flatMap(linesOfCode).flatMap((line) =>
      [...line.matchAll(/(?:npx mocha|node) "?((?:test|src)\/[^"\s]+)/g)].map(
        ([, path = '']) => path,
      ),
    );
    expect(paths).to.include('test/cli.test.ts');
    expect(paths.filter((path) => glob(path).length === 0)).to.deep.equal([]);
  });
});

describe('the examples in the documents', () => {
  it('every block has a language that is checked or known', () => {
    const known = ['sh', 'yaml', 'json', 'js', 'ejs', ...UNCHECKED];
    const others = BLOCKS.filter(({ language }) => !known.includes(language));
    expect(others).to.deep.equal([]);
  });

  it('every JSON block is JSON', () => {
    expect(blocksIn('json')).not.to.deep.equal([]);
    for (const { text } of blocksIn('json')) JSON.parse(text);
  });

  it('every JavaScript block and template can be parsed', async () => {
    expect(blocksIn('js')).to.have.length.of.at.least(2);
    for (const { text } of blocksIn('js')) await format(text, { parser: 'babel' });
    for (const { text } of blocksIn('ejs')) compile(text);
  });

  it('there are examples of the identity providers that people ask about', () => {
    const given = blocksIn('yaml').map(({ text }) => parse(text).identityProvider?.name);
    expect(given).to.include.members([
      'Google',
      'Okta',
      'Microsoft',
      'Keycloak',
      'Auth0',
      'GitHub',
    ]);
  });

  for (const { document, text } of blocksIn('yaml')) {
    const example = parse(withSecretFiles(text));
    const { identityProvider, identityProviders, entitlements, resourceServer } = example;
    const name = identityProvider?.name ?? Object.keys(example).join(', ');
    it(`${document} has settings that are accepted in production: ${name}`, () => {
      const { identityProvider: single, ...rest } = PRODUCTION;
      const settings = loadInProduction(
        {
          ...rest,
          ...(identityProviders ? {} : { identityProvider: single }),
          ...example,
        },
        variablesIn(example),
      );
      const given = identityProviders ?? (identityProvider ? [identityProvider] : []);
      for (const [n, { clientSecretFile, recheck, ...provider }] of given.entries()) {
        const secret = clientSecretFile && { clientSecret: readFileSync(clientSecretFile, 'utf8') };
        const interval = recheck && { recheck: secondsIn(recheck) };
        expect(settings.identityProviders[n]).to.deep.include({
          ...provider,
          ...secret,
          ...interval,
        });
      }
      if (entitlements && !identityProviders) expect(rulesIn(settings)).to.deep.equal(entitlements);
      const { upstream } = resourceServer ?? {};
      if (upstream) {
        const { headers = {}, caller = {}, credential, ...others } = upstream;
        expect(settings.upstreams[0]).to.deep.include(others);
        expect(settings.upstreams[0]?.credential?.kind).to.equal(credential?.kind);
        expect(settings.upstreams[0]?.caller.claims).to.deep.equal(caller.claims ?? []);
        const names = Object.keys(headers).map((header) => header.toLowerCase());
        expect(Object.keys(settings.upstreams[0]?.headers ?? {})).to.deep.equal(names);
      }
    });
  }
});

describe('what the documents name', () => {
  const source = glob('src/**/*.ts');
  const code = source.map(read).join('\n');

  it('config/settings.md names every environment variable of the settings, and no document names another one', () => {
    const settings = glob('src/settings/*.ts').map(read).join('\n');
    const text = settings.replaceAll(/^ *(\/\/|\/?\*).*$/gm, '');
    const names = new Set(text.match(/\bGATEHOUSE_[A-Z_]+[A-Z]\b/g));
    expect(names).to.include('GATEHOUSE_STORE');
    const documented = read('config/settings.md');
    expect([...names].filter((name) => !documented.includes(`\`${name}\``))).to.deep.equal([]);
    const mentioned = DOCUMENTS.filter((document) => !GROWING.includes(document)).flatMap(
      (document) => read(document).match(/\bGATEHOUSE_[A-Z_]+[A-Z]\b/g) ?? [],
    );
    expect(mentioned.filter((name) => !names.has(name))).to.deep.equal([]);
  });

  it('src/README.md names every folder of the source, and every file at its top', () => {
    const folders = source.map((path) => `${posix.dirname(path).slice('src/'.length)}/`);
    const files = [...glob('src/*.ts'), ...glob('src/*.js')].map((path) => posix.basename(path));
    const map = read('src/README.md');
    const entries = [...new Set(folders), ...files].filter((entry) => entry !== '/');
    expect(entries).to.include.members(['main.ts', 'store/', 'gateway/upstream/']);
    expect(entries.filter((entry) => !map.includes(`\`${entry}\``))).to.deep.equal([]);
  });

  it('the documents of the source name only files that exist', () => {
    const paths = ['src/README.md', 'src/oauth/engine/README.md', 'config/diagnosis.md'].flatMap(
      (document) =>
        [...read(document).matchAll(/`((?:\.\.\/)?[\w./*-]+\.ts)`/g)].map(([, path = '']) => path),
    );
    const sources = glob('src/**/*.ts');
    const isThere = (path: string) =>
      path.startsWith('test/') || path.includes('*')
        ? glob(path.startsWith('test/') ? path : `src/**/${path.replace('../', '')}`).length > 0
        : sources.some((source) => source.endsWith(`/${path.replace('../', '')}`));
    expect(paths).to.include('main.ts');
    expect(paths.filter((path) => !isThere(path))).to.deep.equal([]);
  });

  it('each of twenty causes in diagnosis.md is found with at most three clicks or two commands, and is tested', () => {
    const [, table = ''] = read('config/diagnosis.md').split('## Twenty causes');
    const rows = (table.split('## Attempts')[0] ?? '').matchAll(/^\| (?!-|cause)(.*) \|$/gm);
    const cells = [...rows].map(([, row = '']) => row.split(' | '));
    expect(cells).to.have.length(20);
    for (const [cause, , , clicks = '', commands = '', tests = ''] of cells) {
      const counted = [clicks, commands].map((cell) =>
        Number(/^(\d): /.exec(cell)?.[1] ?? Infinity),
      );
      expect((counted[0] ?? 0) <= 3 || (counted[1] ?? 0) <= 2, cause).to.equal(true);
      expect(commands.match(/`/g), cause).to.have.length(2 * Number(counted[1]));
      expect(tests, cause).to.match(/^`test\/\S+\.test\.ts`/);
    }
  });

  it('the tables of requests in src/README.md name only functions that exist', () => {
    const [, tables = ''] = read('src/README.md').split('## Three requests');
    const rows = (tables.split('## Stored keys')[0] ?? '').matchAll(/^\|.*\| (`.*`) \|$/gm);
    const names = [...rows].flatMap(([, cell = '']) => cell.match(/\w+/g) ?? []);
    expect(names).to.include.members(['authenticate', 'decideConsent']);
    expect(names.filter((name) => !new RegExp(`\\b${name}\\b`).test(code))).to.deep.equal([]);
  });
});
