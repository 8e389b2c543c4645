// src/README.md explains the layers.
import { globSync, readFileSync } from 'node:fs';
import { join, posix, sep } from 'node:path';
import { expect } from 'chai';
import { refusalReasons, auditEvents } from '../src/observability/labels.ts';

const ROOT = join(import.meta.dirname, '..');

type Import = { specifier: string; typeOnly: boolean; dynamic: boolean };
type SourceFile = { path: string; text: string; imports: Import[] };

const LEAVES = [
  'background-loop.ts',
  'constant-time.ts',
  'json-values.ts',
  'error-causes.ts',
  'lru-cache.ts',
  'overdue.ts',
  'pooled-random.ts',
  'package-folder.ts',
  'printable-text.ts',
  'tls-errors.ts',
  'transient-items.ts',
  'version.ts',
  'permission-levels.ts',
  'observability/',
  'settings/',
];
const BELOW_RECORDS = [...LEAVES, 'store/'];
const BELOW_SERVICES = [
  ...BELOW_RECORDS,
  'http/',
  'pages/',
  'people/',
  'links/',
  'connections/',
  'keys/',
  'upstreams/',
  'audit/',
  'clients/',
  'dpop/',
  'sign-in/',
  'reload/',
  'resources.ts',
  'keep.ts',
];
const BELOW_HOSTS = [...BELOW_SERVICES, 'services.ts', 'credentials/', 'workloads/'];
const AUTHORIZATION_SERVER = ['oauth/', 'consent/'];
const BELOW_CONSENT = ['oauth/metadata.ts', 'oauth/error-page.ts', 'oauth/engine/'];
const APPS = [...AUTHORIZATION_SERVER, 'development/', 'gateway/', 'management/'];

/** What each part may import besides itself. The longest matching prefix decides which part a file belongs to. */
const MAY_IMPORT: Record<string, string[]> = {
  'background-loop.ts': [],
  'constant-time.ts': [],
  'json-values.ts': [],
  'error-causes.ts': [],
  'lru-cache.ts': [],
  'overdue.ts': [],
  'pooled-random.ts': [],
  'package-folder.ts': [],
  'printable-text.ts': [],
  'tls-errors.ts': ['error-causes.ts'],
  'transient-items.ts': [],
  'version.ts': ['package-folder.ts'],
  'permission-levels.ts': [],
  'observability/': ['settings/', 'error-causes.ts', 'tls-errors.ts', 'observability/labels.ts'],
  'observability/labels.ts': [],
  'settings/': [
    'json-values.ts',
    'permission-levels.ts',
    'package-folder.ts',
    'observability/labels.ts',
  ],
  'store/': LEAVES,
  'http/': BELOW_RECORDS,
  'pages/': [...BELOW_RECORDS, 'http/'],
  'people/': BELOW_RECORDS,
  'keys/': BELOW_RECORDS,
  'links/': [...BELOW_RECORDS, 'keys/'],
  'upstreams/': BELOW_RECORDS,
  'audit/': [...BELOW_RECORDS, 'audit/chain/'],
  'audit/chain/': [...BELOW_RECORDS, 'audit/', 'keys/'],
  'audit/delivery/': [...BELOW_RECORDS, 'audit/', 'audit/chain/', 'http/'],
  'dpop/': BELOW_RECORDS,
  'clients/': BELOW_RECORDS,
  'connections/': [...BELOW_RECORDS, 'people/', 'audit/', 'links/', 'clients/'],
  'sign-in/': [...BELOW_RECORDS, 'http/', 'pages/', 'people/', 'audit/', 'keys/'],
  'reload/': [...BELOW_RECORDS, 'audit/'],
  'resources.ts': [],
  'keep.ts': ['store/', 'resources.ts'],
  'services.ts': BELOW_SERVICES,
  'credentials/': [...BELOW_SERVICES, 'services.ts'],
  'workloads/': [...BELOW_RECORDS, 'http/', 'keys/', 'links/', 'upstreams/'],
  'oauth/metadata.ts': BELOW_HOSTS,
  'oauth/error-page.ts': BELOW_HOSTS,
  'oauth/engine/': [...BELOW_HOSTS, ...BELOW_CONSENT.slice(0, 2)],
  'consent/': [...BELOW_HOSTS, ...BELOW_CONSENT],
  'oauth/': [...BELOW_HOSTS, ...BELOW_CONSENT, 'consent/'],
  'development/identity-provider/': BELOW_HOSTS,
  'gateway/': [...BELOW_HOSTS, 'development/sample/'],
  'development/sample/': [...BELOW_HOSTS, 'gateway/'],
  'management/': BELOW_HOSTS,
  'doctor/': [...BELOW_HOSTS, ...AUTHORIZATION_SERVER, 'gateway/', 'management/'],
  'init/': [...BELOW_HOSTS, 'gateway/', 'management/'],
  'restore/': [...BELOW_HOSTS, 'management/', 'restore/unfinished.ts'],
  'restore/unfinished.ts': ['store/'],
  'argument-worker.ts': ['gateway/'],
  'generation.ts': [...BELOW_HOSTS, ...APPS],
  'server.ts': [
    ...BELOW_HOSTS,
    ...APPS,
    'generation.ts',
    'restore/unfinished.ts',
    'startup-message.ts',
  ],
  'startup-message.ts': BELOW_HOSTS,
  'workers/': ['observability/'],
  'main.ts': [...BELOW_HOSTS, 'server.ts', 'workers/'],
  'start-command.ts': ['settings/', 'management/', 'main.ts'],
  'settings-command.ts': [...BELOW_HOSTS, 'management/'],
  'commands.ts': [
    ...LEAVES,
    'doctor/',
    'init/',
    'management/',
    'restore/',
    'settings-command.ts',
    'start-command.ts',
  ],
  'command-line.ts': [...LEAVES, 'management/', 'commands.ts', 'start-command.ts'],
  'cli.ts': [...LEAVES, 'command-line.ts'],
};

