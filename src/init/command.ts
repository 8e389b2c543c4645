import { type Command, Option } from 'commander';
import { details, plain, type Terminal } from '../management/commands/terminal.ts';
import { readForwardProxy } from '../settings/forward-proxy.ts';
import type { InitResult } from './init.ts';
import { PROVIDERS, providerTitle } from './providers.ts';
import { HEADER_EXAMPLE } from './upstream-headers.ts';

const HELP = `
Writes gatehouse.yaml and gatehouse.secret. Asks for each value that you do not give as an option.
Existing files are never overwritten.

Examples:
  $ gatehouse init
  $ gatehouse init --yes --upstream http://localhost:9000/mcp
  $ gatehouse init --upstream https://tools.example.com/mcp --upstream-header "${HEADER_EXAMPLE}"`;

type Options = {
  authUrl?: string;
  resourceUrl?: string;
  managementUrl?: string;
  apps?: string;
  store?: string;
  idp?: string;
  issuer?: string;
  clientId?: string;
  clientSecretFile?: string;
  upstream?: string;
  upstreamHeader?: string[];
  privateNetwork?: boolean;
  dir: string;
  offline?: boolean;
  yes?: boolean;
};

export function addInitCommand(program: Command, terminal: Terminal): void {
  program
    .command('init')
    .description('write a settings file and a secret file for your MCP server')
    .addOption(
      // init checks the value itself, so that it can report all wrong options at once.
      new Option('--idp <provider>', 'where people sign in')
        .choices(PROVIDERS)
        .argParser((text) => text),
    )
    .option('--auth-url <url>', 'public address of the authorization server')
    .option('--resource-url <url>', 'public address of the resource server')
    .option('--management-url <url>', 'public address of the console (default: this computer only)')
    .option('--apps <ids>', 'hosted apps that people use, or none (default: claude)')
    .option('--store <address>', 'sqlite:<file> or a Redis address (default: SQLite)')
    .option('--issuer <url>', 'issuer of the identity provider')
    .option('--client-id <id>', 'client id at the identity provider')
    .option('--client-secret-file <file>', 'file with the client secret')
    .option('--upstream <url>', 'your MCP server (default: the built-in sample)')
    .option(
      '--upstream-header <header>',
      `header for your MCP server and the environment variable with its value, such as "${HEADER_EXAMPLE}"; repeatable`,
      (text: string, earlier: string[] = []) => [...earlier, text],
    )
    .option('--private-network', 'allow plain http to an MCP server on another computer')
    .option('--dir <folder>', 'where to write the files', '.')
    .option('--offline', 'do not contact the identity provider or your MCP server')
    .option('--yes', 'use the defaults without asking')
    .addHelpText('after', HELP)
    .action(async ({ dir, yes, offline, privateNetwork, upstreamHeader, ...given }: Options) => {
      const { environment, input, progress } = terminal;
      const isTerminal = input?.isTTY === true && progress.isTTY === true;
      // Imported here, because it loads an MCP client, which would delay every other command.
      const { init } = await import('./init.ts');
      const { useForwardProxy } = await import('../http/forward-proxy.ts');
      await useForwardProxy(readForwardProxy(environment).value);
      const result = await init({
        given,
        folder: dir,
        acceptsSuggestions: yes === true,
        privateNetwork: privateNetwork === true,
        upstreamHeaders: upstreamHeader ?? [],
        offline: offline === true,
        environment,
        streams: isTerminal ? { input, output: progress } : undefined,
        warn: (text) => void progress.write(`Warning: ${plain(text)}.\n`),
      });
      terminal.print(resultFor(result), () => resultText(result, dir));
    });
}

function resultFor({ provider, ...result }: InitResult): object {
  return { ...result, registration: provider.registration };
}

function resultText(result: InitResult, folder: string): string {
  const [settings = '', secrets = ''] = result.files;
  return [
    'Created two files. Keep the secrets private and back them up.',
    details({ settings, secrets }),
    ...toolsText(result),
    '',
    'Next:',
    ...nextSteps(result, folder).map((step, n) => `  ${n + 1}. ${step}`),
  ].join('\n');
}

function toolsText({ tools }: InitResult): string[] {
  if (tools.length === 0) return [];
  const counts = Map.groupBy(tools, ({ level }) => level);
  const each = [...counts].map(([level, members]) => `${level} ${members.length}`).join(', ');
  return ['', `Suggested levels of ${tools.length} tools: ${each}. Check them in the settings.`];
}

function nextSteps(result: InitResult, folder: string): string[] {
  const { provider, redirectUri, consoleRedirectUri, level, variables } = result;
  const prepare = [
    ...(folder === '.' ? [] : [`Go there: cd ${folder}`]),
    ...(variables.length === 0
      ? []
      : [`Set ${[...new Set(variables)].join(', ')} in the environment of start and doctor`]),
  ];
  if (redirectUri === undefined)
    return [
      ...prepare,
      'Start Gatehouse, which prints a connect link: npx gatehouse start',
      'Check it: npx gatehouse doctor',
    ];
  return [
    `Register Gatehouse at ${providerTitle(provider)}, with the redirect URI ${redirectUri}`,
    ...(consoleRedirectUri
      ? [`Add the redirect URI of the console there: ${consoleRedirectUri}`]
      : []),
    ...provider.registration.map((step) => step.replace(/\.$/, '')),
    consoleRedirectUri
      ? 'Set who may connect (entitlements) and who may use the console (management.administrators) in the settings'
      : 'Set who may connect in the settings (entitlements)',
    ...prepare,
    'Start Gatehouse: npx gatehouse start',
    'Check it: npx gatehouse doctor',
    `Create a connect link: npx gatehouse connector create --name "My connector" --level ${level}`,
  ];
}
