// Requests with large bodies are begun, read and discarded in turns of the event loop, so that many of them delay no small request.
import type { IncomingMessage, ServerResponse } from 'node:http';

const LARGE_BYTES = 64 * 1024;
/** Requests with large bodies, begun in one turn. */
const BEGUN_IN_TURN = 4;
/** Of large bodies, in one turn. Each request sends at most 64 kB in a turn. */
const READ_IN_TURN = 1024 * 1024;
const DISCARDED_IN_TURN = 256 * 1024;

/** Passes a request on, at once if its body is small. It is dropped if its client leaves while it waits. */
export function beginInTurn(req: IncomingMessage, res: ServerResponse, begin: () => void): void {
  if (!mayBeLarge(req)) return begin();
  // Node would discard what nobody has read by the end of the response, all at once.
  res.once('prefinish', () => {
    if (req.listenerCount('data') === 0) discard(req);
  });
  starts.add(() => {
    if (!req.destroyed) begin();
  });
}

function mayBeLarge({ headers }: IncomingMessage): boolean {
  const length = headers['content-length'];
  return length === undefined
    ? headers['transfer-encoding'] !== undefined
    : Number(length) > LARGE_BYTES;
}

/** Call it with each chunk of a body, and with the bytes received so far. */
export function paceReading(req: IncomingMessage, received: number, bytes: number): void {
  if (received > LARGE_BYTES) reading.add(req, bytes);
}

/** Reads the rest of a body, so that the connection can serve the next request. Nobody else may listen to its data. */
export function discard(req: IncomingMessage): void {
  if (req.readableEnded || req.destroyed) return;
  req.on('data', (chunk: Buffer) => discarding.add(req, chunk.length)).resume();
}

/** Calls `step` in each turn for as long as it returns true. */
function eachTurn(step: () => boolean): () => void {
  let isPlanned = false;
  const plan = () => {
    if (isPlanned) return;
    isPlanned = true;
    setImmediate(() => {
      isPlanned = false;
      if (step()) plan();
    });
  };
  return plan;
}

const starts = startsInTurns();

function startsInTurns() {
  const waiting: (() => void)[] = [];
  let begun = 0;
  const plan = eachTurn(() => {
    const next = waiting.splice(0, BEGUN_IN_TURN);
    begun = next.length;
    for (const begin of next) begin();
    return begun > 0;
  });
  return {
    add(begin: () => void): void {
      if (begun >= BEGUN_IN_TURN) waiting.push(begin);
      else {
        begun += 1;
        begin();
      }
      plan();
    },
  };
}

const reading = pace(READ_IN_TURN);
const discarding = pace(DISCARDED_IN_TURN);

/** Pauses requests that bring more than `limit` bytes in one turn together. */
function pace(limit: number) {
  const paused: IncomingMessage[] = [];
  let bytesInTurn = 0;
  const plan = eachTurn(() => {
    bytesInTurn = 0;
    for (const req of paused.splice(0, limit / LARGE_BYTES)) req.resume();
    return paused.length > 0;
  });
  return {
    add(req: IncomingMessage, bytes: number): void {
      bytesInTurn += bytes;
      if (bytesInTurn > limit) {
        req.pause();
        paused.push(req);
      }
      plan();
    },
  };
}