const files = globSync('**/*.ts', { cwd: join(ROOT, 'src') })
  .map((path) => readSource(path.replaceAll(sep, '/')))
  .toSorted((a, b) => (a.path < b.path ? -1 : 1));
const byPath = new Map(files.map((file) => [file.path, file]));

function readSource(path: string): SourceFile {
  const text = readFileSync(join(ROOT, 'src', path), 'utf8');
  const statements = text.matchAll(
    /^(?:import|export)\s+(type\s)?(?:[^'";]*?\sfrom\s+)?'([^']+)'|\bimport\(\s*'([^']+)'/gm,
  );
  const imports = [...statements].map(([, type, specifier = '', dynamic]) => ({
    specifier: dynamic ?? specifier,
    typeOnly: type !== undefined,
    dynamic: dynamic !== undefined,
  }));
  return { path, text, imports };
}

/** The files of src that a file imports. */
function importsOf({ path, imports }: SourceFile, { withTypes }: { withTypes: boolean }): string[] {
  return imports
    .filter(({ specifier, typeOnly }) => specifier.startsWith('.') && (withTypes || !typeOnly))
    .map(({ specifier }) => posix.join(posix.dirname(path), specifier))
    .filter((target) => byPath.has(target));
}

function partOf(path: string): string | undefined {
  return Object.keys(MAY_IMPORT)
    .filter((part) => (part.endsWith('/') ? path.startsWith(part) : path === part))
    .toSorted((a, b) => b.length - a.length)[0];
}

function mayImport(from: string, to: string): boolean {
  const [own, other] = [partOf(from), partOf(to)];
  if (own === undefined || other === undefined) return false;
  return own === other || MAY_IMPORT[own]?.some((part) => other.startsWith(part)) === true;
}

/** Every file that `start` leads to by imports, types included. */
function reachableFrom(start: string, seen = new Set<string>()): Set<string> {
  const file = byPath.get(start);
  if (!file || seen.has(start)) return seen;
  seen.add(start);
  for (const target of importsOf(file, { withTypes: true })) reachableFrom(target, seen);
  return seen;
}

/** Every file that is loaded together with `start`. */
function loadedWith(start: string, seen = new Set<string>()): Set<string> {
  const file = byPath.get(start);
  if (!file || seen.has(start)) return seen;
  seen.add(start);
  const imports = file.imports.filter(({ dynamic }) => !dynamic);
  for (const target of importsOf({ ...file, imports }, { withTypes: false }))
    loadedWith(target, seen);
  return seen;
}

/** The first import cycle through a file. */
function findCycle(file: SourceFile, trail: string[], done: Set<string>): string[] | undefined {
  if (trail.includes(file.path)) return [...trail.slice(trail.indexOf(file.path)), file.path];
  if (done.has(file.path)) return undefined;
  for (const target of importsOf(file, { withTypes: false })) {
    const next = byPath.get(target);
    const cycle = next && findCycle(next, [...trail, file.path], done);
    if (cycle) return cycle;
  }
  done.add(file.path);
  return undefined;
}

function filesWith(pattern: RegExp): string[] {
  return files.filter(({ text }) => pattern.test(text)).map(({ path }) => path);
}

describe('the source', () => {
  describe('imports', () => {
    it('imports are found', () => {
      const message = byPath.get('startup-message.ts');
      expect(message && importsOf(message, { withTypes: true })).to.include.members([
        'links/connector.ts',
        'settings/settings.ts',
      ]);
      expect(reachableFrom('main.ts').size).to.be.greaterThan(files.length / 2);
    });

    it('imports point down', () => {
      const wrong = files.flatMap((file) =>
        importsOf(file, { withTypes: true })
          .filter((target) => !mayImport(file.path, target))
          .map((target) => `${file.path} imports ${target}`),
      );
      expect(wrong).to.deep.equal([]);
    });

    it('imports have no cycles, except of types', () => {
      const done = new Set<string>();
      const cycles = files.map((file) => findCycle(file, [], done)).filter(Boolean);
      expect(cycles.map((cycle) => cycle?.join(' > '))).to.deep.equal([]);
    });

    it('a command loads the server only if it needs it', () => {
      const loaded = [...loadedWith('commands.ts')];
      expect(loaded).to.include.members(['start-command.ts', 'doctor/command.ts']);
      const server = ['main.ts', 'server.ts', 'doctor/examination.ts', 'store/open.ts'];
      expect(loaded.filter((path) => server.includes(path))).to.deep.equal([]);
      expect([...reachableFrom('cli.ts')]).to.include.members(server);
    });

    it('the command start loads no other command', () => {
      const commands = ['commands.ts', 'doctor/command.ts', 'management/api/client.ts'];
      for (const start of ['cli.ts', 'main.ts', 'server.ts']) {
        const loaded = [...loadedWith(start)];
        if (start === 'cli.ts') expect(loaded).to.include('start-command.ts');
        expect(loaded.filter((path) => commands.includes(path))).to.deep.equal([]);
      }
      expect([...reachableFrom('cli.ts')]).to.include.members(commands);
    });

    it('the supervisor of workers loads no server', () => {
      for (const start of ['main.ts', 'workers/supervisor.ts'])
        expect([...loadedWith(start)]).to.not.include('server.ts');
    });

    it('the server loads a store or a host only if it opens it', () => {
      const optional = [
        'store/redis.ts',
        'oauth/app.ts',
        'development/identity-provider/app.ts',
        'management/app.ts',
        'gateway/app.ts',
      ];
      const loaded = [...loadedWith('server.ts')];
      expect(loaded).to.include('generation.ts');
      expect(loaded.filter((path) => optional.includes(path))).to.deep.equal([]);
      expect([...reachableFrom('main.ts')]).to.include.members(optional);
      const either = ['development/sample/mcp-server.ts', 'gateway/upstream/proxy.ts'];
      const ofResourceServer = [...loadedWith('gateway/app.ts')];
      expect(ofResourceServer.filter((path) => either.includes(path))).to.deep.equal([]);
      expect([...reachableFrom('gateway/app.ts')]).to.include.members(either);
    });

    it('the resource server never imports the authorization server', () => {
      const reached = [...reachableFrom('gateway/app.ts')];
      expect(reached).to.include('gateway/authenticate.ts');
      expect(
        reached.filter((path) => AUTHORIZATION_SERVER.some((part) => path.startsWith(part))),
      ).to.deep.equal([]);
    });

    it('internals of the engine are never imported', () => {
      const specifiers = files.flatMap(({ imports }) => imports.map(({ specifier }) => specifier));
      expect(specifiers).to.include('oidc-provider');
      expect(specifiers.filter((name) => name.startsWith('oidc-provider/'))).to.deep.equal([]);
    });

    it('imported packages are runtime dependencies', () => {
      const { dependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
      const packages = files
        .flatMap(({ imports }) => imports.filter(({ typeOnly }) => !typeOnly))
        .map(({ specifier }) => specifier)
        .filter((name) => !/^(\.|node:)/.test(name))
        .map((name) => name.split('/', name.startsWith('@') ? 2 : 1).join('/'));
      expect(packages).to.include('koa');
      expect(Object.keys(dependencies)).to.include.members(packages);
    });
  });

  describe('restricted code', () => {
    it('only settings reads the environment', () => {
      const readers = filesWith(/\bprocess\s*\.\s*env\b|\benv\b[^;]*from 'node:process'/);
      expect(readers).not.to.deep.equal([]);
      expect(readers.filter((path) => !path.startsWith('settings/'))).to.deep.equal([]);
    });

    it('no file has syntax that Node 22 lacks: using declarations, modifiers in regular expressions', () => {
      const newer = /^\s*(?:await )?using \w+ =|\(\?[ims]*-?[ims]+:/m;
      expect('  await using db = open();').to.match(newer);
      expect('/^(?i:bearer) /').to.match(newer);
      expect(filesWith(newer)).to.deep.equal([]);
    });

    it("only the engine folder uses the engine's context", () => {
      // In init, it is the name of a choice.
      const touching = filesWith(/\boidc\b(?!-)/).filter((path) => !path.startsWith('init/'));
      expect(touching).to.include('development/identity-provider/engine.ts');
      const elsewhere = touching.filter((path) => !path.startsWith('oauth/engine/'));
      expect(elsewhere).to.deep.equal(['development/identity-provider/engine.ts']);
    });

    it('only the file that types it reads the untyped state of a Koa context', () => {
      expect(filesWith(/\.state\.|\bctx\.state\b|\bcontext\.state\b/)).to.deep.equal([
        'http/request-context.ts',
      ]);
    });

    it('only constant-time.ts compares secrets', () => {
      expect(filesWith(/\btimingSafeEqual\b/)).to.deep.equal(['constant-time.ts']);
    });

    it("only the engine's extensions change its prototypes", () => {
      expect(filesWith(/\bprototype\b|__proto__/)).to.deep.equal(['oauth/engine/extensions.ts']);
    });

    it('views write unescaped text only to include a partial', () => {
      const views = globSync('**/*.ejs', { cwd: join(ROOT, 'views') });
      const unescaped = views.flatMap((path) =>
        [...readFileSync(join(ROOT, 'views', path), 'utf8').matchAll(/<%-.*/g)].map(
          ([text]) => text,
        ),
      );
      expect(unescaped).not.to.deep.equal([]);
      expect(
        unescaped.filter((text) => !/^<%- include\('[\w/-]+'[^;]*\) %>/.test(text)),
      ).to.deep.equal([]);
    });
  });

  describe('metric labels (src/observability/labels.ts)', () => {
    const found = (pattern: RegExp) =>
      files.flatMap(({ text }) => [...text.matchAll(pattern)].map(([, word = '']) => word));

    it('the labels contain every error code of a refusal', () => {
      const known = new Set<string>(refusalReasons);
      const codes = found(/new HttpError\(\s*\d+,\s*'(\w+)'/g);
      expect(codes).to.have.length.above(30);
      expect(codes.filter((code) => !known.has(code))).to.deep.equal([]);
    });

    it('the labels contain every audit event', () => {
      const known = new Set<string>(auditEvents);
      const given = /\b(?:itemOf|ruleItem)\(\s*(?:\w+, )?'(\w+)'/g;
      const events = [...found(/\bevent: '(\w+)'/g), ...found(given)]
        // The event name of an event stream.
        .filter((name) => name !== 'message');
      expect(events).to.include.members(['grant_ended', 'connector_revoked', 'token_minted']);
      expect(events.filter((name) => !known.has(name))).to.deep.equal([]);
    });
  });
});
