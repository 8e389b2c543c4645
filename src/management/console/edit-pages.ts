// Pages that change a record: a form, what the change would do, and the change. A form carries the values that it was shown with, so that
// nobody overwrites unseen what somebody else has changed meanwhile.
import { HttpError } from '../../http/errors.ts';
import { seeOther } from '../../http/see-other.ts';
import type { ConsoleField, ConsoleValues } from '../../pages/console-values.ts';
import { OPERATIONS } from '../api/operations.ts';
import { parseInput } from '../parse-input.ts';
import { connectorHandlers } from '../connectors.ts';
import { requireRole } from '../context.ts';
import { machineHandlers } from '../machines.ts';
import { tokenHandlers } from '../minted-tokens.ts';
import type { AffectedMembers } from '../resources/affected.ts';
import { connectorEditForm, connectorEntries, connectorEtag } from '../resources/connector.ts';
import { epochSeconds } from '../resources/fields.ts';
import { type FormField, linesIn } from '../resources/form-fields.ts';
import { machineEditForm, machineEtag } from '../resources/machine.ts';
import { type Opened, openedFields } from '../resources/opened.ts';
import { tokenEditForm, tokenEtag } from '../resources/token.ts';
import { CONSOLE_PATH, recordId, recordPath } from './address.ts';
import { affectedValues } from './affected.ts';
import type { ConsoleContext, ConsoleRoutes } from './context.ts';
import { formValues } from './create-form.ts';
import { afterAction } from './done.ts';
import type { Form } from './forms.ts';
import { layout, type Section } from './layout.ts';

/** A record as it is now, and how it is changed: only if nobody has changed it since. */
type Editable = {
  section: Section;
  name: string;
  /** The page of the form, and the one that is shown after the change. */
  path: string;
  back: string;
  fields: readonly FormField[];
  entries: Form;
  /** Returns the connections that a change would stop or lower, and what its list would open. Absent if it has no such effect. */
  preview?: (members: object) => Promise<Effect>;
  save: (members: object) => Promise<unknown>;
};

type Effect = AffectedMembers & { opened?: Opened | undefined };

type Load = (context: ConsoleContext) => Promise<Editable>;

export function editPages({ page, form }: ConsoleRoutes): void {
  const records = [
    ['/connectors/:id/edit', OPERATIONS.updateConnector.role, loadConnector],
    ['/tokens/:id/edit', OPERATIONS.updateToken.role, loadToken],
    ['/clients/:id/edit', OPERATIONS.updateMachine.role, loadMachine],
  ] as const;
  for (const [path, role, load] of records) {
    page(path, async (context) => {
      requireRole(context.management, role);
      const record = await load(context);
      await showForm(context, record, record.entries);
    });
    form(path, role, (context, entries) => change(context, load, entries));
  }
}

async function loadConnector({ management, ctx }: ConsoleContext): Promise<Editable> {
  const { settings, services } = management;
  const connector = await connectorHandlers.showConnector(management, { id: ctx.params.id });
  const { id, name } = connector;
  const back = recordPath('connectors', id);
  const update = (members: object, dryRun?: 'true') => {
    const body = OPERATIONS.updateConnector.body(services.now(), settings.levels);
    const request = { id, query: { dryRun }, ifMatch: connectorEtag(connector) };
    return connectorHandlers.updateConnector(management, {
      ...request,
      body: parseInput(body, members),
    });
  };
  return {
    section: 'connectors',
    name,
    path: `${back}/edit`,
    back,
    fields: connectorEditForm,
    entries: connectorEntries(connector),
    async preview(members) {
      const { affected, isAffectedPartial, opened } = await update(members, 'true');
      return { affected, isAffectedPartial, opened };
    },
    save: (members) => update(members),
  };
}

async function loadToken({ management, ctx }: ConsoleContext): Promise<Editable> {
  const token = await tokenHandlers.showToken(management, { id: ctx.params.id });
  const { id, name, expiresAt, tools = [], calls = '' } = token;
  const back = `${CONSOLE_PATH}/tokens`;
  return {
    section: 'tokens',
    name,
    path: `${back}/${id}/edit`,
    back,
    fields: tokenEditForm,
    entries: { name, tools: tools.join('\n'), expiresAt, calls },
    save(members) {
      const body = parseInput(OPERATIONS.updateToken.body(management.services.now()), members);
      return tokenHandlers.updateToken(management, { id, body, ifMatch: tokenEtag(token) });
    },
  };
}

async function loadMachine({ management, ctx }: ConsoleContext): Promise<Editable> {
  const query = { id: recordId(String(ctx.params.id)) };
  const machine = await machineHandlers.showMachine(management, { query });
  const { id, name, expiresAt, tools = [], calls = '' } = machine;
  const back = recordPath('clients', id);
  return {
    section: 'machines',
    name,
    path: `${back}/edit`,
    back,
    fields: machineEditForm,
    entries: { name, tools: tools.join('\n'), expiresAt, calls },
    save(members) {
      const schema = OPERATIONS.updateMachine.body(management.services.now());
      const body = parseInput(schema, { id, ...members });
      return machineHandlers.updateMachine(management, { body, ifMatch: machineEtag(machine) });
    },
  };
}

