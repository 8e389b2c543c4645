// A plain HTTP server with the sample, and the official MCP clients.
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { Client, ProtocolError, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Client as FirstClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as FirstTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Level } from '../../../src/permission-levels.ts';
import { sharedDataset } from '../../../src/development/sample/dataset.ts';
import type { Caller } from '../../../src/gateway/authenticate.ts';
import { openMcpServer } from '../../../src/development/sample/mcp-server.ts';
import type { McpServerOptions } from '../../../src/development/sample/mcp-server.ts';
import { DEFAULT_LEVELS } from '../../support/levels.ts';

export const JSON_HEADERS = {
  'content-type': 'application/json',
  accept: 'application/json, text/event-stream',
};

/** Call inside `describe`. Closes servers and clients after each test. */
export function useMcp() {
  const dataset = sharedDataset();
  const closing: (() => unknown)[] = [];
  afterEach(async () => {
    for (const close of closing.splice(0).toReversed()) await close();
  });

  /** Serves `caller`, and collects errors. */
  async function serve(caller: Caller, options: Partial<McpServerOptions> = {}) {
    const errors: unknown[] = [];
    const mcp = openMcpServer({
      dataset: () => dataset,
      productName: 'Gatehouse',
      levels: DEFAULT_LEVELS,
      version: '1.0.0',
      extensions: {},
      onError: (error) => errors.push(error),
      ...options,
    });
    const server = createServer(async (req, res) => {
      const body = await json(req).catch(() => undefined);
      await mcp.handle(req, res, { caller }, body);
    });
    const url = await listen(server);
    closing.push(
      () => stop(server),
      () => mcp.close(),
    );
    return { url, errors };
  }

  /** SDK v2: `auto` negotiates 2026-07-28, `legacy` starts with `initialize`. */
  async function connect(url: URL, mode: 'auto' | 'legacy' = 'auto'): Promise<Client> {
    const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } });
    await client.connect(new StreamableHTTPClientTransport(url));
    closing.push(() => client.close());
    return client;
  }

  async function connectFirst(url: URL): Promise<FirstClient> {
    const client = new FirstClient({ name: 'test', version: '1' });
    await client.connect(new FirstTransport(url));
    closing.push(() => client.close());
    return client;
  }

  return { dataset, serve, connect, connectFirst };
}

export function callerWith(level: Level, ceiling = level, minted = false): Caller {
  return { accountId: 'ada', clientId: 'client', tokenId: 'token', level, ceiling, minted };
}

export function callBody(name: string, given: unknown, id = 1) {
  return { jsonrpc: '2.0', id, method: 'tools/call', params: { name, arguments: given } };
}

/** Sends a string as the body. */
export function post(url: URL, body: unknown): Promise<Response> {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return fetch(url, { method: 'POST', headers: JSON_HEADERS, body: text });
}

/** Returns the JSON-RPC error of `call`. Throws on success and on other errors. */
export async function failureOf(call: Promise<unknown>): Promise<ProtocolError> {
  const outcome = await call.then(
    () => undefined,
    (error: unknown) => error,
  );
  if (!(outcome instanceof ProtocolError)) throw new Error('not refused with a JSON-RPC error');
  return outcome;
}

async function listen(server: Server): Promise<URL> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`);
}

async function stop(server: Server): Promise<void> {
  server.close();
  server.closeAllConnections();
  await once(server, 'close');
}
