// The catalogue of apps (config/apps.yaml), whose callbacks `clients.apps` allows.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { PACKAGE_FOLDER } from '../package-folder.ts';

export type CatalogApp = {
  id: string;
  name: string;
  /** Redirect URIs, and patterns that end in `/*`. */
  callbacks: string[];
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
