// The proxies for the operator's own MCP servers.
import type { Services } from '../../services.ts';
import type { Settings } from '../../settings/settings.ts';
import { findUpstream } from '../../settings/upstreams.ts';
import type { CallAudit } from '../call-audit.ts';
import type { McpHandlers } from '../mcp-handler.ts';
import type { RecordCache } from '../record-cache.ts';
import { openOpenCalls } from './open-calls.ts';
import { discoveryKey, openUpstreamProxy, type UpstreamProxy } from './proxy.ts';
import { openToolDiscovery } from './tool-discovery.ts';

export async function openUpstreamProxies(
  settings: Settings,
  services: Services,
  { onChange, audit }: Pick<RecordCache, 'onChange'> & { audit: CallAudit },
): Promise<McpHandlers> {
  const { upstreams } = settings;
  const openCalls = await services.keep('open calls', async ({ store, resources }) => {
    const opened = await openOpenCalls(store);
    resources.defer(opened.close);
    return opened;
  });
  const proxies = new Map<string, UpstreamProxy>();
  for (const upstream of upstreams) {
    const discovery = await services.keep(
      discoveryKey(settings, upstream),
      async ({ store, resources }) => {
        const opened = await openToolDiscovery(settings, { ...services, store }, upstream);
        resources.defer(opened.close);
        return opened;
      },
    );
    const options = { upstream, discovery, onChange, openCalls, audit };
    proxies.set(upstream.id, await openUpstreamProxy(settings, services, options));
  }
  const all = [...proxies.values()];
  return {
    serving(record) {
      const proxy = proxies.get(findUpstream(upstreams, record)?.id ?? '');
      if (!proxy) throw new Error('the settings do not have the upstream of the record');
      return proxy;
    },
    discover: async (signal) =>
      void (await Promise.all(all.map((proxy) => proxy.discover(signal)))),
    end: (kind) => all.forEach((proxy) => proxy.end(kind)),
    follow: (inForce) => all.forEach((proxy) => proxy.follow(inForce)),
    renewStreams: (within) => all.forEach((proxy) => proxy.renewStreams(within)),
    close: async () => void (await Promise.all(all.map((proxy) => proxy.close()))),
  };
}
