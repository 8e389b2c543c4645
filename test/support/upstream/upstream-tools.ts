// The tools of the operator's MCP server in tests, without regard to the SDK that serves them.
import type { JWTPayload } from 'jose';
import type { Gate } from './upstream-server.ts';

/** As the settings declare them; `undeclared` is left out. */
export const DECLARED = [
  { name: 'whoami', level: 'analytics' },
  { name: 'wait', level: 'analytics' },
  { name: 'contacts', level: 'admin' },
  { name: 'cards', level: 'full' },
] as const;

export const LISTED = [...DECLARED.map(({ name }) => name), 'undeclared'].map((name) => ({
  name,
  description: `The tool ${name}`,
  inputSchema: { type: 'object' as const },
}));

export type ToolCall = {
  name: string;
  given: Record<string, unknown>;
  caller: JWTPayload;
  signal: AbortSignal;
  progress: (progress: number, total: number) => Promise<void>;
};

/** `wait` says twice how far it is, then stands at the gate, and says so once more. */
export async function runTool(gate: Gate, call: ToolCall) {
  const { name, given, caller, signal, progress } = call;
  if (name === 'wait') {
    await progress(1, 3);
    await progress(2, 3);
    await gate.wait(signal);
    await progress(3, 3);
  }
  const structuredContent = { tool: name, given, caller };
  return { content: [{ type: 'text' as const, text: name }], structuredContent };
}
