import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const manifest = readFileSync(join(import.meta.dirname, '../package.json'), 'utf8');

/** The version of Gatehouse. */
export const { version }: { version: string } = JSON.parse(manifest);
