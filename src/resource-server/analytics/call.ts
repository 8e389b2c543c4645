// One tool call, from the checked caller to the answer: recorded, allowed, checked, run, redacted.
import type { DatabaseSync } from 'node:sqlite';
import { ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/server';
import type { CallToolRequestParams, CallToolResult } from '@modelcontextprotocol/server';
import { z } from 'zod';
import { isRecorded, type Level } from '../../permission-level.ts';
import { type RecordCall, UNRECORDED } from '../call-record.ts';
import { decide, refusal } from '../level.ts';
import type { Caller } from '../level.ts';
import { redact } from './redact.ts';
import { ToolRefusal } from './tool.ts';
import type { Tool } from './tool.ts';
import { TOOLS } from './tools.ts';

/** Characters. */
const LONGEST_REASONS = 500;

export type CallOptions = {
  dataset: DatabaseSync;
  productName: string;
  /** Called, and waited for, before a call made with the level `full` runs; when it rejects the call is refused. */
  record: RecordCall;
  /** Told the cause whenever a caller is answered with an internal error. */
  onError?: (error: unknown) => void;
};

/**
 * The only way to a tool. Whatever a person or an assistant can mend is a tool error; an unknown tool, a call that could not be
 * recorded and a fault of ours are thrown as JSON-RPC errors.
 */
export async function callTool(
  options: CallOptions,
  caller: Caller,
  params: CallToolRequestParams,
): Promise<CallToolResult> {
  const { name, arguments: given = {} } = params;
  if (isRecorded(caller.level)) await recordCall(options, caller, name, given);
  const tool = TOOLS.find((candidate) => candidate.name === name);
  if (!tool) {
    const message = 'There is no tool of this name; tools/list names the tools there are.';
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, message);
  }
  const decision = decide(caller, tool.level);
  if (decision !== 'allowed')
    return failed(
      refusal(options.productName, caller, { tool: name, level: tool.level }, decision),
    );
  const input = tool.input.safeParse(given);
  if (!input.success) return failed(misfit(input.error));
  return answered(runTool(options, tool, input.data), caller.level);
}

async function recordCall(
  { record, onError }: CallOptions,
  caller: Caller,
  tool: string,
  given: unknown,
): Promise<void> {
  try {
    await record({ caller, tool, arguments: given, outcome: 'allowed' });
  } catch (error) {
    onError?.(error);
    throw new ProtocolError(ProtocolErrorCode.InternalError, UNRECORDED);
  }
}

function runTool(
  { dataset, onError }: CallOptions,
  tool: Tool,
  input: Record<string, unknown>,
): Record<string, unknown> | ToolRefusal {
  try {
    return tool.run(dataset, input);
  } catch (error) {
    if (error instanceof ToolRefusal) return error;
    onError?.(error);
    // The SDK would send the message of any other error, and with it our SQL.
    throw new ProtocolError(ProtocolErrorCode.InternalError, 'This tool failed. Try again later.');
  }
}

function answered(result: Record<string, unknown> | ToolRefusal, level: Level): CallToolResult {
  if (result instanceof ToolRefusal) return failed(result.message);
  const structuredContent = redact(result, level);
  return {
    structuredContent,
    content: [{ type: 'text', text: JSON.stringify(structuredContent) }],
  };
}

/** Unknown arguments are repeated in it, so it is cut. */
function misfit(error: z.ZodError): string {
  const reasons = z.prettifyError(error);
  const shown = reasons.slice(0, LONGEST_REASONS).toWellFormed();
  return `These arguments do not fit: ${shown}${shown.length < reasons.length ? ' …' : ''}`;
}

function failed(text: string): CallToolResult {
  return { isError: true, content: [{ type: 'text', text }] };
}
