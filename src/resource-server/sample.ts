// The built-in sample as what answers calls.
import type { Logger } from 'pino';
import { openDataset } from './analytics/data.ts';
import { TOOL_LEVELS } from './analytics/tools.ts';
import type { Answering } from './answering.ts';
import type { RecordCall } from './call-record.ts';
import { neededLevel } from './level.ts';
import { openMcp } from './mcp.ts';

export type SampleOptions = {
  productName: string;
  version: string;
  record: RecordCall;
  logger: Logger;
};

export function openSample({ logger, ...options }: SampleOptions): Answering {
  const dataset = openDataset();
  const mcp = openMcp({
    ...options,
    dataset,
    onError: (error) => logger.error({ err: error }, 'an MCP request failed'),
  });
  return {
    neededLevel: (body) => neededLevel(body, TOOL_LEVELS),
    answer(ctx, { caller, body }) {
      ctx.respond = false;
      return mcp.handle(ctx.req, ctx.res, caller, body);
    },
    // Its answers take milliseconds, and it keeps no stream open.
    end: () => undefined,
    async close() {
      await mcp.close();
      dataset.close();
    },
  };
}
