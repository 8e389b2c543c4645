// An upstream MCP server built with SDK version 2: revision 2026-07-28 and, without sessions, the 2025 revisions.
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, Server } from '@modelcontextprotocol/server';
import type { JWTPayload } from 'jose';
import { type Gate, startUpstream, type Upstream } from './upstream-server.ts';
import { LISTED, runTool } from './upstream-tools.ts';

export function startUpstreamV2(): Promise<Upstream> {
  return startUpstream((gate) => {
    const handler = createMcpHandler(({ authInfo }) =>
      serverFor(gate, authInfo?.extra?.['caller'] as JWTPayload),
    );
    const answer = toNodeHandler(handler);
    return (req, res, body, caller) => {
      const auth = { token: 'none', clientId: '', scopes: [], extra: { caller } };
      return answer(Object.assign(req, { auth }), res, body);
    };
  });
}

function serverFor(gate: Gate, caller: JWTPayload): Server {
  const server = new Server(
    { name: 'tools-v2', version: '1.0.0' },
    { capabilities: { tools: { listChanged: true } } },
  );
  server.setRequestHandler('tools/list', () => ({ tools: LISTED }));
  server.setRequestHandler('tools/call', ({ params }, { mcpReq }) => {
    const { progressToken = 0 } = mcpReq._meta ?? {};
    return runTool(gate, {
      name: params.name,
      given: params.arguments ?? {},
      caller,
      signal: mcpReq.signal,
      progress: (progress, total) =>
        mcpReq.notify({
          method: 'notifications/progress',
          params: { progressToken, progress, total },
        }),
    });
  });
  return server;
}
