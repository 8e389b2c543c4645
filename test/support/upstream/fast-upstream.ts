// An MCP server of an operator that takes next to no time, so that the load is on what is before it.
import { resultFor, event, json, stream } from './scripted-upstream.ts';
import { type UpstreamHandler, startUpstream, type Upstream } from './upstream-server.ts';

type Message = { id?: unknown; method?: string };

/** It checks the caller as every one should, and remembers nothing. */
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
