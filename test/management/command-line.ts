// Runs the command line with only the given environment: in this process, or as a program.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { expect } from 'chai';
import { runCommandLine } from '../../src/command-line.ts';
import { nodeArguments } from '../support/node-arguments.ts';
import { KEY, type ManagementHost, openManagementHost } from './management-host.ts';

/** Above every delay of a busy machine. */
const ANY_LATENCY_MS = 60_000;

export type Outcome = { code: number | null; stdout: string; stderr: string };

/** Runs a command in this process. `isTerminal`: somebody sees its errors. */
export async function gatehouse(
  args: string[],
  environment: Record<string, string>,
  { isTerminal = false } = {},
): Promise<Outcome> {
  const [stdout, stderr] = [new Collector(), Object.assign(new Collector(), { isTTY: isTerminal })];
  const maxRedisLatency = ANY_LATENCY_MS;
  const code = await runCommandLine(args, { environment, stdout, stderr, maxRedisLatency });
  return { code, stdout: stdout.text, stderr: stderr.text };
}

class Collector extends Writable {
  text = '';

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.text += chunk.toString();
    done();
  }
}

/** Runs a command as users do. */
export async function gatehouseProgram(
  args: string[],
  env: Record<string, string>,
  cwd?: string,
): Promise<Outcome> {
  const child = spawnGatehouse(args, env, cwd);
  const closed = once(child, 'close');
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  await closed;
  return { code: child.exitCode, stdout, stderr };
}

export function spawnGatehouse(args: string[], env: Record<string, string>, cwd?: string) {
  const child = spawn(process.execPath, nodeArguments(args), {
    env,
    cwd,
    stdio: 'pipe',
  });
  child.stdin.end();
  return child;
}

/** Returns the environment that gives the command line access to `host`. */
export function accessTo({ url }: Pick<ManagementHost, 'url'>, key = KEY): Record<string, string> {
  return { GATEHOUSE_MANAGEMENT_URL: url, GATEHOUSE_MANAGEMENT_KEY: key };
}

/** Opens a management host before each test, and returns functions that run commands against it. */
export function useCommandLine() {
  let opened: ManagementHost | undefined;
  beforeEach(async () => {
    opened = await openManagementHost();
  });
  afterEach(() => opened?.close());
  const host = (): ManagementHost => {
    if (!opened) throw new Error('the host is open only while a test runs');
    return opened;
  };
  const run = (...args: string[]) => gatehouse(args, accessTo(host()));

  async function done(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await run(...args);
    expect(stderr).to.equal('');
    expect(code).to.equal(0);
    return stdout;
  }

  async function json(...args: string[]) {
    return JSON.parse(await done(...args, '--json'));
  }

  return { host, run, done, json };
}

export const CREATE = ['connector', 'create', '--name', 'Ops', '--level', 'operations'];
export const MINT = ['token', 'mint', '--name', 'Report', '--level', 'analytics'];
