// What Gatehouse is made of is what was chosen: exact versions, each with the digest it had, and an image that may do little.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';

const read = (path: string) => readFileSync(join(import.meta.dirname, '../..', path), 'utf8');
const { dependencies, devDependencies } = JSON.parse(read('package.json'));

describe('What it is made of', () => {
  it('SUP-01 is an exact version of every dependency, and of Node', () => {
    for (const [name, version] of Object.entries({ ...dependencies, ...devDependencies }))
      expect(version, name).to.match(/^\d+\.\d+\.\d+(-[\w.]+)?$/);
    expect(devDependencies.node).to.match(/^24\./);
    expect(read('Dockerfile')).to.match(/^FROM node:24-/m);
  });

  it('SUP-02 is known by its digest', () => {
    const { packages } = JSON.parse(read('package-lock.json')) as {
      packages: Record<string, { integrity?: string }>;
    };
    const unknown = Object.entries(packages).filter(
      ([name, { integrity = '' }]) => name !== '' && !integrity.startsWith('sha512-'),
    );
    expect(unknown.map(([name]) => name)).to.deep.equal([]);
    expect(read('Dockerfile')).to.match(/npm ci\b/);
  });

  it('SUP-06 runs in its image as nobody in particular', () => {
    const users = [...read('Dockerfile').matchAll(/^USER (.+)$/gm)];
    expect(users.at(-1)?.[1]).to.equal('node');
    expect(read('Dockerfile').slice(users.at(-1)?.index)).to.match(/^CMD /m);
  });
});
