import type { Command } from 'commander';
import { tokenExample } from '../../connectors/app-instructions.ts';
import { allItems } from '../api/client.ts';
import type { MintedTokenResource, NewTokenResource } from '../api/resources.ts';
import {
  expiryMembers,
  parseTime,
  type RelativeOrAbsoluteTime,
  SEARCH_FLAG,
  searchHelp,
  type SearchOptions,
} from './option-values.ts';
import { type UpstreamColumn, upstreamColumn } from './record-names.ts';
import { resolveToken, TOKEN, UPSTREAM_FLAG, UPSTREAM_OPTION, upstreamMember } from './resolve.ts';
import { foundText, minute, plain, table, type Terminal } from './terminal.ts';

const EXAMPLES = `
Examples:
  $ gatehouse token mint --name "Nightly report" --level analytics
  $ gatehouse token mint --name "Editor" --level operations --expires 30d
  $ gatehouse token list`;

const MINT_HELP = `
The token is shown only once. It works only at the /mcp address of the resource server.
${EXAMPLES}`;

type MintOptions = {
  name: string;
  level: string;
  upstream?: string;
  expires?: RelativeOrAbsoluteTime;
};

export function addTokenCommands(program: Command, { openClient, print }: Terminal): void {
  const token = program
    .command('token')
    .description('mint, list and revoke tokens for programs that cannot sign in with a browser')
    .addHelpText('after', EXAMPLES);
  token
    .command('mint')
    .description('mint a token and show how to use it')
    .requiredOption('--name <name>', 'name in the list of tokens')
    .requiredOption('--level <level>', 'level of calls made with the token')
    .option(UPSTREAM_FLAG, UPSTREAM_OPTION)
    .option(
      '--expires <when>',
      'expires after 12h, 30d or 366d, or at an ISO 8601 time (default: 90d)',
      parseTime,
    )
    .addHelpText('after', MINT_HELP)
    .action(async ({ expires, upstream, ...options }: MintOptions) => {
      const client = openClient();
      const target = await upstreamMember(client, upstream);
      const body = { ...options, ...target, ...expiryMembers(expires) };
      const minted = await client.mintToken({ body });
      const audience = await audienceOf(minted.token);
      print(minted, (token) => mintedText(token, audience));
    });
  token
    .command('list')
    .description('list minted tokens that have not expired, oldest first')
    .option(SEARCH_FLAG, searchHelp('its name, id or last four characters'))
    .action(async ({ search }: SearchOptions) => {
      const client = openClient();
      const read = (query: object) => client.listTokens({ query: { ...query, q: search } });
      const items = await Array.fromAsync(allItems(read));
      const upstreams = await upstreamColumn(client, items);
      print(
        { items },
        foundText(search, (list) => listText(list, upstreams)),
      );
    });
  token
    .command('revoke')
    .description('revoke a minted token immediately')
    .argument('<token>', TOKEN)
    .action(async (text: string) => {
      const client = openClient();
      const id = await resolveToken(client, text);
      print(await client.revokeToken({ id }), revokedText);
    });
}

function mintedText(
  { id, name, level, upstream, expiresAt, token }: NewTokenResource,
  url: string,
): string {
  return `Minted a token. It is shown only once.

  name     ${plain(name)}
  id       ${id}
  level    ${level}${upstream === undefined ? '' : `\n  upstream ${upstream}`}
  expires  ${minute(expiresAt)}

Send it with every request to ${url}
  Authorization: Bearer ${token}

For example in mcp.json:
${tokenExample(url, token)}

Anyone with the token can make calls, so keep it out of repositories. To revoke it:
  gatehouse token revoke ${id}
`;
}

/** Returns the only address that accepts the token (RFC 9068 section 3). */
async function audienceOf(token: string): Promise<string> {
  // No other command needs this package, which takes a while to load.
  const { decodeJwt } = await import('jose');
  return String(decodeJwt(token).aud);
}

function listText({ items }: { items: MintedTokenResource[] }, upstreams: UpstreamColumn): string {
  if (items.length === 0)
    return `There are no minted tokens. To mint one:
  gatehouse token mint --name "Nightly report" --level analytics`;
  const rows = items.map(({ lastFour, expiresAt, lastUsedAt, keyReplaced, ...token }) => [
    token.id,
    token.name,
    token.level,
    ...upstreams.cells(token),
    `…${lastFour}`,
    lastUsedAt ? minute(lastUsedAt) : 'never',
    keyReplaced ? 'key replaced: mint again' : minute(expiresAt),
  ]);
  return table(
    ['ID', 'NAME', 'LEVEL', ...upstreams.title, 'ENDS IN', 'LAST USED', 'EXPIRES'],
    rows,
  );
}

function revokedText({ id, name }: MintedTokenResource): string {
  return `Revoked "${plain(name)}" (${id}). The token no longer works.`;
}
