// The program as the package has it, which a run of all tests builds once: its processes start in two thirds of the time of the source.
import { cpSync } from 'node:fs';
import { join } from 'node:path';

/** An environment variable with the folder of the built program. */
export const BUILT_PROGRAM = 'TEST_PROGRAM';

const ROOT = join(import.meta.dirname, '../..');
/** What tests load into a process before the program. */
const PRELOADED = [
  'faults/impatient-store',
  'kill-before-write',
  'scale-out/patient-store',
  'scale-out/process-clock',
  'scale-out/process-memory',
] as const;
export type Preloaded = (typeof PRELOADED)[number];
/** What the package has beside the compiled program. */
const BESIDE = ['config', 'package.json', 'src/compile-cache.js', 'src/gatehouse.js', 'views'];

/** The folder of the program, if this run built it. */
export function builtProgram(): string | undefined {
  return process.env[BUILT_PROGRAM];
}

/** Loads the bundler only here, because other runs do not need it. */
export async function buildTestProgram(folder: string): Promise<void> {
  const { buildProgram } = await import('../../.ci/build.ts');
  const preloaded = PRELOADED.map((name) => `test/support/${name}.ts`);
  await buildProgram(join(folder, 'dist'), preloaded);
  for (const name of BESIDE) cpSync(join(ROOT, name), join(folder, name), { recursive: true });
}
