// The official SDK clients, versions 1 and 2, with a bearer token and no sign-in.
import {
  Client as ClientV2,
  StreamableHTTPClientTransport as TransportV2,
  type VersionNegotiationMode,
} from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

export type Result = {
  isError: boolean;
  /** The structured result, or the text of a tool error. */
  answer: unknown;
};

export type HeaderClient = {
  listTools(): Promise<string[]>;
  callTool(name: string, given?: Record<string, unknown>): Promise<Result>;
  close(): Promise<void>;
};

/** Rejects with the error of the SDK. */
export type ConnectWithHeader = (url: string, token: string) => Promise<HeaderClient>;

const INFO = { name: 'header-client', version: '1.0.0' };

function withHeader(token: string) {
  return { requestInit: { headers: { Authorization: `Bearer ${token}` } } };
}

function resultOf({ isError, structuredContent, content }: Record<string, unknown>): Result {
  return { isError: isError === true, answer: structuredContent ?? content };
}

const connectV1: ConnectWithHeader = async (url, token) => {
  const client = new ClientV1(INFO);
  await client.connect(new TransportV1(new URL(url), withHeader(token)));
  return {
    listTools: async () => (await client.listTools()).tools.map(({ name }) => name),
    callTool: async (name, given = {}) =>
      resultOf(await client.callTool({ name, arguments: given })),
    close: () => client.close(),
  };
};

const connectV2 =
  (mode: VersionNegotiationMode): ConnectWithHeader =>
  async (url, token) => {
    const client = new ClientV2(INFO, { versionNegotiation: { mode } });
    await client.connect(new TransportV2(new URL(url), withHeader(token)));
    return {
      listTools: async () => (await client.listTools()).tools.map(({ name }) => name),
      callTool: async (name, given = {}) =>
        resultOf(await client.callTool({ name, arguments: given })),
      close: () => client.close(),
    };
  };

export const SDKS: readonly [name: string, connect: ConnectWithHeader][] = [
  ['SDK v1', connectV1],
  ['SDK v2, 2025 revisions', connectV2('legacy')],
  ['SDK v2, revision 2026-07-28', connectV2({ pin: '2026-07-28' })],
];
