// Clients as people read them in a terminal.
import type { ClientResource, RevokedClientResource } from '../grant-documents.ts';
import { minute, plain, quoted, table } from './terminal.ts';

export function listText({ items }: { items: ClientResource[] }): string {
  if (items.length === 0) return 'Nobody connected an app yet.';
  const rows = items.map(({ id, name, kind, lastUsedAt, state }) => [
    id,
    name ?? '-',
    kind,
    lastUsedAt ? minute(lastUsedAt) : '-',
    state,
  ]);
  return table(['ID', 'NAME', 'KIND', 'LAST USED', 'STATE'], rows);
}

export function detailsText(client: ClientResource): string {
  const { id, name, kind, redirectUris, lastUsedAt, revokedAt } = client;
  const facts = {
    name: name ?? 'not known any more',
    id,
    kind,
    'answers go to': redirectUris.join(' ') || '-',
    'last used': lastUsedAt ? minute(lastUsedAt) : '-',
    revoked: revokedAt ? `since ${minute(revokedAt)}` : 'no',
  };
  return Object.entries(facts)
    .map(([label, fact]) => `  ${label.padEnd(15)}${plain(fact)}`)
    .join('\n');
}

export function revokedText({ id, name, endedGrants }: RevokedClientResource): string {
  const ended = endedGrants === 1 ? '1 grant was ended' : `${endedGrants} grants were ended`;
  return `Revoked ${plain(name ?? id)}: ${ended}, and nobody can connect it. To allow it again:
  gatehouse client allow ${quoted(id)}`;
}

export function allowedText({ id, name }: ClientResource): string {
  return `Allowed ${plain(name ?? id)}. People may connect it again; what they had stays ended.`;
}
