import { type Command, InvalidArgumentError } from 'commander';
import type { Terminal } from '../management/commands/terminal.ts';
import { SettingsError } from '../settings/issues.ts';
import { loadSettings } from '../settings/load.ts';
import type { Settings } from '../settings/settings.ts';
import { duration, origin } from '../settings/value-types.ts';
import type { Progress } from './examination.ts';
import {
  createReport,
  type Finding,
  findingAbout,
  QUESTIONS,
  type Report,
  reportText,
} from './report.ts';

const EXIT_CODE_FOUND = 1;
const DEFAULT_TIMEOUT_SECONDS = 30;

const HELP = `
Run it where Gatehouse runs, with the same settings and environment. It changes nothing.

Exit codes: 0 no problems or warnings, 1 a problem or a warning, 2 wrong usage.

Questions that it answers, by the names of its findings:
${questions()}

Examples:
  $ gatehouse doctor
  $ gatehouse doctor --auth-url https://auth.example.com --resource-url https://mcp.example.com`;

function questions(): string {
  const lines = Object.entries(QUESTIONS).map(([name, text]) => `  ${name.padEnd(26)}${text}`);
  return lines.join('\n');
}

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
    .description('check a running deployment and explain how to fix problems')
    .option(
      '--auth-url <url>',
      'check this authorization server from outside, without settings',
      parseOrigin,
    )
    .option(
      '--resource-url <url>',
      'address of the resource server (default: that of --auth-url)',
      parseOrigin,
    )
    .option('--link <url>', 'connect link to check (default: an active one)', parseLink)
    .option('--timeout <duration>', 'stop after this time (default: 30s)', parseTimeout)
    .option('--all', 'also show passed checks')
    .addHelpText('after', HELP)
    .action(async (options: Options) => {
      if (options.resourceUrl && !options.authUrl)
        throw new InvalidArgumentError('Use --resource-url together with --auth-url.');
      const report = await createDoctorReport(options, terminal);
      terminal.print(report, (result) => reportText(result, options.all === true));
      if (report.outcome === 'found') terminal.exitWith(EXIT_CODE_FOUND);
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

function parseTimeout(text: string): number {
  const parsed = duration.safeParse(text);
  if (parsed.success) return parsed.data;
  throw new InvalidArgumentError('Give a duration such as 30s or 2m.');
}

async function createDoctorReport(options: Options, terminal: Terminal): Promise<Report> {
  const settings = options.authUrl === undefined ? readSettings(terminal) : undefined;
  if (settings instanceof SettingsError) return createReport({}, settingsFindings(settings));
  const { openClient, maxRedisLatency } = terminal;
  const authUrl = options.authUrl ?? settings?.authUrl ?? '';
  const resourceUrl = options.resourceUrl ?? settings?.resourceUrl ?? authUrl;
  // Imported here, because these modules load the whole server, which would delay every other command.
  const { examine } = await import('./examination.ts');
  const { openDeployment } = await import('./deployment.ts');
  const { useForwardProxy } = await import('../http/forward-proxy.ts');
  if (settings) await useForwardProxy(settings.forwardProxy);
  const deployment = openDeployment({
    authUrl,
    resourceUrl,
    ...(settings ? { settings, openClient } : {}),
    ...(options.link === undefined ? {} : { link: options.link }),
    ...(maxRedisLatency === undefined ? {} : { maxRedisLatency }),
    signal: AbortSignal.timeout((options.timeout ?? DEFAULT_TIMEOUT_SECONDS) * 1000),
  });
  try {
    const findings = await examine(deployment, showProgress(terminal.progress));
    return createReport({ authUrl, resourceUrl }, findings);
  } finally {
    deployment.close();
  }
}

function readSettings({ environment, settingsOptions }: Terminal): Settings | SettingsError {
  try {
    return loadSettings(environment, { makesSecrets: false, options: settingsOptions() });
  } catch (error) {
    if (error instanceof SettingsError) return error;
    throw error;
  }
}

function settingsFindings({ issues }: SettingsError): Finding[] {
  return issues.map(({ setting, given, expected }) =>
    findingAbout('settings', setting).problem({
      what: `given ${given}; expected ${expected}`,
      why: 'Gatehouse does not start with these settings, and no other check ran',
      remedy: 'correct the settings file or the environment variable, and run doctor again',
    }),
  );
}

/** Rewrites one line, and only on a terminal. */
function showProgress(stream: Terminal['progress']): Progress {
  const running = new Set<string>();
  const show = () => {
    if (!stream.isTTY) return;
    const [first] = running;
    stream.write(`\r\u001B[2K${first === undefined ? '' : `checking ${first} …`}`);
  };
  return {
    onStart(title) {
      running.add(title);
      show();
    },
    onEnd(title) {
      running.delete(title);
      show();
    },
  };
}
