// Mocha reporter of `npm test`: progress while it runs, then failures in full, totals and the slowest files.
import { relative } from 'node:path';
import mocha from 'mocha';

const SLOWEST = 10;
/** Progress lines of a run whose output is not a terminal. */
const LINES = 20;

const { EVENT_HOOK_END, EVENT_RUN_END, EVENT_TEST_END, EVENT_TEST_FAIL } = mocha.Runner.constants;

type Timed = { file?: string; duration?: number };

/** `reporterOptions.files` is the number of files of the run. */
export default class Reporter extends mocha.reporters.Base {
  constructor(runner: mocha.Runner, options: mocha.MochaOptions) {
    super(runner, options);
    const total = Number(options.reporterOptions?.files ?? 0);
    const started = Date.now();
    const milliseconds = new Map<string, number>();
    let printed = 0;
    const add = ({ file, duration = 0 }: Timed) => {
      if (file === undefined) return;
      const isNew = !milliseconds.has(file);
      milliseconds.set(file, (milliseconds.get(file) ?? 0) + duration);
      if (isNew) showProgress();
    };
    const showProgress = () => {
      const { passes, failures } = this.stats;
      const line = `${milliseconds.size} of ${total} files, ${passes} passed, ${failures} failed, ${inMinutes(Date.now() - started)}`;
      if (process.stdout.isTTY) {
        process.stdout.write(`\r\u001b[K${line}`);
        return;
      }
      const part = Math.floor((milliseconds.size / Math.max(total, 1)) * LINES);
      if (part > printed) console.log(line);
      printed = Math.max(printed, part);
    };
    runner.on(EVENT_TEST_END, add);
    runner.on(EVENT_HOOK_END, add);
    // A failure is named at once, so that nobody waits for the end to start looking.
    runner.on(EVENT_TEST_FAIL, (test: mocha.Test) => {
      if (process.stdout.isTTY) process.stdout.write('\r\u001b[K');
      console.log(
        `failed: ${test.fullTitle()} (${test.file ? relative('', test.file) : 'no file'})`,
      );
    });
    runner.once(EVENT_RUN_END, () => {
      if (process.stdout.isTTY) process.stdout.write('\r\u001b[K');
      this.epilogue();
      const slowest = [...milliseconds].toSorted(([, a], [, b]) => b - a).slice(0, SLOWEST);
      console.log(`  The ${slowest.length} slowest files:`);
      for (const [file, duration] of slowest)
        console.log(`  ${(duration / 1000).toFixed(1).padStart(7)} s  ${relative('', file)}`);
      console.log('');
    });
  }
}

function inMinutes(milliseconds: number): string {
  const seconds = Math.round(milliseconds / 1000);
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}
