// What has to fit together across settings, in development as in production.
import type { Path } from './document.ts';
import type { Mistake } from './mistake.ts';
import { ROLES, type SettingsFile } from './schema.ts';
import { mistakeAt, type Source } from './source.ts';

export function storeMistakes(source: Source, { store, roles }: Partial<SettingsFile>): Mistake[] {
  if (store?.kind !== 'sqlite' || !roles || roles.length === ROLES.length) return [];
  const expected = 'all roles, or a Redis store: SQLite is for one process that plays every role';
  return [mistakeAt(source, ['roles'], expected, roles.join(', '))];
}

/** A redirect to one of our own addresses would hand the code to a page of ours. */
export function redirectMistakes(source: Source, file: Partial<SettingsFile>): Mistake[] {
  const { hostedCallbacks = [], allowedRedirects = [], preRegistered = [] } = file.clients ?? {};
  const own = [file.authUrl, file.resourceUrl, file.managementUrl, file.developmentIdp?.url];
  const isOwn = ([, uri]: [Path, string]) => own.includes(new URL(uri).origin);
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
  return all.filter(isOwn).map(([path]) => mistakeAt(source, ['clients', ...path], expected));
}
