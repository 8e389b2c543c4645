// The commands `keys list` and `keys rotate`.
import type { Command } from 'commander';
import { listKeys, rotateKeys } from '../api/client.ts';
import type { SigningKeyResource } from '../api/resources.ts';
import { minute, table, type Terminal } from './terminal.ts';

const EXAMPLES = `
Examples:
  $ gatehouse keys list
  $ gatehouse keys rotate
  $ gatehouse keys rotate --at-once`;

const ROTATION = `
A new key is published now and signs in 10 minutes, when everybody who verifies tokens has seen it. The old one stays
published until the last token it signed has expired, minted tokens included. No call fails, and nobody signs in again.

--at-once is for a key that leaked. The new key signs now and all others are published no longer: every access token
dies, and clients fetch a new one with their refresh token by themselves; whoever has none signs in again. Minted tokens
die too and have to be minted again: gatehouse token list says which. Gatehouse itself knows within a second, or within a minute when messages between its processes are lost; other programs that
verify tokens know when they next fetch the keys, which they may keep for 5 minutes.
${EXAMPLES}`;

type Keys = { items: SigningKeyResource[] };

export function addKeysCommands(program: Command, terminal: Terminal): void {
  const keys = program
    .command('keys')
    .description('see and rotate the keys that sign access tokens')
    .addHelpText('after', EXAMPLES);
  addList(keys, terminal);
  addRotate(keys, terminal);
}

function addList(keys: Command, { findAccess, print }: Terminal): void {
  keys
    .command('list')
    .description('list the published keys, the newest first')
    .action(async () => {
      print(await listKeys(findAccess()), keysText);
    });
}

function addRotate(keys: Command, { findAccess, print }: Terminal): void {
  keys
    .command('rotate')
    .description('let a new key take over')
    .option('--at-once', 'now, ending every access token: for a key that leaked')
    .addHelpText('after', ROTATION)
    .action(async ({ atOnce = false }: { atOnce?: boolean }) => {
      print(await rotateKeys(findAccess(), { atOnce }), atOnce ? replacedText : rotatedText);
    });
}

function keysText({ items }: Keys): string {
  const rows = items.map(({ id, state, signsFrom, publishedUntil }) => {
    return [id, state, minute(signsFrom), publishedUntil ? minute(publishedUntil) : '-'];
  });
  return table(['ID', 'STATE', 'SIGNS FROM', 'PUBLISHED UNTIL'], rows);
}

function rotatedText(keys: Keys): string {
  return `Published a new key, which signs by itself when the time has come.\n\n${keysText(keys)}`;
}

function replacedText(keys: Keys): string {
  return `Replaced the key. Access tokens from before no longer work; clients fetch new ones by themselves.
Minted tokens from before no longer work either: mint new ones (gatehouse token list says which).\n\n${keysText(keys)}`;
}
