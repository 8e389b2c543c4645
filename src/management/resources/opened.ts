// What a list of tools opens now, in responses and commands.
import * as z from 'zod';
import { plain } from '../commands/terminal.ts';
import type { ConsoleField } from '../../pages/console-values.ts';
import type { Field } from './fields.ts';

const openedSchema = z
  .strictObject({
    tools: z.array(z.string()).describe('The tools that its level and its list open now.'),
    unmatched: z
      .array(z.string())
      .describe('Patterns about tools that match no tool of the server: check them for mistakes.'),
    isEverything: z.boolean().describe('Whether the list closes none of the tools of its level.'),
    includesLater: z.boolean().describe('Whether it can open tools that the server gets later.'),
  })
  .meta({ id: 'OpenedTools' });

export type Opened = z.output<typeof openedSchema>;

/** The member of a response that has it. */
export const openedMember = {
  opened: openedSchema
    .optional()
    .describe('What its list opens. Absent without one, and while the tools are not known.'),
};

const SHOWN_NAMES = 20;

/** In the command line, and on the page of a record. */
export const openedField: Field<{ id: string; opened?: Opened | undefined }> = {
  heading: 'opens',
  row: ({ opened }) => opened && openedText(opened),
  console: ({ opened }) => openedFields(opened),
};

/** Empty without a list, and while the tools are not known. */
export function openedFields(opened: Opened | undefined): ConsoleField[] {
  if (!opened) return [];
  return [
    { label: 'opens', codes: opened.tools.slice(0, SHOWN_NAMES) },
    ...(opened.tools.length > SHOWN_NAMES
      ? [
          {
            label: 'opens',
            textKey: 'console.fields.opensMore',
            textValues: { count: opened.tools.length },
          },
        ]
      : []),
    ...(opened.tools.length === 0
      ? [{ label: 'opens', textKey: 'console.fields.opensNothing' }]
      : []),
    ...(opened.isEverything ? [{ label: 'opens', textKey: 'console.fields.opensEverything' }] : []),
    ...(opened.includesLater ? [{ label: 'opens', textKey: 'console.fields.opensLater' }] : []),
    ...(opened.unmatched.length > 0 ? [{ label: 'unmatched', codes: opened.unmatched }] : []),
  ];
}

export function openedText({ tools, unmatched, isEverything, includesLater }: Opened): string {
  const shown = tools.slice(0, SHOWN_NAMES).map(plain).join(', ');
  const more = tools.length > SHOWN_NAMES ? ` and ${tools.length - SHOWN_NAMES} more` : '';
  return [
    tools.length === 0 ? 'no tool' : `${shown}${more}`,
    ...(isEverything ? ['everything of its level'] : []),
    ...(includesLater ? ['and what the server gets later'] : []),
    ...(unmatched.length > 0 ? [`matches no tool: ${unmatched.map(plain).join(' ')}`] : []),
  ].join('; ');
}
