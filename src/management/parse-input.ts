// Validates what requests and files contain.
import type * as z from 'zod';
import { HttpError } from '../http/errors.ts';

/** Of one request: nobody reads more. */
export const MAX_ISSUES = 100;
const MAX_NAMES = 20;

/** Throws HttpError 400 with a message that names the invalid members. */
export function parseInput<T>(schema: z.ZodType<T>, value: unknown): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const issues = boundedIssues(parsed.error.issues, describeIssue);
  throw new HttpError(400, 'invalid_request', issues.join('; '));
}

/** Describes the first of them, and says how many others there are. */
export function boundedIssues<Issue>(
  issues: readonly Issue[],
  describe: (issue: Issue) => string,
  max = MAX_ISSUES,
): string[] {
  const more = issues.length > max ? [`and ${issues.length - max} more`] : [];
  return [...issues.slice(0, max).map(describe), ...more];
}

export function describeIssue(issue: z.core.$ZodIssue): string {
  if (issue.code === 'unrecognized_keys')
    return `unknown: ${boundedIssues(issue.keys, safeName, MAX_NAMES).join(', ')}`;
  return issue.path.length > 0 ? `${issue.path.join('.')}: ${issue.message}` : issue.message;
}

/** Repeats a member name only if it looks like one. */
function safeName(key: string): string {
  return /^\w{1,40}$/.test(key) ? key : 'a member with an unusual name';
}
