import { resolve } from 'node:path';

/** Has package.json, views/ and config/. The same from src/ and from the bundle in dist/, which has this file at its top as well. */
export const PACKAGE_FOLDER = resolve(import.meta.dirname, '..');
