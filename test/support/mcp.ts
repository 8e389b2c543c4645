// Raw MCP requests over Streamable HTTP, in the form of the 2025 revisions without a session.
import { z } from 'zod';

const result = z.looseObject({
  isError: z.boolean().optional(),
  structuredContent: z.record(z.string(), z.unknown()).optional(),
  content: z.array(z.looseObject({ type: z.string(), text: z.string().optional() })).optional(),
  tools: z.array(z.looseObject({ name: z.string() })).optional(),
});

const rpcBody = z.looseObject({
  result: result.optional(),
  error: z.looseObject({ code: z.number(), message: z.string() }).optional(),
});

export type RpcResponse = {
  status: number;
  headers: Headers;
  text: string;
  /** Undefined if the body is not a JSON-RPC message. */
  rpc: z.output<typeof rpcBody> | undefined;
};

export type CallOptions = { method?: string; headers?: Record<string, string> };

/** POSTs one JSON-RPC message with the bearer token `token`, if there is one. */
export async function call(
  link: string,
  token: string | undefined,
  message: object,
  { method = 'POST', headers = {} }: CallOptions = {},
): Promise<RpcResponse> {
  const response = await fetch(link, {
    method,
    headers: {
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
      'mcp-protocol-version': '2025-11-25',
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...headers,
    },
    body: JSON.stringify(message),
  });
  return readResponse(response);
}

export async function readResponse(response: Response): Promise<RpcResponse> {
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, rpc: readMessage(text) };
}

/** Whether a limit of the caller was reached: an ordinary response that says when to try again. */
export function isLimited({ status, headers, rpc }: RpcResponse): boolean {
  const { error, result: refused } = rpc ?? {};
  const text = error?.message ?? (refused?.isError ? refused.content?.[0]?.text : undefined);
  const seconds = /try again in (\d+) s$/.exec(text ?? '')?.[1];
  return status === 200 && seconds !== undefined && headers.get('retry-after') === seconds;
}

/** POSTs a body exactly as given. */
export function postBody(
  link: string,
  token: string,
  body: string,
  options: { signal?: AbortSignal } = {},
): Promise<Response> {
  const headers = {
    accept: 'application/json, text/event-stream',
    authorization: `Bearer ${token}`,
    'content-type': 'application/json',
  };
  return fetch(link, { method: 'POST', headers, body, ...options });
}

export function callTool(
  link: string,
  token: string | undefined,
  name: string,
  given: Record<string, unknown> = {},
): Promise<RpcResponse> {
  const params = { name, arguments: given };
  return call(link, token, { jsonrpc: '2.0', id: 1, method: 'tools/call', params });
}

/** True if the token is accepted and a tool of the lowest level succeeds. */
export async function isAccepted(link: string, token: string | undefined): Promise<boolean> {
  const { status, rpc } = await callTool(link, token, 'club_overview');
  return status === 200 && rpc?.result !== undefined && rpc.result.isError !== true;
}

/** Parses the body, or the data of the last event if the response is a stream. */
function readMessage(text: string): RpcResponse['rpc'] {
  const data = text
    .match(/^data: ?(.+)$/gm)
    ?.at(-1)
    ?.replace(/^data: ?/, '');
  try {
    return rpcBody.parse(JSON.parse(data ?? text));
  } catch {
    return undefined;
  }
}
