// Streams of MCP (Streamable HTTP) that stay open: in a session of the 2025 revisions, and a subscription of revision 2026-07-28.
import { until } from '../store/condition.ts';

export type Streams = {
  areClosed(): boolean;
  /** Whether each is closed and went on to the end of its answer: nothing was cut off. */
  areEnded(): boolean;
  /** What came last in each: the data of an event. */
  lastEvents(): unknown[];
  /** The client goes away. */
  leave(): Promise<void>;
};

type Opened = {
  text: () => string;
  state: () => 'open' | 'ended' | 'broken';
  leave: () => void;
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

/** Resolves when the answer begins. */
async function open(link: string, init: RequestInit): Promise<Opened> {
  const stop = new AbortController();
  const response = await fetch(link, { ...init, signal: stop.signal });
  if (!response.headers.get('content-type')?.startsWith('text/event-stream'))
    throw new Error(`no stream but ${response.status} ${await response.text()}`);
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
  return { text: () => text, state: () => state, leave: () => stop.abort() };
}

function together(streams: readonly Opened[]): Streams {
  const areClosed = () => streams.every(({ state }) => state() !== 'open');
  return {
    areClosed,
    areEnded: () => streams.every(({ state }) => state() === 'ended'),
    lastEvents: () => streams.map(({ text }) => lastEventIn(text())),
    async leave() {
      for (const { leave } of streams) leave();
      await until('the streams are left', areClosed);
    },
  };
}

function lastEventIn(text: string): unknown {
  const data = text.match(/^data: ?(.+)$/gm)?.at(-1);
  return data && JSON.parse(data.replace(/^data: ?/, ''));
}

/** Notifications (GET), and a call that is at its gate (POST). */
export async function openSessionStreams(link: string, token: string): Promise<Streams> {
  const headers = headersFor(token, { 'mcp-protocol-version': SESSION_REVISION });
  const post = (message: object, more: Record<string, string> = {}): RequestInit => ({
    method: 'POST',
    headers: { ...headers, ...more },
    body: JSON.stringify({ jsonrpc: '2.0', ...message }),
  });
  const begin = {
    id: 1,
    method: 'initialize',
    params: {
      protocolVersion: SESSION_REVISION,
      capabilities: {},
      clientInfo: { name: 'streams', version: '1' },
    },
  };
  const begun = await fetch(link, post(begin));
  const session = { 'mcp-session-id': begun.headers.get('mcp-session-id') ?? '' };
  await begun.text();
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
  await until('the call is at its gate', () => streams[1]?.text().includes('"progress":2'));
  return together(streams);
}

/** `subscriptions/listen`. */
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
  await until('the subscription is acknowledged', () => stream.text().includes('data:'));
  return together([stream]);
}
