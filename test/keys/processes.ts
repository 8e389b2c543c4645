// Starts further roles of a system with the same settings and store, in this process or in another.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { type Running, startGatehouse } from '../../src/server.ts';
import { loadSettings } from '../../src/settings/load.ts';
import { until } from '../support/until.ts';
import { nodeArguments } from '../support/node-arguments.ts';
import type { System } from '../support/system.ts';

export type Process = { stop: () => Promise<void> };

function environmentOf(system: System, roles: string): Record<string, string> {
  const [auth = '', resource = '', developmentIdp = ''] = system.origins;
  return {
    GATEHOUSE_CONFIG: join(system.dataDir, 'settings.yaml'),
    GATEHOUSE_AUTH_URL: auth,
    GATEHOUSE_RESOURCE_URL: resource,
    GATEHOUSE_MANAGEMENT_URL: system.management,
    GATEHOUSE_DEVELOPMENT_IDP_URL: developmentIdp,
    GATEHOUSE_STORE: system.storeAddress,
    GATEHOUSE_DATA_DIR: system.dataDir,
    GATEHOUSE_LOG_LEVEL: 'silent',
    GATEHOUSE_MANAGEMENT_KEY: system.managementKey,
    GATEHOUSE_ROLES: roles,
  };
}

/** Runs in this process, so that tests control its clock. */
export function startBeside(system: System, roles: string): Promise<Running> {
  return startGatehouse(loadSettings(environmentOf(system, roles)));
}

/** Runs in a child process. Resolves when `url`, one of its addresses, is ready. */
export async function startProcess(system: System, roles: string, url: string): Promise<Process> {
  const child = spawn(process.execPath, nodeArguments(['start']), {
    env: environmentOf(system, roles),
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let output = '';
  child.stderr.on('data', (text) => (output += text));
  const exited = once(child, 'exit');
  const killAtExit = () => child.kill('SIGKILL');
  process.once('exit', killAtExit);
  const isReady = async () => {
    if (child.exitCode !== null) throw new Error(`the process ended: ${output}`);
    const answer = await fetch(`${url}/readyz`).catch(() => undefined);
    await answer?.text();
    return answer?.status === 200;
  };
  const stop = async () => {
    child.kill('SIGTERM');
    await exited;
    process.off('exit', killAtExit);
  };
  try {
    await until(`${roles} at ${url} to be ready`, isReady);
  } catch (error) {
    await stop();
    throw error;
  }
  return { stop };
}
