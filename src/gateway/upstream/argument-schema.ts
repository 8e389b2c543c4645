// Checks the arguments of a tool against its input schema, as models write them and servers take them. Runs in a thread of its own, because the
// schema is a stranger's.
import { Ajv, type ErrorObject, type Options, type ValidateFunction } from 'ajv';
import { Ajv2019 } from 'ajv/dist/2019.js';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { RE2JS } from 're2js';
import { isObject } from '../../json-values.ts';

export type ArgumentCheck = {
  /** Returns what is wrong with the arguments, or undefined. */
  violation(given: unknown): string | undefined;
};

/** The schema cannot be enforced. */
export class UnusableSchema extends Error {}

const MAX_DEPTH = 64;
const MAX_SUBSCHEMAS = 10_000;
const MAX_LENGTH = 1024 * 1024;

const DIALECTS: Readonly<Record<string, typeof Ajv | typeof Ajv2019 | typeof Ajv2020>> = {
  'json-schema.org/draft/2020-12/schema': Ajv2020,
  'json-schema.org/draft/2019-09/schema': Ajv2019,
  'json-schema.org/draft-07/schema': Ajv,
  'json-schema.org/draft-06/schema': Ajv,
};

const OPTIONS: Options = {
  strict: false,
  validateSchema: false,
  addUsedSchema: false,
  allErrors: true,
  logger: false,
  // Formats are annotations, and servers use many that are their own.
  validateFormats: false,
  // The place of an error is told by its path.
  verbose: false,
  code: { regExp: Object.assign(safePattern, { code: 'safePattern' }) },
};

