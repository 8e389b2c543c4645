// Checks the settings against the schema and says what is wrong in words for the person who wrote them.
import { z } from 'zod';
import { isMapping, pathName, valueAt, type Path } from './document.ts';
import { characters, type SettingsIssue } from './issues.ts';
import { nearestName } from './nearest-name.ts';
import { settingsSchema, type SettingsFile } from './schema.ts';
import { issueAt, type Source } from './source.ts';

/** `sound` holds the top-level settings without a mistake in them, so that what depends on them can be checked all the same. */
export type Parsed = { file?: SettingsFile; sound: Partial<SettingsFile>; issues: SettingsIssue[] };

export function parseSettings(source: Source): Parsed {
  const result = settingsSchema.safeParse(source.document, { error: expected });
  if (result.success) return { file: result.data, sound: result.data, issues: [] };
  const { issues: found } = result.error;
  const issues = found.flatMap((issue) =>
    issue.code === 'unrecognized_keys'
      ? issue.keys.map((key) => unknownKey(issue.path, key))
      : [issueAt(source, issue.path, issue.message)],
  );
  return { sound: soundPart(source, new Set(found.map(({ path }) => path[0]))), issues };
}

function soundPart(
  source: Source,
  broken: ReadonlySet<PropertyKey | undefined>,
): Partial<SettingsFile> {
  const isSound = ([key]: [string, unknown]) => !broken.has(key);
  const document = isMapping(source.document) ? Object.entries(source.document) : [];
  const parsed = settingsSchema
    .partial()
    .strip()
    .parse(Object.fromEntries(document.filter(isSound)));
  // A broken setting must not look like one left at its default.
  return Object.fromEntries(Object.entries(parsed).filter(isSound));
}

/** The value is not shown: a misspelt `clientSecret` is still a secret. */
function unknownKey(path: Path, key: string): SettingsIssue {
  const known = keysAt(path);
  const meant = nearestName(key, known);
  const expected = meant
    ? `a known setting (did you mean ${meant}?)`
    : `one of ${known.join(', ')}`;
  return { setting: pathName([...path, key]), given: 'an unknown setting', expected };
}

function keysAt(path: Path): string[] {
  const inJson = path.flatMap((key) => (typeof key === 'number' ? ['items'] : ['properties', key]));
  const schema = z.toJSONSchema(settingsSchema, { io: 'input', unrepresentable: 'any' });
  return Object.keys(valueAt(schema, [...inJson, 'properties']) ?? {});
}

const KINDS: Readonly<Record<string, string>> = {
  string: 'text',
  array: 'a list',
  object: 'a group of settings',
  record: 'a group of settings',
};

/** What the schema does not say in its own words. */
function expected(issue: z.core.$ZodRawIssue): string | undefined {
  if (issue.code === 'invalid_type') return KINDS[issue.expected] ?? `a ${issue.expected}`;
  if (issue.code === 'invalid_value')
    return issue.values
      .map(String)
      .join(', ')
      .replace(/, (?=[^,]*$)/, ' or ');
  if (issue.code === 'too_small') return `at least ${size(issue.origin, Number(issue.minimum))}`;
  if (issue.code === 'too_big') return `at most ${size(issue.origin, Number(issue.maximum))}`;
  return undefined;
}

function size(origin: string, count: number): string {
  return origin === 'array' ? `${count} in the list` : characters(count);
}
