// Two processes with the resource server in front of one MCP server that changes its tools.
import { expect } from 'chai';
import { membersOf } from '../../../src/json-values.ts';
import { askRaw, mint } from '../../links/minted-tokens/minting.ts';
import { restoreClock } from '../../support/clock.ts';
import { freePorts } from '../../support/free-ports.ts';
import { rawRequest } from '../../support/raw-request.ts';
import {
  createDeployment,
  type Deployment,
  type LogLine,
  startDeployment,
  type System,
} from '../../support/system.ts';
import { until } from '../../support/until.ts';
import {
  type ListedTools,
  type ListingUpstream,
  startListingUpstream,
} from '../../support/upstream/listing-upstream.ts';
import { readAgain } from '../../support/upstream/read-again.ts';
import { z } from 'zod';

const PROCESSES = 2;

/** The parameters of `initialize`. */
export const HANDSHAKE = {
  protocolVersion: '2025-11-25',
  capabilities: {},
  clientInfo: { name: 'test', version: '1' },
};

const answer = z.looseObject({
  result: z
    .looseObject({
      tools: z.array(z.looseObject({ name: z.string() })).optional(),
      isError: z.boolean().optional(),
      instructions: z.string().optional(),
      content: z.array(z.looseObject({ text: z.string().optional() })).optional(),
    })
    .optional(),
  error: z.looseObject({ code: z.number(), message: z.string() }).optional(),
});
export type Answer = z.output<typeof answer>;

const review = z.strictObject({
  tools: z.array(
    z.looseObject({
      name: z.string(),
      change: z.enum(['new', 'changed', 'removed']),
      digest: z.string(),
      severity: z.enum(['alert', 'note']),
      differences: z.array(
        z.strictObject({
          path: z.string(),
          before: z.string().optional(),
          after: z.string().optional(),
          suspicion: z.string().optional(),
        }),
      ),
    }),
  ),
  instructions: z
    .looseObject({ digest: z.string(), before: z.string().optional(), after: z.string() })
    .optional(),
});
export type Review = z.output<typeof review>;

export type ChangedTools = ReturnType<typeof useChangedTools>;

/** One system for the surrounding `describe`, in front of a server that lists `first`. `more` adds to the settings of the upstream. */
export function useChangedTools(more: object, first: ListedTools, instructions?: string) {
  const systems: System[] = [];
  let place: Deployment | undefined;
  let upstream: ListingUpstream | undefined;
  let ports: number[] = [];
  let token = '';
  const log: LogLine[] = [];

  before(async () => {
    const started = await startListingUpstream(first, instructions);
    upstream = started;
    const file = {
      resourceServer: { upstream: { url: started.url, defaultLevel: 'analytics', ...more } },
    };
    place = await createDeployment({ store: 'redis', file });
    started.trustIssuer(place.facts.auth);
    systems.push(
      await startDeployment(place, { GATEHOUSE_ROLES: 'authorization-server,management' }),
    );
    ports = await freePorts(PROCESSES);
    for (const port of ports)
      systems.push(
        await startDeployment(
          place,
          {
            GATEHOUSE_ROLES: 'resource-server',
            GATEHOUSE_RESOURCE_LISTEN: `127.0.0.1:${port}`,
          },
          { log },
        ),
      );
    ({ token } = await mint(manager(), { level: 'analytics' }));
    for (const process of [0, 1])
      await until('the first reading', async () => (await list(process)).length > 0);
  });

  after(async () => {
    restoreClock();
    for (const system of systems.splice(0).toReversed()) await system.stop();
    await place?.release();
    await upstream?.close();
    place = upstream = undefined;
  });

  function server(): ListingUpstream {
    if (!upstream) throw new Error('the server runs only during tests');
    return upstream;
  }

  function manager(): System {
    const [system] = systems;
    if (!system) throw new Error('the system runs only during tests');
    return system;
  }

  const ask = (
    method: string,
    params: object = {},
    options: { process?: number; bearer?: string } = {},
  ) => send(JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }), options);

  async function send(
    message: string,
    { process = 0, bearer = token }: { process?: number; bearer?: string } = {},
  ): Promise<Answer> {
    const { body } = await rawRequest(`http://127.0.0.1:${ports[process]}`, {
      method: 'POST',
      path: '/mcp',
      headers: {
        host: new URL(manager().resource).host,
        authorization: `Bearer ${bearer}`,
        accept: 'application/json, text/event-stream',
        'content-type': 'application/json',
        'mcp-protocol-version': '2025-11-25',
      },
      chunks: [message],
    });
    return answer.parse(JSON.parse(body));
  }
  const list = async (process = 0, bearer = token) =>
    (await ask('tools/list', {}, { process, bearer })).result?.tools ?? [];

  return {
    server,
    manager,
    /** Of the processes with the resource server. */
    log,
    ask,
    send,
    list,
    names: async (process = 0) => (await list(process)).map(({ name }) => name),
    call: (name: string, process = 0, given: object = {}) =>
      ask('tools/call', { name, arguments: given }, { process }),
    /** Lets Gatehouse read the tools again. */
    async readAgain(): Promise<void> {
      const readings = () =>
        server().discoveries.filter(({ body }) => membersOf(body)['method'] === 'tools/list')
          .length;
      const before = readings();
      await readAgain(() => readings() > before);
    },
    async review(): Promise<Review> {
      const { status, text } = await askRaw(manager(), 'GET', '/upstreams/default/review');
      expect(status, text).to.equal(200);
      return review.parse(JSON.parse(text));
    },
    approve: (body: object) => askRaw(manager(), 'POST', '/upstreams/default/approve', body),
    async audit(event: string): Promise<Record<string, unknown>[]> {
      const { text } = await askRaw(manager(), 'GET', `/audit?event=${event}`);
      return z.object({ items: z.array(z.record(z.string(), z.unknown())) }).parse(JSON.parse(text))
        .items;
    },
  };
}
