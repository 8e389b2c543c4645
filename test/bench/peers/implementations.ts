// The compared implementations. The first is the reference.
import { bareEngine } from './bare-engine.ts';
import { betterAuth } from './better-auth.ts';
import type { Implementation } from './implementation.ts';
import { gatehouseOnRedis, gatehouseOnSqlite } from './gatehouse.ts';
import { mcpOauthServer } from './mcp-oauth-server.ts';
import { workersOauthProvider } from './workers-oauth-provider.ts';

export const REFERENCE = gatehouseOnRedis;

export const IMPLEMENTATIONS: readonly Implementation[] = [
  REFERENCE,
  gatehouseOnSqlite,
  bareEngine,
  betterAuth,
  workersOauthProvider,
  mcpOauthServer,
];