/** The name of the form field with the value that the form was shown with. */
const shownName = (name: string) => `shown-${name}`;

async function change(context: ConsoleContext, load: Load, form: Form): Promise<void> {
  const { ctx } = context;
  const record = await load(context);
  const { fields, entries, back } = record;
  const shown = Object.fromEntries(
    fields.map((field) => [
      field.name,
      valueIn({ ...form, [field.name]: form[shownName(field.name)] ?? '' }, field),
    ]),
  );
  const changed = fields.filter((field) => valueIn(form, field) !== shown[field.name]);
  const wanted = Object.fromEntries(changed.map((field) => [field.name, valueIn(form, field)]));
  const meanwhile = differences(fields, shown, entries);
  // What the person has entered stays in the form.
  if (meanwhile.length > 0)
    return showForm(context, record, { ...entries, ...wanted }, { meanwhile });
  if (changed.length === 0) return seeOther(ctx, back);
  const members = Object.assign({}, ...changed.map((field) => membersOf(field, wanted)));
  try {
    if (record.preview && form.confirm !== 'yes') {
      const effect = await record.preview(members);
      return await showEffect(context, record, { ...entries, ...wanted }, effect);
    }
    await record.save(members);
  } catch (error) {
    if (!(error instanceof HttpError)) throw error;
    // Somebody changed it since it was read here.
    if (error.status === 412) return change(context, load, form);
    if (error.status !== 400) throw error;
    const problem = problemIn(fields, error.message);
    return showForm(context, record, { ...entries, ...wanted }, { problem });
  }
  seeOther(ctx, afterAction(back, 'changed'));
}

function valueIn(form: Form, { name, kind }: FormField): string {
  const text = form[name] ?? '';
  return kind === 'lines' ? linesIn(text).join('\n') : text.trim();
}

/** The members of the change that a field makes. An empty one removes its member. */
function membersOf({ name, members, isRequired, removal }: FormField, wanted: Form): object {
  const text = wanted[name] ?? '';
  if (text === '' && !isRequired) return removal ?? { [name]: null };
  return members?.(text) ?? { [name]: text };
}

/** The API names the first wrong member at the start of its message. */
function problemIn(fields: readonly FormField[], message: string): string {
  const member = /^\w+/.exec(message)?.[0].replace('expiresIn', 'expiresAt');
  const field = fields.find(({ name }) => name === member);
  return field?.id ?? field?.name ?? 'other';
}

type Difference = ConsoleValues['console/edit']['meanwhile'][number];

function differences(fields: readonly FormField[], before: Form, after: Form): Difference[] {
  return fields
    .filter(({ name }) => (before[name] ?? '') !== (after[name] ?? ''))
    .map((field) => ({
      labelKey: field.label,
      before: shownValue(field, before[field.name] ?? ''),
      after: shownValue(field, after[field.name] ?? ''),
    }));
}

function shownValue({ id, name, kind, none, choices = [] }: FormField, text: string): ConsoleField {
  const label = id ?? name;
  const chosen = choices.find(({ value }) => value === text);
  if (chosen) return { label, textKey: chosen.textKey };
  if (text === '' && none) return { label, textKey: none };
  if (kind === 'level') return { label, level: text };
  if (kind === 'lines') return { label, codes: text.split('\n') };
  const time = name === 'expiresAt' ? Date.parse(text) : Number.NaN;
  return Number.isNaN(time) ? { label, text } : { label, time: epochSeconds(text) };
}

type FormState = { problem?: string; meanwhile?: Difference[] };

/** `entries` are what the fields have. */
async function showForm(
  context: ConsoleContext,
  { section, name, path, back, fields, entries: current }: Editable,
  entries: Form,
  { problem, meanwhile = [] }: FormState = {},
): Promise<void> {
  const { management, ctx } = context;
  const values = {
    console: layout(context, section),
    name,
    back,
    form: formValues(management, path, fields, entries),
    shown: fields.map((field) => hidden(shownName(field.name), current[field.name])),
    meanwhile,
    problem,
  };
  const status = problem === undefined ? 200 : 400;
  await management.services.pages.render(
    ctx,
    'console/edit',
    values,
    meanwhile.length > 0 ? 412 : status,
  );
}

function hidden(name: string, value = '') {
  return { name, value };
}

/** Changes nothing. The form of the page has what was entered. */
async function showEffect(
  context: ConsoleContext,
  { section, name, path, back, fields, entries: current }: Editable,
  entries: Form,
  { opened, ...affected }: Effect,
): Promise<void> {
  const { management, ctx } = context;
  await management.services.pages.render(ctx, 'console/edit-effect', {
    console: layout(context, section),
    name,
    back,
    action: path,
    hidden: fields.flatMap((field) => [
      hidden(field.name, entries[field.name]),
      hidden(shownName(field.name), current[field.name]),
    ]),
    changes: differences(fields, current, entries),
    opens: openedFields(opened),
    ...affectedValues(affected),
  });
}
