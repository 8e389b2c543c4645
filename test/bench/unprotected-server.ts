// The MCP server without authorization, the reference for authorized calls. Arguments: port and log level.
import { Router } from '@koa/router';
import { createHost } from '../../src/http/host.ts';
import { createLogger } from '../../src/observability/logger.ts';
import { requireAllowedOrigin } from '../../src/http/cors.ts';
import { respondWithJsonRpcError } from '../../src/gateway/json-rpc.ts';
import { readBody } from '../../src/gateway/read-body.ts';
import type { Caller } from '../../src/gateway/authenticate.ts';
import { createMetrics } from '../../src/observability/metrics.ts';
import { openSample } from '../../src/development/sample/mcp-server.ts';
import { DEFAULT_LEVELS } from '../support/levels.ts';

const [, , port, logLevel = 'warn'] = process.argv;
if (!port) throw new Error('needs a port');
const logger = createLogger(logLevel);
const anybody: Caller = {
  accountId: 'anybody',
  clientId: 'any',
  tokenId: 'none',
  level: 'operations',
  ceiling: 'operations',
  minted: false,
};
const sample = openSample({
  productName: 'Open',
  levels: DEFAULT_LEVELS,
  version: '1',
  extensions: {},
  audit: { begin: () => undefined, start: async () => {}, end: () => undefined },
  logger,
});
const app = createHost({
  name: 'open-server',
  url: `http://localhost:${port}`,
  proxies: 0,
  logger,
  metrics: createMetrics([]),
  isReady: async () => ({}),
  respondToError: respondWithJsonRpcError,
});
const router = new Router({ sensitive: true, strict: true });
const origins = requireAllowedOrigin({ allowed: new Set(), allowLoopback: true });
router.all('/mcp', origins, async (ctx) => {
  const body = await readBody(ctx, { limit: 1024 * 1024, keepBigIntegers: false });
  const revalidate = () => Promise.reject(new Error('nothing is recorded'));
  await sample.handle({ ctx, caller: anybody, revalidate, body });
});
app.use(router.routes());
app.listen(Number(port), 'localhost');
