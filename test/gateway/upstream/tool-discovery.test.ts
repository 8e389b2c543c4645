import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { expect } from 'chai';
import { findCatalog, type ToolCatalog } from '../../../src/upstreams/tool-catalog.ts';
import { askRaw, mint } from '../../links/minted-tokens/minting.ts';
import { advanceClock, restoreClock } from '../../support/clock.ts';
import { freePorts } from '../../support/free-ports.ts';
import { nodeArguments } from '../../support/node-arguments.ts';
import { listenOnLoopback } from '../../support/loopback-server.ts';
import {
  createDeployment,
  type Deployment,
  type LogLine,
  startDeployment,
  type System,
} from '../../support/system.ts';
import { rawRequest } from '../../support/raw-request.ts';
import { openSystemStore } from '../../support/system-store.ts';
import { until } from '../../support/until.ts';
import {
  type ChangingUpstream,
  startChangingV1,
  startChangingV2,
} from '../../support/upstream/changing-upstream.ts';
import { startListingUpstream, tool } from '../../support/upstream/listing-upstream.ts';

const FIRST = [
  { name: 'search', title: 'Search orders', annotations: { readOnlyHint: true } },
  { name: 'cancel', annotations: { title: 'Cancel an order', destructiveHint: true } },
];
const SECOND = [...FIRST, { name: 'added' }];

/** Reads the stored catalog until `isDone`. */
async function catalogOf(
  system: System,
  url: string,
  isDone: (catalog: ToolCatalog) => boolean,
): Promise<ToolCatalog> {
  const { store } = await openSystemStore(system);
  try {
    return await until('the catalog of the upstream', async () => {
      const catalog = await findCatalog(store, { id: 'default', url });
      return catalog && isDone(catalog) ? catalog : undefined;
    });
  } finally {
    await store.close();
  }
}

const warnings = (log: LogLine[]) => log.filter(({ level }) => level === 40);
const names = ({ tools }: ToolCatalog) => tools.map(({ name }) => name);

