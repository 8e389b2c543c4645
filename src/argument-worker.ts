// The thread that checks arguments of tools. It has nothing but schemas and arguments.
import { parentPort } from 'node:worker_threads';
import {
  type ArgumentCheck,
  compileSchema,
  UnusableSchema,
} from './gateway/upstream/argument-schema.ts';
import type { Reply, Task } from './gateway/upstream/argument-checker.ts';

const checks = new Map<string, ArgumentCheck>();

function reply(task: Task): Reply {
  if (task.kind === 'compile') {
    try {
      checks.set(task.digest, compileSchema(JSON.parse(task.json)));
      return {};
    } catch (error) {
      if (error instanceof UnusableSchema) return { unusable: error.message };
      return { unusable: 'it cannot be compiled' };
    }
  }
  const check = checks.get(task.digest);
  if (!check) return { isMissing: true };
  const violation = check.violation(JSON.parse(task.json));
  return violation === undefined ? {} : { violation };
}

parentPort?.postMessage('ready', []);
parentPort?.on('message', (task: Task) => parentPort?.postMessage(reply(task), []));
