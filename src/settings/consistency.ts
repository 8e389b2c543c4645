// What has to fit together across settings, in development as in production.
import type { Path } from './document.ts';
import { providersIn } from './identity-provider.ts';
import type { SettingsIssue } from './issues.ts';
import { isRedirectUri } from './redirect-uri.ts';
import { ROLES, type SettingsFile } from './schema.ts';
import { issueAt, type Source } from './source.ts';

export function checkStore(
  source: Source,
  { store, roles }: Partial<SettingsFile>,
): SettingsIssue[] {
  if (store?.kind !== 'sqlite' || !roles || roles.length === ROLES.length) return [];
  const expected = 'all roles, or a Redis store: SQLite is for one process that plays every role';
  return [issueAt(source, ['roles'], expected, roles.join(', '))];
}

/** A redirect to one of our own addresses would hand the code to a page of ours. */
export function checkRedirects(source: Source, file: Partial<SettingsFile>): SettingsIssue[] {
  const { hostedCallbacks = [], allowedRedirects = [], preRegistered = [] } = file.clients ?? {};
  const all: [Path, string][] = [
    ...hostedCallbacks.map((uri, n): [Path, string] => [['hostedCallbacks', n], uri]),
    ...allowedRedirects.map((uri, n): [Path, string] => [['allowedRedirects', n], uri]),
    ...preRegistered.flatMap(({ redirectUris }, client) =>
      redirectUris.map((uri, n): [Path, string] => [
        ['preRegistered', client, 'redirectUris', n],
        uri,
      ]),
    ),
  ];
  const expected = 'an address of a client, not one of our own';
  return all
    .filter(([, uri]) => isOwn(uri, file))
    .map(([path]) => issueAt(source, ['clients', ...path], expected));
}

function isOwn(url: string, file: Partial<SettingsFile>): boolean {
  const own = [file.authUrl, file.resourceUrl, file.managementUrl, file.developmentIdp?.url];
  return own.includes(new URL(url).origin);
}

/** People would be sent round in a circle. Below an origin of ours there may be others. */
export function checkProviders(source: Source, file: Partial<SettingsFile>): SettingsIssue[] {
  const expected = 'the address of an identity provider, not one of our own';
  return providersIn(file)
    .filter(([, { issuer }]) => isOwn(issuer, file) && new URL(issuer).pathname === '/')
    .map(([path]) => issueAt(source, [...path, 'issuer'], expected));
}

/** A call would go round in a circle. */
export function checkUpstream(source: Source, file: Partial<SettingsFile>): SettingsIssue[] {
  const url = file.resourceServer?.upstream?.url;
  if (url === undefined || !isOwn(url, file)) return [];
  const expected = 'the address of your MCP server, not one of our own';
  return [issueAt(source, ['resourceServer', 'upstream', 'url'], expected)];
}

/** Both are clients of the authorization server, which knows a client by its id. */
export function checkClientIds(source: Source, file: Partial<SettingsFile>): SettingsIssue[] {
  const taken = new Set(file.clients?.preRegistered.map(({ id }) => id));
  const expected = 'an id that is not in clients.preRegistered too';
  return (file.authorization?.introspectionClients ?? []).flatMap(({ id }, n) =>
    taken.has(id)
      ? [issueAt(source, ['authorization', 'introspectionClients', n, 'id'], expected)]
      : [],
  );
}

/** Whoever presents an assertion is an app that the operator knows and that has a secret: the client of the assertion is nobody else. */
export function checkTrustedIssuers(source: Source, file: Partial<SettingsFile>): SettingsIssue[] {
  const withSecret = new Set(
    file.clients?.preRegistered.flatMap(({ id, secret }) => (secret === undefined ? [] : [id])),
  );
  const issuers = file.authorization?.trustedIssuers ?? [];
  return issuers.flatMap(({ issuer, clients }, n) => {
    const path = ['authorization', 'trustedIssuers', n];
    const own = issueAt(source, [...path, 'issuer'], 'an identity provider, and not ourselves');
    const unknown = clients.flatMap((id, index) =>
      withSecret.has(id) ? [] : [issueAt(source, [...path, 'clients', index], KNOWN_CLIENT)],
    );
    return issuer === file.authUrl ? [own, ...unknown] : unknown;
  });
}

const KNOWN_CLIENT = 'the id of a client in clients.preRegistered that has a secret';

/** Only the form: which redirect addresses a document may have, the authorization server decides. */
export function checkMetadataDocuments(
  source: Source,
  file: Partial<SettingsFile>,
): SettingsIssue[] {
  return (file.clients?.metadataDocuments ?? []).flatMap(({ url, document }, n) => {
    const path = ['clients', 'metadataDocuments', n, 'document'];
    const isOwnAddress = document['client_id'] === url;
    return [
      ...(isOwnAddress ? [] : [issueAt(source, [...path, 'client_id'], `the url, ${url}`)]),
      ...(hasRedirect(document['redirect_uris'])
        ? []
        : [issueAt(source, [...path, 'redirect_uris'], 'a list of addresses, one or more')]),
    ];
  });
}

function hasRedirect(uris: unknown): boolean {
  if (!Array.isArray(uris) || !uris.every((uri) => typeof uri === 'string')) return false;
  return uris.some(isRedirectUri);
}
