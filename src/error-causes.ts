// The causes of an error. Libraries often say only in the innermost cause what is wrong.

export type ErrorWithCode = Error & { code?: string };

const MAX_DEPTH = 5;

/** Returns the error and its causes, outermost first. An AggregateError has one error for each address of a name. */
export function causesOf(error: unknown, depth = 0): ErrorWithCode[] {
  if (!(error instanceof Error) || depth === MAX_DEPTH) return [];
  const { lastNodeError } = error as { lastNodeError?: unknown };
  const inner = error instanceof AggregateError ? error.errors : [];
  return [
    error,
    ...[error.cause, lastNodeError, ...inner].flatMap((each) => causesOf(each, depth + 1)),
  ];
}

/** Returns the message of the innermost cause, for the log. Messages of a parser are left out: they quote what they parse, which may be secret. */
export function rootMessage(error: unknown): string {
  const causes = causesOf(error);
  const found = causes.findLast((each) => !(each instanceof SyntaxError) && each.message !== '');
  return found?.message ?? (causes.length > 0 ? 'it cannot be parsed' : 'unknown error');
}
