// Connectors as people read them in a terminal, and how to add one to a client.
import type { ConnectorDocument } from '../documents.ts';
import { claudeCommand } from '../instructions.ts';
import { minute, plain, table } from './terminal.ts';

export function createdText(connector: ConnectorDocument): string {
  return `Created a connector.

${detailsText(connector)}

Add it to a client, for example:
  ${claudeCommand(connector.link, connector.name)}
`;
}

export function detailsText(connector: ConnectorDocument): string {
  const { id, name, level, suggestedLevel, state, link, createdAt, expiresAt } = connector;
  const facts = {
    name: plain(name),
    link,
    id,
    level,
    ...(suggestedLevel === undefined ? {} : { suggests: suggestedLevel }),
    state,
    uses: uses(connector),
    created: minute(createdAt),
    expires: expiresAt ? minute(expiresAt) : 'never',
  };
  return Object.entries(facts)
    .map(([label, fact]) => `  ${label.padEnd(9)}${fact}`)
    .join('\n');
}

export function revokedText({ name, id }: ConnectorDocument): string {
  return `Revoked "${plain(name)}" (${id}). Its link and everything granted through it no longer work.`;
}

export function deletedText({ name, id }: ConnectorDocument): string {
  return `Deleted "${plain(name)}" (${id}). Its link is unknown now, and the id is never used again.`;
}

const NONE = `There are no connectors yet. Create one:
  gatehouse connector create --name "Ops" --level operations`;

export function listText({ items }: { items: ConnectorDocument[] }): string {
  if (items.length === 0) return NONE;
  const rows = items.map((connector) => {
    const { id, name, level, state, expiresAt } = connector;
    return [id, name, level, state, uses(connector), expiresAt ? minute(expiresAt) : 'never'];
  });
  return table(['ID', 'NAME', 'LEVEL', 'STATE', 'USES', 'EXPIRES'], rows);
}

function uses({ uses, maxUses }: ConnectorDocument): string {
  return maxUses === undefined ? String(uses) : `${uses} of ${maxUses}`;
}