describe('The discovery of tools', () => {
  let place: Deployment | undefined;
  let system: System | undefined;
  const log: LogLine[] = [];
  afterEach(async () => {
    restoreClock();
    log.length = 0;
    await system?.stop();
    await place?.release();
    system = place = undefined;
  });

  async function startBehind(url: string, more: object = {}): Promise<System> {
    place = await createDeployment({ file: { resourceServer: { upstream: { url, ...more } } } });
    system = await startDeployment(place, {}, { log });
    return system;
  }

  const KINDS = { v1: startChangingV1, v2: startChangingV2 };
  for (const [kind, start] of Object.entries(KINDS)) {
    it(`the tools of an upstream built with SDK ${kind} are stored at the start, after it says that they changed, and after five minutes`, async () => {
      const upstream: ChangingUpstream = await start(FIRST);
      try {
        place = await createDeployment({
          file: { resourceServer: { upstream: { url: upstream.url } } },
        });
        upstream.trustIssuer(place.facts.auth);
        system = await startDeployment(place);
        const catalog = await catalogOf(system, upstream.url, ({ tools }) => tools.length > 0);
        expect(catalog.tools).to.deep.equal([
          { name: 'search', title: 'Search orders', hints: { readOnlyHint: true } },
          { name: 'cancel', title: 'Cancel an order', hints: { destructiveHint: true } },
        ]);
        expect(catalog.error).to.equal(undefined);
        expect(catalog.seenAt).to.equal(catalog.triedAt);
        expect(upstream.discoveries[0]?.caller).to.include({ sub: 'gatehouse' });

        advanceClock(10);
        await upstream.setTools(SECOND);
        await catalogOf(system, upstream.url, (found) => names(found).includes('added'));

        await upstream.setTools(FIRST, { isSilent: true });
        advanceClock(301);
        await catalogOf(system, upstream.url, (found) => !names(found).includes('added'));
        expect(upstream.received).to.deep.equal([]);
      } finally {
        await upstream.close();
      }
    });
  }

  it('UPS-14 a failure keeps the tools that were read before, and is logged once however often it repeats', async () => {
    const upstream = await startChangingV2(FIRST);
    place = await createDeployment({
      file: { resourceServer: { upstream: { url: upstream.url } } },
    });
    upstream.trustIssuer(place.facts.auth);
    system = await startDeployment(place, {}, { log });
    const first = await catalogOf(system, upstream.url, ({ tools }) => tools.length > 0);
    await upstream.close();
    const tries: number[] = [];
    for (let n = 0; n < 3; n += 1) {
      advanceClock(301);
      const failed = await catalogOf(
        system,
        upstream.url,
        ({ error, triedAt }) => error !== undefined && !tries.includes(triedAt),
      );
      tries.push(failed.triedAt);
      expect(failed).to.deep.include({ tools: first.tools, seenAt: first.seenAt });
      expect(failed.error).to.deep.equal({
        fault: 'unreachable',
        message: 'does not listen (connection refused)',
      });
    }
    expect(warnings(log)).to.have.length(1);
  });

  const endless: RequestListener = (_req, res) => {
    res.writeHead(200, { 'content-type': 'application/json' });
    const write = () => {
      while (!res.destroyed && res.write('['.repeat(65_536)));
    };
    res.on('drain', write);
    write();
  };
  const FAULTS: Record<string, [handle: RequestListener, fault: string]> = {
    'redirects to another server': [
      (_req, res) => void res.writeHead(307, { location: 'http://127.0.0.1:1/mcp' }).end(),
      'redirected',
    ],
    'sends an endless response': [endless, 'too-large'],
    'sends a web page': [
      (_req, res) => void res.writeHead(200, { 'content-type': 'text/html' }).end('<p>'),
      'not-mcp',
    ],
  };
  for (const [what, [handle, fault]] of Object.entries(FAULTS)) {
    it(`UPS-14 an upstream that ${what} does not prevent the start, and one warning says so`, async () => {
      const server = await listenOnLoopback(createServer(handle));
      try {
        const url = `${server.origin}/mcp`;
        const started = await startBehind(url, { maxAnswerBytes: 262_144 });
        expect((await fetch(`${started.resource}/readyz`)).status).to.equal(200);
        const catalog = await catalogOf(started, url, ({ error }) => error !== undefined);
        expect(catalog.error?.fault).to.equal(fault);
        expect(catalog.tools).to.deep.equal([]);
        expect(catalog.seenAt).to.equal(undefined);
        await until('the warning', () => warnings(log).length > 0);
        expect(warnings(log)).to.have.length(1);
      } finally {
        await server.stop();
      }
    });
  }

  it('a reading that took longer than its lock is not stored, and is made again', async () => {
    const { now } = performance;
    const upstream = await startListingUpstream([tool('search')]);
    try {
      place = await createDeployment({
        file: { resourceServer: { upstream: { url: upstream.url, toolChanges: 'hold' } } },
      });
      upstream.trustIssuer(place.facts.auth);
      system = await startDeployment(place);
      await catalogOf(system, upstream.url, ({ tools }) => tools.length > 0);
      let readings = 0;
      upstream.list(() => {
        readings += 1;
        performance.now = () => now.call(performance) + readings * 10_000;
        return [tool('search'), tool('added')];
      });
      advanceClock(301);
      await until('the second reading', () => readings > 1);
      const stored = await catalogOf(system, upstream.url, () => true);
      expect(names(stored)).to.deep.equal(['search']);
      const { text } = await askRaw(system, 'GET', '/upstreams/default/review');
      expect(JSON.parse(text)).to.deep.include({ tools: [] });
      upstream.list([tool('search'), tool('added')]);
      await catalogOf(system, upstream.url, (found) => names(found).includes('added'));
    } finally {
      performance.now = now;
      await upstream.close();
    }
  });

  it('UPS-14 an upstream with 2,001 tools is refused, one with 2,000 is read, and long titles are shortened', async () => {
    const many = Array.from({ length: 2001 }, (_, n) => ({ name: `tool-${n}` }));
    const upstream = await startChangingV2(many);
    try {
      place = await createDeployment({
        file: { resourceServer: { upstream: { url: upstream.url } } },
      });
      upstream.trustIssuer(place.facts.auth);
      system = await startDeployment(place);
      const refused = await catalogOf(system, upstream.url, ({ error }) => error !== undefined);
      expect(refused.error).to.deep.equal({
        fault: 'too-large',
        message: 'lists more than 2000 tools',
      });
      expect(refused.tools).to.deep.equal([]);
      await upstream.setTools(many.slice(1), { isSilent: true });
      advanceClock(301);
      const all = await catalogOf(system, upstream.url, ({ error }) => error === undefined);
      expect(names(all)).to.have.members(many.slice(1).map(({ name }) => name));
      await upstream.setTools([
        { name: 'long', title: `a\u202e\n${'x'.repeat(10_000)}` },
        { name: 'n'.repeat(513) },
      ]);
      advanceClock(301);
      const { tools } = await catalogOf(system, upstream.url, (found) => found.tools.length < 2000);
      expect(tools).to.deep.equal([{ name: 'long', title: `a ${'x'.repeat(118)}…` }]);
    } finally {
      await upstream.close();
    }
  });
});

