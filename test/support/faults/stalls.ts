// Redis stalls at each store command of a request in turn, and executes the command later.
import { until } from '../until.ts';
import { type ProxiedSystem, startProxiedSystem } from './proxied-system.ts';

/** `send` resolves with the status. `retry` is what the client does when Redis works again; `late` is the stalled command. */
export type StalledRequest = {
  send: () => Promise<number>;
  retry: (status: number, late: string) => Promise<void>;
};

export type Prepare = (proxied: ProxiedSystem) => Promise<StalledRequest>;

/** What happened to a request whose command `late` stalled. `late` is undefined if the request sent fewer commands. */
export type Stall = { late: string | undefined; status: number };

/** Sends the request and stalls its command number `point`, from 0, until the response. */
export async function sendStalled(
  { proxy }: Pick<ProxiedSystem, 'proxy'>,
  point: number,
  send: () => Promise<number>,
): Promise<Stall> {
  let number = 0;
  let late: string | undefined;
  proxy.setRule(({ name, kind }) => {
    if (!kind || number++ !== point) return 'pass';
    late = `${name} ${kind}`;
    return 'hold';
  });
  const status = await send();
  proxy.release();
  return { late, status };
}

/** Runs `use` for each store command that the request sends if nothing stalls, each on a system of its own, all at once. */
export async function atEachCommand(
  prepare: Prepare,
  use: (proxied: ProxiedSystem, point: number) => Promise<void>,
): Promise<void> {
  const first = await startProxiedSystem();
  const commands = await countCommands(first, prepare).finally(first.close);
  const points = Array.from({ length: commands }, async (_, point) => {
    const proxied = await startProxiedSystem();
    await use(proxied, point).finally(proxied.close);
  });
  const failed = (await Promise.allSettled(points)).filter(({ status }) => status === 'rejected');
  for (const { reason } of failed as PromiseRejectedResult[]) throw reason;
}

async function countCommands(proxied: ProxiedSystem, prepare: Prepare): Promise<number> {
  const { send } = await prepare(proxied);
  let commands = 0;
  proxied.proxy.setRule(({ kind }) => {
    if (kind) commands += 1;
    return 'pass';
  });
  const status = await send();
  proxied.proxy.setRule();
  if (status !== 200) throw new Error(`the request got ${status} although nothing stalled`);
  return commands;
}

export async function untilReady({ system }: ProxiedSystem): Promise<void> {
  await until('Redis to work again', async () => (await fetch(`${system.auth}/readyz`)).ok);
}
