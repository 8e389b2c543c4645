// Sends the requests of this process through the proxy of the network.
import type { ProxyAgent } from 'undici';
import { type ForwardProxy, proxyFor } from '../settings/forward-proxy.ts';

/**
 * For every `fetch` of the process. Does nothing without a proxy: loading the library takes a tenth of a start. Wherever it is loaded, also by
 * the proxy to MCP servers, its agent takes the place of that of Node for `fetch`; nothing here depends on which one it is.
 */
export async function useForwardProxy(proxy: ForwardProxy): Promise<void> {
  if (proxy.http === undefined && proxy.https === undefined) return;
  const { Agent, ProxyAgent, setGlobalDispatcher } = await import('undici');
  const agents = new Map<string, ProxyAgent>();
  const agentOf = (uri: string) => {
    const agent = agents.get(uri) ?? new ProxyAgent({ uri });
    agents.set(uri, agent);
    return agent;
  };
  const direct = new Agent();
  setGlobalDispatcher(
    direct.compose((dispatch) => (options, handler) => {
      const uri = proxyFor(String(options.origin), proxy);
      return uri === undefined
        ? dispatch(options, handler)
        : agentOf(uri).dispatch(options, handler);
    }),
  );
}
