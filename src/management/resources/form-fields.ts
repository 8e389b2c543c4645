// The fields of the console's forms. Their values become a body of the API, which checks them.
import type { Settings } from '../../settings/settings.ts';
import { parseTime } from '../commands/options.ts';

export type Note = { key: string; values?: Record<string, string> };

export type FormField = {
  /** Of the form field, and of the member of the body that it sets. */
  name: string;
  /** Default: the name. The key of its problem, below `console.problems`. */
  id?: string;
  /** `upstream` and `level` are choices among those of the settings. */
  kind: 'text' | 'number' | 'url' | 'lines' | 'upstream' | 'level' | 'choice';
  /** Of a `choice`. */
  choices?: readonly { value: string; textKey: string }[];
  isRequired?: true;
  maxLength?: number;
  max?: number;
  /** The key of what an empty value means. A form offers it as the choice of no level. */
  none?: string;
  /** Explains the levels. */
  isExplained?: true;
  /** The key of its label, and of its notes. */
  label: string;
  notes?: readonly string[] | ((settings: Settings) => Note[]);
  /** Returns the members that a value sets instead. */
  members?: (text: string) => object;
  /** The members of a change that removes the value. Default: the member of the name becomes null. */
  removal?: object;
};

export function nameField(note: string): FormField {
  return {
    name: 'name',
    kind: 'text',
    isRequired: true,
    maxLength: 80,
    label: 'console.fields.name',
    notes: [note],
  };
}

export function levelField(label: string, note: string): FormField {
  return {
    name: 'level',
    kind: 'level',
    isRequired: true,
    isExplained: true,
    label,
    notes: [note],
  };
}

export const UPSTREAM_FIELD: FormField = {
  name: 'upstream',
  kind: 'upstream',
  label: 'console.fields.upstream',
};

/** What a connector, machine or minted token opens: a pattern on each line. */
export const TOOLS_FIELD: FormField = {
  name: 'tools',
  kind: 'lines',
  maxLength: 20_000,
  none: 'console.fields.opensEverything',
  label: 'console.fields.tools',
  notes: ['console.fields.toolsNote', 'console.fields.toolsLater'],
  members: (text) => ({ tools: linesIn(text) }),
};

/** How many days something works. */
export function daysField(note: string): FormField {
  return {
    name: 'days',
    kind: 'number',
    label: 'console.fields.days',
    notes: [note],
    members: (text) => ({ expiresIn: `${text}d` }),
  };
}

/** When something stops working, as a time or a duration. `id` is the key of its problem. */
export function expiryField(id: string, note: string, isRequired?: true): FormField {
  return {
    name: 'expiresAt',
    id,
    kind: 'text',
    maxLength: 40,
    none: 'console.fields.never',
    label: 'console.fields.expires',
    notes: [note],
    members: expiryMembers,
    ...(isRequired ? { isRequired } : {}),
  };
}

/** Another text is refused with the body. */
function expiryMembers(text: string): object {
  try {
    const parsed = parseTime(text);
    return 'time' in parsed ? { expiresAt: parsed.time } : { expiresIn: parsed.duration };
  } catch {
    return { expiresAt: text };
  }
}

export const CALLS_FIELD: FormField = {
  name: 'calls',
  id: 'callLimit',
  kind: 'text',
  maxLength: 20,
  none: 'console.limits.none',
  label: 'console.fields.callLimit',
  notes: ['console.limits.rateNote'],
};

/** The lines of a text area that are not empty. */
export function linesIn(text = ''): string[] {
  return text.split(/\s*[\r\n]+\s*/).filter((line) => line.trim() !== '');
}
