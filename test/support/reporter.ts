// Mocha reporter of `npm test`: shows progress, and writes the outcome to a file, from which `run.ts` prints the summary.
import { writeFileSync } from 'node:fs';
import { relative } from 'node:path';
import { format } from 'node:util';
import mocha from 'mocha';

/** Progress lines of a run whose output is not a terminal. */
const LINES = 20;

const { EVENT_HOOK_END, EVENT_RUN_END, EVENT_TEST_END, EVENT_TEST_FAIL } = mocha.Runner.constants;

/** The outcome of one run of Mocha. */
export type Outcome = {
  passed: number;
  failed: number;
  /** The failures in full, as Mocha prints them. */
  failures: string;
  /** Milliseconds by file. */
  durations: Record<string, number>;
};

type Timed = { file?: string; duration?: number };
type Options = { files?: string; outcome?: string };

/** `reporterOptions.files` is the number of files of the run, and `outcome` the file to write. */
export default class Reporter extends mocha.reporters.Base {
  constructor(runner: mocha.Runner, options: mocha.MochaOptions) {
    super(runner, options);
    const { files = '0', outcome }: Options = options.reporterOptions ?? {};
    const started = Date.now();
    const durations: Record<string, number> = {};
    let printed = 0;
    const count = () => Object.keys(durations).length;
    const showProgress = () => {
      const { passes, failures } = this.stats;
      const line = `${count()} of ${files} files, ${passes} passed, ${failures} failed, ${inMinutes(Date.now() - started)}`;
      if (process.stdout.isTTY) return void process.stdout.write(`\r\u001b[K${line}`);
      const part = Math.floor((count() / Math.max(Number(files), 1)) * LINES);
      if (part > printed) console.log(line);
      printed = Math.max(printed, part);
    };
    const add = ({ file, duration = 0 }: Timed) => {
      if (file === undefined) return;
      const name = relative('', file);
      const isNew = !(name in durations);
      durations[name] = (durations[name] ?? 0) + duration;
      if (isNew) showProgress();
    };
    runner.on(EVENT_TEST_END, add);
    runner.on(EVENT_HOOK_END, add);
    // A failure is named at once, so that nobody waits for the end to start looking.
    runner.on(EVENT_TEST_FAIL, (test: mocha.Test) => {
      clearLine();
      console.log(
        `failed: ${test.fullTitle()} (${test.file ? relative('', test.file) : 'no file'})`,
      );
    });
    runner.once(EVENT_RUN_END, () => {
      clearLine();
      const { passes, failures } = this.stats;
      const written: Outcome = {
        passed: passes,
        failed: failures,
        failures: inFull(this.failures),
        durations,
      };
      if (outcome !== undefined) writeFileSync(outcome, JSON.stringify(written));
    });
  }
}

/** The text that Mocha prints about failures. */
function inFull(failures: mocha.Test[]): string {
  const lines: string[] = [];
  const { consoleLog } = mocha.reporters.Base;
  mocha.reporters.Base.consoleLog = (...parts: unknown[]) => void lines.push(format(...parts));
  try {
    if (failures.length > 0) mocha.reporters.Base.list(failures);
  } finally {
    mocha.reporters.Base.consoleLog = consoleLog;
  }
  return lines.join('\n');
}

function clearLine(): void {
  if (process.stdout.isTTY) process.stdout.write('\r\u001b[K');
}

export function inMinutes(milliseconds: number): string {
  const seconds = Math.round(milliseconds / 1000);
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}
