import cluster from 'node:cluster';
import pino, { type Logger } from 'pino';

/** Keeps name, message and stack. Other properties, which libraries add, may contain tokens or secrets (OWASP ASVS 16.2.5). */
function describeError(error: unknown): object {
  if (!(error instanceof Error)) return { message: String(error) };
  const { name, message, stack, cause } = error;
  // For each address of a name.
  const errors = error instanceof AggregateError ? error.errors.map(describeError) : [];
  return {
    name,
    message,
    stack,
    ...(cause === undefined ? {} : { cause: describeError(cause) }),
    ...(errors.length > 0 ? { errors } : {}),
  };
}

export function createLogger(level: string, destination?: pino.DestinationStream): Logger {
  const options = {
    level,
    // Workers write to one stream.
    base: cluster.isWorker ? { pid: process.pid } : undefined,
    serializers: { err: describeError },
    timestamp: isoTime(),
  };
  const output = destination ?? standardError((lines) => reportDropped(lines));
  const logger = pino(options, output);
  const reportDropped = (lines: number) =>
    logger.warn({ lines }, 'nobody read the log for a while, and these lines were dropped');
  return logger;
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

const BUFFER_BYTES = 3072;
/** What a pipe takes in one piece: lines of workers, which share one, are never inside each other, unless one of them is longer. */
const MAX_WRITE_BYTES = 4096;
const FLUSH_MS = 20;
/** Lines that nobody has read. */
const MAX_WAITING_BYTES = 16 * 1024 * 1024;
/** The library tries every 100 ms. */
const TRIES_AT_EXIT = 10;

/**
 * Writes lines together, because each write takes as long as many lines. At exit, the library writes the rest. If nobody reads them, requests
 * go on and the process can still end.
 */
function standardError(onDropped: (lines: number) => void): pino.DestinationStream {
  // Opening it makes a pipe non-blocking: a write that blocks would keep its thread, and at exit the process.
  void process.stderr;
  let triesAtExit: number | undefined;
  const output = pino.destination({
    dest: 2,
    sync: false,
    minLength: BUFFER_BYTES,
    maxWrite: MAX_WRITE_BYTES,
    maxLength: MAX_WAITING_BYTES,
    retryEAGAIN: () => triesAtExit === undefined || (triesAtExit -= 1) > 0,
  });
  let isFailing = false;
  // A full disk: the library keeps the lines, and tries again with the next one. Without a listener, the error would end the process.
  output.on('error', () => (isFailing = true));
  output.on('write', () => (isFailing = false));
  const writeRest = output.flushSync.bind(output);
  output.flushSync = () => {
    // The library would try for ever.
    if (isFailing) return;
    triesAtExit ??= TRIES_AT_EXIT;
    try {
      writeRest();
    } catch {
      // Nobody reads it.
    }
  };
  let dropped = 0;
  output.on('drop', () => (dropped += 1));
  output.on('drain', () => {
    if (dropped === 0) return;
    onDropped(dropped);
    dropped = 0;
  });
  let timer: NodeJS.Timeout | undefined;
  const flush = () => {
    timer = undefined;
    output.flush();
  };
  const destination = {
    write(line: string) {
      output.write(line);
      timer ??= setTimeout(flush, FLUSH_MS).unref();
    },
    /** Called by the logger's function of the same name. */
    flush: (done: (error?: Error) => void) => output.flush(done),
  };
  return destination;
}