describe('The discovery of tools after a crash', () => {
  afterEach(restoreClock);

  it('a process that was killed while it read the tools keeps the next one from reading for ten seconds at most', async () => {
    let isAsked = false;
    let handle: RequestListener = () => {
      isAsked = true;
    };
    const server = await listenOnLoopback(createServer((req, res) => handle(req, res)));
    const url = `${server.origin}/mcp`;
    let place: Deployment | undefined;
    let child: ChildProcess | undefined;
    let system: System | undefined;
    try {
      place = await createDeployment({
        file: { resourceServer: { upstream: { url, toolChanges: 'hold' } } },
      });
      child = spawn(process.execPath, nodeArguments(['start']), { env: place.environment });
      const closed = once(child, 'close');
      await until('the first process to read', () => isAsked);
      const killed = performance.now();
      child.kill('SIGKILL');
      await closed;
      handle = (_req, res) => void res.writeHead(500).end();
      system = await startDeployment(place);
      advanceClock(11);
      await catalogOf(system, url, ({ error }) => error !== undefined);
      // A lock of thirty seconds would have had nineteen left.
      expect(performance.now() - killed).to.be.below(18_000);
    } finally {
      child?.kill('SIGKILL');
      await system?.stop();
      await place?.release();
      await server.stop();
    }
  });
});

describe('The discovery of tools by several processes', () => {
  const PROCESSES = 3;
  const systems: System[] = [];
  let place: Deployment | undefined;
  let upstream: ChangingUpstream | undefined;
  afterEach(async () => {
    restoreClock();
    for (const system of systems.splice(0).toReversed()) await system.stop();
    await place?.release();
    await upstream?.close();
  });

  it('one process reads the tools, and all of them know the result', async () => {
    upstream = await startChangingV2(FIRST);
    const { url, discoveries } = upstream;
    const file = { resourceServer: { upstream: { url, toolLevels: 'annotations' } } };
    place = await createDeployment({ store: 'redis', file });
    upstream.trustIssuer(place.facts.auth);
    const GATEHOUSE_ROLES = 'authorization-server,management';
    const first = await startDeployment(place, { GATEHOUSE_ROLES });
    systems.push(first);
    const ports = await freePorts(PROCESSES);
    for (const port of ports)
      systems.push(
        await startDeployment(place, {
          GATEHOUSE_ROLES: 'resource-server',
          GATEHOUSE_RESOURCE_LISTEN: `127.0.0.1:${port}`,
        }),
      );
    await catalogOf(first, url, ({ tools }) => tools.length > 0);
    const { token } = await mint(first, { level: 'analytics' });
    const listedAt = async (port: number) => {
      const { body } = await rawRequest(`http://127.0.0.1:${port}`, {
        method: 'POST',
        path: '/mcp',
        headers: {
          host: new URL(first.resource).host,
          authorization: `Bearer ${token}`,
          accept: 'application/json, text/event-stream',
          'content-type': 'application/json',
          'mcp-protocol-version': '2025-11-25',
        },
        chunks: [JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' })],
      });
      return body;
    };
    const readings = () =>
      discoveries.filter(({ body }) => (body as { method?: string })?.method === 'tools/list');
    for (const port of ports)
      await until('the process to know the tools', async () =>
        (await listedAt(port)).includes('"search"'),
      );
    const before = readings().length;
    await upstream.setTools([...FIRST, { name: 'silent', annotations: { readOnlyHint: true } }], {
      isSilent: true,
    });
    advanceClock(301);
    for (const port of ports)
      await until('the process to know the new tool', async () =>
        (await listedAt(port)).includes('"silent"'),
      );
    expect(readings()).to.have.length(before + 1);
  });
});
