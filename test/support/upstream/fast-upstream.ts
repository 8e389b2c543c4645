// An MCP server of an operator that takes next to no time, so that the load is on what is before it.
import { answerTo, event, json, stream } from './scripted-upstream.ts';
import { type Handle, startUpstream, type Upstream } from './upstream-server.ts';

type Message = { id?: unknown; method?: string };

/** It checks the caller as every one should, and remembers nothing. */
export function startQuickUpstream(): Promise<Upstream> {
  return startUpstream(() => answer, { forgets: true });
}

const answer: Handle = (_req, res, body) => {
  const message = body as Message;
  if (message.method === 'subscriptions/listen') return stream(res, event(ACKNOWLEDGED));
  return json(res, answerTo(message, { content: [{ type: 'text', text: 'quick' }] }));
};

const ACKNOWLEDGED = {
  jsonrpc: '2.0',
  method: 'notifications/subscriptions/acknowledged',
  params: { notifications: { toolsListChanged: true } },
};
