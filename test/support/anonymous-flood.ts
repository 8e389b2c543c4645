// Anonymous requests from a thousand addresses: authorizations that nobody finishes and registrations that nobody uses.
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

export type Flood = {
  authorizations: number;
  registrations: number;
  /** Of any client that is registered. */
  authorizeUrl: URL;
  /** Requests in a second, at most. */
  requestsPerSecond: number;
};

/** How many answers there were of each status. */
export type Statuses = Record<number, number>;

const SENDER = join(import.meta.dirname, 'anonymous-flood-process.ts');

/** From a process of its own, so that the server is not slowed by the sending; it ends by itself when the server is gone. Resolves at the first answer. */
export async function startFlood(wanted: Flood): Promise<{ finished: Promise<Statuses> }> {
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
