// Redis stalls at each store command of a request in turn, and executes the command later.
import { isWrittenAnyTime } from '../stored-keys.ts';
import { type ProxiedSystem, startProxiedSystem } from './proxied-system.ts';
import type { Command } from './redis-proxy.ts';

/** `send` resolves with the status. `retry` is what the client does when Redis works again; `late` is the stalled command. */
export type StalledRequest = {
  send: () => Promise<number>;
  retry: (status: number, late: string) => Promise<void>;
};

export type Prepare = (proxied: ProxiedSystem) => Promise<StalledRequest>;

/** What happened to a request whose command `late` stalled. `late` is undefined if the request sent fewer commands. */
export type Stall = { late: string | undefined; status: number };

/** One command of a request: what it is, and how many commands like it come before it. */
export type Point = { command: string; before: number };

/** What a process also sends every second, five or ten. */
const OF_PROCESS = ['hget audit', 'evalsha naming', 'get settings-reload'];

/** The command of a request; undefined for those that the process sends in the background, which come between them in every run anew. */
export function commandOf({ name, kind }: Command): string | undefined {
  const command = `${name} ${kind}`;
  const isOfProcess = isWrittenAnyTime(`${kind}:`) || OF_PROCESS.includes(command);
  return kind === '' || isOfProcess ? undefined : command;
}

/** Sends the request and stalls its command at `point` until the response. */
export async function sendStalled(
  { proxy }: Pick<ProxiedSystem, 'proxy'>,
  point: Point,
  send: () => Promise<number>,
): Promise<Stall> {
  let alike = 0;
  let late: string | undefined;
  proxy.setRule((sent) => {
    const command = commandOf(sent);
    if (command !== point.command || alike++ !== point.before) return 'pass';
    late = command;
    return 'hold';
  });
  const status = await send();
  proxy.release();
  return { late, status };
}

/** Runs `use` for each store command that the request sends if nothing stalls, each on a system of its own, all at once. */
export async function atEachCommand(
  prepare: Prepare,
  use: (proxied: ProxiedSystem, point: Point) => Promise<void>,
): Promise<void> {
  const first = await startProxiedSystem();
  const points = await findPoints(first, prepare).finally(first.close);
  const used = points.map(async (point) => {
    const proxied = await startProxiedSystem();
    await use(proxied, point).finally(proxied.close);
  });
  const failed = (await Promise.allSettled(used)).filter(({ status }) => status === 'rejected');
  for (const { reason } of failed as PromiseRejectedResult[]) throw reason;
}

async function findPoints(proxied: ProxiedSystem, prepare: Prepare): Promise<Point[]> {
  const { send } = await prepare(proxied);
  const commands: string[] = [];
  proxied.proxy.setRule((sent) => {
    const command = commandOf(sent);
    if (command) commands.push(command);
    return 'pass';
  });
  const status = await send();
  proxied.proxy.setRule();
  if (status !== 200) throw new Error(`the request got ${status} although nothing stalled`);
  return commands.map((command, n) => ({
    command,
    before: commands.slice(0, n).filter((other) => other === command).length,
  }));
}
