// An upstream MCP server with minimal work per request, for load tests.
import { resultFor, event, json, stream } from './scripted-upstream.ts';
import { type UpstreamHandler, startUpstream, type Upstream } from './upstream-server.ts';

type Message = { id?: unknown; method?: string };

/** Verifies the caller header and records nothing. */
export function startFastUpstream(): Promise<Upstream> {
  return startUpstream(() => answer, { recordsNothing: true });
}

const answer: UpstreamHandler = (_req, res, body) => {
  const message = body as Message;
  if (message.method === 'subscriptions/listen') return stream(res, event(ACKNOWLEDGED));
  return json(res, resultFor(message, { content: [{ type: 'text', text: 'quick' }] }));
};

const ACKNOWLEDGED = {
  jsonrpc: '2.0',
  method: 'notifications/subscriptions/acknowledged',
  params: { notifications: { toolsListChanged: true } },
};
