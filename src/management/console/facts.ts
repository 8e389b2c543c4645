// The facts of an item in a list: what each is called, and what it says.
import type { ViewValues } from '../../http/pages.ts';
import type { Level } from '../../permission-level.ts';
import { secondsOf } from './frame.ts';

type Fact = ViewValues['console/list']['items'][number]['facts'][number];

export function text(label: string, value: string): Fact {
  return { label, text: value };
}

/** An id or an address. */
export function code(label: string, value: string): Fact {
  return { label, code: value };
}

/** The most there may be, or what was granted. */
export function level(value: Level, label: 'level' | 'granted' = 'level'): Fact {
  return { label, level: value };
}

/** A code as it stands in logs, with what it means: the text with its name below `texts`. */
export function said(label: string, value: string, texts: string): Fact {
  return { label, code: value, said: `${texts}.${value}` };
}

/** An id, with the name of what has it where that is known. */
export function called(label: string, id: string, name: string | undefined): Fact {
  return { label, code: id, ...(name === undefined ? {} : { called: name }) };
}

/** A day, of an ISO 8601 time; none when nobody knows when. */
export function time(label: string, value: string | undefined): Fact[] {
  return value === undefined ? [] : [{ label, time: secondsOf(value) }];
}
