// Processes that a test kills during a token request. Each has its own Redis proxy, which can hold any command.
import { rawRequest } from '../raw-request.ts';
import { type GatehouseProcess, startGatehouseProcess } from '../scale-out/gatehouse-process.ts';
import { type RedisProxy, startRedisProxy } from './redis-proxy.ts';

export type DisposableProcess = { proxy: RedisProxy; process: GatehouseProcess; host: string };

/** `environment` is that of the system that the process joins. */
export async function startDisposableProcess(
  environment: Record<string, string>,
  redis: { port: number },
): Promise<DisposableProcess> {
  const proxy = await startRedisProxy(redis);
  try {
    const process = await startGatehouseProcess({
      ...environment,
      GATEHOUSE_STORE: proxy.url,
      GATEHOUSE_ROLES: 'authorization-server',
    });
    return { proxy, process, host: new URL(environment.GATEHOUSE_AUTH_URL ?? '').host };
  } catch (error) {
    await proxy.close();
    throw error;
  }
}

async function close({ process, proxy }: DisposableProcess): Promise<void> {
  await process.kill();
  await proxy.close();
}

/** `take` returns a running process and starts the next one in advance. */
export async function useDisposableProcesses(
  start: () => Promise<DisposableProcess>,
  use: (take: () => Promise<DisposableProcess>) => Promise<void>,
): Promise<void> {
  const started: Promise<DisposableProcess>[] = [start()];
  const take = () => {
    const next = started.at(-1) ?? start();
    started.push(start());
    return next;
  };
  try {
    await use(take);
  } finally {
    const all = await Promise.allSettled(started);
    for (const each of all) if (each.status === 'fulfilled') await close(each.value);
  }
}

/**
 * Sends a token request and kills the process before its first Redis command (`point` 0), or when Redis has run command number `point` and
 * the reply is pending. Resolves to that command, or to undefined if the request succeeds with fewer commands.
 */
export async function killAtCommand(
  { proxy, process, host }: DisposableProcess,
  point: number,
  form: URLSearchParams,
): Promise<string | undefined> {
  let number = 0;
  let reached = 'nothing';
  proxy.setRule(({ name, kind }) => {
    if (!kind || ++number !== Math.max(point, 1)) return 'pass';
    if (point > 0) reached = `${name} ${kind}`;
    return point > 0 ? 'hold reply' : 'hold';
  });
  const answered = rawRequest(`http://127.0.0.1:${process.ports.AUTH}`, {
    method: 'POST',
    path: '/oauth/token',
    headers: { host, 'content-type': 'application/x-www-form-urlencoded' },
    chunks: [form.toString()],
  }).catch(() => undefined);
  const first = await Promise.race([proxy.whenHeld(), answered]);
  await process.kill();
  proxy.release();
  if (first === undefined) return reached;
  if (first.status !== 200) throw new Error(`${first.status} ${first.body}`);
  return undefined;
}
