// A proxy in front of Redis that decides about every single command: pass it, cut the connection, hold it up, or lose it.
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { isPush, createFrameParser, wordsOf } from './redis-frames.ts';

/** `kind` is what stands before the colon in the key, such as `grant`; empty for a command without a key of ours. */
export type Command = { name: string; kind: string };

/**
 * `cut`: the connection ends in the middle of the command, which never runs. `cut reply`: it runs, its answer is lost and the connection ends.
 * `hold`: it waits for `release` before it runs, with all that follows on the connection. `hold reply`: it runs, and its answer waits.
 * `drop`: from this command on nothing gets through, and the connection stays open.
 */
export type Action = 'pass' | 'cut' | 'cut reply' | 'hold' | 'hold reply' | 'drop';

export type Rule = (command: Command) => Action;

export type RedisProxy = {
  url: string;
  /** Decides about every command from now on; without a rule all pass. */
  setRule(rule?: Rule): void;
  /** Milliseconds that every answer is late from now on. */
  delayReplies(milliseconds: number): void;
  /** Resolves when something is held up. */
  whenHeld(): Promise<void>;
  /** Lets go what is held up, also for a client that is gone by now. */
  release(): void;
  /** Ends every connection, and takes no new one until `restore`. */
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

/** Both directions of one connection. Where one is held up, what comes later waits in line. */
function proxyConnection(state: State, client: Socket, upstream: Socket): void {
  const toUpstream = openQueue((bytes) => upstream.write(bytes));
  const toClient = openQueue((bytes) => client.write(bytes));
  const toClientLate = delayed(() => state.delay, toClient.send);
  /** Of the commands whose answers are still to come. */
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
    // In RESP3 a subscription is answered by a push.
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
  // What is held up still arrives, as it would from a network that is slow to deliver it.
  client.on('close', () => toUpstream.whenIdle(() => upstream.end()));
}

type Queue = ReturnType<typeof openQueue>;

/** A queue that can be stopped. */
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

/** When a time is over the first in line is delivered, whosever it was: the delay may change, the order never does. */
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
