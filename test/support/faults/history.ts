// A recording of all requests to a system with their responses and times, which invariants.ts checks.

/** `began` and `ended` are in milliseconds of a monotonic clock; `at` is in seconds since the epoch, by the clock that tests move. */
export type Exchange = {
  began: number;
  ended: number;
  at: number;
  method: string;
  url: URL;
  /** The form body; empty for any other body. */
  form: URLSearchParams;
  bearer: string | undefined;
  /** Undefined if the connection broke before a response. */
  answer: RecordedResponse | undefined;
};

export type RecordedResponse = {
  status: number;
  headers: Pick<Headers, 'get' | 'has'>;
  text: string;
};

export type History = {
  exchanges: readonly Exchange[];
  /** Stops recording. */
  stop(): void;
};

/** Records every `fetch` of this process to one of `origins` from now on. */
export function recordHistory(origins: readonly string[]): History {
  const exchanges: Exchange[] = [];
  const original = globalThis.fetch;
  const recording: typeof fetch = async (input, init) => {
    const request = new Request(input, init);
    const url = new URL(request.url);
    if (!origins.includes(url.origin) || isStream(request)) return original(input, init);
    const sent = {
      began: performance.now(),
      at: Date.now() / 1000,
      method: request.method,
      url,
      form: init?.body instanceof URLSearchParams ? init.body : new URLSearchParams(),
      bearer: /^Bearer (.+)$/.exec(request.headers.get('authorization') ?? '')?.[1],
    };
    try {
      const response = await original(input, init);
      const { status, headers } = response;
      const text = await response.clone().text();
      exchanges.push({ ...sent, ended: performance.now(), answer: { status, headers, text } });
      return response;
    } catch (error) {
      exchanges.push({ ...sent, ended: performance.now(), answer: undefined });
      throw error;
    }
  };
  globalThis.fetch = recording;
  return {
    exchanges,
    stop: () => void (globalThis.fetch = original),
  };
}

/** The response does not end, so it cannot be awaited. */
function isStream({ headers }: Request): boolean {
  return headers.get('mcp-method') === 'subscriptions/listen';
}

/** The JSON body of a response, or undefined. */
export function jsonOf(answer: RecordedResponse | undefined): Record<string, unknown> | undefined {
  try {
    return answer && JSON.parse(answer.text);
  } catch {
    return undefined;
  }
}
