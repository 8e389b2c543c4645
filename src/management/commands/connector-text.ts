// Connectors as people read them in a terminal, and how to add one to a client.
import type { ConnectorResource } from '../api/resources.ts';
import { claudeCommand } from '../instructions.ts';
import { minute, plain, table } from './terminal.ts';

export function createdText(connector: ConnectorResource): string {
  return `Created a connector.

${detailsText(connector)}

Add it to a client, for example:
  ${claudeCommand(connector.link, connector.name)}
`;
}

export function detailsText(connector: ConnectorResource): string {
  const { id, name, level, state, link, createdAt, expiresAt } = connector;
  const facts = {
    name: plain(name),
    link,
    id,
    level,
    state,
    uses: uses(connector),
    created: minute(createdAt),
    expires: expiresAt ? minute(expiresAt) : 'never',
  };
  return Object.entries(facts)
    .map(([label, fact]) => `  ${label.padEnd(9)}${fact}`)
    .join('\n');
}

export function revokedText({ name, id }: ConnectorResource): string {
  return `Revoked "${plain(name)}" (${id}). Its link and everything granted through it no longer work.`;
}

export function deletedText({ name, id }: ConnectorResource): string {
  return `Deleted "${plain(name)}" (${id}). Its link is unknown now, and the id is never used again.`;
}

const NONE = `There are no connectors yet. Create one:
  gatehouse connector create --name "Ops" --level operations`;

export function listText({ items }: { items: ConnectorResource[] }): string {
  if (items.length === 0) return NONE;
  const rows = items.map((connector) => {
    const { id, name, level, state, expiresAt } = connector;
    return [id, name, level, state, uses(connector), expiresAt ? minute(expiresAt) : 'never'];
  });
  return table(['ID', 'NAME', 'LEVEL', 'STATE', 'USES', 'EXPIRES'], rows);
}

function uses({ uses, maxUses }: ConnectorResource): string {
  return maxUses === undefined ? String(uses) : `${uses} of ${maxUses}`;
}
