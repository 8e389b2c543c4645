// The official SDK clients with an access token, behind one interface for both versions.
import {
  Client as ClientV2,
  StreamableHTTPClientTransport as TransportV2,
} from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

export type CallOptions = { onProgress?: (progress: number) => void; signal?: AbortSignal };

export type TokenClient = {
  listTools(): Promise<string[]>;
  callTool(name: string, given?: Record<string, unknown>, options?: CallOptions): Promise<Result>;
  sessionId(): string | undefined;
  protocolVersion(): string | undefined;
  /** Ends the session at the server. */
  terminate(): Promise<void>;
  close(): Promise<void>;
};

export type Result = {
  isError?: boolean | undefined;
  structuredContent?: Record<string, unknown> | undefined;
};

export type ConnectWithToken = (link: string, token: string) => Promise<TokenClient>;

const INFO = { name: 'token-client', version: '1.0.0' };

function requestOptions({ onProgress, signal }: CallOptions) {
  const onprogress = ({ progress }: { progress: number }) => onProgress?.(progress);
  return { ...(onProgress ? { onprogress } : {}), signal };
}

function requestInit(token: string) {
  return { requestInit: { headers: { authorization: `Bearer ${token}` } } };
}

export const connectV1: ConnectWithToken = async (link, token) => {
  const client = new ClientV1(INFO);
  const transport = new TransportV1(new URL(link), requestInit(token));
  await client.connect(transport);
  return {
    listTools: async () => (await client.listTools()).tools.map(({ name }) => name),
    callTool: async (name, given = {}, options = {}) =>
      (await client.callTool(
        { name, arguments: given },
        undefined,
        requestOptions(options),
      )) as Result,
    sessionId: () => transport.sessionId,
    protocolVersion: () => transport.protocolVersion,
    terminate: () => transport.terminateSession(),
    close: () => client.close(),
  };
};

export const connectV2 =
  (mode: 'auto' | 'legacy'): ConnectWithToken =>
  async (link, token) => {
    const client = new ClientV2(INFO, { versionNegotiation: { mode } });
    const transport = new TransportV2(new URL(link), requestInit(token));
    await client.connect(transport);
    return {
      listTools: async () => (await client.listTools()).tools.map(({ name }) => name),
      callTool: async (name, given = {}, options = {}) =>
        (await client.callTool({ name, arguments: given }, requestOptions(options))) as Result,
      sessionId: () => transport.sessionId,
      protocolVersion: () => client.getNegotiatedProtocolVersion(),
      terminate: () => transport.terminateSession(),
      close: () => client.close(),
    };
  };
