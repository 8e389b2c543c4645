// `gatehouse settings check`: what the start would refuse, without a start.
import type { Command } from 'commander';
import type { Terminal } from './management/commands/terminal.ts';
import { SettingsError, type SettingsIssue } from './settings/issues.ts';
import { checkSettings, type ValidSettings } from './settings/load.ts';

const EXIT_INVALID_SETTINGS = 2;

const HELP = `
Checks what the start checks: the file, the secrets and files that it names, the variables of this environment, and the theme. Needs neither
network nor store, and changes nothing. Other than the start, it refuses every unknown variable whose name starts with GATEHOUSE_.

Exit codes: 0 valid, 2 invalid.

Examples:
  $ gatehouse settings check
  $ gatehouse settings check /etc/gatehouse/gatehouse.yaml
  $ gatehouse settings check gatehouse.yaml --json`;

type Report = { valid: boolean; issues: readonly SettingsIssue[] };

export function addSettingsCommand(program: Command, terminal: Terminal): void {
  program
    .command('settings')
    .description('check a settings file')
    .command('check')
    .description('say whether Gatehouse would start with a settings file')
    .argument('[file]', 'settings file (default: the one that the start would read)')
    .addHelpText('after', HELP)
    .action(async (file: string | undefined) => {
      const { environment, settingsOptions, print, exitWith } = terminal;
      const options = { ...settingsOptions(), ...(file === undefined ? {} : { config: file }) };
      try {
        const settings = checkSettings(environment, options);
        await checkTheme(settings);
        const report: Report = { valid: true, issues: [] };
        print(report, () => `The settings are valid for ${settings.environmentName}.`);
      } catch (error) {
        if (!(error instanceof SettingsError)) throw error;
        const report: Report = { valid: false, issues: error.issues };
        print(report, () => error.message);
        exitWith(EXIT_INVALID_SETTINGS);
      }
    });
}

async function checkTheme(settings: ValidSettings): Promise<void> {
  if (settings.theme === undefined) return;
  // Imported here, because these modules load the whole server.
  const { openPages } = await import('./pages/pages.ts');
  const { ThemeError } = await import('./pages/theme.ts');
  const { pageSettings } = await import('./services.ts');
  try {
    openPages({ ...pageSettings(settings), now: Date.now }, settings.theme);
  } catch (error) {
    if (!(error instanceof ThemeError)) throw error;
    const given = error.problems.join('; ');
    throw new SettingsError([{ setting: 'theme', given, expected: 'a theme without errors' }]);
  }
}
