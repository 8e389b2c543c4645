import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { System } from './system.ts';

/** Replaces top-level settings in the settings file of a running system; `undefined` removes one. Returns the function that restores it. */
export function changeSettings(
  { dataDir }: Pick<System, 'dataDir'>,
  changes: Record<string, unknown>,
): () => void {
  const path = join(dataDir, 'settings.yaml');
  const before = readFileSync(path, 'utf8');
  writeFileSync(path, JSON.stringify({ ...JSON.parse(before), ...changes }));
  return () => writeFileSync(path, before);
}
