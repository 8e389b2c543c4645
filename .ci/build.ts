// Bundles the program and its libraries into dist/, as JavaScript for every supported Node (`npm run build`). Parts that are imported when
// first needed are files of their own. Names of functions stay, for stack traces.
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { build, type Plugin, transform } from 'esbuild';

const ROOT = join(import.meta.dirname, '..');
const OUTPUT = join(ROOT, 'dist');
/** What CommonJS libraries expect around them. */
const COMMON_JS = `import { createRequire as _createRequire } from 'node:module';
const require = _createRequire(import.meta.url);
const { dirname: __dirname, filename: __filename } = import.meta;`;

/** These read the names of their classes, which the bundle changes where two are alike. All others would cost 5 MB of memory. */
const READ_NAMES = /node_modules\/(oidc-provider|ioredis|rate-limiter-flexible)\/.*\.js$/;

const keepNames: Plugin = {
  name: 'keep-names',
  setup({ onLoad }) {
    onLoad({ filter: READ_NAMES }, async ({ path }) => {
      const { code } = await transform(await readFile(path, 'utf8'), { keepNames: true });
      return { contents: code };
    });
  },
};

/**
 * Loads `node:http` as CommonJS. An import would read each of its exports, of which some load a second HTTP client: 40 ms, and memory that most
 * processes never use.
 */
const requireHttp: Plugin = {
  name: 'require-http',
  setup({ onLoad, onResolve }) {
    onResolve({ filter: /^(node:)?http$/ }, ({ namespace }) =>
      namespace === 'builtin'
        ? { path: 'node:http', external: true }
        : { path: 'node:http', namespace: 'builtin' },
    );
    onLoad({ filter: /.*/, namespace: 'builtin' }, ({ path }) => ({
      contents: `module.exports = require('${path}');`,
    }));
  },
};

/** What libraries load for options that Gatehouse does not use. */
const UNUSED = [
  { library: 'koa-views', unused: /^pretty$/ },
  { library: 'koa-views', unused: /^@ladjs\/consolidate$/ },
  { library: 'prom-client', unused: /^@opentelemetry\/api$/ },
];
/** What was found. */
const leftOut = new Set<RegExp>();

const withoutUnused: Plugin = {
  name: 'without-unused',
  setup({ onLoad, onResolve }) {
    for (const { library, unused } of UNUSED)
      onResolve({ filter: unused }, ({ path, importer }) => {
        if (!importer.includes(`node_modules/${library}/`)) return undefined;
        leftOut.add(unused);
        return { path, namespace: 'unused' };
      });
    onLoad({ filter: /.*/, namespace: 'unused' }, () => ({ contents: '' }));
  },
};

/** The commands load the server as the bundle that it is. */
const externalServer: Plugin = {
  name: 'external-server',
  setup({ onResolve }) {
    onResolve({ filter: /\/main\.ts$/ }, () => ({ path: './main.js', external: true }));
  },
};

rmSync(OUTPUT, { recursive: true, force: true });
// Code that several entry points reach is split into a part for each combination of them, and each part takes a millisecond of a start. So the server,
// the commands and the worker are bundled apart. Parts that come out equal are one file.
const inputs = [
  await bundle(['main']),
  // `cli` waits for what `command-line` loads, which must not need `cli`.
  await bundle(['cli', 'command-line'], externalServer),
  await bundle(['argument-worker']),
];
for (const { library, unused } of UNUSED)
  if (!leftOut.has(unused)) throw new Error(`${library} does not load ${unused} any more`);
writeFileSync(join(OUTPUT, 'licenses.txt'), licensesOf(inputs.flat()));

/** Returns the paths of what is in it. */
async function bundle(names: readonly string[], ...plugins: Plugin[]): Promise<string[]> {
  const { metafile } = await build({
    absWorkingDir: ROOT,
    entryPoints: names.map((name) => `src/${name}.ts`),
    // All in one folder at the depth of src/, so that paths relative to the package are the same.
    outdir: OUTPUT,
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    // Names of the parts depend on paths, which must not depend on where the packages are.
    preserveSymlinks: true,
    target: 'node22.19',
    minifySyntax: true,
    minifyWhitespace: true,
    legalComments: 'none',
    banner: { js: COMMON_JS },
    plugins: [keepNames, requireHttp, withoutUnused, ...plugins],
    metafile: true,
    logLevel: 'warning',
  });
  return Object.keys(metafile.inputs);
}

/** The licenses of the bundled packages, which must accompany their code. */
function licensesOf(inputs: readonly string[]): string {
  const folders = inputs.flatMap((path) => {
    const [folder] = /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path) ?? [];
    return folder === undefined ? [] : [folder];
  });
  const texts = [...new Set(folders)].map((folder) => {
    const directory = join(ROOT, folder);
    const read = (name: string) => readFileSync(join(directory, name), 'utf8').trim();
    const { name, version, license } = JSON.parse(read('package.json'));
    const files = readdirSync(directory).filter((file) => /^(licen[cs]e|notice)/i.test(file));
    return [`${name} ${version} (${license})`, ...files.toSorted().map(read)].join('\n\n');
  });
  return `${[...new Set(texts)].toSorted().join(`\n\n${'-'.repeat(80)}\n\n`)}\n`;
}
