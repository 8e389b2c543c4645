// The span of the request under way, found by whoever asks somebody else within it. Where traces are off there is none, and nothing happens.
import { AsyncLocalStorage } from 'node:async_hooks';

/** From closed lists or from the settings: no ids, no keys, nothing of a person, nothing that a stranger wrote. */
export type SpanAttributes = Readonly<Record<string, string | number>>;

/** A span of somebody else (W3C Trace Context), as hexadecimal digits. */
export type SpanLink = { traceId: string; spanId: string };

export type SpanDescription = {
  name: string;
  attributes: SpanAttributes;
  links?: readonly SpanLink[];
};

export type Span = SpanLink & {
  /** For whoever is asked within it (W3C Trace Context section 3.2). */
  traceparent: string;
  rename(name: string): void;
  set(attributes: SpanAttributes): void;
  /** `type` is a word that says what went wrong, never a message. */
  fail(type: string): void;
  end(): void;
  /** Asks somebody else: kind `client`. Undefined when the request is over: what runs on then belongs to no request. */
  begin(description: SpanDescription): Span | undefined;
};

export type Traces = {
  /** The span of a request: kind `server`, and always the first of a trace of its own. */
  begin(description: SpanDescription): Span;
  /** Delivers what is there, for two seconds at most; never rejects. */
  close(): Promise<void>;
};

const current = new AsyncLocalStorage<Span>();

/** Runs `work` with `span` as the span under way. */
export function within<T>(span: Span, work: () => T): T {
  return current.run(span, work);
}

export type Asking<T> = (span: Span | undefined) => Promise<T>;

/** Runs `ask` in a span of its own, if a request that is traced is under way. `isFault`: which errors are that of who was asked. */
export async function traced<T>(
  description: () => SpanDescription,
  ask: Asking<T>,
  isFault: (error: unknown) => boolean = () => true,
): Promise<T> {
  const span = current.getStore()?.begin(description());
  if (!span) return ask(undefined);
  try {
    return await current.run(span, () => ask(span));
  } catch (error) {
    if (isFault(error)) span.fail(error instanceof Error ? error.name : 'unknown');
    throw error;
  } finally {
    span.end();
  }
}
