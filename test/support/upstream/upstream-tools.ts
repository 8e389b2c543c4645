// The tools of the upstream MCP servers in tests, for both SDK versions.
import type { JWTPayload } from 'jose';
import type { Gate } from './upstream-server.ts';

/** The tools in the settings; `undeclared` is not among them. */
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

/** `wait` reports progress twice, blocks at the gate, and reports progress again. */
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
