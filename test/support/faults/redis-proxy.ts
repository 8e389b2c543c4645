// A proxy in front of Redis that decides about every single command: pass it, cut the connection, hold it up, or lose it.
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { isPush, openFrames, wordsOf } from './redis-frames.ts';

/** `kind` is what stands before the colon in the key, such as `grant`; empty for a command without a key of ours. */
export type Command = { name: string; kind: string; text: string };

/**
 * `cut`: the connection ends in the middle of the command, which never runs. `cut reply`: it runs, its answer is lost and the connection ends.
 * `hold`: it waits for `release` before it runs, with all that follows on the connection. `hold reply`: it runs, and its answer waits.
 * `drop`: from this command on nothing gets through, and the connection stays open.
 */
export type Fate = 'pass' | 'cut' | 'cut reply' | 'hold' | 'hold reply' | 'drop';

export type Rule = (command: Command) => Fate;

export type RedisProxy = {
  url: string;
  /** Decides about every command from now on; without a rule all pass. */
  rule(rule?: Rule): void;
  /** Milliseconds that every answer is late from now on. */
  delay(milliseconds: number): void;
  /** The commands with a key of ours since the last call, in the order they came. */
  takeCommands(): Command[];
  /** Resolves when something is held up. */
  held(): Promise<void>;
  /** Lets go what is held up, also for a client that is gone by now. */
  release(): void;
  /** Ends every connection, and takes no new one until `restore`. */
  sever(): void;
  restore(): void;
  close(): Promise<void>;
};

type State = {
  rule: Rule;
  delay: number;
  isSevered: boolean;
  commands: Command[];
  holding: (() => void)[];
  held: PromiseWithResolvers<void>;
};

const pass: Rule = () => 'pass';

export async function startRedisProxy(target: { port: number }): Promise<RedisProxy> {
  const state: State = {
    rule: pass,
    delay: 0,
    isSevered: false,
    commands: [],
    holding: [],
    held: Promise.withResolvers(),
  };
  const open = new Set<Socket>();
  const server = createServer((client) => {
    if (state.isSevered) return client.destroy();
    client.setNoDelay(true);
    open.add(client);
    client.on('close', () => open.delete(client));
    return carry(state, client, connect({ port: target.port, host: '127.0.0.1', noDelay: true }));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const sever = () => {
    state.isSevered = true;
    open.forEach((client) => client.destroy());
  };
  const release = () => {
    state.rule = pass;
    state.held = Promise.withResolvers();
    for (const letGo of state.holding.splice(0)) letGo();
  };
  return {
    url: `redis://127.0.0.1:${(server.address() as AddressInfo).port}`,
    rule: (rule = pass) => void (state.rule = rule),
    delay: (milliseconds) => void (state.delay = milliseconds),
    takeCommands: () => state.commands.splice(0),
    held: () => state.held.promise,
    release,
    sever,
    restore: () => void (state.isSevered = false),
    async close() {
      release();
      sever();
      server.close();
      await once(server, 'close');
    },
  };
}

type Waiting = { fate: Fate };

/** Both directions of one connection. A held direction waits in line: what comes later never overtakes. */
function carry(state: State, client: Socket, upstream: Socket): void {
  const commands = openFrames();
  const replies = openFrames();
  const waiting: Waiting[] = [];
  const toUpstream = openLine((bytes) => upstream.write(bytes));
  const toClient = openLine((bytes) => client.write(bytes));
  const late: Buffer[] = [];
  let isDropped = false;
  // The first in line, whosever time has come: the delay may change, the order never does.
  const deliverNext = () => late.splice(0, 1).forEach(toClient.send);
  const end = () => {
    client.destroy();
    upstream.destroy();
  };
  const hold = (line: Line) => {
    line.stop();
    state.holding.push(line.go);
    state.held.resolve();
  };
  const decide = (frame: Buffer) => {
    if (isDropped) return;
    const command = commandIn(frame);
    if (command.kind) state.commands.push(command);
    const fate = state.rule(command);
    if (fate === 'drop') isDropped = true;
    if (fate === 'drop') return;
    if (fate === 'cut') upstream.end(frame.subarray(0, frame.length / 2), end);
    if (fate === 'cut') return;
    if (fate === 'hold') hold(toUpstream);
    if (!isSubscription(command)) waiting.push({ fate });
    toUpstream.send(frame);
  };
  const answer = (frame: Buffer) => {
    const fate = isPush(frame) ? 'pass' : (waiting.shift()?.fate ?? 'pass');
    if (isDropped) return;
    if (fate === 'cut reply') return end();
    if (fate === 'hold reply') hold(toClient);
    late.push(frame);
    if (state.delay === 0 && late.length === 1) deliverNext();
    else setTimeout(deliverNext, state.delay);
  };
  client.on('data', (chunk) => commands(chunk).forEach(decide));
  upstream.on('data', (chunk) => replies(chunk).forEach(answer));
  for (const socket of [client, upstream]) socket.on('error', () => undefined);
  upstream.on('close', end);
  // What is held up still arrives, as it would from a network that is slow to deliver it.
  client.on('close', () => toUpstream.whenIdle(() => upstream.end()));
}

/** In RESP3 a subscription is answered by a push. */
function isSubscription({ name }: Command): boolean {
  return name.endsWith('subscribe');
}

type Line = ReturnType<typeof openLine>;

/** A queue that can be stopped. */
function openLine(deliver: (bytes: Buffer) => void) {
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

const OUR_KEY = /^[a-z-]+(?=:)/;

function commandIn(frame: Buffer): Command {
  const [name = '', ...words] = wordsOf(frame).map((word) => word.toString('latin1'));
  const isScript = /^eval/i.test(name);
  const key = (isScript ? words[2] : words[0]) ?? '';
  return {
    name: name.toLowerCase(),
    kind: OUR_KEY.exec(key)?.[0] ?? '',
    text: words.join(' '),
  };
}
