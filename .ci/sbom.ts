// Prints an SBOM (CycloneDX 1.5, JSON) of the packages that `npm ci --omit=dev` installs. `npm sbom --omit=dev` leaves out packages that
// development dependencies share, so this takes the complete SBOM and removes the others.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '..');
const MAX_BYTES = 64 * 1024 * 1024;

type Locked = { name?: string; version?: string; dev?: boolean };
type Component = { 'bom-ref': string; purl: string };
type Sbom = {
  metadata: { component: Component };
  components: Component[];
  dependencies: { ref: string; dependsOn: string[] }[];
};

const options = ['--package-lock-only', '--sbom-format=cyclonedx', '--sbom-type=application'];
const command = { cwd: ROOT, encoding: 'utf8', maxBuffer: MAX_BYTES } as const;
const sbom: Sbom = JSON.parse(execFileSync('npm', ['sbom', ...options], command));
const lockFile: { name: string; packages: Record<string, Locked> } = JSON.parse(
  readFileSync(join(ROOT, 'package-lock.json'), 'utf8'),
);

const installed = new Set(
  Object.entries(lockFile.packages)
    .filter(([path, { dev }]) => path !== '' && !dev)
    // An alias has its real name in `name`, and `npm sbom` uses it only in the purl.
    .map(
      ([path, { name, version }]) => `${name ?? path.replace(/^.*node_modules\//, '')}@${version}`,
    ),
);
const nameIn = (purl: string) => decodeURIComponent(purl.replace(/^pkg:npm\//, ''));
const components = sbom.components.filter(({ purl }) => installed.has(nameIn(purl)));
const root = sbom.metadata.component;
const refs = new Set([root['bom-ref'], ...components.map((component) => component['bom-ref'])]);
const dependencies = sbom.dependencies
  .filter(({ ref }) => refs.has(ref))
  .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((other) => refs.has(other)) }));
// npm takes the name from the folder.
const metadata = { ...sbom.metadata, component: { ...root, name: lockFile.name } };
console.log(JSON.stringify({ ...sbom, metadata, components, dependencies }, null, 2));
