// The keys of the management API that the settings name, beside the one in the data directory.
import type { ManagementRole } from './management-roles.ts';
import { resolve } from 'node:path';
import type { NamedSecrets } from './checks.ts';
import type { ManagementKeyInFile, SettingsFile } from './schema.ts';
import {
  checkManagementKey,
  MIN_CHARACTERS,
  type Reading,
  readSecretFile,
  readVariable,
} from './secrets.ts';
import { type Path, pathName, type Source } from './source.ts';

/** Contains a secret: never log it. */
export type ManagementKey = {
  /** Unique. The audit log contains it as `key:<name>`. */
  name: string;
  role: ManagementRole;
  key: string;
  /** The path in the settings file, for messages. */
  setting: string;
  /** The absolute path of `keyFile`. */
  file?: string;
};

/** Reads no key in a process without the management role, which accepts none. */
export function readManagementKeys(
  source: Source,
  { management, roles }: Partial<SettingsFile>,
): Reading<ManagementKey[]> {
  if (roles && !roles.includes('management')) return { value: [], issues: [] };
  const keys = management?.keys ?? [];
  const readings = keys.map((each, n) => readKey(source, ['management', 'keys', n], each));
  return {
    value: readings.flatMap(({ value }) => value ?? []),
    issues: readings.flatMap(({ issues }) => issues),
  };
}

function readKey(
  source: Source,
  path: Path,
  { name, role, keyFile, keyEnv }: ManagementKeyInFile,
): Reading<ManagementKey> {
  const member = keyFile === undefined ? 'keyEnv' : 'keyFile';
  const setting = pathName([...path, member]);
  const limit = { minCharacters: MIN_CHARACTERS };
  const { value: key, issues } =
    keyFile === undefined
      ? readVariable(source.environment, setting, keyEnv ?? '', limit)
      : readSecretFile(keyFile, setting, { ...limit, base: source.folder });
  const all = [...issues, ...checkManagementKey(key, setting)];
  if (key === undefined || all.length > 0) return { issues: all };
  const file = keyFile === undefined ? {} : { file: resolve(source.folder, keyFile) };
  return { value: { name, role, key, setting, ...file }, issues: [] };
}

export function namedKeys(keys: readonly ManagementKey[] = []): NamedSecrets {
  return keys.map(({ setting, key }) => [setting, key]);
}
