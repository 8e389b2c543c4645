// The commands `token mint`, `list` and `revoke`.
import { type Command, Option } from 'commander';
import { LEVELS } from '../../permission-level.ts';
import { listTokens, mintToken, revokeToken, type WantedToken } from '../api/client.ts';
import { expiryOf, parseMoment, type Moment } from './argument.ts';
import type { Terminal } from './terminal.ts';
import { listText, mintedText, revokedText } from './token-text.ts';

const EXAMPLES = `
Examples:
  $ gatehouse token mint --name "Nightly report" --level analytics
  $ gatehouse token mint --name "Editor" --level operations --expires 30d
  $ gatehouse token list`;

const MINTING = `
The token is for programs that cannot sign in with a browser. It is shown once and kept nowhere, works at the /mcp address
of the resource server only, and expires after 366d at the latest.
${EXAMPLES}`;

export function addTokenCommands(program: Command, terminal: Terminal): void {
  const token = program
    .command('token')
    .description('mint, see and revoke tokens for programs that cannot sign in with a browser')
    .addHelpText('after', EXAMPLES);
  addMint(token, terminal);
  addList(token, terminal);
  addRevoke(token, terminal);
}

type MintOptions = Pick<WantedToken, 'name' | 'level'> & { expires?: Moment };

function addMint(token: Command, { findAccess, print }: Terminal): void {
  token
    .command('mint')
    .description('mint a token and print it, this once, with how to use it')
    .requiredOption('--name <name>', 'what the list of tokens shows')
    .addOption(
      new Option('--level <level>', 'what a caller with the token may see')
        .choices(LEVELS)
        .makeOptionMandatory(),
    )
    .option(
      '--expires <when>',
      'after 12h, 30d or 366d, or at an ISO 8601 time; after 90d unless given',
      parseMoment,
    )
    .addHelpText('after', MINTING)
    .action(async ({ expires, ...wanted }: MintOptions) => {
      const minted = await mintToken(findAccess(), { ...wanted, ...expiryOf(expires) });
      print(minted, mintedText);
    });
}

function addList(token: Command, { findAccess, print }: Terminal): void {
  token
    .command('list')
    .description('list all minted tokens that did not expire, the oldest first')
    .action(async () => {
      print({ items: await Array.fromAsync(listTokens(findAccess())) }, listText);
    });
}

function addRevoke(token: Command, { findAccess, print }: Terminal): void {
  token
    .command('revoke')
    .description('revoke a minted token: it works no longer')
    .argument('<id>', 'the id in the list of tokens')
    .action(async (id: string) => {
      print(await revokeToken(findAccess(), id), revokedText);
    });
}
