// Forms that create something: their values for the view, and the request that a submitted form makes.
import type { CreateForm } from '../../pages/console-values.ts';
import { isRecorded, type Level, levelIds, lowestLevel } from '../../permission-levels.ts';
import { type ApiRequest, OPERATIONS } from '../api/operations.ts';
import type { ManagementContext } from '../context.ts';
import { type FormField, linesIn } from '../resources/form-fields.ts';
import type { Operation } from '../resources/resource.ts';
import { createIdempotencyKey, type Form, optionalValue } from './forms.ts';

type Creating = 'createConnector' | 'createMachine' | 'mintToken';

/** Returns the form with these entries. `levels` are those to choose from. */
export function formValues(
  { settings }: ManagementContext,
  action: string,
  fields: readonly FormField[],
  entries: Form,
  levels: readonly Level[] = levelIds(settings.levels),
): CreateForm {
  const upstreams = settings.upstreams.map(({ id, name }) => ({
    value: id,
    text: `${name} (${id})`,
  }));
  const choices = { upstream: upstreams, level: levels.map((level) => ({ value: level, level })) };
  const isShown = ({ kind }: FormField) => kind !== 'upstream' || upstreams.length > 1;
  const valueOf = ({ name, kind, isRequired }: FormField) => {
    if (kind === 'lines') return linesIn(entries[name]).join('\n');
    return entries[name] ?? (kind === 'level' && isRequired ? lowestLevel(settings.levels) : '');
  };
  return {
    action,
    idempotencyKey: createIdempotencyKey(),
    fields: fields.filter(isShown).map((field) => {
      const { name, id = name, kind, label, none, isRequired, isExplained, max, maxLength } = field;
      const { notes = [] } = field;
      const shared = {
        id,
        name,
        label,
        value: valueOf(field),
        notes: typeof notes === 'function' ? notes(settings) : notes.map((key) => ({ key })),
      };
      if (kind === 'choice') return { ...shared, kind, choices: [...(field.choices ?? [])] };
      if (kind !== 'upstream' && kind !== 'level')
        return { ...shared, kind, required: isRequired, max, maxLength };
      return {
        ...shared,
        kind: 'choice',
        choices: [...(none ? [{ value: '', textKey: none }] : []), ...choices[kind]],
        compared: isExplained && levels.map((level) => compare(settings, level)),
      };
    }),
  };
}

function compare({ levels }: ManagementContext['settings'], level: Level) {
  return { level, recorded: isRecorded(levels, level) };
}

/** Returns the body of the request that the form makes, as the API checks it, or the key of the problem. */
export function parseForm<Name extends Creating>(
  { settings, services }: ManagementContext,
  operation: Name,
  fields: readonly FormField[],
  form: Form,
  more: object = {},
): ApiRequest<Name> | { problem: string } {
  const members = fields.map(({ name, isRequired, members: membersOf }) => {
    const text = isRequired ? form[name] : optionalValue(form, name);
    if (text === undefined) return [name, {}] as const;
    return [name, membersOf?.(text) ?? { [name]: text }] as const;
  });
  const { body }: Operation = OPERATIONS[operation];
  const wanted = Object.assign({}, ...members.map(([, object]) => object), more);
  const parsed = body?.(services.now(), settings.levels).safeParse(wanted);
  if (parsed?.success) return { body: parsed.data } as ApiRequest<Name>;
  const wrong = String(parsed?.error?.issues[0]?.path[0]);
  const [name = wrong] = members.find(([, object]) => wrong in object) ?? [];
  const field = fields.find((each) => each.name === name);
  // The form offers no other values of these.
  const isForged = field === undefined || ['level', 'upstream'].includes(name);
  return { problem: isForged ? 'other' : (field.id ?? name) };
}
