// Everything that clients sent to a system and what they were told, with times: what the claims about faults are judged by.

/** `began` and `ended` are milliseconds of a clock that nobody moves; `at` is seconds since the epoch by the one that tests move. */
export type Exchange = {
  began: number;
  ended: number;
  at: number;
  method: string;
  url: URL;
  /** The form that was sent; empty for every other body. */
  form: URLSearchParams;
  bearer: string | undefined;
  /** Undefined when the connection broke before an answer came. */
  answer: RecordedResponse | undefined;
};

export type RecordedResponse = {
  status: number;
  headers: Pick<Headers, 'get' | 'has'>;
  text: string;
};

export type History = {
  exchanges: readonly Exchange[];
  /** Ends the recording. */
  stop(): void;
};

/** Records every `fetch` of this process to one of `origins`, from now on. */
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

/** Its answer has no end that could be waited for. */
function isStream({ headers }: Request): boolean {
  return headers.get('mcp-method') === 'subscriptions/listen';
}

/** The JSON of an answer; undefined when it is something else. */
export function jsonOf(answer: RecordedResponse | undefined): Record<string, unknown> | undefined {
  try {
    return answer && JSON.parse(answer.text);
  } catch {
    return undefined;
  }
}
