import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { parse } from 'yaml';

const ROOT = join(import.meta.dirname, '../..');
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');
const { dependencies, devDependencies } = JSON.parse(read('package.json'));

type Step = { uses?: string; run?: string };

describe('The supply chain', () => {
  it('SUP-01 every dependency has an exact version, and Node is version 24', () => {
    for (const [name, version] of Object.entries({ ...dependencies, ...devDependencies }))
      expect(version, name).to.match(/^\d+\.\d+\.\d+(-[\w.]+)?$/);
    expect(devDependencies.node).to.match(/^24\./);
    expect(read('Dockerfile')).to.match(/^FROM node:24\./m);
  });

  it('SUP-02 every package in the lock file has a SHA-512 digest', () => {
    const { packages } = JSON.parse(read('package-lock.json')) as {
      packages: Record<string, { integrity?: string }>;
    };
    const withoutDigest = Object.entries(packages).filter(
      ([name, { integrity = '' }]) => name !== '' && !integrity.startsWith('sha512-'),
    );
    expect(withoutDigest.map(([name]) => name)).to.deep.equal([]);
    expect(read('Dockerfile')).to.match(/npm ci\b/);
  });

  it('SUP-06 the image runs as the user node', () => {
    const users = [...read('Dockerfile').matchAll(/^USER (.+)$/gm)];
    expect(users.at(-1)?.[1]).to.equal('node');
    expect(read('Dockerfile').slice(users.at(-1)?.index)).to.match(/^CMD /m);
  });

  it('SUP-09 workflows only read the repository, and name the commit of every action', () => {
    const folder = '.github/workflows';
    const commands: string[] = [];
    const workflows = readdirSync(join(ROOT, folder)).map((name) => join(folder, name));
    for (const name of [...workflows, 'config/recipes/access.github.yaml']) {
      const workflow = parse(read(name));
      expect(workflow.permissions, name).to.deep.equal({ contents: 'read' });
      for (const { steps } of Object.values<{ steps: Step[] }>(workflow.jobs))
        for (const { uses, run } of steps) {
          if (uses !== undefined) expect(uses).to.match(/^[\w-]+\/[\w-]+@[0-9a-f]{40}$/);
          if (run !== undefined) commands.push(run);
        }
    }
    expect(commands).to.include.members(['.ci/run', 'npm run test:soak -- --no-color']);
  });
});
