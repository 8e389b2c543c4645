// Requests to somebody else as spans: by whom we asked, with the attributes that OpenTelemetry has for HTTP clients.
import { type Asking, type SpanLink, traced } from './spans.ts';

export type Outgoing = {
  peer: 'authorization-server' | 'identity-provider' | 'metadata-document' | 'upstream';
  method: string;
  /** Its host is shown: left out where a stranger chose it. */
  url?: string;
  links?: readonly SpanLink[];
};

/** `statusOf` the answer, where there is one to show. */
export function tracedRequest<Answer>(
  outgoing: Outgoing,
  ask: Asking<Answer>,
  statusOf?: (answer: Answer) => number,
): Promise<Answer> {
  return traced(
    () => describe(outgoing),
    async (span) => {
      const answer = await ask(span);
      const status = span && statusOf?.(answer);
      if (status === undefined) return answer;
      span?.set({ 'http.response.status_code': status });
      if (status >= 400) span?.fail(String(status));
      return answer;
    },
  );
}

function describe({ peer, method, url, links = [] }: Outgoing) {
  return {
    name: `${method} ${peer}`,
    attributes: {
      'http.request.method': method,
      'gatehouse.peer': peer,
      ...(url === undefined ? {} : placeOf(url)),
    },
    links,
  };
}

/** Where a server is: scheme, host and port of its address, and nothing after them. */
export function placeOf(url: string) {
  const { protocol, hostname, port } = new URL(url);
  return {
    'url.scheme': protocol.slice(0, -1),
    'server.address': hostname,
    'server.port': Number(port || (protocol === 'https:' ? 443 : 80)),
  };
}
