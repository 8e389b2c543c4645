// One request to the upstream and its response, without the streams and signals of `fetch` and `request`, which take most of a call's time.
import type { IncomingHttpHeaders } from 'node:http';
import type { Dispatcher } from 'undici';
import { responseTooLarge } from '../in-band-error.ts';
import { acquireMemory, freeMemory, releaseMemory } from './body-memory.ts';
import { mediaType } from './messages.ts';

export type WholeResponse = {
  status: number;
  headers: IncomingHttpHeaders;
  /** Empty if the response is refused by its status. */
  body: Buffer;
  /** Whether nothing else is in the memory of the body. */
  ownsBody: boolean;
  isStream: false;
};

/** Of a stream, `openStream` gets the headers, and a `ChunkReader` the body. */
export type UpstreamResponse = WholeResponse | { readonly status: 200; readonly isStream: true };

/** Reads the body of a stream. No function may throw. */
export type ChunkReader = {
  read(chunk: Buffer): void;
  end(): void;
  /** Called at most once, when the stream broke off or was aborted, which may be after its end. */
  fail(error: unknown): void;
};

export type StreamControl = Pick<Dispatcher.DispatchController, 'pause' | 'resume'>;

export type ExchangeOptions = {
  /** The maximum size of a body that is not a stream, in bytes. */
  readonly maxBytes: number;
  /** Called with the bytes received so far of a body that is not a stream. The upstream waits for the promise; if it rejects, so does the exchange. */
  holdBytes(bytes: number): Promise<void> | undefined;
  /** Called when a stream begins. If it throws, the exchange fails with that error. */
  openStream(headers: IncomingHttpHeaders, control: StreamControl): ChunkReader;
};

export type Exchange = {
  /** Resolves when the body is complete, the stream began or the response was refused. */
  response: Promise<UpstreamResponse>;
  /** Ends the exchange and its connection. `response` or the reader of the stream fails with the reason. */
  abort: (reason: unknown) => void;
};

const NO_BYTES = Buffer.alloc(0);
const NO_HEADERS: IncomingHttpHeaders = {};
/** Of all streams, because one of each would be in memory for as long as it lasts. */
const STREAM: UpstreamResponse = { status: 200, isStream: true };
const MIN_CAPACITY = 64 * 1024;
/** A length that is announced counts up to here before the bytes have come. */
const BELIEVED_LENGTH = 1024 * 1024;

/** Never follows a redirect or repeats a request. */
export function startExchange(
  dispatcher: Dispatcher,
  request: Dispatcher.DispatchOptions,
  options: ExchangeOptions,
): Exchange {
  const handler = new ResponseHandler(options);
  dispatcher.dispatch(request, handler);
  return handler;
}

/** Not forwarded, besides redirects and 5xx. A forwarded 401 would make the client sign in again, although its token is valid. */
const REFUSED_STATUSES: ReadonlySet<number> = new Set([205, 206, 401, 407]);

/** Redirects are not followed. */
export function isRefused(status: number): boolean {
  if (status === 200) return false;
  const isForwarded = status >= 200 && status < 500 && (status < 300 || status >= 400);
  return !isForwarded || REFUSED_STATUSES.has(status);
}

function ignore(): void {}

class ResponseHandler implements Exchange, Dispatcher.DispatchHandler {
  readonly response: Promise<UpstreamResponse>;
  readonly #options: ExchangeOptions;
  #resolve!: (response: UpstreamResponse) => void;
  #reject!: (error: unknown) => void;
  #controller: Dispatcher.DispatchController | undefined;
  #reader: ChunkReader | undefined;
  #status = 0;
  #headers = NO_HEADERS;
  /** Its first `#size` bytes. */
  #body: Buffer = NO_BYTES;
  #size = 0;
  #ownsBody = false;
  /** The memory of the last copied chunk, if nothing else is in it. */
  #copiedChunk: ArrayBufferLike | undefined;
  #isAborted = false;

  constructor(options: ExchangeOptions) {
    this.#options = options;
    this.response = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  abort(reason: unknown): void {
    if (this.#isAborted) return;
    this.#isAborted = true;
    this.#fail(reason);
    // Without a controller, the request still waits for a connection: `onRequestStart` aborts it.
    this.#controller?.abort(reason as Error);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#isAborted) controller.abort(new Error('the request was ended before it was sent'));
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
  ): void {
    // An interim response (RFC 9110 section 15.2).
    if (status < 200) return;
    this.#status = status;
    this.#headers = headers;
    if (isRefused(status)) return this.#finish();
    if (status !== 200 || mediaType(headers['content-type']) !== 'text/event-stream') return;
    // The headers are views of the first chunk, and would keep it in memory as long as the stream lasts.
    controller.rawHeaders = null;
    this.#reader = this.#options.openStream(headers, controller);
    this.#headers = NO_HEADERS;
    this.#settle(STREAM);
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#reader) return this.#reader.read(chunk);
    const { maxBytes } = this.#options;
    if (this.#size + chunk.length > maxBytes) throw responseTooLarge(maxBytes);
    this.#append(chunk);
    const wait = this.#options.holdBytes(this.#size);
    if (!wait) return;
    controller.pause();
    wait.then(
      () => controller.resume(),
      (error: unknown) => this.abort(error),
    );
  }

  onResponseEnd(): void {
    if (this.#reader) this.#reader.end();
    else this.#finish();
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#fail(error);
  }

  #finish(): void {
    const body = this.#body.subarray(0, this.#size);
    const ownsBody = this.#ownsBody;
    this.#body = NO_BYTES;
    const [status, headers] = [this.#status, this.#headers];
    this.#settle({ status, headers, body, ownsBody, isStream: false });
  }

  #settle(response: UpstreamResponse): void {
    this.#resolve(response);
    this.#resolve = ignore;
    this.#reject = ignore;
  }

  /** Copies each chunk as it comes, because all of a large body at once would take long. */
  #append(chunk: Buffer): void {
    const size = this.#size + chunk.length;
    if (this.#size === 0) this.#body = chunk;
    else {
      if (size > this.#body.length) {
        const larger = acquireMemory(this.#capacityFor(size));
        this.#body.copy(larger, 0, 0, this.#size);
        if (this.#ownsBody) releaseMemory(this.#body);
        this.#body = larger;
        this.#ownsBody = true;
      }
      chunk.copy(this.#body, this.#size);
      this.#freeCopied(chunk);
    }
    this.#size = size;
  }

  /** Frees the memory of the previous chunk. The parser no longer reads it once a chunk in other memory has come. */
  #freeCopied(chunk: Buffer): void {
    if (this.#copiedChunk && this.#copiedChunk !== chunk.buffer) freeMemory(this.#copiedChunk);
    this.#copiedChunk = chunk.length === chunk.buffer.byteLength ? chunk.buffer : undefined;
  }

  #capacityFor(size: number): number {
    const announced = Number(this.#headers['content-length'] ?? 0);
    const isBelieved = announced >= size && announced <= Math.max(2 * size, BELIEVED_LENGTH);
    return isBelieved ? announced : Math.max(2 * size, MIN_CAPACITY);
  }

  #fail(error: unknown): void {
    const reader = this.#reader;
    this.#reader = undefined;
    if (reader) reader.fail(error);
    else this.#reject(error);
  }
}
