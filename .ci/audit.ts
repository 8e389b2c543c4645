// Checks the lock file against the advisories and signatures of the registry. Exits with 1 if a production dependency has an advisory of
// high severity, or any signature is invalid. Where the registry does not answer these requests, says so and exits with 0, unless
// --require is given, as for a release.
import { spawnSync } from 'node:child_process';

const TIMEOUT_MS = 60_000;
/** What npm prints if the registry is unreachable or does not offer the endpoint. */
const NO_ANSWER =
  /audit endpoint returned an error|^npm error code E(?:\d{3}|TIMEDOUT|NOTFOUND|CONNREFUSED|CONNRESET|AI_AGAIN)$/m;

type Outcome = 'passed' | 'failed' | 'no answer';

function check(args: readonly string[]): { outcome: Outcome; output: string } {
  const { status, stdout, stderr, error } = spawnSync('npm', args, {
    encoding: 'utf8',
    timeout: TIMEOUT_MS,
  });
  const output = `${stdout ?? ''}${stderr ?? ''}`;
  if (status === 0) return { outcome: 'passed', output };
  return { outcome: error || NO_ANSWER.test(output) ? 'no answer' : 'failed', output };
}

const isRequired = process.argv.includes('--require');
for (const args of [
  ['audit', '--omit=dev', '--audit-level=high'],
  ['audit', 'signatures'],
]) {
  const { outcome, output } = check(args);
  console.log(`npm ${args.join(' ')}: ${outcome}`);
  if (outcome === 'no answer') console.log('The registry did not answer, so nothing was checked.');
  if (outcome === 'failed') console.log(output);
  if (outcome === 'failed' || (isRequired && outcome === 'no answer')) process.exitCode = 1;
}