/** Throws UnusableSchema. */
export function compileSchema(schema: unknown): ArgumentCheck {
  if (!isObject(schema)) throw new UnusableSchema('it is no object');
  const { $schema = 'https://json-schema.org/draft/2020-12/schema' } = schema;
  const dialect = String($schema)
    .replace(/^https?:\/\//, '')
    .replace(/#$/, '');
  const Dialect = typeof $schema === 'string' ? DIALECTS[dialect] : undefined;
  if (!Dialect) throw new UnusableSchema('its $schema is not known here');
  if (JSON.stringify(schema).length > MAX_LENGTH) throw new UnusableSchema('it is too long');
  const enforceable = withoutUnsafe(schema);
  let validate: ValidateFunction;
  try {
    validate = new Dialect(OPTIONS).compile(enforceable);
  } catch (error) {
    throw new UnusableSchema(error instanceof Error ? error.message : 'it cannot be compiled');
  }
  const properties = isObject(schema['properties']) ? schema['properties'] : {};
  return { violation: (given) => violationOf(validate, given, new Set(Object.keys(properties))) };
}

/** Patterns in linear time, as if `$` and `\d` of JavaScript. `withoutUnsafe` left out those that it cannot take. */
function safePattern(source: string) {
  const pattern = RE2JS.compile(RE2JS.translateRegExp(source));
  return { test: (text: string) => pattern.matcher(text).find() };
}

function isSafePattern(source: unknown): boolean {
  try {
    safePattern(String(source));
    return true;
  } catch {
    return false;
  }
}

/** What holds a schema, a list of schemas, or schemas by name. All other keywords hold data. */
const SCHEMA =
  'additionalProperties additionalItems unevaluatedProperties unevaluatedItems items contains propertyNames not if then else'.split(
    ' ',
  );
const SCHEMAS = 'allOf anyOf oneOf prefixItems items'.split(' ');
const SCHEMAS_BY_NAME =
  '$defs definitions properties patternProperties dependentSchemas dependencies'.split(' ');

/** Throws UnusableSchema. Leaves out keywords that cannot be enforced, and those that would change what others do. */
function withoutUnsafe(root: Record<string, unknown>): Record<string, unknown> {
  let left = leaveOut(root, {});
  // What a reference leads to may be what is left out.
  if (left.omitted > 0) left = leaveOut(root, { areReferencesWider: true });
  if (left.hasOmittedNames)
    left = leaveOut(root, { areReferencesWider: true, areOthersOpen: true });
  return left.safe;
}

const REFERENCES = ['$ref', '$dynamicRef', '$recursiveRef'];

type LeaveOutOptions = {
  /** A reference counts as one to a schema of which something is left out. */
  areReferencesWider?: boolean;
  /** What no other keyword is about is taken: it may be what is left out. */
  areOthersOpen?: boolean;
};

function leaveOut(
  root: Record<string, unknown>,
  { areReferencesWider = false, areOthersOpen = false }: LeaveOutOptions,
): { safe: Record<string, unknown>; omitted: number; hasOmittedNames: boolean } {
  let count = 0;
  let omitted = 0;
  let hasOmittedNames = false;
  const visit = (schema: unknown, depth: number): unknown => {
    if (!isObject(schema)) return schema;
    count += 1;
    if (depth > MAX_DEPTH || count > MAX_SUBSCHEMAS) throw new UnusableSchema('it is too complex');
    // `$async` would make the check a promise.
    const { $async: _async, $schema: _dialect, ...kept } = schema;
    const widened: string[] = [];
    const { pattern, patternProperties } = kept;
    // Ajv checks no formats here.
    if (kept['format'] !== undefined) omitted += 1;
    if (areReferencesWider && REFERENCES.some((name) => kept[name] !== undefined)) omitted += 1;
    for (const name of areOthersOpen ? ['unevaluatedProperties', 'unevaluatedItems'] : []) {
      if (kept[name] !== undefined) omitted += 1;
      delete kept[name];
    }
    if (pattern !== undefined && !isSafePattern(pattern)) {
      delete kept['pattern'];
      omitted += 1;
    }
    if (isObject(patternProperties)) {
      const names = Object.keys(patternProperties);
      const safe = names.filter(isSafePattern);
      if (safe.length < names.length) {
        kept['patternProperties'] = Object.fromEntries(
          safe.map((name) => [name, patternProperties[name]]),
        );
        omitted += 1;
        hasOmittedNames = true;
        // What the pattern names would be refused.
        delete kept['additionalProperties'];
      }
    }
    for (const [keyword, value] of Object.entries(kept)) {
      const before = omitted;
      if (SCHEMAS_BY_NAME.includes(keyword) && isObject(value))
        kept[keyword] = Object.fromEntries(
          Object.entries(value).map(([name, each]) => [name, visit(each, depth + 1)]),
        );
      else if (SCHEMAS.includes(keyword) && Array.isArray(value))
        kept[keyword] = value.map((each) => visit(each, depth + 1));
      else if (SCHEMA.includes(keyword)) kept[keyword] = visit(value, depth + 1);
      if (omitted > before) widened.push(keyword);
    }
    // Then other keywords are about other names.
    if (widened.includes('if')) hasOmittedNames = true;
    loosen(kept, widened);
    return kept;
  };
  const safe = visit(root, 0) as Record<string, unknown>;
  return { safe, omitted, hasOmittedNames };
}

/** These refuse more if what is inside takes more. */
function loosen(schema: Record<string, unknown>, widened: readonly string[]): void {
  if (widened.includes('not')) delete schema['not'];
  if (widened.includes('if')) for (const each of ['if', 'then', 'else']) delete schema[each];
  if (widened.includes('contains')) delete schema['maxContains'];
  if (!widened.includes('oneOf')) return;
  const { oneOf, anyOf, allOf } = schema;
  delete schema['oneOf'];
  if (anyOf === undefined) schema['anyOf'] = oneOf;
  else schema['allOf'] = [...(Array.isArray(allOf) ? allOf : []), { anyOf: oneOf }];
}

/** Arguments that decode to others that decode again. */
const MAX_ROUNDS = 8;

/** Reads the arguments as servers do, step by step, where the schema does not take them as they are. Only for the check. */
function violationOf(
  validate: ValidateFunction,
  given: unknown,
  declared: ReadonlySet<string>,
): string | undefined {
  const data: unknown = given ?? {};
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    if (validate(data)) return undefined;
    const errors = [...(validate.errors ?? [])];
    if (!repair(data, errors, declared)) return textOf(errors);
  }
  return textOf(validate.errors ?? []);
}

/** Changes what the errors are about. Returns whether it changed anything. */
function repair(data: unknown, errors: ErrorObject[], declared: ReadonlySet<string>): boolean {
  let isChanged = false;
  for (const error of errors) {
    const { additionalProperty, unevaluatedProperty, propertyName } = error.params as Record<
      string,
      unknown
    >;
    const extra = additionalProperty ?? unevaluatedProperty ?? propertyName;
    const [first] = partsOf(error.instancePath);
    const name = error.instancePath === '' ? extra : first;
    if (
      isObject(data) &&
      typeof name === 'string' &&
      Object.hasOwn(data, name) &&
      isAddedByClient(name) &&
      !declared.has(name)
    ) {
      delete data[name];
      isChanged = true;
    }
  }
  for (const [path, own] of Map.groupBy(errors, ({ instancePath }) => instancePath)) {
    const place = placeOf(data, path);
    if (!place) continue;
    const { parent, key } = place;
    const value = (parent as Record<string, unknown>)[key];
    // A required one is missed in the next round.
    if (value === null && !Array.isArray(parent)) {
      delete (parent as Record<string, unknown>)[key];
      isChanged = true;
    } else if (typeof value === 'string') {
      const decoded = decodedFor(value, own);
      if (decoded === undefined) continue;
      Object.defineProperty(parent, key, {
        value: decoded.value,
        enumerable: true,
        configurable: true,
        writable: true,
      });
      isChanged = true;
    }
  }
  return isChanged;
}

function isAddedByClient(name: string): boolean {
  return name.startsWith('_') || name === 'toolCallId';
}

function partsOf(path: string): string[] {
  return path
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));
}

