import pino, { type Logger } from 'pino';

/** Keeps name, message and stack. Other properties, which libraries add, may contain tokens or secrets (OWASP ASVS 16.2.5). */
function describeError(error: unknown): object {
  if (!(error instanceof Error)) return { message: String(error) };
  const { name, message, stack, cause } = error;
  return { name, message, stack, ...(cause === undefined ? {} : { cause: describeError(cause) }) };
}

export function createLogger(level: string, destination?: pino.DestinationStream): Logger {
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
