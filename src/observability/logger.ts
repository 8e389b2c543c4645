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
    timestamp: isoTime(),
  };
  return pino(options, destination ?? standardError());
}

/** Formats each millisecond once, because that takes as long as the rest of a line. */
function isoTime(): () => string {
  let last = NaN;
  let text = '';
  return () => {
    const now = Date.now();
    if (now !== last) text = `,"time":"${new Date(now).toISOString()}"`;
    last = now;
    return text;
  };
}

const BUFFER_BYTES = 4096;
const FLUSH_MS = 20;

/** Writes lines together, because each write takes as long as many lines. At exit, the library writes the rest. */
function standardError(): pino.DestinationStream {
  const output = pino.destination({ dest: 2, sync: false, minLength: BUFFER_BYTES });
  let timer: NodeJS.Timeout | undefined;
  const flush = () => {
    timer = undefined;
    output.flush();
  };
  return {
    write(line) {
      output.write(line);
      timer ??= setTimeout(flush, FLUSH_MS).unref();
    },
  };
}
