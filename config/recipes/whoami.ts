// A minimal MCP server that knows who calls, Streamable HTTP without sessions. Needs jose; Node.js 22.18 and later run it as it is.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { type Caller, callerVerifier } from './caller.ts';

const { TOOLS_PORT = '9000', TOOLS_ISSUER = 'http://localhost:4000' } = process.env;
const { TOOLS_URL = `http://127.0.0.1:${TOOLS_PORT}/mcp` } = process.env;

const VERSIONS = ['2025-11-25', '2025-06-18', '2025-03-26'];
const TOOL = {
  name: 'whoami',
  description: 'Says who is calling.',
  inputSchema: { type: 'object', properties: {} },
  annotations: { readOnlyHint: true },
};

type Request = { id?: unknown; method?: string; params?: Record<string, unknown> };

/** Returns the result of a request. Undefined if there is no such method or tool. */
function answer({ method, params = {} }: Request, caller: Caller): object | undefined {
  if (method === 'initialize') {
    const asked = String(params['protocolVersion']);
    return {
      protocolVersion: VERSIONS.includes(asked) ? asked : VERSIONS[0],
      capabilities: { tools: {} },
      serverInfo: { name: 'whoami', version: '1.0.0' },
    };
  }
  if (method === 'ping') return {};
  if (method === 'tools/list') return { tools: [TOOL] };
  if (method !== 'tools/call' || params['name'] !== TOOL.name) return undefined;
  return { content: [{ type: 'text', text: JSON.stringify(caller) }] };
}

const verifyCaller = callerVerifier({ issuer: TOOLS_ISSUER, audience: TOOLS_URL });

async function handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
  const caller = await verifyCaller(req.headers['gatehouse-caller']).catch(() => undefined);
  if (!caller) return void res.writeHead(401).end();
  if (req.method !== 'POST') return void res.writeHead(405).end();
  const request = JSON.parse(await text(req)) as Request;
  if (request.id === undefined) return void res.writeHead(202).end();
  const result = answer(request, caller);
  const outcome = result ? { result } : { error: { code: -32_601, message: 'Method not found' } };
  res.writeHead(200, { 'content-type': 'application/json' });
  res.end(JSON.stringify({ jsonrpc: '2.0', id: request.id, ...outcome }));
}

createServer((req, res) => {
  handle(req, res).catch(() => res.writeHead(400).end());
}).listen(Number(TOOLS_PORT), '127.0.0.1');
