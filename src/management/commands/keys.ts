import type { Command } from 'commander';
import type { SigningKeyResource } from '../api/resources.ts';
import { minute, table, type Terminal } from './terminal.ts';

const EXAMPLES = `
Examples:
  $ gatehouse keys list
  $ gatehouse keys rotate
  $ gatehouse keys rotate --at-once`;

const ROTATE_HELP = `
Publishes a new key now. It signs in 10 minutes, when everyone who verifies tokens has fetched it. The old key stays published
until the last token it signed has expired, minted tokens included. No call fails, and nobody has to sign in again.

Use --at-once for a key that leaked. The new key signs now and all other keys are withdrawn, so every access token stops
working. Apps with a refresh token get a new access token by themselves; with other apps, people sign in again. Minted
tokens stop working too and must be minted again: gatehouse token list shows which. Gatehouse applies the change within a
second, or within a minute if messages between its processes are lost. Other programs that verify tokens apply it when they
next fetch the keys, which they may cache for 5 minutes.
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
    .option('--at-once', 'replace a leaked key now: every access token stops working')
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
