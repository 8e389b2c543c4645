// The catalogue of apps (config/apps.yaml), whose callbacks `clients.apps` allows.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { PACKAGE_FOLDER } from '../package-folder.ts';
import { isListedRedirect } from './redirect-uri.ts';

export type CatalogApp = {
  id: string;
  name: string;
  /** Redirect URIs, and patterns that end in `/*`. */
  callbacks: string[];
  /** The connect page has instructions for it, with texts below `apps.<id>`. */
  connectPage?: true;
  /** Where people remove a server in the app, in the words of its English interface. */
  remove?: string;
  /** Its metadata document (clients that are identified by a URL). */
  document?: string;
  note?: string;
  /** Where the callbacks are documented, and the day on which they were collected there. */
  source: string;
  date: string;
};

const FILE = join(PACKAGE_FOLDER, 'config/apps.yaml');

let catalog: CatalogApp[] | undefined;

/** Read once. */
export function appCatalog(): readonly CatalogApp[] {
  catalog ??= parse(readFileSync(FILE, 'utf8')) as CatalogApp[];
  return catalog;
}

export function callbacksOf(ids: readonly string[]): string[] {
  return appCatalog().flatMap(({ id, callbacks }) => (ids.includes(id) ? callbacks : []));
}

type RedirectSettings = Record<'apps' | 'hostedCallbacks' | 'allowedRedirects', readonly string[]>;

/** All redirect URIs, and patterns, that the settings allow beside loopback. */
export function listedRedirects({
  apps,
  hostedCallbacks,
  allowedRedirects,
}: RedirectSettings): string[] {
  return [...callbacksOf(apps), ...hostedCallbacks, ...allowedRedirects];
}

/** The apps of the catalogue to whose callbacks people can be sent. */
export function allowedApps(settings: RedirectSettings): CatalogApp[] {
  const listed = new Set(listedRedirects(settings));
  return appCatalog().filter(({ callbacks }) => callbacks.some((uri) => listed.has(uri)));
}

/** The app of the catalogue with this callback. */
export function appWithCallback(uri: string): CatalogApp | undefined {
  return appCatalog().find(({ callbacks }) => isListedRedirect(callbacks, uri));
}
