import type { DatabaseSync } from 'node:sqlite';
import { ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/server';
import type { CallToolRequestParams, CallToolResult } from '@modelcontextprotocol/server';
import { z } from 'zod';
import { isRecorded, type Level, type Levels } from '../../permission-levels.ts';
import type { Caller } from '../../gateway/authenticate.ts';
import { authorize, denialText } from '../../gateway/authorize.ts';
import {
  type AuditCall,
  type AuditedCall,
  AUDIT_FAILED,
  recordableArguments,
} from '../../gateway/call-audit.ts';
import { redact } from './redact.ts';
import { type Tool, ToolError, TOOLS } from './tools.ts';

/** Characters. */
const MAX_REASONS_LENGTH = 500;

export type CallOptions = {
  /** Called for each tool call. */
  dataset: () => DatabaseSync;
  productName: string;
  levels: Levels;
  /** Calls with a recorded level run only after this resolves. */
  audit: AuditCall;
  /** Called with the cause of each internal error. */
  onError?: (error: unknown) => void;
};

/**
 * Returns a tool error for what a person or an assistant can correct. Throws a JSON-RPC error for an unknown tool, a call that could not be
 * audited, and an internal error.
 */
export async function callTool(
  options: CallOptions,
  caller: Caller,
  params: CallToolRequestParams,
): Promise<CallToolResult> {
  const { name, arguments: given = {} } = params;
  const tool = TOOLS.find((candidate) => candidate.name === name);
  const decision = tool && authorize(options.levels, caller, tool.level);
  const input = tool?.input.safeParse(given);
  if (isRecorded(options.levels, caller.level)) {
    // Arguments that fit a tool of the sample are never too long to record.
    const argumentsJson =
      decision === 'allowed' && input?.success ? recordableArguments(given) : undefined;
    await auditCall(options, {
      caller,
      tool: name,
      ...(argumentsJson === undefined
        ? { outcome: 'refused', arguments: given }
        : { outcome: 'allowed', argumentsJson }),
    });
  }
  if (!tool || !decision || !input) {
    const message = 'There is no tool of this name. Call tools/list for the names.';
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, message);
  }
  if (decision !== 'allowed')
    return toolError(
      denialText(options.productName, caller, { tool: name, level: tool.level }, decision),
    );
  if (!input.success) return toolError(invalidArguments(input.error));
  return toolResult(runTool(options, tool, input.data), caller.level);
}

async function auditCall({ audit, onError }: CallOptions, call: AuditedCall): Promise<void> {
  try {
    await audit(call);
  } catch (error) {
    onError?.(error);
    throw new ProtocolError(ProtocolErrorCode.InternalError, AUDIT_FAILED);
  }
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
