// Anonymous requests from a thousand addresses: unfinished authorizations and unused registrations.
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { sendFlood } from './anonymous-flood-sender.ts';
import { SOAK } from './soak.ts';

export type Flood = {
  authorizations: number;
  registrations: number;
  /** Of any registered client. */
  authorizeUrl: URL;
  requestsPerSecond: number;
};

/** The number of responses by status. */
export type Statuses = Record<number, number>;

const SENDER = join(import.meta.dirname, 'anonymous-flood-process.ts');

type StartedFlood = { finished: Promise<Statuses> };

/** Resolves at the first response. */
export function startFlood(wanted: Flood): Promise<StartedFlood> {
  return SOAK ? startProcess(wanted) : sendFromHere(wanted);
}

function sendFromHere(wanted: Flood): Promise<StartedFlood> {
  return new Promise((resolve, reject) => {
    const finished = sendFlood(wanted, () => resolve({ finished }));
    finished.catch(reject);
  });
}

/** Sends from a child process, so that sending does not slow the server; the child ends with the server. */
async function startProcess(wanted: Flood): Promise<StartedFlood> {
  const child = spawn(process.execPath, [SENDER, JSON.stringify(wanted)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async () => {
    const { value, done } = await lines.next();
    if (done) throw new Error('the flood broke off');
    return value;
  };
  await next();
  return { finished: next().then((statuses) => JSON.parse(statuses)) };
}

export async function flood(wanted: Flood): Promise<Statuses> {
  const { finished } = await startFlood(wanted);
  return finished;
}