function placeOf(data: unknown, path: string): { parent: object; key: string } | undefined {
  const parts = partsOf(path);
  const key = parts.pop();
  if (key === undefined) return undefined;
  let parent = data;
  for (const part of parts) {
    if (typeof parent !== 'object' || parent === null || !Object.hasOwn(parent, part))
      return undefined;
    parent = (parent as Record<string, unknown>)[part];
  }
  const holds = typeof parent === 'object' && parent !== null && Object.hasOwn(parent, key);
  return holds ? { parent: parent as object, key } : undefined;
}

/** Combine the errors of others. */
const COMBINING = new Set(['anyOf', 'oneOf', 'allOf', 'if', 'not', '$ref']);
const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;

/** The value that the schema takes in place of the string, where it takes no string. */
function decodedFor(text: string, errors: ErrorObject[]): { value: unknown } | undefined {
  const wanted = new Set<string>();
  for (const { keyword, params } of errors) {
    if (COMBINING.has(keyword)) continue;
    if (keyword === 'type') for (const type of [params['type']].flat()) wanted.add(String(type));
    else if (keyword === 'enum' && Array.isArray(params['allowedValues']))
      for (const value of params['allowedValues']) wanted.add(typeOf(value));
    else if (keyword === 'const') wanted.add(typeOf(params['allowedValue']));
    else return undefined;
  }
  if (wanted.size === 0 || wanted.has('string')) return undefined;
  const isNumber = (wanted.has('number') || wanted.has('integer')) && NUMBER.test(text);
  const isBoolean = wanted.has('boolean') && (text === 'true' || text === 'false');
  const first = text.trimStart()[0];
  const isJson = (wanted.has('array') && first === '[') || (wanted.has('object') && first === '{');
  if (!isNumber && !isBoolean && !isJson) return undefined;
  try {
    return { value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}

function typeOf(value: unknown): string {
  if (Array.isArray(value)) return 'array';
  return value === null ? 'null' : typeof value;
}

const MAX_ERRORS = 5;
const MAX_ERROR_LENGTH = 200;

function textOf(errors: readonly ErrorObject[]): string {
  const texts = errors
    .filter(({ keyword }) => !COMBINING.has(keyword) || errors.length === 1)
    .map(({ instancePath, message = 'is invalid', params }) => {
      const { additionalProperty, unevaluatedProperty } = params as Record<string, unknown>;
      const extra = additionalProperty ?? unevaluatedProperty;
      const detail = typeof extra === 'string' ? ` (${extra})` : '';
      return `${instancePath || 'the arguments'} ${message}${detail}`.slice(0, MAX_ERROR_LENGTH);
    });
  return [...new Set(texts)].slice(0, MAX_ERRORS).join('; ') || 'the arguments are invalid';
}
