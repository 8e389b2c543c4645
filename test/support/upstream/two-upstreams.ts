// A complete system in front of two upstream MCP servers, `orders` and `tickets`.
import { restoreClock } from '../clock.ts';
import { createDeployment, startDeployment, type Deployment, type System } from '../system.ts';
import type { Upstream } from './upstream-server.ts';
import { DECLARED } from './upstream-tools.ts';

export const IDS = ['orders', 'tickets'] as const;
export type UpstreamId = (typeof IDS)[number];

export type TwoUpstreams<Server extends Upstream = Upstream> = {
  place: Deployment;
  system: System;
  upstreams: Record<UpstreamId, Server>;
};

export type TwoUpstreamsOptions = {
  /** Additional settings of each upstream. */
  settings?: Partial<Record<UpstreamId, Record<string, unknown>>>;
  /** Additional environment variables. */
  environment?: Record<string, string>;
};

/** One system and two upstreams for all tests of the surrounding `describe`. */
export function useTwoUpstreams<Server extends Upstream>(
  open: () => Promise<Server>,
  { settings = {}, environment = {} }: TwoUpstreamsOptions = {},
): () => TwoUpstreams<Server> {
  let running: TwoUpstreams<Server> | undefined;
  before(async () => {
    const upstreams = { orders: await open(), tickets: await open() };
    const list = IDS.map((id) => ({
      id,
      url: upstreams[id].url,
      tools: DECLARED,
      ...settings[id],
    }));
    const place = await createDeployment({ file: { resourceServer: { upstreams: list } } });
    const system = await startDeployment(place, environment);
    for (const id of IDS) upstreams[id].trustIssuer(system.auth);
    running = { place, system, upstreams };
  });
  afterEach(restoreClock);
  after(async () => {
    await running?.system.stop();
    await running?.place.release();
    await Promise.all(IDS.map((id) => running?.upstreams[id].close()));
  });
  return () => {
    if (!running) throw new Error('the system runs only during tests');
    return running;
  };
}
