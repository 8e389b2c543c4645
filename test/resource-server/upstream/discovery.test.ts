// At its start, Gatehouse asks the operator's MCP server for its tools: one warning in the log for what is wrong, and never a start that fails or waits.
import { createServer } from 'node:http';
import { expect } from 'chai';
import { listOf } from '../../../src/resource-server/upstream/discovery.ts';
import { until } from '../../store/condition.ts';
import { freePorts } from '../../support/free-ports.ts';
import { listenOnLoopback } from '../../support/loopback-server.ts';
import {
  type LogLine,
  createDeployment,
  type Deployment,
  startDeployment,
} from '../../support/system.ts';
import type { Upstream } from '../../support/upstream/upstream-server.ts';
import { startUpstreamV1 } from '../../support/upstream/sdk-v1.ts';
import { startUpstreamV2 } from '../../support/upstream/sdk-v2.ts';
import { DECLARED } from '../../support/upstream/upstream-tools.ts';

const warnings = (log: LogLine[]) => log.filter(({ level }) => level === 40);

async function placeBehind(url: string, tools: readonly object[] = DECLARED): Promise<Deployment> {
  return createDeployment({ file: { resourceServer: { upstream: { url, tools } } } });
}

/** What is logged until `isDone`, while the system is ready. */
async function startAndWatch(place: Deployment, isDone: (log: LogLine[]) => boolean) {
  const log: LogLine[] = [];
  const system = await startDeployment(place, {}, log);
  try {
    expect((await fetch(`${system.resource}/readyz`)).status).to.equal(200);
    await until('it was looked at', () => isDone(log));
  } finally {
    await system.stop();
    await place.release();
  }
  return log;
}

describe('At its start, Gatehouse in front of an MCP server', () => {
  const KINDS = { v1: startUpstreamV1, v2: startUpstreamV2 };
  for (const [kind, start] of Object.entries(KINDS)) {
    describe(`of the SDK ${kind}`, () => {
      let upstream: Upstream;
      before(async () => {
        upstream = await start();
      });
      after(() => upstream.close());

      it('SUP-08 warns once of tools that the settings name and that are not there', async () => {
        const tools = [...DECLARED, { name: 'Cards', level: 'full' }];
        const place = await placeBehind(upstream.url, tools);
        upstream.trustIssuer(place.facts.auth);
        const log = await startAndWatch(place, (lines) => warnings(lines).length > 0);
        expect(warnings(log)).to.have.length(1);
        expect(warnings(log)[0]).to.include({
          msg: 'the MCP server lacks tools that the settings name',
          what: upstream.url,
          reason: 'it has no tool Cards',
        });
        expect(warnings(log)[0]?.['remedy']).to.include(
          'whoami, wait, contacts, cards, undeclared',
        );
      });

      it('SUP-08 says nothing when all of them are there, and asks as gatehouse', async () => {
        const before = upstream.discoveries.length;
        const place = await placeBehind(upstream.url);
        upstream.trustIssuer(place.facts.auth);
        const listed = () =>
          upstream.discoveries
            .slice(before)
            .some(({ body }) => (body as { method?: string } | undefined)?.method === 'tools/list');
        const log = await startAndWatch(place, listed);
        expect(warnings(log)).to.deep.equal([]);
        expect(upstream.discoveries.at(-1)?.caller).to.include({
          sub: 'gatehouse',
          iss: place.facts.auth,
          aud: upstream.url,
        });
        expect(upstream.received).to.deep.equal([]);
      });
    });
  }

  it('SUP-08 warns once of one that nobody reaches, without the query of its address', async () => {
    const [port] = await freePorts(1);
    const place = await placeBehind(`http://127.0.0.1:${port}/mcp?key=canary`);
    const log = await startAndWatch(place, (lines) => warnings(lines).length > 0);
    expect(warnings(log)).to.have.length(1);
    expect(warnings(log)[0]).to.include({
      msg: 'the tools of the MCP server cannot be read',
      what: `http://127.0.0.1:${port}/mcp`,
      reason: 'it does not listen (connection refused)',
    });
    expect(JSON.stringify(log)).to.not.include('canary');
  });

  it('SUP-08 warns once of one that refuses it, and says what to configure', async () => {
    const server = await listenOnLoopback(
      createServer((_req, res) => void res.writeHead(403).end('canary')),
    );
    const place = await placeBehind(`${server.origin}/mcp`);
    const log = await startAndWatch(place, (lines) => warnings(lines).length > 0);
    await server.stop();
    expect(warnings(log)).to.have.length(1);
    expect(warnings(log)[0]?.['reason']).to.equal('it refuses Gatehouse (HTTP 403)');
    expect(warnings(log)[0]?.['remedy']).to.include('gatehouse-caller').and.include('/oauth/jwks');
  });

  it('SUP-08 neither waits for one that never answers, nor for it to stop', async () => {
    let asked = 0;
    const server = await listenOnLoopback(createServer(() => void (asked += 1)));
    const place = await placeBehind(`${server.origin}/mcp`);
    const started = performance.now();
    const log = await startAndWatch(place, () => asked > 0);
    expect(performance.now() - started).to.be.below(10_000);
    await server.stop();
    expect(warnings(log)).to.deep.equal([]);
  });
});

describe('The names of tools in a warning', () => {
  it('SUP-08 are a few, each cut to a length that can be read', () => {
    const names = Array.from({ length: 25 }, (_, n) => `${n}${'x'.repeat(10_000)}`);
    const text = listOf(names);
    expect(text)
      .to.have.length.below(2000)
      .and.match(/ and 5 more$/);
    expect(listOf(['search_orders', 'export_cards'])).to.equal('search_orders, export_cards');
  });

  it('SUP-08 are on one line, without characters that change how a terminal shows it', () => {
    expect(listOf(['a\u001b[2J\nb'])).to.equal('a [2J b');
  });
});
