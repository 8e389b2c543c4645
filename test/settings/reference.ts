// Generates config/settings.md from the descriptions in the schema.
import { join } from 'node:path';
import { z } from 'zod';
import { OTHER_VARIABLES, VARIABLE_PATHS } from '../../src/settings/environment.ts';
import { settingsSchema } from '../../src/settings/schema.ts';

export const REFERENCE = join(import.meta.dirname, '../../config/settings.md');

type JsonSchema = {
  type?: string;
  description?: string;
  default?: unknown;
  enum?: unknown[];
  const?: unknown;
  minimum?: number;
  maximum?: number;
  properties?: Record<string, JsonSchema>;
  required?: string[];
  items?: JsonSchema;
  /** Names the type of a value, such as `duration`. */
  valueType?: string;
  /** Describes a default that is not part of the schema. */
  defaultText?: string;
  /** The path of a setting whose members the entries of this list have too. They are not repeated. */
  sameAs?: string;
};

type Setting = { path: string; required: boolean; schema: JsonSchema };

/** Every setting, with paths such as `developmentIdp.people[].id`. */
export const SETTINGS: readonly Setting[] = settingsIn(
  z.toJSONSchema(settingsSchema, { io: 'input', unrepresentable: 'any' }) as JsonSchema,
);

function settingsIn({ properties = {}, required = [] }: JsonSchema, parent = ''): Setting[] {
  return Object.entries(properties).flatMap(([key, schema]) => {
    const path = parent ? `${parent}.${key}` : key;
    const below = schema.items
      ? settingsIn(withoutRepeated(schema, properties), `${path}[]`)
      : settingsIn(schema, path);
    return [{ path, required: required.includes(key), schema }, ...below];
  });
}

/** Without the members that the setting `sameAs` has too, unless they are required only here. */
function withoutRepeated(
  { items = {}, sameAs = '' }: JsonSchema,
  siblings: Record<string, JsonSchema>,
): JsonSchema {
  const same = siblings[sameAs.split('.').at(-1) ?? ''];
  const isRequired = (key: string, { required = [] }: JsonSchema = {}) => required.includes(key);
  const own = Object.entries(items.properties ?? {}).filter(
    ([key]) =>
      !(key in (same?.properties ?? {})) || isRequired(key, items) !== isRequired(key, same),
  );
  return { ...items, properties: Object.fromEntries(own) };
}

const INTRODUCTION = `# Settings reference

<!-- Written by \`npm run settings:reference\` from src/settings/schema.ts. Do not edit. -->

Every key of the settings file and every environment variable. [README.md](README.md#settings) explains the file, and
[production.example.yaml](production.example.yaml) is a complete example. \`[]\` stands for each entry of a list. A duration is a
number followed by \`s\`, \`m\`, \`h\` or \`d\`, and a rate is \`<number>/<duration>\`.
`;

export function settingsReference(): string {
  const groups = Map.groupBy(SETTINGS, ({ path }) => path.split(/[.[]/, 1)[0] ?? '');
  const [single, nested] = [false, true].map((isGroup) =>
    [...groups.values()].filter((settings) => settings.length > 1 === isGroup),
  );
  return [
    INTRODUCTION,
    '<!-- prettier-ignore-start -->\n',
    '## General\n',
    settingsTable((single ?? []).flat()),
    ...(nested ?? []).flatMap(([group, ...settings]) =>
      group
        ? [`## \`${group.path}\`\n`, `${groupDescription(group)}\n`, settingsTable(settings)]
        : [],
    ),
    '## Environment variables\n',
    'A variable takes precedence over its setting in the file. An empty variable counts as not set.\n',
    variablesTable(),
    '<!-- prettier-ignore-end -->\n',
  ].join('\n');
}

function groupDescription({ schema, required }: Setting): string {
  const prefix = schema.items ? 'A list. ' : '';
  const remark = required ? ' Required.' : '';
  return `${prefix}${schema.description}${remark}`;
}

function settingsTable(settings: readonly Setting[]): string {
  const rows = settings.map((setting) => [
    `\`${setting.path}\``,
    typeOf(setting.schema),
    defaultOf(setting),
    [setting.schema.description, variablesOf(setting.path)].filter(Boolean).join(' '),
  ]);
  return table(['setting', 'value', 'default', 'description'], rows);
}

function variablesTable(): string {
  const settings = Object.entries(VARIABLE_PATHS).map(([name, path]) => [
    `\`${name}\``,
    `Overrides \`${path.join('.')}\`.`,
  ]);
  const others = Object.entries(OTHER_VARIABLES).map(([name, text]) => [`\`${name}\``, text]);
  return table(['variable', 'description'], [...others, ...settings]);
}

function variablesOf(path: string): string {
  const names = Object.entries(VARIABLE_PATHS).flatMap(([name, keys]) =>
    keys.join('.') === path ? [`\`${name}\``] : [],
  );
  return names.length > 0 ? `Variable: ${names.join(', ')}.` : '';
}

function typeOf(schema: JsonSchema): string {
  if (schema.items) return `list (${schema.items.properties ? 'groups' : typeOf(schema.items)})`;
  if (schema.valueType) return schema.valueType;
  if (schema.enum) return schema.enum.map((value) => `\`${value}\``).join(', ');
  if (schema.const !== undefined) return `\`${schema.const}\``;
  if (schema.properties) return 'group';
  if (schema.type === 'boolean') return '`true`, `false`';
  if (schema.type === 'integer') return `${schema.minimum} to ${schema.maximum}`;
  return schema.type === 'string' ? 'text' : String(schema.type);
}

function defaultOf({ required, schema }: Setting): string {
  if (schema.defaultText) return schema.defaultText;
  if (required) return 'required';
  const { default: value } = schema;
  if (schema.properties && value !== undefined) return '';
  if (Array.isArray(value) && value.length > 0)
    return value.map((item) => `\`${item}\``).join(', ');
  if (value === undefined || typeof value === 'object') return 'none';
  return `\`${value}\``;
}

function table(head: string[], rows: string[][]): string {
  const line = (cells: string[]) => `| ${cells.join(' | ').replaceAll('\n', ' ')} |`;
  return `${[head, head.map(() => '---'), ...rows].map(line).join('\n')}\n`;
}
