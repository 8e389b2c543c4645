// Grants as people read them in a terminal, and why one is over, in words.
import { type GrantDocument, personIn } from '../grant-documents.ts';
import { minute, plain, quoted, table } from './terminal.ts';

export function listText({ items }: { items: GrantDocument[] }): string {
  if (items.length === 0) return 'There are no grants: nobody connected an app.';
  const rows = items.map((grant) => [
    grant.id,
    grant.clientName,
    personIn(grant),
    grant.connectorName ?? grant.connector,
    grant.level ?? '-',
    minute(grant.createdAt),
    grant.lastUsedAt ? minute(grant.lastUsedAt) : '-',
    grant.reason ? `${grant.state}: ${grant.reason}` : grant.state,
  ]);
  const headings = ['ID', 'CLIENT', 'PERSON', 'CONNECTOR', 'LEVEL', 'SINCE', 'LAST USED', 'STATE'];
  return table(headings, rows);
}

export function detailsText(grant: GrantDocument): string {
  const facts = {
    id: grant.id,
    state: grant.state,
    client: `${grant.clientName} (${grant.clientId})`,
    'answers go to': grant.redirectHost,
    person: `${personIn(grant)} (${grant.account})`,
    connector: `${grant.connectorName ?? 'unknown'} (${grant.connector})`,
    level: grant.level ?? '-',
    since: minute(grant.createdAt),
    'last used': grant.lastUsedAt ? minute(grant.lastUsedAt) : '-',
    ...(grant.expiresAt ? { 'runs out': `${minute(grant.expiresAt)}, unless it is used` } : {}),
    ...(grant.endedAt ? { ended: minute(grant.endedAt) } : {}),
    ...(grant.explanation ? { reason: `${grant.explanation} (${grant.reason})` } : {}),
  };
  return Object.entries(facts)
    .map(([label, fact]) => `  ${label.padEnd(15)}${plain(fact)}`)
    .join('\n');
}

export function whyText(grant: GrantDocument): string {
  const app = `"${plain(grant.clientName)}" of ${plain(personIn(grant))}`;
  const refusals = grant.refusals.map(
    ({ time, explanation, reason }) => `  ${minute(time)}  ${explanation} (${reason})`,
  );
  const history = refusals.length > 0 ? ['', 'Refused before:', ...refusals] : [];
  return [`${STANDING[grant.state](app, grant)}${because(grant)}`, ...history].join('\n');
}

const STANDING: Record<GrantDocument['state'], (app: string, grant: GrantDocument) => string> = {
  pending: (app) => `${app} was approved, and has not fetched its tokens yet.`,
  active: (app) => `${app} is connected.`,
  refused: (app) => `${app} is refused at present.`,
  ended: (app, { endedAt }) =>
    `${app} is disconnected${endedAt ? ` since ${minute(endedAt)}` : ''}.`,
};

function because({ explanation, reason }: GrantDocument): string {
  return explanation ? `\n${explanation} (${reason})` : '';
}

export function revokedText(grant: GrantDocument): string {
  return `${whyText(grant)}\nTo keep an app out for good: gatehouse client revoke ${quoted(grant.clientId)}`;
}
