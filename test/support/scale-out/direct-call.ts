// Calls one of several processes directly, past the balancer.
import { rawRequest } from '../raw-request.ts';
import type { GatehouseProcess } from './gatehouse-process.ts';

const CALL = {
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name: 'club_overview', arguments: {} },
};

/** Calls `link` with this token at the process `called`. */
export async function answerAt(
  called: GatehouseProcess,
  link: string,
  token: string,
): Promise<{ status: number; body: string }> {
  const { host, pathname } = new URL(link);
  return rawRequest(`http://127.0.0.1:${called.ports.RESOURCE}`, {
    method: 'POST',
    path: pathname,
    headers: {
      host,
      authorization: `Bearer ${token}`,
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
      'mcp-protocol-version': '2025-11-25',
    },
    chunks: [JSON.stringify(CALL)],
  });
}

export async function statusAt(
  called: GatehouseProcess,
  link: string,
  token: string,
): Promise<number> {
  return (await answerAt(called, link, token)).status;
}

export function statusesAt(
  called: readonly GatehouseProcess[],
  link: string,
  token: string,
): Promise<number[]> {
  return Promise.all(called.map((each) => statusAt(each, link, token)));
}
