// Systems that end during a request, as processes that are killed. Each has its own Redis proxy, which can hold any command.
import { startGatehouse } from '../../../src/server.ts';
import { loadSettings } from '../../../src/settings/load.ts';
import { freePorts } from '../free-ports.ts';
import { rawRequest } from '../raw-request.ts';
import { PATIENT_STORE, startGatehouseProcess } from '../scale-out/gatehouse-process.ts';
import { type RedisProxy, startRedisProxy } from './redis-proxy.ts';
import { commandOf } from './stalls.ts';

export type Disposable = {
  proxy: RedisProxy;
  /** Where the authorization server listens. */
  address: string;
  /** The Host header of its requests. */
  host: string;
  /** Ends it at once. It sends no more commands to Redis. */
  kill(): Promise<void>;
  /** Resolves when nothing is left of it. */
  close(): Promise<void>;
};

/** A process, which `kill` ends with SIGKILL. `environment` is that of the system that it joins. */
export async function startDisposableProcess(
  environment: Record<string, string>,
  redis: { port: number },
): Promise<Disposable> {
  const proxy = await startRedisProxy(redis);
  try {
    const { kill, ports } = await startGatehouseProcess(joining(environment, proxy), [
      PATIENT_STORE,
    ]);
    const close = async () => {
      await kill();
      await proxy.close();
    };
    return { proxy, kill, close, ...listeningOn(ports.AUTH, environment) };
  } catch (error) {
    await proxy.close();
    throw error;
  }
}

/**
 * A system in this process, which `kill` separates from Redis for good. Redis and the client see what they see when a process is killed,
 * at a tenth of the cost.
 */
export async function startDisposableSystem(
  environment: Record<string, string>,
  redis: { port: number },
): Promise<Disposable> {
  const proxy = await startRedisProxy(redis);
  try {
    const [auth = 0, developmentIdp] = await freePorts(2);
    const { stop } = await startGatehouse(
      loadSettings({
        ...joining(environment, proxy),
        GATEHOUSE_AUTH_LISTEN: `127.0.0.1:${auth}`,
        GATEHOUSE_DEVELOPMENT_IDP_LISTEN: `127.0.0.1:${developmentIdp}`,
      }),
    );
    const close = async () => {
      await stop();
      await proxy.close();
    };
    const kill = async () => proxy.disconnect();
    return { proxy, kill, close, ...listeningOn(auth, environment) };
  } catch (error) {
    await proxy.close();
    throw error;
  }
}

function joining(environment: Record<string, string>, proxy: RedisProxy): Record<string, string> {
  return {
    ...environment,
    GATEHOUSE_STORE: proxy.url,
    GATEHOUSE_ROLES: 'authorization-server',
  };
}

function listeningOn(port: number, { GATEHOUSE_AUTH_URL = '' }: Record<string, string>) {
  return { address: `http://127.0.0.1:${port}`, host: new URL(GATEHOUSE_AUTH_URL).host };
}

/**
 * Sends a token request and kills its receiver before the first Redis command of the request (`point` 0), or when Redis has run its command number
 * `point`, or the one of this name and kind, and the reply is pending. Resolves to that command, or to undefined if the request succeeds with fewer commands.
 */
export async function killAtCommand(
  { proxy, kill, address, host }: Disposable,
  point: number | string,
  form: URLSearchParams,
): Promise<string | undefined> {
  let number = 0;
  let reached = 'nothing';
  proxy.setRule((sent) => {
    const command = commandOf(sent);
    if (command === undefined) return 'pass';
    number += 1;
    if (point === 0) return number === 1 ? 'hold' : 'pass';
    if (point !== number && point !== command) return 'pass';
    reached = command;
    return 'hold reply';
  });
  const answered = rawRequest(address, {
    method: 'POST',
    path: '/oauth/token',
    headers: { host, 'content-type': 'application/x-www-form-urlencoded' },
    chunks: [form.toString()],
  }).catch(() => undefined);
  const first = await Promise.race([proxy.whenHeld(), answered]);
  await kill();
  proxy.release();
  if (first === undefined) return reached;
  if (first.status !== 200) throw new Error(`${first.status} ${first.body}`);
  return undefined;
}
