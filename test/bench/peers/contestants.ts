// Who is compared; the first is what the others are compared with.
import { bareEngine } from './bare-engine.ts';
import { betterAuth } from './better-auth.ts';
import type { Contestant } from './contestant.ts';
import { gatehouseOnRedis, gatehouseOnSqlite } from './gatehouse.ts';
import { mcpOauthServer } from './mcp-oauth-server.ts';
import { workersOauthProvider } from './workers-oauth-provider.ts';

export const REFERENCE = gatehouseOnRedis;

export const CONTESTANTS: readonly Contestant[] = [
  REFERENCE,
  gatehouseOnSqlite,
  bareEngine,
  betterAuth,
  workersOauthProvider,
  mcpOauthServer,
];
