// Open MCP streams (Streamable HTTP): of a session of the 2025 revisions, and a subscription of revision 2026-07-28.
import { until } from '../support/until.ts';

export type Streams = {
  areClosed(): boolean;
  /** Whether every response ended properly and none was cut off. */
  areEnded(): boolean;
  /** The data of the last event of each stream. */
  lastEvents(): unknown[];
  texts(): string[];
  states(): string[];
  /** Closes the streams as the client. */
  abort(): Promise<void>;
};

type Opened = {
  text: () => string;
  state: () => 'open' | 'ended' | 'broken';
  abort: () => void;
};

const SESSION_REVISION = '2025-11-25';
const SUBSCRIPTION_REVISION = '2026-07-28';

function headersFor(token: string, more: Record<string, string>): Record<string, string> {
  return {
    authorization: `Bearer ${token}`,
    accept: 'application/json, text/event-stream',
    'content-type': 'application/json',
    ...more,
  };
}

/** Resolves when the response starts. */
async function open(link: string, init: RequestInit): Promise<Opened> {
  const stop = new AbortController();
  const response = await fetch(link, { ...init, signal: stop.signal });
  if (!response.headers.get('content-type')?.startsWith('text/event-stream'))
    throw new Error(`expected a stream, got ${response.status} ${await response.text()}`);
  let text = '';
  let state: ReturnType<Opened['state']> = 'open';
  const read = async () => {
    const decoder = new TextDecoder();
    for await (const chunk of response.body ?? []) text += decoder.decode(chunk, { stream: true });
  };
  void read().then(
    () => (state = 'ended'),
    () => (state = 'broken'),
  );
  return { text: () => text, state: () => state, abort: () => stop.abort() };
}

function together(streams: readonly Opened[]): Streams {
  const areClosed = () => streams.every(({ state }) => state() !== 'open');
  return {
    areClosed,
    areEnded: () => streams.every(({ state }) => state() === 'ended'),
    texts: () => streams.map(({ text }) => text()),
    states: () => streams.map(({ state }) => state()),
    lastEvents: () => streams.map(({ text }) => lastEventIn(text())),
    async abort() {
      for (const { abort } of streams) abort();
      await until('the streams to close', areClosed);
    },
  };
}

function lastEventIn(text: string): unknown {
  const data = text.match(/^data: ?(.+)$/gm)?.at(-1);
  return data && JSON.parse(data.replace(/^data: ?/, ''));
}

/** Opens a stream of notifications (GET) and one of a call that waits in the upstream (POST). */
export async function openSessionStreams(link: string, token: string): Promise<Streams> {
  const headers = headersFor(token, { 'mcp-protocol-version': SESSION_REVISION });
  const post = (message: object, more: Record<string, string> = {}): RequestInit => ({
    method: 'POST',
    headers: { ...headers, ...more },
    body: JSON.stringify({ jsonrpc: '2.0', ...message }),
  });
  const initialize = {
    id: 1,
    method: 'initialize',
    params: {
      protocolVersion: SESSION_REVISION,
      capabilities: {},
      clientInfo: { name: 'streams', version: '1' },
    },
  };
  const response = await fetch(link, post(initialize));
  const session = { 'mcp-session-id': response.headers.get('mcp-session-id') ?? '' };
  await response.text();
  const initialized = { method: 'notifications/initialized' };
  await (await fetch(link, post(initialized, session))).text();
  const call = {
    id: 2,
    method: 'tools/call',
    params: { name: 'wait', arguments: {}, _meta: { progressToken: 1 } },
  };
  const streams = await Promise.all([
    open(link, { headers: { ...headers, ...session, accept: 'text/event-stream' } }),
    open(link, post(call, session)),
  ]);
  await until('the call to wait in the upstream', () =>
    streams[1]?.text().includes('"progress":2'),
  );
  return together(streams);
}

export async function openListening(link: string, token: string): Promise<Streams> {
  const params = {
    notifications: { toolsListChanged: true },
    _meta: {
      'io.modelcontextprotocol/protocolVersion': SUBSCRIPTION_REVISION,
      'io.modelcontextprotocol/clientInfo': { name: 'streams', version: '1' },
      'io.modelcontextprotocol/clientCapabilities': {},
    },
  };
  const stream = await open(link, {
    method: 'POST',
    headers: headersFor(token, {
      'mcp-protocol-version': SUBSCRIPTION_REVISION,
      'mcp-method': 'subscriptions/listen',
    }),
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'subscriptions/listen', params }),
  });
  await until('the subscription to be acknowledged', () => stream.text().includes('data:'));
  return together([stream]);
}
