// The worker thread of the MCP conformance suite, which is a program. Runs it once for each message with its arguments. Loading the libraries of
// the suite takes longer than many a run.
import { pathToFileURL } from 'node:url';
import { parentPort, workerData } from 'node:worker_threads';

export type Report = { text: string } | { code: number };

/** Stops the suite where it would exit. */
class Exit extends Error {}

const report = (message: Report) => parentPort?.postMessage(message, []);
const suite = pathToFileURL(workerData);
let run = 0;
let hasExited = false;

const { exit } = process;
process.exit = (code) => {
  if (!hasExited) report({ code: Number(code ?? 0) });
  hasExited = true;
  throw new Exit('the suite exits');
};
for (const stream of [process.stdout, process.stderr])
  stream.write = (text: string | Uint8Array) => {
    if (!hasExited) report({ text: String(text) });
    return true;
  };
// Receives unhandled rejections too. For any other error, Node ends the thread with `process.exit`.
process.on('uncaughtException', (error) => {
  if (error instanceof Exit) return;
  process.exit = exit;
  throw error;
});

parentPort?.on('message', async (args: string[]) => {
  hasExited = false;
  process.argv.splice(2, Infinity, ...args);
  // Each address is a module of its own.
  suite.search = String(++run);
  await import(suite.href);
});
