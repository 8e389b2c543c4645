import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { PACKAGE_FOLDER } from './package-folder.ts';

const manifest = readFileSync(join(PACKAGE_FOLDER, 'package.json'), 'utf8');

/** The version of Gatehouse. */
export const { version }: { version: string } = JSON.parse(manifest);
