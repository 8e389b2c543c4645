// What a tool of the analytics sample is: a name, the level it needs, words for the assistant, an input schema and a query.
import type { DatabaseSync } from 'node:sqlite';
import type { z } from 'zod';
import type { Level } from '../../permission-level.ts';

/**
 * `run` answers with everything it found, whoever asks: what the caller may see of it is decided elsewhere, once, by
 * `redact`. It throws `ToolRefusal` for a question that has no answer.
 */
export type Tool<Input extends z.ZodObject = z.ZodObject> = {
  name: string;
  level: Level;
  title: string;
  description: string;
  input: Input;
  run(dataset: DatabaseSync, input: z.output<Input>): Record<string, unknown>;
};

/** Ties the input schema of one tool to the argument of its query. */
export function tool<Input extends z.ZodObject>(definition: Tool<Input>): Tool<Input> {
  return definition;
}

/** The question cannot be answered; the message is shown to the assistant. */
export class ToolRefusal extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'ToolRefusal';
  }
}
