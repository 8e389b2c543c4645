// A Redis proxy that decides about every command: pass it, cut the connection, hold it, or drop it.
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { isPush, createFrameParser, wordsOf } from './redis-frames.ts';

/** `kind` is the part of the key before the colon, such as `grant`; empty for a command without such a key. */
export type Command = { name: string; kind: string };

/**
 * `cut` ends the connection in the middle of the command, which does not run. `cut reply` runs it and ends the connection without a reply.
 * `hold` delays it, and everything after it on the connection, until `release`. `hold reply` runs it and delays the reply.
 * `drop` discards this command and everything after it, and keeps the connection open.
 */
export type Action = 'pass' | 'cut' | 'cut reply' | 'hold' | 'hold reply' | 'drop';

export type Rule = (command: Command) => Action;

export type RedisProxy = {
  url: string;
  /** Decides about every command from now on; without a rule all commands pass. */
  setRule(rule?: Rule): void;
  /** Delays every reply by this time from now on. */
  delayReplies(milliseconds: number): void;
  /** Resolves when a command or reply is held. */
  whenHeld(): Promise<void>;
  /** Forwards what is held, also for a client that has disconnected. */
  release(): void;
  /** Ends every connection, and refuses new ones until `allowConnections`. */
  disconnect(): void;
  allowConnections(): void;
  close(): Promise<void>;
};

type State = {
  rule: Rule;
  delay: number;
  isDisconnected: boolean;
  holding: (() => void)[];
  held: PromiseWithResolvers<void>;
};

const pass: Rule = () => 'pass';

export async function startRedisProxy(target: { port: number }): Promise<RedisProxy> {
  const state: State = {
    rule: pass,
    delay: 0,
    isDisconnected: false,
    holding: [],
    held: Promise.withResolvers(),
  };
  const open = new Set<Socket>();
  const server = createServer((client) => {
    if (state.isDisconnected) return client.destroy();
    client.setNoDelay(true);
    open.add(client);
    client.on('close', () => open.delete(client));
    return proxyConnection(
      state,
      client,
      connect({ port: target.port, host: '127.0.0.1', noDelay: true }),
    );
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const disconnect = () => {
    state.isDisconnected = true;
    open.forEach((client) => client.destroy());
  };
  const release = () => {
    state.rule = pass;
    state.held = Promise.withResolvers();
    for (const letGo of state.holding.splice(0)) letGo();
  };
  return {
    url: `redis://127.0.0.1:${(server.address() as AddressInfo).port}`,
    setRule: (rule = pass) => void (state.rule = rule),
    delayReplies: (milliseconds) => void (state.delay = milliseconds),
    whenHeld: () => state.held.promise,
    release,
    disconnect,
    allowConnections: () => void (state.isDisconnected = false),
    async close() {
      release();
      disconnect();
      server.close();
      await once(server, 'close');
    },
  };
}

/** Proxies both directions of one connection. While a direction is held, its later data is queued. */
function proxyConnection(state: State, client: Socket, upstream: Socket): void {
  const toUpstream = openQueue((bytes) => upstream.write(bytes));
  const toClient = openQueue((bytes) => client.write(bytes));
  const toClientLate = delayed(() => state.delay, toClient.send);
  /** The actions of commands without a reply so far. */
  const fates: Action[] = [];
  let isDropped = false;
  const end = () => {
    client.destroy();
    upstream.destroy();
  };
  const hold = (line: Queue) => {
    line.stop();
    state.holding.push(line.go);
    state.held.resolve();
  };
  const decide = (frame: Buffer) => {
    const command = commandIn(frame);
    const fate = isDropped ? 'drop' : state.rule(command);
    isDropped = fate === 'drop';
    if (isDropped) return;
    if (fate === 'cut') return void upstream.end(frame.subarray(0, frame.length / 2), end);
    if (fate === 'hold') hold(toUpstream);
    // In RESP3 the reply to a subscription is a push message.
    if (!command.name.endsWith('subscribe')) fates.push(fate);
    toUpstream.send(frame);
  };
  const answer = (frame: Buffer) => {
    const fate = isPush(frame) ? 'pass' : fates.shift();
    if (isDropped) return;
    if (fate === 'cut reply') return end();
    if (fate === 'hold reply') hold(toClient);
    toClientLate(frame);
  };
  const commands = createFrameParser();
  const replies = createFrameParser();
  client.on('data', (chunk) => commands(chunk).forEach(decide));
  upstream.on('data', (chunk) => replies(chunk).forEach(answer));
  for (const socket of [client, upstream]) socket.on('error', () => undefined);
  upstream.on('close', end);
  // Held data still arrives, as it would on a slow network.
  client.on('close', () => toUpstream.whenIdle(() => upstream.end()));
}

type Queue = ReturnType<typeof openQueue>;

/** A queue that can be paused. */
function openQueue(deliver: (bytes: Buffer) => void) {
  const queue: Buffer[] = [];
  let isStopped = false;
  let onIdle: (() => void) | undefined;
  return {
    send: (bytes: Buffer) => void (isStopped ? queue.push(bytes) : deliver(bytes)),
    stop: () => void (isStopped = true),
    go() {
      isStopped = false;
      queue.splice(0).forEach(deliver);
      onIdle?.();
    },
    whenIdle(act: () => void) {
      if (isStopped) onIdle = act;
      else act();
    },
  };
}

/** Delivers in order after the delay, which may change meanwhile. */
function delayed(milliseconds: () => number, deliver: (bytes: Buffer) => void) {
  const late: Buffer[] = [];
  const deliverFirst = () => late.splice(0, 1).forEach(deliver);
  return (bytes: Buffer) => {
    late.push(bytes);
    if (milliseconds() === 0 && late.length === 1) deliverFirst();
    else setTimeout(deliverFirst, milliseconds());
  };
}

const OUR_KEY = /^[a-z-]+(?=:)/;

function commandIn(frame: Buffer): Command {
  const [name = '', ...words] = wordsOf(frame).map((word) => word.toString('latin1'));
  const isScript = /^eval/i.test(name);
  const key = (isScript ? words[2] : words[0]) ?? '';
  return { name: name.toLowerCase(), kind: OUR_KEY.exec(key)?.[0] ?? '' };
}
