import type { Command } from 'commander';
import type { SigningKeyResource } from '../api/resources.ts';
import { minute, table, type Terminal } from './terminal.ts';

const EXAMPLES = `
Examples:
  $ gatehouse keys list
  $ gatehouse keys rotate
  $ gatehouse keys rotate --at-once`;

const ROTATE_HELP = `
Publishes a new key, which signs in 10 minutes. The old key stays published until the last token it signed has expired,
minted tokens included. Existing tokens keep working.

Use --at-once for a key that leaked. All access tokens stop working within a minute; other programs that verify tokens may
accept them for up to 5 minutes. Apps with a refresh token get new access tokens; in other apps, people sign in again. Minted
tokens stop working too: gatehouse token list shows which.
${EXAMPLES}`;

type Keys = { items: SigningKeyResource[] };

export function addKeysCommands(program: Command, { openClient, print }: Terminal): void {
  const keys = program
    .command('keys')
    .description('list and rotate the keys that sign access tokens')
    .addHelpText('after', EXAMPLES);
  keys
    .command('list')
    .description('list the published keys, newest first')
    .action(async () => {
      print(await openClient().listKeys(), keysText);
    });
  keys
    .command('rotate')
    .description('replace the signing key')
    .option('--at-once', 'replace a leaked key immediately and invalidate all access tokens')
    .addHelpText('after', ROTATE_HELP)
    .action(async ({ atOnce = false }: { atOnce?: boolean }) => {
      const rotated = await openClient().rotateKeys({ body: { atOnce } });
      print(rotated, atOnce ? replacedText : rotatedText);
    });
}

function keysText({ items }: Keys): string {
  const rows = items.map(({ id, state, signsFrom, publishedUntil }) => {
    return [id, state, minute(signsFrom), publishedUntil ? minute(publishedUntil) : '-'];
  });
  return table(['ID', 'STATE', 'SIGNS FROM', 'PUBLISHED UNTIL'], rows);
}

function rotatedText(keys: Keys): string {
  return `Published a new key. It starts signing at the time shown.\n\n${keysText(keys)}`;
}

function replacedText(keys: Keys): string {
  return `Replaced the key. Earlier access tokens no longer work. Apps with a refresh token get new ones.
Earlier minted tokens no longer work: mint new ones (gatehouse token list shows which).\n\n${keysText(keys)}`;
}
