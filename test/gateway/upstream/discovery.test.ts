import { createServer } from 'node:http';
import { expect } from 'chai';
import { listOf } from '../../../src/gateway/upstream/tool-comparison.ts';
import { until } from '../../support/until.ts';
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

/** Returns what is logged until `isDone`, while the system is ready. */
async function startAndWatch(place: Deployment, isDone: (log: LogLine[]) => boolean) {
  const log: LogLine[] = [];
  const system = await startDeployment(place, {}, { log });
  try {
    expect((await fetch(`${system.resource}/readyz`)).status).to.equal(200);
    await until('the check of the upstream', () => isDone(log));
  } finally {
    await system.stop();
    await place.release();
  }
  return log;
}

describe('The check of the upstream at startup', () => {
  const KINDS = { v1: startUpstreamV1, v2: startUpstreamV2 };
  for (const [kind, start] of Object.entries(KINDS)) {
    describe(`with an upstream built with SDK ${kind}`, () => {
      let upstream: Upstream;
      before(async () => {
        upstream = await start();
      });
      after(() => upstream.close());

      it('SUP-08 one warning lists the tools in the settings that the upstream does not have', async () => {
        const tools = [...DECLARED, { name: 'Cards', level: 'full' }];
        const place = await placeBehind(upstream.url, tools);
        upstream.trustIssuer(place.facts.auth);
        const log = await startAndWatch(place, (lines) => warnings(lines).length > 0);
        expect(warnings(log)).to.have.length(1);
        expect(warnings(log)[0]).to.include({
          msg: 'the MCP server lacks tools that are in the settings',
          what: upstream.url,
          reason: 'it has no tool Cards',
        });
        expect(warnings(log)[0]?.['remedy']).to.include(
          'whoami, wait, contacts, cards, undeclared',
        );
      });

      it("SUP-08 there is no warning if all tools exist, and the check's caller is gatehouse", async () => {
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

  it('SUP-08 one warning names an unreachable upstream, without the query of its URL', async () => {
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

  it('SUP-08 one warning says what to configure if the upstream refuses the caller header', async () => {
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

  it('SUP-08 neither startup nor shutdown waits for an upstream that never responds', async () => {
    let asked = 0;
    const server = await listenOnLoopback(createServer(() => void (asked += 1)));
    const place = await placeBehind(`${server.origin}/mcp`);
    const log = await startAndWatch(place, () => asked > 0);
    await server.stop();
    // A check that ended by a timeout would be logged.
    expect(warnings(log)).to.deep.equal([]);
  });
});

describe('Tool names in a warning', () => {
  it('SUP-08 a warning lists a few names, each truncated', () => {
    const names = Array.from({ length: 25 }, (_, n) => `${n}${'x'.repeat(10_000)}`);
    const text = listOf(names);
    expect(text)
      .to.have.length.below(2000)
      .and.match(/ and 5 more$/);
    expect(listOf(['search_orders', 'export_cards'])).to.equal('search_orders, export_cards');
  });

  it('SUP-08 a warning is one line without control characters', () => {
    expect(listOf(['a\u001b[2J\nb'])).to.equal('a [2J b');
  });
});
