// What the release workflow runs: the SBOM and the check of the lock file.
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { spawn } from 'node:child_process';
import { type AddressInfo } from 'node:net';
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect } from 'chai';
import { z } from 'zod';
import manifest from '../../package.json' with { type: 'json' };
import { run } from '../support/package.ts';

const ROOT = join(import.meta.dirname, '../..');

const lockFile = z.object({
  packages: z.record(
    z.string(),
    z.object({
      name: z.string().optional(),
      version: z.string().optional(),
      dev: z.boolean().optional(),
      integrity: z.string().optional(),
    }),
  ),
});

/** The members of CycloneDX 1.5 that verifiers read. */
const sbom = z.object({
  bomFormat: z.literal('CycloneDX'),
  specVersion: z.literal('1.5'),
  serialNumber: z.string().regex(/^urn:uuid:[0-9a-f-]{36}$/),
  metadata: z.object({ timestamp: z.iso.datetime(), component: z.object({ purl: z.string() }) }),
  components: z.array(
    z.object({
      type: z.literal('library'),
      name: z.string(),
      version: z.string(),
      purl: z.string().startsWith('pkg:npm/'),
      hashes: z.tuple([
        z.object({ alg: z.literal('SHA-512'), content: z.string().regex(/^[0-9a-f]{128}$/) }),
      ]),
    }),
  ),
  dependencies: z.array(z.object({ ref: z.string(), dependsOn: z.array(z.string()) })),
});

describe('What a release consists of', () => {
  it('SUP-13 the SBOM lists exactly the packages of the installed program, with the hashes of the lock file', async () => {
    const { packages } = lockFile.parse(
      JSON.parse(await readFile(join(ROOT, 'package-lock.json'), 'utf8')),
    );
    const expected = Object.entries(packages)
      .filter(([path, { dev }]) => path !== '' && !dev)
      .map(([path, { name, version = '', integrity = '' }]) => {
        const digest = Buffer.from(integrity.replace('sha512-', ''), 'base64').toString('hex');
        return `${name ?? path.replace(/^.*node_modules\//, '')}@${version} ${digest}`;
      });
    const [program = '', ...words] = manifest.scripts.sbom.split(' ');
    const { components, metadata } = sbom.parse(JSON.parse(await run(program, words, ROOT)));
    const listed = components.map(
      ({ purl, hashes: [{ content }] }) =>
        `${decodeURIComponent(purl.replace('pkg:npm/', ''))} ${content}`,
    );
    expect(listed.toSorted()).to.deep.equal([...new Set(expected)].toSorted());
    expect(listed).to.have.length.above(30);
    expect(metadata.component.purl).to.match(/^pkg:npm\/gatehouse@/);
  });

  describe('the check of the lock file', () => {
    /** A registry that answers requests for advisories with `advisories`, and all others with 405. */
    let registry: Server;
    let advisories: object | undefined;
    let project: string;
    before(async () => {
      project = await createProject();
      registry = createServer((request, response) => {
        if (advisories && request.url?.endsWith('/advisories/bulk')) {
          response.setHeader('Content-Type', 'application/json');
          response.end(JSON.stringify(advisories));
        } else response.writeHead(405).end();
      });
      await once(registry.listen(0, '127.0.0.1'), 'listening');
    });
    after(async () => {
      registry.close();
      await rm(project, { recursive: true, force: true });
    });

    /** A project that has installed only Koa, because npm reads the manifest of every package. */
    async function createProject(): Promise<string> {
      const folder = await mkdtemp(join(tmpdir(), 'release-'));
      const text = await readFile(join(ROOT, 'package-lock.json'), 'utf8');
      const { dependencies: _, ...koa } = JSON.parse(text).packages['node_modules/koa'];
      const { version } = manifest;
      const root = { name: 'project', version, dependencies: { koa: koa.version } };
      const packages = { '': root, 'node_modules/koa': koa };
      const lock = { name: root.name, version, lockfileVersion: 3, requires: true, packages };
      await writeFile(join(folder, 'package.json'), JSON.stringify(root));
      await writeFile(join(folder, 'package-lock.json'), JSON.stringify(lock));
      await mkdir(join(folder, 'node_modules/koa'), { recursive: true });
      const installed = 'node_modules/koa/package.json';
      await cp(join(ROOT, installed), join(folder, installed));
      return folder;
    }

    async function check(...args: string[]) {
      const { port } = registry.address() as AddressInfo;
      const env = {
        ...process.env,
        npm_config_registry: `http://127.0.0.1:${port}/`,
        npm_config_fetch_retries: '0',
      };
      const child = spawn(process.execPath, [join(ROOT, '.ci/audit.ts'), ...args], {
        cwd: project,
        env,
      });
      const closed = once(child, 'close');
      const output = await text(child.stdout);
      await closed;
      return { code: child.exitCode, output };
    }

    it('SUP-14 a registry that does not answer is reported, and fails a release only', async () => {
      advisories = undefined;
      const { code, output } = await check();
      expect(code).to.equal(0);
      expect(output.match(/did not answer, so nothing was checked/g)).to.have.length(2);
      expect((await check('--require')).code).to.equal(1);
    });

    it('SUP-14 an advisory of high severity fails the check', async () => {
      const advisory = { id: 1, title: 'a hole', severity: 'high', vulnerable_versions: '<99' };
      advisories = { koa: [{ ...advisory, url: 'https://advisories.example/1', cwe: [] }] };
      const { code, output } = await check();
      expect(code).to.equal(1);
      expect(output)
        .to.match(/^npm audit .*: failed$/m)
        .and.include('koa');
    });
  });
});
