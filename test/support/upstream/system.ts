// A whole Gatehouse in front of an MCP server of an operator.
import { restoreClock } from '../clock.ts';
import { startSystem, type System, type SystemOptions } from '../system.ts';
import type { Upstream } from './listening.ts';
import { DECLARED } from './tools.ts';

export type Behind = { system: System; upstream: Upstream };

/** Settings of the upstream besides its address and its tools. */
export type UpstreamSettings = Record<string, unknown>;

/** One of each for all claims of the `describe` around it. */
export function useUpstream(
  open: () => Promise<Upstream>,
  settings: UpstreamSettings = {},
  options: SystemOptions = {},
): () => Behind {
  let behind: Behind | undefined;
  before(async () => {
    const upstream = await open();
    const system = await startSystem({
      ...options,
      file: { resourceServer: { upstream: { url: upstream.url, tools: DECLARED, ...settings } } },
    });
    upstream.trust(system.auth);
    behind = { system, upstream };
  });
  afterEach(restoreClock);
  after(async () => {
    await behind?.system.stop();
    await behind?.upstream.close();
  });
  return () => {
    if (!behind) throw new Error('the system runs only while a claim does');
    return behind;
  };
}
