// Checks the image, the manifests and the Compose file with linters and schemas, and the settings they result in.
import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { validate } from 'dockerfile-utils';
import { parse, parseAllDocuments } from 'yaml';
import { z } from 'zod';
import { loadSettings } from '../../src/settings/load.ts';
import { PRODUCTION, settingsFile, temporaryDirectory } from '../settings/settings-file.ts';
import { imageVariables } from './container-engine.ts';

const ROOT = join(import.meta.dirname, '../..');
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');
/** A different one for every name, because equal secrets are refused. */
const secretNamed = (name: string) => `a-secret-that-is-long-enough-for-${name}`;

type Environment = Record<string, string>;

/** The variables of the image, overridden by `more`. */
function imageEnvironment(more: Environment): Environment {
  const GATEHOUSE_DATA_DIR = temporaryDirectory();
  return { NODE_ENV: 'production', ...imageVariables(), GATEHOUSE_DATA_DIR, ...more };
}

function secretFile(name: string, content = secretNamed(name)): string {
  const path = join(temporaryDirectory(), 'secret');
  writeFileSync(path, content);
  return path;
}

describe('The container image', () => {
  it('the Dockerfile passes a linter', () => {
    expect(validate(read('Dockerfile'))).to.deep.equal([]);
    expect(validate('FROM node\nRUNN npm ci\n')).not.to.deep.equal([]);
  });

  it('SUP-11 the base of the image is pinned by digest, the same in each stage', () => {
    const bases = [...read('Dockerfile').matchAll(/^FROM (\S+)/gm)].map(([, base]) => base);
    expect(bases).to.have.length(2);
    expect(new Set(bases).size).to.equal(1);
    expect(bases[0]).to.match(/^node:24\.\d+\.\d+-bookworm-slim@sha256:[0-9a-f]{64}$/);
  });

  it('the build context contains every file that the image copies', () => {
    const copied = [...read('Dockerfile').matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap(
      ([, from = '']) => from.split(' '),
    );
    expect(copied).to.include.members(['package.json', 'package-lock.json', 'src/', 'views/']);
    const taken = read('.dockerignore').split('\n');
    for (const path of copied)
      expect(
        taken.some(
          (line) => line === `!${path}` || (line.endsWith('/') && `!${path}`.startsWith(line)),
        ),
        path,
      ).to.equal(true);
  });

  it('the image runs what the package contains, without development dependencies', () => {
    const [, build = '', run = ''] = read('Dockerfile').split(/^FROM .*$/m);
    expect(build).to.match(/^RUN npm run build$/m);
    expect(run).to.match(/^COPY --from=build \/build\/dist\/ dist\/$/m);
    expect(run).to.match(/^RUN npm ci --omit=dev\b/m);
    const copied = [...run.matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap(([, from = '']) =>
      from.split(' '),
    );
    const manifest: { files: string[] } = JSON.parse(read('package.json'));
    const always = ['package.json', 'package-lock.json', '.npmrc'];
    for (const path of copied)
      expect(
        [...manifest.files, ...always].some(
          (name) => name === path || (name.endsWith('/') && path.startsWith(name)),
        ),
        path,
      ).to.equal(true);
  });
});

const variable = z.object({ name: z.string(), value: z.string() });
/** What the restricted Pod Security standard demands of a container. */
const restricted = z.object({
  allowPrivilegeEscalation: z.literal(false),
  capabilities: z.object({ drop: z.tuple([z.literal('ALL')]), add: z.undefined().optional() }),
});
const workload = z.object({
  metadata: z.object({ name: z.string() }),
  spec: z.object({
    replicas: z.number(),
    template: z.object({
      spec: z.object({
        terminationGracePeriodSeconds: z.number(),
        containers: z
          .array(
            z.object({
              env: z.array(variable),
              ports: z.array(z.object({ name: z.string(), containerPort: z.number() })),
            }),
          )
          .length(1),
      }),
    }),
  }),
});

/** Of https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted, for Linux. */
const restrictedPod = z.object({
  hostNetwork: z.undefined().optional(),
  hostPID: z.undefined().optional(),
  hostIPC: z.undefined().optional(),
  securityContext: z.object({
    runAsNonRoot: z.literal(true),
    runAsUser: z.number().min(1),
    seccompProfile: z.object({ type: z.literal('RuntimeDefault') }),
  }),
  containers: z.array(
    z.object({
      securityContext: restricted,
      ports: z.array(z.object({ hostPort: z.undefined().optional() })).default([]),
    }),
  ),
  initContainers: z.array(z.object({ securityContext: restricted })).default([]),
  volumes: z.array(
    z
      .strictObject({
        name: z.string(),
        configMap: z.unknown(),
        secret: z.unknown(),
        emptyDir: z.unknown(),
        projected: z.unknown(),
      })
      .partial({ configMap: true, secret: true, emptyDir: true, projected: true }),
  ),
});

/** The members of the Gateway API (gateway.networking.k8s.io/v1) that the manifests use. */
const gateway = z.strictObject({
  apiVersion: z.literal('gateway.networking.k8s.io/v1'),
  kind: z.literal('Gateway'),
  metadata: z.object({ name: z.string() }),
  spec: z.strictObject({
    gatewayClassName: z.string(),
    listeners: z.array(
      z.strictObject({
        name: z.string(),
        hostname: z.string(),
        port: z.literal(443),
        protocol: z.literal('HTTPS'),
        tls: z.strictObject({ certificateRefs: z.array(z.strictObject({ name: z.string() })) }),
      }),
    ),
  }),
});
const route = z.strictObject({
  apiVersion: z.literal('gateway.networking.k8s.io/v1'),
  kind: z.literal('HTTPRoute'),
  metadata: z.object({ name: z.string() }),
  spec: z.strictObject({
    parentRefs: z.tuple([z.strictObject({ name: z.string(), sectionName: z.string() })]),
    hostnames: z.tuple([z.string()]),
    rules: z.tuple([
      z.strictObject({
        matches: z.array(
          z.strictObject({
            path: z.strictObject({ type: z.literal('PathPrefix'), value: z.string() }),
          }),
        ),
        timeouts: z.strictObject({ request: z.literal('0s') }).optional(),
        backendRefs: z.tuple([z.strictObject({ name: z.string(), port: z.number() })]),
      }),
    ]),
  }),
});
const ingress = z.object({
  spec: z.object({
    tls: z.tuple([z.object({ hosts: z.array(z.string()) })]),
    rules: z.array(
      z.object({
        host: z.string(),
        http: z.object({
          paths: z.array(
            z.object({
              path: z.string(),
              backend: z.object({
                service: z.object({ name: z.string(), port: z.object({ name: z.string() }) }),
              }),
            }),
          ),
        }),
      }),
    ),
  }),
});
const service = z.object({
  metadata: z.object({ name: z.string() }),
  spec: z.object({
    ports: z.array(z.object({ name: z.string(), port: z.number(), targetPort: z.string() })),
  }),
});

type Manifest = { apiVersion: string; kind: string; metadata: { name: string } };

const podSpec = z.object({
  securityContext: z.unknown(),
  containers: z.tuple([
    z.object({
      image: z.string(),
      env: z.array(variable),
      volumeMounts: z.array(z.unknown()),
      securityContext: z.unknown(),
    }),
  ]),
  volumes: z.array(z.unknown()),
});

/** Of a pod, or of what makes pods. */
function specOfPod({ kind, ...rest }: Manifest): unknown {
  const { spec } = rest as { spec?: { template?: { spec?: unknown } } };
  return kind === 'Pod' ? spec : spec?.template?.spec;
}

/** Host, path, and the service and port of the pods behind it. */
type Passed = [host: string, path: string, service: string, port: number | undefined];

const PASSED: Passed[] = [
  ['auth.example.com', '/', 'authorization-server', 4000],
  ['mcp.example.com', '/', 'resource-server', 4001],
  // Neither the management API nor /metrics.
  ['admin.example.com', '/console', 'authorization-server', 4002],
  ['admin.example.com', '/assets', 'authorization-server', 4002],
];

describe('The Kubernetes manifests', () => {
  const folder = join(ROOT, 'config/kubernetes');
  const manifests = globSync('**/*.yaml', { cwd: folder })
    .toSorted()
    .flatMap((name) =>
      parseAllDocuments(read(`config/kubernetes/${name}`)).map((found) => found.toJS() as Manifest),
    );
  const ofKind = (wanted: string) => manifests.filter(({ kind }) => kind === wanted);

  async function check({ apiVersion, kind }: Manifest, manifest: object): Promise<void> {
    const module = (await import(`kubernetes-models/${apiVersion}/${kind}`)) as Record<
      string,
      new (data: object) => { validate: () => void }
    >;
    const Model = module[kind];
    if (!Model) throw new Error(`there is no schema of ${kind}`);
    new Model(manifest).validate();
  }

  it('the manifests match the Kubernetes schemas', async () => {
    expect(manifests).to.have.length.above(6);
    for (const manifest of manifests) {
      if (manifest.kind === 'Gateway') gateway.parse(manifest);
      else if (manifest.kind === 'HTTPRoute') route.parse(manifest);
      else await check(manifest, manifest);
    }
    const [first] = ofKind('Deployment');
    if (!first) throw new Error('there is no deployment');
    const wrong = await check(first, { ...first, spec: { replicas: 'two' } }).catch(
      (error: unknown) => error,
    );
    expect(wrong).to.be.an('error');
  });

  /** The port of the pods behind a port of a service. */
  function podPort(name: string, isMeant: (port: { name: string; port: number }) => boolean) {
    const found = ofKind('Service').map((each) => service.parse(each));
    const target = found.find(({ metadata }) => metadata.name === name)?.spec.ports.find(isMeant);
    const pods = ofKind('Deployment').map((each) => workload.parse(each));
    return pods
      .find(({ metadata }) => metadata.name === name)
      ?.spec.template.spec.containers[0]?.ports.find((port) => port.name === target?.targetPort)
      ?.containerPort;
  }

  it('SUP-15 the routes and the Ingress pass the public hosts, and of the management host the console alone', () => {
    const routes = ofKind('HTTPRoute').flatMap((each): Passed[] => {
      const { hostnames, rules } = route.parse(each).spec;
      const [{ matches, backendRefs }] = rules;
      const [{ name, port }] = backendRefs;
      const behind = podPort(name, (found) => found.port === port);
      return matches.map(({ path }) => [hostnames[0], path.value, name, behind]);
    });
    const rules = ofKind('Ingress').flatMap((each) => ingress.parse(each).spec.rules);
    const ofIngress = rules.flatMap(({ host, http }) =>
      http.paths.map(({ path, backend }): Passed => {
        const { name, port } = backend.service;
        return [host, path, name, podPort(name, (found) => found.name === port.name)];
      }),
    );
    expect(routes).to.have.deep.members(PASSED);
    expect(ofIngress).to.have.deep.members(PASSED);
    const [{ spec } = { spec: { listeners: [] } }] = ofKind('Gateway').map((each) =>
      gateway.parse(each),
    );
    const hosts = [...new Set(PASSED.map(([host]) => host))];
    expect(spec.listeners.map(({ hostname }) => hostname)).to.have.members(hosts);
  });

  it('all pods pass the restricted Pod Security standard', () => {
    const pods = manifests.filter((manifest) => JSON.stringify(manifest).includes('"containers"'));
    expect(pods.map(({ kind }) => kind)).to.deep.equal(['Deployment', 'Deployment', 'Pod']);
    for (const pod of pods) restrictedPod.parse(specOfPod(pod));
  });

  it('the pod for a restore has the image, variables, settings and secrets of the authorization server', () => {
    const [pod] = ofKind('Pod');
    const [deployment] = ofKind('Deployment');
    const [restoring, serving] = [pod, deployment].map((each) => {
      const { containers, volumes, securityContext } = podSpec.parse(each && specOfPod(each));
      const [{ image, env, volumeMounts, securityContext: ofContainer }] = containers;
      return { image, env, volumeMounts, volumes, securityContext, ofContainer };
    });
    expect(restoring).to.deep.equal(serving);
  });

  it('the pod of the recipe for workloads matches its schema and the restricted Pod Security standard', async () => {
    const pod = parse(read('config/recipes/workload.kubernetes.yaml')) as Manifest & {
      spec: object;
    };
    await check(pod, pod);
    restrictedPod.parse(pod.spec);
  });

  it('SUP-15 only the gateway reaches the pods, and they reach no link-local address', () => {
    const [policy] = ofKind('NetworkPolicy') as (Manifest & { spec: Record<string, unknown> })[];
    expect(policy?.spec['policyTypes']).to.deep.equal(['Ingress', 'Egress']);
    const [from, egress] = [policy?.spec['ingress'], policy?.spec['egress']].map((rules) =>
      JSON.stringify(rules),
    );
    expect(from).to.include('envoy-gateway-system').and.not.include('ipBlock');
    expect(egress).to.include('169.254.0.0/16').and.include('fe80::/10');
    const labels = { 'app.kubernetes.io/part-of': 'gatehouse' };
    expect(policy?.spec['podSelector']).to.deep.equal({ matchLabels: labels });
  });

  it('a disruption budget keeps one of two replicas of each deployment', () => {
    const names = ofKind('Deployment').map(({ metadata }) => metadata.name);
    expect(names).to.deep.equal(['authorization-server', 'resource-server']);
    for (const kind of ['Service', 'PodDisruptionBudget'])
      expect(ofKind(kind).map(({ metadata }) => metadata.name)).to.deep.equal(names);
    for (const deployment of ofKind('Deployment'))
      expect(workload.parse(deployment).spec.replicas).to.be.at.least(2);
  });

  it('the manifests set valid settings and variables, and secrets by reference', () => {
    const [map] = ofKind('ConfigMap') as (Manifest & { data: Environment })[];
    for (const deployment of ofKind('Deployment')) {
      const { terminationGracePeriodSeconds, containers } =
        workload.parse(deployment).spec.template.spec;
      const env = containers.flatMap((container) => container.env);
      const contents: Environment = { store: 'rediss://:a@redis.example.com:6379' };
      const values = env.map(({ name, value = '' }) => {
        const [, file] = /^\/run\/secrets\/gatehouse\/(.+)$/.exec(value) ?? [];
        return [name, file === undefined ? value : secretFile(file, contents[file])];
      });
      const settings = loadSettings(
        imageEnvironment({
          ...Object.fromEntries(values),
          GATEHOUSE_CONFIG: settingsFile(map?.data['gatehouse.yaml']),
        }),
      );
      expect(terminationGracePeriodSeconds).to.be.above(settings.drain + 20);
      for (const { name, value } of env)
        if (/_(FILE|CONFIG)$/.test(name))
          expect(value, name).to.match(/^\/etc\/gatehouse\/|^\/run\/secrets\/gatehouse\//);
        else expect(name).to.match(/_(ROLES|LISTEN)$/);
      expect(JSON.stringify(deployment), 'files that a reload can read').not.to.include('subPath');
    }
  });
});

const composeService = z.object({
  environment: z.record(z.string(), z.string()).default({}),
  secrets: z.array(z.string()).default([]),
  networks: z
    .union([z.array(z.string()), z.record(z.string(), z.unknown())])
    .transform((networks) => (Array.isArray(networks) ? networks : Object.keys(networks))),
  volumes: z.array(z.string()).default([]),
  command: z.array(z.string()).default([]),
  image: z.string(),
  read_only: z.boolean().default(false),
  cap_drop: z.array(z.string()).default([]),
  security_opt: z.array(z.string()).default([]),
});
const composeFile = z.object({
  services: z.record(z.string(), composeService),
  networks: z.record(z.string(), z.unknown()),
  volumes: z.record(z.string(), z.unknown()),
  secrets: z.record(z.string(), z.object({ file: z.string() })),
});

describe('The Compose file', () => {
  const compose = composeFile.parse(parse(read('config/compose.yaml'), { merge: true }));
  const services = Object.entries(compose.services);

  it('the compose file refers only to declared services, secrets, networks and volumes', () => {
    for (const [name, { secrets, networks, volumes }] of services) {
      const named = volumes.map((volume) => volume.split(':')[0] ?? '');
      const own = named.filter((volume) => !volume.startsWith('.'));
      expect(Object.keys(compose.secrets), name).to.include.members(secrets);
      expect(Object.keys(compose.networks), name).to.include.members(networks);
      expect(Object.keys(compose.volumes), name).to.include.members(own);
    }
    const proxied = [...read('config/caddy/Caddyfile').matchAll(/reverse_proxy ([\w-]+):(\d+)/g)];
    expect(proxied.map(([, name, port]) => `${name}:${port}`)).to.deep.equal([
      'authorization-server:4000',
      'resource-server:4001',
      'authorization-server:4002',
    ]);
    expect(Object.keys(compose.services)).to.include.members(proxied.map(([, name]) => name));
  });

  it('SUP-15 the proxy passes the console and its assets alone, in a network of its own', () => {
    const [, ofConsole = ''] = read('config/caddy/Caddyfile').split('admin.example.com {');
    const [, paths] = /^\t@console path (.*)$/m.exec(ofConsole) ?? [];
    expect(paths).to.equal('/console /console/* /assets/*');
    expect(ofConsole).to.match(/handle @console \{\s+reverse_proxy \S+:4002\s+\}/);
    expect(ofConsole).to.match(/handle \{\s+respond 404\s+\}/);
    const inside = services.filter(([, { networks }]) => networks.includes('console'));
    expect(inside.map(([name]) => name)).to.deep.equal(['authorization-server', 'proxy']);
  });

  it('the compose file mounts settings as folders, which a reload can read', () => {
    for (const [name, { volumes }] of services)
      for (const volume of volumes.filter((each) => each.startsWith('.')))
        expect(volume, name).to.match(/^\.\/(settings|caddy):\/etc\/\w+:ro$/);
  });

  it('the compose file sets valid variables, with the files of init', () => {
    for (const name of ['authorization-server', 'resource-server']) {
      const { environment = {}, secrets = [] } = compose.services[name] ?? {};
      const given = Object.entries(environment).map(([key, value]) => {
        const [, secret] = /^\/run\/secrets\/(\w+)$/.exec(value) ?? [];
        if (secret) expect(secrets, name).to.include(secret);
        const content = secret === 'gatehouse_store' ? 'redis://:password@redis:6379' : undefined;
        return [key, secret ? secretFile(secret, content) : value];
      });
      const settings = loadSettings(
        imageEnvironment({
          ...Object.fromEntries(given),
          GATEHOUSE_CONFIG: settingsFile({
            ...PRODUCTION,
            managementUrl: 'https://admin.example.com',
            store: 'redis://redis:6379',
            secretFile: secretFile('compose'),
          }),
        }),
      );
      expect(settings.store).to.deep.equal({
        kind: 'redis',
        url: 'redis://:password@redis:6379',
      });
    }
  });

  it('the compose file runs Redis with persistence', () => {
    const command = compose.services.redis?.command.join(' ');
    expect(command).to.match(/--appendonly yes --maxmemory-policy noeviction$/);
  });

  it('SUP-15 no container has more rights than it needs, a version that can change, or a secret in its arguments', () => {
    const text = read('config/compose.yaml');
    expect(services.map(([name]) => name)).to.include.members(['redis', 'proxy']);
    for (const [name, { image, read_only, cap_drop, security_opt, command }] of services) {
      expect({ read_only, cap_drop, security_opt }, name).to.deep.equal({
        read_only: true,
        cap_drop: ['ALL'],
        security_opt: ['no-new-privileges:true'],
      });
      if (image !== 'gatehouse') expect(image, name).to.match(/:\d+\.\d+\.\d+(-\w+)?(@sha256:|$)/);
      expect(command.join(' '), name).not.to.match(/requirepass|\$\{/);
    }
    expect(text).not.to.match(/PASSWORD/);
    // The documents name what is to be pinned.
    for (const [, { image }] of services)
      if (image !== 'gatehouse') expect(read('config/operating.md')).to.include(image);
  });
});

describe('The systemd unit', () => {
  const unit = read('config/gatehouse.service');

  it('the systemd unit keeps the compile cache in a private directory', () => {
    const [, name] = /^CacheDirectory=(\w+)\nCacheDirectoryMode=0700$/m.exec(unit) ?? [];
    expect(name).to.be.a('string');
    expect(unit).to.include(`\nEnvironment=NODE_COMPILE_CACHE=/var/cache/${name}\n`);
  });
});
