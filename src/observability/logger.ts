// The log: JSON lines with an allow-list of fields, so that no token, code, secret or cookie can slip in (OWASP ASVS 16.2.5).
import pino, { type Logger } from 'pino';

/** Errors are logged by name, message and stack, never with the properties that libraries hang on them. */
function describeError(error: unknown): object {
  if (!(error instanceof Error)) return { message: String(error) };
  const { name, message, stack, cause } = error;
  return { name, message, stack, ...(cause === undefined ? {} : { cause: describeError(cause) }) };
}

export function openLogger(level: string, destination?: pino.DestinationStream): Logger {
  const options = {
    level,
    base: undefined,
    serializers: { err: describeError },
    timestamp: pino.stdTimeFunctions.isoTime,
  };
  return destination
    ? pino(options, destination)
    : pino(options, pino.destination({ dest: 2, sync: false }));
}
