// Minted tokens as people read them in a terminal, and how a program uses one.
import { decodeJwt } from 'jose';
import type { MintedTokenResource, NewTokenResource } from '../api/resources.ts';
import { tokenExample } from '../instructions.ts';
import { minute, plain, table } from './terminal.ts';

export function mintedText({ id, name, level, expiresAt, token }: NewTokenResource): string {
  const url = addressOf(token);
  return `Minted a token. It is shown this once.

  name     ${plain(name)}
  id       ${id}
  level    ${level}
  expires  ${minute(expiresAt)}

Send it with every request to ${url}
  Authorization: Bearer ${token}

For example in mcp.json:
${tokenExample(url, token)}

Whoever has the token has its level: keep it out of repositories. To end it:
  gatehouse token revoke ${id}
`;
}

/** Its audience is the one address that takes it (RFC 9068 section 3). */
function addressOf(token: string): string {
  return String(decodeJwt(token).aud);
}

const NONE = `There are no minted tokens. Mint one:
  gatehouse token mint --name "Nightly report" --level analytics`;

export function listText({ items }: { items: MintedTokenResource[] }): string {
  if (items.length === 0) return NONE;
  const rows = items.map(({ id, name, level, lastFour, expiresAt, lastUsedAt, keyReplaced }) => [
    id,
    name,
    level,
    `…${lastFour}`,
    lastUsedAt ? minute(lastUsedAt) : 'never',
    keyReplaced ? 'key replaced: mint again' : minute(expiresAt),
  ]);
  return table(['ID', 'NAME', 'LEVEL', 'ENDS IN', 'LAST USED', 'EXPIRES'], rows);
}

export function revokedText({ id, name }: MintedTokenResource): string {
  return `Revoked "${plain(name)}" (${id}). The token no longer works.`;
}
