// README.md and src/README.md say what is so: every variable and folder is named, links lead somewhere, and examples of settings are accepted.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { expect } from 'chai';
import { parse } from 'yaml';
import { loadInProduction, PRODUCTION, rulesIn } from './settings/settings-file.ts';

const ROOT = join(import.meta.dirname, '..');
const README = read('README.md');

function read(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8');
}

function blocksOf(language: string): string[] {
  const fence = new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\``, 'gms');
  return [...README.matchAll(fence)].map(([, text = '']) => text);
}

describe('the documents', () => {
  it('name every environment variable of the settings', () => {
    const source = read('src/settings/environment.ts');
    const names = [...source.matchAll(/^ +'?(GATEHOUSE_\w+)/gm)].map(([, name]) => name);
    expect(names).to.include('GATEHOUSE_STORE');
    expect(names.filter((name) => !README.includes(`\`${name}\``))).to.deep.equal([]);
  });

  it('name every file and folder at the top of the source', () => {
    const entries = readdirSync(join(ROOT, 'src'), { withFileTypes: true })
      .filter(({ name }) => name !== 'README.md')
      .map((entry) => (entry.isDirectory() ? `${entry.name}/` : entry.name));
    const map = read('src/README.md');
    expect(entries).to.include.members(['main.ts', 'store/']);
    expect(entries.filter((entry) => !map.includes(`\`${entry}\``))).to.deep.equal([]);
  });

  for (const document of ['README.md', 'src/README.md']) {
    it(`link only to what is there: ${document}`, () => {
      const links = [...read(document).matchAll(/\]\(([^)#:]+)(?:#[^)]*)?\)/g)];
      const targets = links.map(([, target = '']) => posix.join(posix.dirname(document), target));
      expect(targets).not.to.deep.equal([]);
      expect(targets.filter((target) => !existsSync(join(ROOT, target)))).to.deep.equal([]);
    });
  }

  for (const block of blocksOf('yaml')) {
    const example = parse(block);
    const { identityProvider, identityProviders, entitlements, resourceServer } = example;
    const name = identityProvider?.name ?? Object.keys(example).join(', ');
    it(`give settings for production that are accepted: ${name}`, () => {
      const { identityProvider: single, ...rest } = PRODUCTION;
      const settings = loadInProduction({
        ...rest,
        ...(identityProviders ? {} : { identityProvider: single }),
        ...example,
      });
      const given = identityProviders ?? (identityProvider ? [identityProvider] : []);
      for (const [n, provider] of given.entries())
        expect(settings.identityProviders[n]).to.deep.include(provider);
      if (entitlements && !identityProviders) expect(rulesIn(settings)).to.deep.equal(entitlements);
      const { upstream } = resourceServer ?? {};
      if (upstream) expect(settings.resourceServer.upstream).to.deep.include(upstream);
    });
  }

  it('give examples for the providers people ask about', () => {
    expect(blocksOf('yaml')).to.have.length.of.at.least(5);
  });
});
