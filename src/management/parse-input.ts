// Validates what requests and files contain.
import type { z } from 'zod';
import { HttpError } from '../http/errors.ts';

/** Throws HttpError 400 with a message that names every invalid member. */
export function parseInput<T>(schema: z.ZodType<T>, value: unknown): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new HttpError(400, 'invalid_request', parsed.error.issues.map(describeIssue).join('; '));
}

export function describeIssue(issue: z.core.$ZodIssue): string {
  if (issue.code === 'unrecognized_keys') return `unknown: ${issue.keys.map(safeName).join(', ')}`;
  return issue.path.length > 0 ? `${issue.path.join('.')}: ${issue.message}` : issue.message;
}

/** Repeats a member name only if it looks like one. */
function safeName(key: string): string {
  return /^\w{1,40}$/.test(key) ? key : 'a member with an unusual name';
}
