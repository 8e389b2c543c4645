// The command `doctor`: what to examine, for how long, and the exit code.
import { type Command, InvalidArgumentError } from 'commander';
import type { Terminal } from '../management/commands/terminal.ts';
import { loadSettings } from '../settings/load.ts';
import { SettingsError } from '../settings/issues.ts';
import type { Settings } from '../settings/settings.ts';
import { duration, origin } from '../settings/value-types.ts';
import type { Progress } from './examination.ts';
import { type Finding, wordsOf } from './finding.ts';
import { type Report, reportOf, reportText } from './report.ts';

const FOUND = 1;
/** Seconds. */
const TIMEOUT = 30;

const HELP = `
Run it where Gatehouse runs, with the same settings and environment. It looks at the public addresses as apps do, then
at the store and the identity provider as Gatehouse does. It changes nothing; a sign-in that it begins ends by itself.
With --auth-url it needs no settings and looks from outside only.

Each finding says what is wrong, why it matters and what to do. A problem hurts now, a warning will; a note is as it may
be. Exit codes: 0 nothing to repair, 1 a problem or a warning, 2 wrong usage.

Examples:
  $ gatehouse doctor
  $ gatehouse doctor --json
  $ gatehouse doctor --auth-url https://auth.example.com --resource-url https://mcp.example.com`;

type Options = {
  authUrl?: string;
  resourceUrl?: string;
  link?: string;
  timeout?: number;
  all?: boolean;
};

export function addDoctorCommand(program: Command, terminal: Terminal): void {
  program
    .command('doctor')
    .description('find out what is wrong with a running deployment, and what to do')
    .option('--auth-url <url>', 'look at this address from outside, without settings', parseOrigin)
    .option('--resource-url <url>', 'its resource server (default: the same)', parseOrigin)
    .option('--link <url>', 'a connect link to try (default: one of the management API)', parseLink)
    .option('--timeout <duration>', 'end after this time (default: 30s)', parseTime)
    .option('--all', 'show what is all right, too')
    .addHelpText('after', HELP)
    .action(async (options: Options) => {
      if (options.resourceUrl && !options.authUrl)
        throw new InvalidArgumentError('--resource-url goes with --auth-url.');
      const report = await examined(options, terminal);
      terminal.print(report, (found) => reportText(found, options.all === true));
      if (report.outcome === 'found') process.exitCode = FOUND;
    });
}

function parseOrigin(text: string): string {
  const parsed = origin.safeParse(text);
  if (parsed.success) return parsed.data;
  throw new InvalidArgumentError('Give an address such as https://auth.example.com.');
}

function parseLink(text: string): string {
  if (/^https?:/.test(text) && URL.canParse(text)) return text;
  throw new InvalidArgumentError('Give a connect link, as `gatehouse connector list` shows it.');
}

function parseTime(text: string): number {
  const parsed = duration.safeParse(text);
  if (parsed.success) return parsed.data;
  throw new InvalidArgumentError('Give a duration such as 30s or 2m.');
}

async function examined(options: Options, terminal: Terminal): Promise<Report> {
  const settings = options.authUrl === undefined ? readSettings() : undefined;
  if (settings instanceof SettingsError) return reportOf({}, settingsFindings(settings));
  const authUrl = options.authUrl ?? settings?.authUrl ?? '';
  const resourceUrl = options.resourceUrl ?? settings?.resourceUrl ?? authUrl;
  // What it takes to look is the whole server, which no other command waits for.
  const { examine } = await import('./examination.ts');
  const { openDeployment } = await import('./opened-deployment.ts');
  const deployment = openDeployment({
    authUrl,
    resourceUrl,
    ...(settings ? { settings, openClient: terminal.openClient } : {}),
    ...(options.link === undefined ? {} : { link: options.link }),
    signal: AbortSignal.timeout((options.timeout ?? TIMEOUT) * 1000),
  });
  try {
    const findings = await examine(deployment, progressOn(process.stderr));
    return reportOf({ authUrl, resourceUrl }, findings);
  } finally {
    deployment.close();
  }
}

function readSettings(): Settings | SettingsError {
  try {
    return loadSettings(undefined, { makesSecrets: false });
  } catch (error) {
    if (error instanceof SettingsError) return error;
    throw error;
  }
}

function settingsFindings({ issues }: SettingsError): Finding[] {
  return issues.map(({ setting, given, expected }) =>
    wordsOf('settings', setting).problem({
      what: `given is ${given}`,
      why: 'Gatehouse does not start with these settings, so nothing else was looked at',
      remedy: `give ${expected}`,
    }),
  );
}

/** One line that changes, for people who wait. */
function progressOn(stream: NodeJS.WriteStream): Progress {
  const open = new Set<string>();
  const show = () => {
    if (!stream.isTTY) return;
    const [first] = open;
    stream.write(`\r\u001B[2K${first === undefined ? '' : `looking at ${first} …`}`);
  };
  return {
    onStart(title) {
      open.add(title);
      show();
    },
    onEnd(title) {
      open.delete(title);
      show();
    },
  };
}
