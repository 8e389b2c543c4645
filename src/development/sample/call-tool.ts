import type { DatabaseSync } from 'node:sqlite';
import { ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/server';
import type { CallToolRequestParams, CallToolResult } from '@modelcontextprotocol/server';
import * as z from 'zod';
import type { Level, Levels } from '../../permission-levels.ts';
import type { Caller } from '../../gateway/authenticate.ts';
import { authorizeRequest, denialText } from '../../gateway/authorize.ts';
import { redact } from './redact.ts';
import { type Tool, ToolError, TOOLS } from './tools.ts';

/** Characters. */
const MAX_REASONS_LENGTH = 500;

export type CallOptions = {
  /** Called for each tool call. */
  dataset: () => DatabaseSync;
  productName: string;
  levels: Levels;
  /** Called with the cause of each internal error. */
  onError?: (error: unknown) => void;
};

/**
 * Returns a tool error for what a person or an assistant can correct. Throws a JSON-RPC error for an unknown tool and an
 * internal error.
 */
export async function callTool(
  options: CallOptions,
  caller: Caller,
  params: CallToolRequestParams,
): Promise<CallToolResult> {
  const { name, arguments: given = {} } = params;
  const tool = TOOLS.find((candidate) => candidate.name === name);
  const required = tool && { level: tool.level, tool: name };
  const verdict = authorizeRequest(options.levels, caller, required);
  const input = tool?.input.safeParse(given);
  if (!tool || !required || !input) {
    const message = 'There is no tool of this name. Call tools/list for the names.';
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, message);
  }
  if (verdict.decision !== 'allowed')
    return toolError(denialText(options.productName, caller, required, verdict));
  if (!input.success) return toolError(invalidArguments(input.error));
  return toolResult(runTool(options, tool, input.data), caller.level);
}

function runTool(
  { dataset, onError }: CallOptions,
  tool: Tool,
  input: Record<string, unknown>,
): Record<string, unknown> | ToolError {
  try {
    return tool.run(dataset(), input);
  } catch (error) {
    if (error instanceof ToolError) return error;
    onError?.(error);
    // The SDK would send the message of any other error, including our SQL.
    throw new ProtocolError(ProtocolErrorCode.InternalError, 'This tool failed. Try again later.');
  }
}

function toolResult(result: Record<string, unknown> | ToolError, level: Level): CallToolResult {
  if (result instanceof ToolError) return toolError(result.message);
  const structuredContent = redact(result, level);
  return {
    structuredContent,
    content: [{ type: 'text', text: JSON.stringify(structuredContent) }],
  };
}

/** Truncated, because it repeats unknown arguments. */
function invalidArguments(error: z.ZodError): string {
  const reasons = z.prettifyError(error);
  const shown = reasons.slice(0, MAX_REASONS_LENGTH).toWellFormed();
  return `These arguments do not fit: ${shown}${shown.length < reasons.length ? ' …' : ''}`;
}

function toolError(text: string): CallToolResult {
  return { isError: true, content: [{ type: 'text', text }] };
}
